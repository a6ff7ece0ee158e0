//! Selects the jobs of the next cycle.
//!
//! Changes in order of arrival up to a number of rows, queries up to a number: a cycle is as large
//! as the work that accumulated during the last one, within its limits. A job that does not fit is
//! the first of the next cycle. Resends are judged here.

use std::collections::VecDeque;
use std::sync::Arc;

use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_engine::{CycleInput, Query, Request, RequestOutcome, SubscriptionChange};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cycle_sink::CycleRecord;
use super::job_queue::QueueReceivers;
use super::jobs::{ChangeJob, ChangePermit, ChangeReply, QueryJob, QueryReply};
use super::producers::{BatchId, Producers, Verdict};
use super::receipt_refusals::{self, ConvertedRequest, ReceiptRefusal};
use super::subscription_planner::{PlannedSubscriptions, SubscriptionPlanner};
use crate::error::ServiceError;
use crate::limits::{MESSAGE_ROWS_MAX, ServerLimits};
use crate::subscription::Sessions;

/// A change of a cycle, without its request.
#[derive(Debug)]
pub(super) struct PlannedChange {
    pub(super) batch: Option<BatchId>,
    /// False for a resend: it has no request in the cycle.
    pub(super) is_fresh: bool,
    /// Rows that its request lacks.
    refused: Vec<ReceiptRefusal>,
    pub(super) reply: oneshot::Sender<ChangeReply>,
    pub(super) _permit: ChangePermit,
}

/// The queries of one job in a cycle.
#[derive(Debug)]
pub(super) struct PlannedQueries {
    pub(super) count: usize,
    pub(super) reply: oneshot::Sender<QueryReply>,
    pub(super) _permit: tokio::sync::OwnedSemaphorePermit,
}

/// One cycle's jobs, in the order of its input.
#[derive(Debug, Default)]
pub(super) struct CyclePlan {
    pub(super) requests: Vec<Request>,
    pub(super) queries: Vec<Query>,
    pub(super) subscriptions: Vec<SubscriptionChange>,
    pub(super) changes: Vec<PlannedChange>,
    pub(super) query_jobs: Vec<PlannedQueries>,
    pub(super) subscription_jobs: PlannedSubscriptions,
}

impl CyclePlan {
    /// The cycle's input.
    pub(super) fn input(&mut self, system_ms: i64, time_max_ms: i64) -> CycleInput {
        let requests = std::mem::take(&mut self.requests).into();
        let queries = std::mem::take(&mut self.queries);
        let subscriptions = std::mem::take(&mut self.subscriptions);
        CycleInput { system_ms, time_max_ms, requests, queries, subscriptions }
    }

    /// Adds the rows that the engine did not receive to the outcomes of its requests.
    pub(super) fn add_receipt_refusals(&self, outcomes: &mut [RequestOutcome], time_max_ms: i64) {
        let fresh = self.changes.iter().filter(|change| change.is_fresh);
        for (change, outcome) in fresh.zip(outcomes) {
            receipt_refusals::add_to(outcome, &change.refused, time_max_ms);
        }
    }

    /// The record of the cycle with this input.
    pub(super) fn record(&self, epoch: u64, input: &CycleInput) -> CycleRecord {
        let fresh = self.changes.iter().filter(|change| change.is_fresh);
        CycleRecord {
            epoch,
            system_ms: input.system_ms,
            time_max_ms: input.time_max_ms,
            requests: input.requests.clone(),
            batches: fresh.map(|change| change.batch.clone()).collect(),
            clock_ms: 0,
            refused: Vec::new(),
            encoded: None,
        }
    }
}

/// Takes jobs from the queues.
#[derive(Debug)]
pub(super) struct CyclePlanner {
    pub(super) receivers: QueueReceivers,
    pub(super) producers: Producers,
    rows_max: usize,
    requests_max: usize,
    queries_max: usize,
    /// Did not fit the last cycle.
    change_left: Option<ChangeJob>,
    /// Did not fit the last cycle.
    query_left: Option<QueryJob>,
    pub(super) subscriptions: SubscriptionPlanner,
    /// Resends whose original is in progress.
    undecided: VecDeque<ChangeJob>,
    /// Memory for the queries of later cycles, returned by those that ended.
    spare: Vec<Vec<Query>>,
}

