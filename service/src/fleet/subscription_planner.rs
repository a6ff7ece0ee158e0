//! Selects the subscription changes of the next cycle, and reports them when the cycle is applied.
//!
//! Pending changes of sessions come first, then jobs up to the engine's limit: the clients that
//! opened the sessions are served in turn, and the jobs of a session stay in order. The number of
//! snapshots adapts to the number of events that they cause. Jobs of sessions that ended meanwhile
//! are dropped, so that no region is added after its removal. The fan-out receives new routes before
//! the cycle's events.

use std::sync::Arc;

use shoal_engine::limits::SUBSCRIPTION_CHANGES_MAX;
use shoal_engine::{EngineError, EventSet, RegionId, SubscriptionChange};
use tokio::sync::oneshot;

use super::job_queue::QueueReceivers;
use super::jobs::{SubscriptionJob, SubscriptionReply};
use crate::limits::{CYCLE_SNAPSHOT_EVENTS, REGION_CHANGES_MAX};
use crate::shares::{FairQueue, PlacesPermit};
use crate::subscription::{
    FanOutInput, FanOutSender, PendingBatch, RegionChange, Route, RouteChange, Session, Sessions,
    SettledChange,
};

/// Maximum number of pending snapshots in the first cycle that has any.
const SNAPSHOTS_FIRST: usize = 64;

/// Maximum number of pending changes in a cycle; leaves space for one job.
const PENDING_MAX: usize = SUBSCRIPTION_CHANGES_MAX - REGION_CHANGES_MAX;

/// Fixed cost of a change in addition to the vertices of its region.
const CHANGE_WORK: u64 = 16;

/// The changes of one job in a cycle.
#[derive(Debug)]
struct PlannedJob {
    session: Arc<Session>,
    changes: Vec<SettledChange>,
    reply: oneshot::Sender<SubscriptionReply>,
    _permit: PlacesPermit,
}

/// The subscription jobs of a cycle, without the changes that were passed to the engine.
#[derive(Debug, Default)]
pub(super) struct PlannedSubscriptions {
    jobs: Vec<PlannedJob>,
    pending: PendingBatch,
}

/// Takes jobs from the queue.
#[derive(Debug)]
pub(super) struct SubscriptionPlanner {
    sessions: Arc<Sessions>,
    waiting: FairQueue<SubscriptionJob>,
    /// Most pending snapshots of the next cycle, adapted to the events of earlier ones.
    snapshots_max: usize,
}

impl SubscriptionPlanner {
    pub(super) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions, waiting: FairQueue::default(), snapshots_max: SNAPSHOTS_FIRST }
    }

    pub(super) fn has_work(&self, receivers: &QueueReceivers) -> bool {
        !self.waiting.is_empty()
            || !receivers.subscriptions.is_empty()
            || !receivers.wakeups.is_empty()
    }

    /// Appends the changes of the next cycle to `changes`.
    pub(super) fn plan(
        &mut self,
        receivers: &QueueReceivers,
        changes: &mut Vec<SubscriptionChange>,
    ) -> PlannedSubscriptions {
        // Drain the wakeups before taking pending changes: a change added later wakes the thread.
        while receivers.wakeups.try_recv().is_ok() {}
        let pending = self.sessions.pending.take(PENDING_MAX, self.snapshots_max);
        changes.extend(pending.removals.iter().map(|region| SubscriptionChange::Remove(*region)));
        while let Ok(job) = receivers.subscriptions.try_recv() {
            let work = job.changes.iter().map(work_of).sum();
            self.waiting.push(job.session.client, work, job);
        }
        let (mut jobs, snapshots) = (Vec::new(), pending.snapshots().count());
        loop {
            let changes_max = SUBSCRIPTION_CHANGES_MAX - snapshots - changes.len();
            let fits = |job: &SubscriptionJob| job.changes.len() <= changes_max;
            let Some((_, job)) = self.waiting.pop_if(fits) else { break };
            if !job.session.is_ended() {
                jobs.push(take(job, changes));
            }
        }
        // Snapshots come last, so that they show the regions after the other changes.
        changes.extend(pending.snapshots().map(SubscriptionChange::Snapshot));
        PlannedSubscriptions { jobs, pending }
    }

    /// Reports a cycle that was applied, and its events.
    pub(super) fn settle(
        &mut self,
        planned: PlannedSubscriptions,
        (epoch, events): (u64, &EventSet),
        fan_out: &FanOutSender,
    ) {
        self.learn(&planned.pending, events);
        let mut routes = Vec::new();
        if !planned.pending.removals.is_empty() {
            routes.push(RouteChange::Remove(planned.pending.removals.into_iter().collect()));
        }
        for job in planned.jobs {
            let (mut added, mut removed) = (Vec::new(), Vec::new());
            for change in &job.changes {
                match change {
                    // The route of a changed region gets its new pattern.
                    SettledChange::Add { region_id, region }
                    | SettledChange::Alter { region_id, region } => {
                        let (region_id, pattern) = (*region_id, region.pattern.clone());
                        added.push(Route { region: region.id, region_id, pattern });
                    }
                    SettledChange::Remove { id } => removed.push(*id),
                }
                self.sessions.settle(&job.session, change, true);
            }
            // In this order: a region may be added and removed in one job.
            routes.push(RouteChange::Add(job.session, added));
            routes.push(RouteChange::Remove(removed));
            // A closed channel means that the client left.
            let _ = job.reply.send(Ok(epoch));
        }
        if !routes.is_empty() {
            // An error means that the fan-out's thread ended, and the sessions with it.
            let _ = fan_out.send(FanOutInput::Routes(routes));
        }
    }

    /// Halves the number of snapshots of a cycle after too many events, doubles it after few.
    fn learn(&mut self, pending: &PendingBatch, events: &EventSet) {
        let count = pending.snapshots().count();
        if count == 0 {
            return;
        }
        let heads = events.heads().filter(|head| head.is_snapshot || head.is_lagged);
        let (reported, is_lagged) = heads.fold((0, false), |(reported, is_lagged), head| {
            (reported + head.events() as u64, is_lagged || head.is_lagged)
        });
        if is_lagged || reported > CYCLE_SNAPSHOT_EVENTS {
            self.snapshots_max = (self.snapshots_max / 2).max(1);
        } else if count == self.snapshots_max && reported <= CYCLE_SNAPSHOT_EVENTS / 2 {
            self.snapshots_max = (self.snapshots_max * 2).min(PENDING_MAX);
        }
    }

    /// Reports a cycle that was not applied.
    pub(super) fn refuse(&self, planned: PlannedSubscriptions, fault: &EngineError) {
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

/// About what a change costs, in vertices.
fn work_of(change: &RegionChange) -> u64 {
    match change {
        RegionChange::Add { region, .. } | RegionChange::Alter { region, .. } => {
            CHANGE_WORK + region.vertices as u64
        }
        RegionChange::Remove { .. } => CHANGE_WORK,
    }
}

/// Splits a job into the changes for the engine and what is kept until they settle.
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
