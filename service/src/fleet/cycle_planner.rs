//! Selects the jobs of the next cycle.
//!
//! Clients are served in turn (`shares`), those with little work first (`light_clients`). A cycle
//! takes the jobs that accumulated during the last one, limited by the rows of changes and by the
//! number and work of queries. Resends are detected here.

use std::collections::VecDeque;
use std::sync::Arc;

use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_engine::{CycleInput, Query, QueryKind, Request, SubscriptionChange};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::job_queue::QueueReceivers;
use super::jobs::{ChangeJob, ChangePermit, ChangeReply, QueryJob, QueryTerms};
use super::light_clients::LightClients;
use super::newest_times::NewestTimes;
use super::receipt_refusals::{ConvertedRequest, DroppedOnReceipt, RefusedRows};
use super::subscription_planner::{PlannedSubscriptions, SubscriptionPlanner};
use crate::cycle::{BatchId, CycleRecord, Producers, Verdict};
use crate::error::ServiceError;
use crate::limits::{CYCLE_PACE_WORK_MIN, CYCLE_QUERY_VERTICES_MAX, ServerLimits};
use crate::shares::{FairQueue, NextJob, Requester};
use crate::subscription::Sessions;

/// Fixed cost of a change in addition to its rows, in rows.
const CHANGE_WORK: u64 = 16;
/// Fixed cost of a query in addition to the work that the engine counts.
const QUERY_WORK: u64 = 64;
/// The same of a vertex of its region.
const VERTEX_WORK: u64 = 4;

/// A change of a cycle, without its request.
#[derive(Debug)]
pub(super) struct PlannedChange {
    pub(super) batch: Option<BatchId>,
    /// False for a resend: it has no request in the cycle.
    pub(super) is_fresh: bool,
    /// Rows refused on receipt; the request does not contain them.
    pub(super) refused: RefusedRows,
    /// Measures dropped on receipt.
    pub(super) dropped: Option<Box<DroppedOnReceipt>>,
    pub(super) reply: oneshot::Sender<ChangeReply>,
    pub(super) _permit: ChangePermit,
}

/// The queries of one job in a cycle.
#[derive(Debug)]
pub(super) struct PlannedQueries {
    pub(super) client: Requester,
    pub(super) count: usize,
    pub(super) terms: QueryTerms,
}

/// The clocks of a cycle, as in [`CycleInput`].
#[derive(Clone, Copy, Debug)]
pub(super) struct CycleClocks {
    pub(super) system_ms: i64,
    pub(super) time_max_ms: i64,
    pub(super) event_clock_max_ms: Option<i64>,
}

/// One cycle's jobs, in the order of its input.
#[derive(Debug, Default)]
pub(super) struct CyclePlan {
    pub(super) requests: Vec<Request>,
    pub(super) queries: Vec<Query>,
    pub(super) subscriptions: Vec<SubscriptionChange>,
    pub(super) changes: Vec<PlannedChange>,
    /// For each request, its client and the newest times of its rows.
    pub(super) reported: Vec<(Requester, NewestTimes)>,
    /// See [`CycleInput::query_work_max`].
    pub(super) query_work_max: u64,
    pub(super) query_jobs: Vec<PlannedQueries>,
    /// Whether it has only jobs of light clients; the work of its queries is small, whatever a
    /// query may need.
    pub(super) is_light: bool,
    /// Queries that are to be answered outside the cycles.
    pub(super) long_queries: Vec<QueryJob>,
    pub(super) subscription_jobs: PlannedSubscriptions,
}

impl CyclePlan {
    /// The cycle's input.
    pub(super) fn input(&mut self, clocks: CycleClocks) -> CycleInput {
        let CycleClocks { system_ms, time_max_ms, event_clock_max_ms } = clocks;
        let requests = std::mem::take(&mut self.requests).into();
        let queries = std::mem::take(&mut self.queries);
        let subscriptions = std::mem::take(&mut self.subscriptions);
        let query_work_max = Some(self.query_work_max);
        let mut query_groups = Vec::with_capacity(self.query_jobs.len());
        self.query_jobs.iter().fold(0, |end, job| {
            query_groups.push(end + job.count as u32);
            end + job.count as u32
        });
        CycleInput {
            system_ms,
            time_max_ms,
            event_clock_max_ms,
            requests,
            queries,
            query_work_max,
            query_groups,
            subscriptions,
        }
    }

    /// The number of rows that were refused on receipt.
    pub(super) fn refused_on_receipt(&self) -> u64 {
        let fresh = self.changes.iter().filter(|change| change.is_fresh);
        fresh.map(|change| change.refused.count()).sum()
    }