impl CyclePlanner {
    pub(super) fn new(
        receivers: QueueReceivers,
        limits: &ServerLimits,
        sessions: Arc<Sessions>,
        producers: Producers,
    ) -> Self {
        Self {
            receivers,
            producers,
            rows_max: limits.cycle_rows_max,
            requests_max: shoal_engine::limits::CYCLE_REQUESTS_MAX,
            queries_max: limits.cycle_queries_max,
            change_left: None,
            query_left: None,
            subscriptions: SubscriptionPlanner::new(sessions),
            undecided: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// True when a cycle would have work.
    pub(super) fn has_work(&self) -> bool {
        self.change_left.is_some()
            || self.query_left.is_some()
            || !self.undecided.is_empty()
            || self.subscriptions.has_work(&self.receivers)
            || !self.receivers.changes.is_empty()
            || !self.receivers.queries.is_empty()
            || !self.receivers.followed.is_empty()
    }

    /// The jobs of the next cycle, which is answered at `answer_epoch` or later. It has at most
    /// `rows_max` rows, if that is less than in other cycles, or one change.
    pub(super) fn plan(&mut self, answer_epoch: u64, rows_max: usize) -> CyclePlan {
        let queries = self.spare.pop().unwrap_or_default();
        let mut plan = CyclePlan { queries, ..CyclePlan::default() };
        self.plan_changes(&mut plan, rows_max.min(self.rows_max));
        self.plan_queries(&mut plan, answer_epoch);
        plan.subscription_jobs = self.subscriptions.plan(&self.receivers, &mut plan.subscriptions);
        plan
    }

    /// Reuses the memory of the queries of a cycle that ended.
    pub(super) fn reuse(&mut self, mut queries: Vec<Query>) {
        queries.clear();
        if self.spare.len() < CYCLES_IN_FLIGHT_MAX {
            self.spare.push(queries);
        }
    }

    fn plan_changes(&mut self, plan: &mut CyclePlan, rows_max: usize) {
        for job in std::mem::take(&mut self.undecided) {
            self.take_change(job, plan);
        }
        let mut rows: usize = plan.requests.iter().map(Request::rows).sum();
        while plan.changes.len() + self.undecided.len() < self.requests_max && rows < rows_max {
            let next = self.change_left.take().or_else(|| self.receivers.changes.try_recv().ok());
            let Some(job) = next else { break };
            let more = job.converted.request.rows();
            debug_assert!(more <= MESSAGE_ROWS_MAX, "larger messages are refused on receipt");
            if rows > 0 && rows + more > rows_max {
                self.change_left = Some(job);
                break;
            }
            rows += more;
            self.take_change(job, plan);
        }
    }

    fn take_change(&mut self, job: ChangeJob, plan: &mut CyclePlan) {
        let verdict = match &job.batch {
            Some(batch) => self.producers.judge(batch),
            None => Verdict::Fresh,
        };
        match verdict {
            Verdict::Undecided => self.undecided.push_back(job),
            Verdict::OutOfOrder { expected } => {
                job.refuse(|producer, found| ServiceError::OutOfOrder {
                    producer,
                    found,
                    expected,
                });
            }
            Verdict::Unknown => {
                job.refuse(|producer, found| ServiceError::ProducerUnknown { producer, found });
            }
            Verdict::Fresh | Verdict::Duplicate => {
                let is_fresh = verdict == Verdict::Fresh;
                let ConvertedRequest { request, refused } = job.converted;
                if is_fresh {
                    plan.requests.push(request);
                }
                let (batch, reply, _permit) = (job.batch, job.reply, job.permit);
                plan.changes.push(PlannedChange { batch, is_fresh, refused, reply, _permit });
            }
        }
    }

    fn plan_queries(&mut self, plan: &mut CyclePlan, answer_epoch: u64) {
        let now = Instant::now();
        loop {
            let next = self.query_left.take().or_else(|| self.receivers.queries.try_recv().ok());
            let Some(job) = next else { break };
            if job.is_abandoned(now) {
                continue;
            }
            let count = job.queries.len();
            let is_full = plan.queries.len() + count > self.queries_max;
            let is_next = !plan.query_jobs.is_empty() && (job.alone || is_full);
            // A lagging engine may need one more cycle before the epoch is visible.
            if is_next || job.epoch_min > answer_epoch {
                self.query_left = Some(job);
                break;
            }
            let is_last = job.alone;
            plan.queries.extend(job.queries);
            plan.query_jobs.push(PlannedQueries { count, reply: job.reply, _permit: job._permit });
            if is_last {
                break;
            }
        }
    }
}
