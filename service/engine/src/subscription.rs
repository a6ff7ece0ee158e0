//! Standing regions: what a subscriber asks of the engine.
//!
//! When an event happens is said by [`crate::Backend`]; what one cycle tells is an
//! [`crate::EventSet`]. Everything is in quanta, stored units and milliseconds of the fleet's
//! clock. Knows no session and no sequence of deliveries.

use shoal_codec::FixRow;

use crate::error::EngineError;
use crate::limits::DWELL_MS_MAX;
use crate::query::Filter;
use crate::region::Region;

/// Names a standing region of a fleet; whoever adds it chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u64);

/// One change of the standing regions. Those of a cycle act in order, after its rows: the events
/// of the cycle compare the membership under the old regions before it with the membership under
/// the new ones after it.
#[derive(Clone, Debug, PartialEq)]
pub enum SubscriptionChange {
    /// Adds a region, or changes the one of this id.
    Set {
        /// Whose.
        region: RegionId,
        /// What holds from this cycle on.
        subscription: Box<Subscription>,
        /// As [`SubscriptionChange::Snapshot`] behind it.
        is_snapshot_wanted: bool,
    },
    /// Tells all members as [`EventKind::Present`], and no other event of this cycle. An unknown
    /// id is nothing.
    Snapshot(RegionId),
    /// Ends it without events. An unknown id is nothing.
    Remove(RegionId),
}

/// A standing region.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// Where.
    pub region: Region,
    /// Which objects, by their record; `None` lets all pass. Ages are judged at the last whole
    /// second of the clock, [`tick_ms`].
    pub filter: Option<Box<Filter>>,
    /// Which events are told; the membership does not depend on it. `Present` is always told.
    pub wanted: EventKinds,
    /// Whether records come beside the ids.
    pub with_fixes: bool,
    /// Which fixes are judged.
    pub judging: EvaluationMode,
    /// Least time from an `Enter`, `Present` or `Move` of an object to its next `Move`; those
    /// between are not told. 0: every one.
    pub move_interval_ms: u32,
    /// `Enter` only after so long inside without a break. 0: at once.
    pub enter_dwell_ms: u32,
    /// `Left` and `Filtered` only after so long outside without a break. 0: at once.
    pub leave_dwell_ms: u32,
    /// A member that is outside stays one while it is within this rank ([`crate::Ranker::rank`])
    /// of where it last was inside. `None`: no hysteresis.
    pub hysteresis_rank_max: Option<u64>,
}

impl Subscription {
    /// A region whose every event is told, as ids, judged by the state after each cycle.
    #[must_use]
    pub fn new(region: Region) -> Self {
        Self {
            region,
            filter: None,
            wanted: EventKinds::ALL,
            with_fixes: false,
            judging: EvaluationMode::Cycle,
            move_interval_ms: 0,
            enter_dwell_ms: 0,
            leave_dwell_ms: 0,
            hysteresis_rank_max: None,
        }
    }

    /// Whether a record lies inside: in the region, and the filter lets it pass.
    #[inline]
    #[must_use]
    pub fn holds(&self, row: &FixRow, tick_ms: i64) -> bool {
        self.region.contains(row.x, row.y) && self.passes(row, tick_ms)
    }

    /// Whether the filter lets a record pass.
    #[inline]
    #[must_use]
    pub fn passes(&self, row: &FixRow, tick_ms: i64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.passes(row, tick_ms))
    }

    /// The age at which the filter lets go of a record, if it does.
    #[must_use]
    pub fn age_max_ms(&self) -> Option<i64> {
        self.filter.as_ref().and_then(|filter| filter.age_max_ms)
    }

    /// Checks its limits, and that its filter lets objects of every id pass.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    pub fn check(&self) -> Result<(), EngineError> {
        if self.filter.as_ref().is_some_and(|filter| filter.object_after.is_some()) {
            let what = "the number of conditions on objects in the filter of a standing region";
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

/// The clock at which ages of standing regions are judged: rounded down to a whole second.
#[inline]
#[must_use]
pub fn tick_ms(clock_ms: i64) -> i64 {
    clock_ms - clock_ms.rem_euclid(1_000)
}

/// Which fixes of a cycle are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvaluationMode {
    /// The state after the cycle.
    #[default]
    Cycle,
    /// Each accepted fix that is not late, in the order (`time_ms`, arrival).
    EveryFix,
    /// As `EveryFix`; and where the straight segment between two fixes of an object that is no
    /// member cuts the region ([`Region::is_cut`]), this is told as [`EventKind::Cross`].
    Crossing,
}

/// What happened to an object in a region. The discriminant is the number on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// A member at the epoch of a snapshot.
    Present = 0,
    /// A member now.
    Enter = 1,
    /// A member before and after, and its record was written.
    Move = 2,
    /// Passed through between two fixes.
    Cross = 3,
    /// No member any more: its position is outside.
    Left = 4,
    /// No member any more: it was removed.
    Removed = 5,
    /// No member any more: it exceeded the fleet's TTL.
    Expired = 6,
    /// No member any more: inside, but the filter lets it pass no more.
    Filtered = 7,
    /// No member any more: it lives, and the region was changed in this cycle.
    RegionChanged = 8,
    /// No member any more: everything was cleared.
    Cleared = 9,
}

impl EventKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Present,
        Self::Enter,
        Self::Move,
        Self::Cross,
        Self::Left,
        Self::Removed,
        Self::Expired,
        Self::Filtered,
        Self::RegionChanged,
        Self::Cleared,
    ];

    /// The kind of a number.
    #[inline]
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether it ends a membership.
    #[inline]
    #[must_use]
    pub fn ends_membership(self) -> bool {
        self as u8 >= Self::Left as u8
    }
}

/// A set of kinds by bit: `1 << kind`. Bits beyond the last kind mean nothing.
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

    /// Whether events of this kind are told to who wants this set: those in it, and `Present`.
    #[inline]
    #[must_use]
    pub fn tells(self, kind: EventKind) -> bool {
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
            assert!(EventKinds::ALL.contains(kind) && EventKinds::of(&[kind]).tells(kind));
            assert!(!EventKinds::NONE.contains(kind));
            assert_eq!(EventKinds::NONE.tells(kind), kind == EventKind::Present);
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
