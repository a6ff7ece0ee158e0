//! Continuous queries: subscriptions to the objects of a region.
//!
//! [`crate::Backend`] defines when an event happens; [`crate::EventSet`] holds the events of a
//! cycle. Values are in quanta, stored units and milliseconds of the fleet's clock. The service
//! implements sessions and delivery.

use shoal_codec::FixRow;

use crate::error::EngineError;
pub use crate::layout::EventKind;
use crate::limits::DWELL_MS_MAX;
use crate::query::Filter;
use crate::region::Region;

/// The id of a continuous query's region in a fleet, chosen by the caller that adds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u64);

/// One change of the continuous queries. The changes of a cycle act in order, after its rows. The
/// events of the cycle compare the members before it, under the old regions, with the members after
/// it, under the new ones.
#[derive(Clone, Debug, PartialEq)]
pub enum SubscriptionChange {
    /// Adds a region, or changes the one of this id.
    Set {
        /// Which region.
        region: RegionId,
        /// The subscription from this cycle on.
        subscription: Box<Subscription>,
        /// True to report a snapshot, as a following [`SubscriptionChange::Snapshot`] does.
        is_snapshot_wanted: bool,
    },
    /// Reports all members as [`EventKind::Present`], and no other event of this cycle. Has no
    /// effect for an unknown id.
    Snapshot(RegionId),
    /// Removes the region without events. Has no effect for an unknown id.
    Remove(RegionId),
}

/// A continuous query: a region, a filter, and the events to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// The region.
    pub region: Region,
    /// A filter of objects by their record; `None` passes all. Ages are measured at the last whole
    /// second of the clock, [`tick_ms`].
    pub filter: Option<Box<Filter>>,
    /// The events to report; membership does not depend on them. `Present` is always reported.
    pub wanted: EventKinds,
    /// Whether events have records.
    pub with_fixes: bool,
    /// Which fixes are evaluated.
    pub evaluation_mode: EvaluationMode,
    /// Least time from an `Enter`, `Present` or `Move` of an object to its next `Move`; moves in
    /// between are not reported. 0 reports every move.
    pub move_interval_ms: u32,
    /// Time that an object must be inside without a break before `Enter`; 0 enters at once.
    pub enter_dwell_ms: u32,
    /// Time that a member must be outside without a break before `Left` or `Filtered`; 0 leaves at
    /// once.
    pub leave_dwell_ms: u32,
    /// A member that is outside remains one while it is within this rank ([`crate::Ranker::rank`])
    /// of where it last was inside. `None`: no hysteresis.
    pub hysteresis_rank_max: Option<u64>,
}

impl SubscriptionChange {
    /// Sets a region, without a snapshot.
    pub(crate) fn set(region: RegionId, subscription: &Subscription) -> Self {
        let subscription = Box::new(subscription.clone());
        Self::Set { region, subscription, is_snapshot_wanted: false }
    }
}

impl Subscription {
    /// True if memberships or events depend on the clock: with a dwell, a filter of age, or a move
    /// interval if moves are wanted.
    #[must_use]
    pub fn depends_on_clock(&self) -> bool {
        let has_interval = self.move_interval_ms > 0 && self.wanted.contains(EventKind::Move);
        let has_dwell = self.enter_dwell_ms > 0 || self.leave_dwell_ms > 0;
        has_interval || has_dwell || self.age_max_ms().is_some()
    }

    /// A query that reports every event, as ids, evaluated on the state after each cycle.
    #[must_use]
    pub fn new(region: Region) -> Self {
        Self {
            region,
            filter: None,
            wanted: EventKinds::ALL,
            with_fixes: false,
            evaluation_mode: EvaluationMode::Cycle,
            move_interval_ms: 0,
            enter_dwell_ms: 0,
            leave_dwell_ms: 0,
            hysteresis_rank_max: None,
        }
    }

    /// Whether a record is inside: in the region, and the filter passes it.
    #[inline]
    #[must_use]
    pub fn holds(&self, row: &FixRow, tick_ms: i64) -> bool {
        self.region.contains(row.x, row.y) && self.passes(row, tick_ms)
    }

