//! Which changes of standing regions does the next cycle take, and what follows when it took them?
//!
//! Pending changes first, then jobs in order of arrival, up to the limit of the engine. Jobs of
//! ended sessions are dropped, so that none of their regions outlives the pending change that
//! removes them. The fan-out receives new routes before the events of the cycle.

use std::collections::VecDeque;
use std::sync::Arc;

use shoal_engine::limits::SUBSCRIPTION_CHANGES_MAX;
use shoal_engine::{EngineError, RegionId, SubscriptionChange};
use tokio::sync::oneshot;

use super::job::{SubscriptionJob, SubscriptionReply};
use super::queue::QueueEnds;
use crate::limits::REGION_CHANGES_MAX;
use crate::subscription::{
    FanOutInput, FanOutSender, PendingBatch, RegionChange, RouteChange, Session, Sessions,
    SettledChange,
};

/// Most pending changes of one cycle: one job fits beside them.
const PENDING_MAX: usize = SUBSCRIPTION_CHANGES_MAX - REGION_CHANGES_MAX;

/// The changes of one job in a cycle.
#[derive(Debug)]
struct PlannedJob {
    session: Arc<Session>,
    changes: Vec<SettledChange>,
    reply: oneshot::Sender<SubscriptionReply>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

/// What a cycle takes of regions, without what goes to the engine.
#[derive(Debug, Default)]
pub(super) struct PlannedRegions {
    jobs: Vec<PlannedJob>,
    pending: PendingBatch,
}

/// Takes jobs from the queue.
#[derive(Debug)]
pub(super) struct RegionPlanner {
    sessions: Arc<Sessions>,
    /// Did not fit the last cycle.
    left: VecDeque<SubscriptionJob>,
}

impl RegionPlanner {
    pub(super) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions, left: VecDeque::new() }
    }

    pub(super) fn has_work(&self, ends: &QueueEnds) -> bool {
        !self.left.is_empty() || !ends.subscriptions.is_empty() || !ends.pokes.is_empty()
    }

    /// The changes of the next cycle go to `changes`.
    pub(super) fn plan(
        &mut self,
        ends: &QueueEnds,
        changes: &mut Vec<SubscriptionChange>,
    ) -> PlannedRegions {
        // Before the pending changes are taken: adding one later pokes again.
        while ends.pokes.try_recv().is_ok() {}
        let pending = self.sessions.pending.take(PENDING_MAX);
        changes.extend(pending.removals.iter().map(|region| SubscriptionChange::Remove(*region)));
        let mut jobs = Vec::new();
        while let Some(job) = self.left.pop_front().or_else(|| ends.subscriptions.try_recv().ok()) {
            if changes.len() + job.changes.len() + pending.snapshots.len()
                > SUBSCRIPTION_CHANGES_MAX
            {
                self.left.push_front(job);
                break;
            }
            if !job.session.is_ended() {
                jobs.push(take(job, changes));
            }
        }
        // Last, so that they hold for what stands after the cycle.
        changes
            .extend(pending.snapshots.iter().map(|region| SubscriptionChange::Snapshot(*region)));
        PlannedRegions { jobs, pending }
    }

    /// The cycle was carried out.
    pub(super) fn settle(&self, planned: PlannedRegions, epoch: u64, fan_out: &FanOutSender) {
        let mut routes = Vec::new();
        if !planned.pending.removals.is_empty() {
            routes.push(RouteChange::Remove(planned.pending.removals.into_iter().collect()));
        }
        for job in planned.jobs {
            let (mut added, mut removed) = (Vec::new(), Vec::new());
            for change in &job.changes {
                match *change {
                    SettledChange::Add { region_id, region } => added.push((region.id, region_id)),
                    SettledChange::Remove { id } => removed.push(id),
                    SettledChange::Alter { .. } => {}
                }
                self.sessions.settle(&job.session, change, true);
            }
            // In this order: what was added may have been removed again.
            routes.push(RouteChange::Add(job.session, added));
            routes.push(RouteChange::Remove(removed));
            // Nobody waiting is nobody to tell.
            let _ = job.reply.send(Ok(epoch));
        }
        if !routes.is_empty() {
            // A thread that is gone has ended the sessions.
            let _ = fan_out.send(FanOutInput::Routes(routes));
        }
    }

    /// The cycle was refused.
    pub(super) fn refuse(&self, planned: PlannedRegions, fault: &EngineError) {
        if !planned.pending.is_empty() {
            self.sessions.pending.put_back(planned.pending);
        }
        for job in planned.jobs {
            for change in &job.changes {
                self.sessions.settle(&job.session, change, false);
            }
            let _ = job.reply.send(Err(fault.clone()));
        }
    }
}

/// Splits a job into what the engine takes and what is known of it.
fn take(job: SubscriptionJob, changes: &mut Vec<SubscriptionChange>) -> PlannedJob {
    let set = |region: RegionId, subscription, is_snapshot_wanted| SubscriptionChange::Set {
        region,
        subscription,
        is_snapshot_wanted,
    };
    let settled = job.changes.into_iter().map(|change| match change {
        RegionChange::Add { region_id, region, subscription } => {
            changes.push(set(region.id, subscription, region.snapshot));
            SettledChange::Add { region_id, region }
        }
        RegionChange::Alter { region_id, region, subscription } => {
            changes.push(set(region.id, subscription, region.snapshot));
            SettledChange::Alter { region_id, region }
        }
        RegionChange::Remove { id } => {
            changes.push(SubscriptionChange::Remove(id));
            SettledChange::Remove { id }
        }
    });
    PlannedJob {
        changes: settled.collect(),
        session: job.session,
        reply: job.reply,
        _permit: job._permit,
    }
}
