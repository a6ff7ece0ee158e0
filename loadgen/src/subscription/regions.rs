//! The circles of one session, and the requests that change them.
//!
//! The circles are the workload's regions of one shard, in wire form. If a region changes several
//! times between two requests, the changes are merged.

use std::collections::BTreeMap;
use std::time::Duration;

use shoal_proto::v1::{self as proto, ModifyRequest, Projection, RegionSubscription, region};
use shoal_workload::{Params, RegionStep, Regions, WorkloadError};

use super::plan::SubscriptionPlan;

/// The circles of one session.
pub struct SessionRegions {
    regions: Regions,
    events: Vec<i32>,
    /// Centres by region, as last sent to the server.
    circles: BTreeMap<u64, (f64, f64)>,
}

impl SessionRegions {
    /// The circles of session `shard` of `shards` of a workload.
    ///
    /// # Errors
    /// The errors of [`Regions::new`].
    pub fn new(
        workload: &str,
        params: &Params,
        plan: &SubscriptionPlan,
        (shard, shards): (u32, u32),
    ) -> Result<Self, WorkloadError> {
        let params = Params { shard, shards, ..params.clone() };
        let regions = Regions::new(workload, &params, plan.regions)?;
        let mut circles = BTreeMap::new();
        regions.live().for_each(|change| apply(&mut circles, change));
        let events = plan.event_kinds().into_iter().map(i32::from).collect();
        Ok(Self { regions, events, circles })
    }

    /// The ids of all regions, ascending.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = u64> {
        self.circles.keys().copied()
    }

    /// A region in wire form.
    #[must_use]
    pub fn region(&self, id: u64) -> Option<proto::Region> {
        let (x, y) = *self.circles.get(&id)?;
        let circle = proto::Circle { x, y, radius_m: self.regions.radius_m() };
        Some(proto::Region { kind: Some(region::Kind::Circle(circle)) })
    }

    /// All regions, for opening a session.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<RegionSubscription> {
        self.ids().map(|id| self.subscription(id, true)).collect()
    }

    /// Advances to a time after the start; returns the resulting request without fleet and session,
    /// if anything changed. Changed regions that are uncertain request a snapshot.
    pub fn advance(
        &mut self,
        elapsed: Duration,
        is_uncertain: impl Fn(u64) -> bool,
    ) -> Option<ModifyRequest> {
        let mut changes = Vec::new();
        self.regions.advance(elapsed.as_secs_f64() * 1_000.0, &mut changes);
        if changes.is_empty() {
            return None;
        }
        let mut touched: BTreeMap<u64, bool> = BTreeMap::new();
        for change in changes {
            let (RegionStep::Add { region, .. }
            | RegionStep::Move { region, .. }
            | RegionStep::Remove { region }) = change;
            let stood = self.circles.contains_key(&region);
            touched.entry(region).or_insert(stood);
            apply(&mut self.circles, change);
        }
        let mut request = ModifyRequest::default();
        for (region, stood) in touched {
            match (stood, self.circles.contains_key(&region)) {
                (false, true) => request.add.push(self.subscription(region, true)),
                (true, true) => {
                    request.change.push(self.subscription(region, is_uncertain(region)));
                }
                (true, false) => request.remove.push(region),
                (false, false) => {}
            }
        }
        Some(request)
    }

    fn subscription(&self, region_id: u64, snapshot: bool) -> RegionSubscription {
        RegionSubscription {
            region_id,
            region: self.region(region_id),
            events: self.events.clone(),
            projection: Projection::Ids.into(),
            snapshot,
            ..RegionSubscription::default()
        }
    }
}

fn apply(circles: &mut BTreeMap<u64, (f64, f64)>, change: RegionStep) {
    match change {
        RegionStep::Add { region, x, y } | RegionStep::Move { region, x, y } => {
            circles.insert(region, (x, y));
        }
        RegionStep::Remove { region } => {
            circles.remove(&region);
        }
    }
}

#[cfg(test)]
mod tests {
    use shoal_workload::RegionParams;

    use super::*;
    use crate::args::ReportedEvents;

    fn session(churn: f64, follows: bool) -> SessionRegions {
        let plan = SubscriptionPlan {
            regions: RegionParams { regions: 40, radius_m: 500.0, churn, follows },
            events: ReportedEvents::EnterLeave,
            session_regions: 20,
            kills: 0,
            silent: 0,
        };
        SessionRegions::new("uniform", &Params::default(), &plan, (1, 2)).unwrap()
    }

    #[test]
    fn a_session_has_its_share_and_asks_for_snapshots() {
        let session = session(0.0, false);
        let subscriptions = session.subscriptions();
        assert_eq!(subscriptions.len(), 20);
        assert!(subscriptions.iter().all(|region| region.snapshot && region.events.len() == 7));
        assert!(session.ids().all(|id| id % 2 == 1));
    }

    #[test]
    fn changes_between_two_requests_become_one_a_region() {
        let mut session = session(0.5, true);
        let before: Vec<u64> = session.ids().collect();
        assert_eq!(session.advance(Duration::ZERO, |_| false), None);
        let request =
            session.advance(Duration::from_secs(4), |region| region == before[0]).unwrap();
        let mut live: BTreeMap<u64, ()> = before.iter().map(|region| (*region, ())).collect();
        for region in &request.remove {
            live.remove(region).unwrap();
        }
        for region in &request.change {
            assert!(live.contains_key(&region.region_id));
            assert_eq!(region.snapshot, region.region_id == before[0]);
        }
        for region in &request.add {
            assert!(region.snapshot && live.insert(region.region_id, ()).is_none());
        }
        assert!(!request.change.is_empty() && !request.add.is_empty());
        let after: Vec<u64> = session.ids().collect();
        assert_eq!(after, live.into_keys().collect::<Vec<_>>());
        assert_eq!(after.len(), 20);
    }
}