    /// Whether the filter passes a record.
    #[inline]
    #[must_use]
    pub fn passes(&self, row: &FixRow, tick_ms: i64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.passes(row, tick_ms))
    }

    /// The greatest age that the filter passes, if it has one.
    #[must_use]
    pub fn age_max_ms(&self) -> Option<i64> {
        self.filter.as_ref().and_then(|filter| filter.age_max_ms)
    }

    /// Checks its limits, and that its filter has no condition on ids.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    pub fn check(&self) -> Result<(), EngineError> {
        if self.filter.as_ref().is_some_and(|filter| filter.object_after.is_some()) {
            let what = "the number of conditions on objects in the filter of a continuous query";
            return Err(EngineError::Limit { what, value: 1, limit: 0 });
        }
        let times_ms = [
            ("the move interval in milliseconds", self.move_interval_ms),
            ("the dwell before an enter in milliseconds", self.enter_dwell_ms),
            ("the dwell before a leave in milliseconds", self.leave_dwell_ms),
        ];
        match times_ms.into_iter().find(|(_, ms)| *ms > DWELL_MS_MAX) {
            Some((what, ms)) => {
                Err(EngineError::Limit { what, value: ms.into(), limit: DWELL_MS_MAX.into() })
            }
            None => Ok(()),
        }
    }
}

/// The clock at which continuous queries measure ages: rounded down to a whole second.
#[inline]
#[must_use]
pub fn tick_ms(clock_ms: i64) -> i64 {
    clock_ms - clock_ms.rem_euclid(1_000)
}

/// Which fixes of a cycle are evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvaluationMode {
    /// The state after the cycle.
    #[default]
    Cycle,
    /// Each accepted fix that is not late, in the order (`time_ms`, arrival).
    EveryFix,
    /// As `EveryFix`; also reports [`EventKind::Cross`] where the straight segment between two
    /// fixes of an object that is no member cuts the region ([`Region::is_cut`]).
    Crossing,
}

/// A set of kinds by bit: `1 << kind`. Bits beyond the last kind have no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventKinds(pub u16);

impl EventKinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Every kind.
    pub const ALL: Self = Self((1 << EventKind::ALL.len()) - 1);

    /// The set of these kinds.
    #[must_use]
    pub fn of(kinds: &[EventKind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u8))
    }

    /// Whether a kind is in the set.
    #[inline]
    #[must_use]
    pub fn contains(self, kind: EventKind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Whether a query that wants this set reports a kind. It reports the kinds in the set, and
    /// `Present`.
    #[inline]
    #[must_use]
    pub fn reports(self, kind: EventKind) -> bool {
        kind == EventKind::Present || self.contains(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Space;

    #[test]
    fn kinds_are_their_numbers() {
        for (number, kind) in (0..).zip(EventKind::ALL) {
            assert_eq!((kind as u8, EventKind::of(number)), (number, Some(kind)));
            assert_eq!(kind.ends_membership(), number >= 4);
            assert!(EventKinds::ALL.contains(kind) && EventKinds::of(&[kind]).reports(kind));
            assert!(!EventKinds::NONE.contains(kind));
            assert_eq!(EventKinds::NONE.reports(kind), kind == EventKind::Present);
        }
        assert_eq!(EventKind::of(10), None);
        assert_eq!(EventKinds::of(&EventKind::ALL), EventKinds::ALL);
    }

    #[test]
    fn the_tick_is_the_last_whole_second() {
        for (clock_ms, tick) in [(0, 0), (999, 0), (1_000, 1_000), (-1, -1_000), (1_999, 1_000)] {
            assert_eq!(tick_ms(clock_ms), tick, "{clock_ms}");
        }
    }

    #[test]
    fn times_have_a_limit() {
        let region = Region::rectangle(&Space::geographic(), 0.0, 0.0, 1.0, 1.0).unwrap();
        let right = Subscription {
            move_interval_ms: DWELL_MS_MAX,
            enter_dwell_ms: DWELL_MS_MAX,
            leave_dwell_ms: DWELL_MS_MAX,
            ..Subscription::new(region)
        };
        assert_eq!(right.check(), Ok(()));
        let wrong = Subscription { leave_dwell_ms: DWELL_MS_MAX + 1, ..right };
        let error = wrong.check().unwrap_err().to_string();
        assert!(error.contains("before a leave in milliseconds is 86400001"), "{error}");
    }
}
