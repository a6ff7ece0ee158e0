//! The tally of a subscriber, the sum of all tallies, and its keys in the results.
//!
//! Events count from the start of the clock; faults always count.

use serde::Serialize;
use tokio::time::Instant;

use super::counts::Counts;
use super::plan::SubscriptionPlan;
use crate::measure::progress::thousands;
use crate::measure::{Latency, Percentiles};

/// Counts of one session, or of several.
#[derive(Clone, Debug, Default)]
pub struct FollowTally {
    /// Faults of the streams.
    pub counts: Counts,
    /// Events since the clock started, not counted in silent sessions.
    pub events: u64,
    /// Members delivered in snapshots.
    pub present: u64,
    /// Batches that merge several epochs.
    pub coalesced: u64,
    /// `Lagged` messages: the server dropped messages for a slow reader.
    pub lagged: u64,
    /// `Gap` messages: the server no longer kept the messages.
    pub gaps: u64,
    /// Killed and resumed streams.
    pub killed: u64,
    /// Comparisons of a region with a range query.
    pub compared: u64,
    /// From the intended send time of the earliest fix of an epoch to its events.
    pub latency: Latency,
    /// Arrival of the last event with a latency.
    pub last_timed: Option<Instant>,
}

impl FollowTally {
    /// Adds the tally of another session.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.events += other.events;
        self.present += other.present;
        self.coalesced += other.coalesced;
        self.lagged += other.lagged;
        self.gaps += other.gaps;
        self.killed += other.killed;
        self.compared += other.compared;
        self.latency.add(&other.latency);
        self.last_timed = self.last_timed.max(other.last_timed);
    }

    /// The keys of the results.
    #[must_use]
    pub fn followed(&self, plan: &SubscriptionPlan, start: Option<Instant>) -> Followed {
        let seconds = match (start, self.last_timed) {
            (Some(start), Some(end)) => (end - start).as_secs_f64(),
            _ => 0.0,
        };
        let timed = self.latency.count();
        Followed {
            subscriptions: plan.regions.regions,
            events_per_s: if seconds > 0.0 { timed as f64 / seconds } else { 0.0 },
            event_ms: self.latency.percentiles(),
            lost: self.counts.lost,
            repeated: self.counts.repeated,
            misordered: self.counts.misordered,
            events: self.events,
            timed_events: timed,
            snapshot_members: self.present,
            sessions: plan.sessions(),
            silent_sessions: plan.silent,
            killed_streams: self.killed,
            compared_regions: self.compared,
            coalesced_batches: self.coalesced,
            lagged: self.lagged,
            gaps: self.gaps,
            radius_m: plan.regions.radius_m,
            churn: plan.regions.churn,
        }
    }
}

/// The tally of all subscribers as keys of the results.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Followed {
    /// Concurrent regions, not counting the regions of silent sessions.
    pub subscriptions: u64,
    /// Rate of `timed_events` from the start of the clock to the last timed event. Late events of
    /// the initial placement do not count.
    pub events_per_s: f64,
    /// From the intended (at full speed: actual) send time of the earliest fix of an epoch to its
    /// events. This is an upper bound of the latency of each event.
    pub event_ms: Percentiles,
    /// Missing messages and events, and members that differ from a range query.
    pub lost: u64,
    /// Repeated messages and events.
    pub repeated: u64,
    /// Misordered messages and events.
    pub misordered: u64,
    /// Events since the clock started, not counting the events of silent sessions.
    pub events: u64,
    /// The part of `events` whose epochs have fixes with a send time.
    pub timed_events: u64,
    /// Members delivered in snapshots.
    pub snapshot_members: u64,
    /// Sessions that read.
    pub sessions: u32,
    /// Sessions that read nothing until all rows are sent.
    pub silent_sessions: u32,
    /// Streams that were killed at random and resumed with their token.
    pub killed_streams: u64,
    /// Comparisons of a region with a range query.
    pub compared_regions: u64,
    /// Batches that merge several epochs for slow readers.
    pub coalesced_batches: u64,
    /// `Lagged` messages: a slow session must start from a snapshot.
    pub lagged: u64,
    /// `Gap` messages: the server did not keep the messages of a session, which must start from a
    /// snapshot.
    pub gaps: u64,
    /// Radius of a region.
    pub radius_m: f64,
    /// Share of the regions replaced per second.
    pub churn: f64,
}

impl Followed {
    /// The rows of the table.
    #[must_use]
    pub fn rows(&self) -> Vec<[String; 2]> {
        let Self { lost, repeated, misordered, .. } = self;
        let mut notes = vec![
            format!("{} events", thousands(self.events)),
            format!("{} members in snapshots", thousands(self.snapshot_members)),
            format!("{} regions compared", thousands(self.compared_regions)),
        ];
        for (count, what) in [
            (u64::from(self.silent_sessions), "silent sessions"),
            (self.killed_streams, "streams broken off"),
            (self.coalesced_batches, "coalesced batches"),
            (self.lagged, "times lagged"),
            (self.gaps, "gaps"),
        ] {
            if count > 0 {
                notes.push(format!("{} {what}", thousands(count)));
            }
        }
        let (circles, sessions) = (thousands(self.subscriptions), self.sessions);
        let per_s = thousands(self.events_per_s.round() as u64);
        vec![
            ["events/s".to_owned(), format!("{per_s}, {circles} circles, {sessions} sessions")],
            ["event".to_owned(), self.event_ms.to_string()],
            ["followed".to_owned(), notes.join(", ")],
            [
                "faults".to_owned(),
                format!("{lost} lost, {repeated} repeated, {misordered} misordered"),
            ],
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shoal_workload::RegionParams;

    use super::*;
    use crate::args::ReportedEvents;

    #[test]
    fn only_timed_events_count_for_the_rate() {
        let regions = RegionParams { regions: 1, radius_m: 1.0, churn: 0.0, follows: false };
        let events = ReportedEvents::EnterLeave;
        let plan = SubscriptionPlan { regions, events, session_regions: 1, kills: 0, silent: 0 };
        let start = Instant::now();
        let mut tally = FollowTally { events: 1_000, ..FollowTally::default() };
        assert!(tally.followed(&plan, Some(start)).events_per_s < 1.0);
        tally.latency.record(Duration::from_millis(3), 50);
        tally.last_timed = Some(start + Duration::from_secs(2));
        let mut all = FollowTally::default();
        all.add(&tally);
        let followed = all.followed(&plan, Some(start));
        assert_eq!((followed.events, followed.timed_events), (1_000, 50));
        assert!((followed.events_per_s - 25.0).abs() < 1e-9);
    }
}