    /// The record of the cycle with this input.
    pub(super) fn record(&self, epoch: u64, input: &CycleInput) -> CycleRecord {
        let fresh = self.changes.iter().filter(|change| change.is_fresh);
        let mut batches: Vec<_> = fresh.map(|change| change.batch.clone()).collect();
        // A request that sets the clock back may follow the batches.
        batches.resize(input.requests.len(), None);
        CycleRecord {
            epoch,
            system_ms: input.system_ms,
            time_max_ms: input.time_max_ms,
            event_clock_max_ms: input.event_clock_max_ms,
            requests: input.requests.clone(),
            batches,
            clock_ms: 0,
            refused: Vec::new(),
            names: None,
            encoded: None,
        }
    }
}

/// The bounds of a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct CycleBounds {
    /// Rows, or the general limit, if that is less. A single change may have more; 0 takes none.
    pub(super) rows_max: usize,
    /// See [`CycleInput::query_work_max`].
    pub(super) query_work_max: u64,
    /// Whether jobs of light clients have a cycle of their own before others.
    pub(super) light_first: bool,
}

/// Takes jobs from the queues.
#[derive(Debug)]
pub(super) struct CyclePlanner {
    pub(super) receivers: QueueReceivers,
    pub(super) producers: Producers,
    rows_max: usize,
    requests_max: usize,
    queries_max: usize,
    changes: FairQueue<ChangeJob>,
    queries: FairQueue<QueryJob>,
    pub(super) subscriptions: SubscriptionPlanner,
    /// Resends whose original is in progress.
    undecided: VecDeque<ChangeJob>,
    light_clients: LightClients,
    /// Whether the last cycle took jobs of light clients only.
    took_light: bool,
    /// Empty query lists of ended cycles, kept for later cycles.
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
            changes: FairQueue::default(),
            queries: FairQueue::default(),
            subscriptions: SubscriptionPlanner::new(sessions),
            undecided: VecDeque::new(),
            light_clients: LightClients::new(Instant::now()),
            took_light: false,
            spare: Vec::new(),
        }
    }

    /// True when a cycle would have work, with or without changes of objects.
    pub(super) fn has_work(&self, takes_changes: bool) -> bool {
        let has_changes = || {
            !self.changes.is_empty()
                || !self.undecided.is_empty()
                || !self.receivers.changes.is_empty()
                || !self.receivers.followed.is_empty()
        };
        !self.queries.is_empty()
            || self.subscriptions.has_work(&self.receivers)
            || !self.receivers.queries.is_empty()
            || takes_changes && has_changes()
    }

    /// Receives the jobs that have arrived. Returns whether a light client waits.
    pub(super) fn receive(&mut self) -> bool {
        self.light_clients.advance(Instant::now());
        while let Ok(job) = self.receivers.changes.try_recv() {
            let work = CHANGE_WORK + job.converted.request.rows() as u64;
            self.light_clients.wait(work);
            self.changes.push(job.permit.client, work, job);
        }
        self.receive_queries();
        let next = [self.changes.next(), self.queries.next()];
        next.into_iter().flatten().any(|next| self.light_clients.is_light(next))
    }

    /// Selects the jobs of the next cycle, which is answered at `answer_epoch` or later.
    pub(super) fn plan(&mut self, answer_epoch: u64, bounds: CycleBounds) -> CyclePlan {
        let queries = self.spare.pop().unwrap_or_default();
        let query_work_max = bounds.query_work_max;
        let mut plan = CyclePlan { queries, query_work_max, ..CyclePlan::default() };
        // At most every second cycle, so that the others go on.
        if bounds.light_first && !self.took_light {
            self.take_jobs(&mut plan, answer_epoch, bounds);
        }
        plan.is_light = !plan.changes.is_empty() || !plan.query_jobs.is_empty();
        self.took_light = plan.is_light;
        if plan.is_light {
            plan.query_work_max = plan.query_work_max.min(CYCLE_PACE_WORK_MIN);
        } else {
            self.take_jobs(&mut plan, answer_epoch, CycleBounds { light_first: false, ..bounds });
        }
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

    fn take_jobs(&mut self, plan: &mut CyclePlan, answer_epoch: u64, bounds: CycleBounds) {
        if bounds.rows_max > 0 {
            self.take_changes(plan, bounds.rows_max.min(self.rows_max), bounds.light_first);
        }
        self.take_queries(plan, answer_epoch, bounds.light_first);
    }

    fn may_take(&self, next: NextJob, only_light: bool) -> bool {
        !only_light || self.light_clients.is_light(next)
    }

    fn take_changes(&mut self, plan: &mut CyclePlan, rows_max: usize, only_light: bool) {
        // Their work was counted in the queue when they were first taken.
        for job in std::mem::take(&mut self.undecided).into_iter().rev() {
            self.changes.push_front(job.permit.client, 0, job);
        }
        let mut rows = 0;
        while plan.changes.len() + self.undecided.len() < self.requests_max && rows < rows_max {
            let next = self.changes.next().filter(|next| self.may_take(*next, only_light));
            let Some(next) = next else { break };
            let fits =
                |job: &ChangeJob| rows == 0 || rows + job.converted.request.rows() <= rows_max;
            let Some((_, job)) = self.changes.pop_if(fits) else { break };
            self.light_clients.take(next.party, next.work);
            rows += job.converted.request.rows();
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
                let ConvertedRequest { request, refused, dropped, times } = job.converted;
                if is_fresh {
                    plan.requests.push(request);
                    plan.reported.push((job.permit.client, times));
                }
                let (batch, reply, _permit) = (job.batch, job.reply, job.permit);
                plan.changes.push(PlannedChange {
                    batch,
                    is_fresh,
                    refused,
                    dropped,
                    reply,
                    _permit,
                });
            }
        }
    }

    /// Takes the queries that have arrived into their queue.
    pub(super) fn receive_queries(&mut self) {
        while let Ok(job) = self.receivers.queries.try_recv() {
            let work = known_work(&job);
            self.light_clients.wait(work);
            self.queries.push(job.client, work, job);
        }
    }

    fn take_queries(&mut self, plan: &mut CyclePlan, answer_epoch: u64, only_light: bool) {
        let now = Instant::now();
        // Clients far ahead in their share wait for the next cycle, so that they cannot use up
        // this cycle's work.
        let time_max = self.queries.next_time().map(|time| time + plan.query_work_max / 2);
        let mut vertices = 0;
        while self.queries.next_time() <= time_max {
            let next = self.queries.next().filter(|next| self.may_take(*next, only_light));
            let Some(next) = next else { break };
            let fits = |job: &QueryJob| {
                let is_full = plan.queries.len() + job.queries.len() > self.queries_max
                    || vertices + vertices_of(&job.queries) > CYCLE_QUERY_VERTICES_MAX;
                let is_first = plan.query_jobs.is_empty();
                // A lagging engine may need one more cycle before the epoch is visible.
                let is_visible = job.terms.epoch_min <= answer_epoch;
                job.terms.is_abandoned(now)
                    || is_visible && (is_first || !job.terms.alone && !is_full)
            };
            let Some((client, job)) = self.queries.pop_if(fits) else { break };
            self.light_clients.take(next.party, next.work);
            if job.terms.is_abandoned(now) {
                continue;
            }
            let of_job = vertices_of(&job.queries);
            if of_job > CYCLE_QUERY_VERTICES_MAX {
                plan.long_queries.push(job);
                continue;
            }
            vertices += of_job;
            let QueryJob { queries, terms, .. } = job;
            let (count, is_last) = (queries.len(), terms.alone);
            plan.queries.extend(queries);
            plan.query_jobs.push(PlannedQueries { client, count, terms });
            if is_last {
                break;
            }
        }
    }

    /// Charges a client for the work of its queries in a cycle with this number of other jobs.
    pub(super) fn charge(&mut self, client: Requester, work: u64, beside: usize) {
        self.light_clients.charge(client.party(), work);
        self.queries.charge(client, work, beside);
    }

    /// Puts off queries, in their order, to a later cycle. Their known work was counted when they
    /// were taken.
    pub(super) fn put_off(&mut self, jobs: Vec<QueryJob>) {
        for job in jobs.into_iter().rev() {
            self.queries.push_front(job.client, 0, job);
        }
    }
}

/// The work of queries that is known before the engine runs them.
fn known_work(job: &QueryJob) -> u64 {
    let vertices = VERTEX_WORK * vertices_of(&job.queries) as u64;
    QUERY_WORK * job.queries.len() as u64 + vertices + job.terms.rows_work
}

/// Vertices of the polygons of queries.
fn vertices_of(queries: &[Query]) -> usize {
    let vertices = |query: &Query| match &query.kind {
        QueryKind::Range(region) => region.vertices(),
        QueryKind::Nearest { .. } | QueryKind::Get(_) => 0,
    };
    queries.iter().map(vertices).sum()
}
