//! What does one look at an object make of its standing to a region? And how are a cycle's rows
//! cut into looks?
//!
//! The state machine of [`crate::Backend`]'s standing regions, as pure functions that every fast
//! backend shares. Which regions have to be looked at, and where stands are kept, is theirs.

use shoal_codec::FixRow;

use crate::rank::Ranker;
use crate::space::Space;
use crate::subscription::{EvaluationMode, EventKind, Subscription, tick_ms};

/// What a backend has to do for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The record before the cycle and the one after it decide.
    Plain,
    /// As `Plain`, step by step over all rows.
    Stepped,
    /// The stands of its objects are kept from cycle to cycle.
    Stateful,
}

impl Class {
    /// The class of a subscription: a filter of age needs a list of whom time may part from it.
    #[must_use]
    pub fn of(subscription: &Subscription) -> Self {
        let is_stateful = subscription.move_interval_ms > 0
            || subscription.enter_dwell_ms > 0
            || subscription.leave_dwell_ms > 0
            || subscription.hysteresis_rank_max.is_some()
            || subscription.age_max_ms().is_some();
        match subscription.judging {
            _ if is_stateful => Self::Stateful,
            EvaluationMode::Cycle => Self::Plain,
            EvaluationMode::EveryFix | EvaluationMode::Crossing => Self::Stepped,
        }
    }
}

/// How an object that is not outside stands to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipState {
    /// Inside, and no member yet.
    Entering {
        /// The clock since when.
        since_ms: i64,
    },
    /// A member.
    Member {
        /// The clock since when it does not keep its place, if it does not.
        leaving_since_ms: Option<i64>,
        /// The clock of its last `Enter`, `Present` or `Move`.
        reported_ms: i64,
        /// Where it last was inside.
        inside_at: (i32, i32),
    },
}

impl MembershipState {
    /// Of a member that is inside there.
    #[must_use]
    pub fn member(clock_ms: i64, inside_at: (i32, i32)) -> Self {
        Self::Member { leaving_since_ms: None, reported_ms: clock_ms, inside_at }
    }

    /// Whether it is one of a member.
    #[must_use]
    pub fn is_member(&self) -> bool {
        matches!(self, Self::Member { .. })
    }
}

/// The cycle in which a look is taken.
#[derive(Clone, Copy, Debug)]
pub struct CycleTime<'a> {
    /// Where.
    pub space: &'a Space,
    /// The cycle's clock.
    pub clock_ms: i64,
    /// Its last whole second.
    pub tick_ms: i64,
}

impl<'a> CycleTime<'a> {
    /// Of a cycle with this clock.
    #[must_use]
    pub fn new(space: &'a Space, clock_ms: i64) -> Self {
        Self { space, clock_ms, tick_ms: tick_ms(clock_ms) }
    }
}

/// What a look sees of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// Its record.
    Live {
        /// As it is.
        row: FixRow,
        /// It was written in this cycle.
        is_written: bool,
    },
    /// It is gone.
    Gone {
        /// Its last record.
        row: FixRow,
        /// Why.
        reason: EventKind,
    },
}

impl Observation {
    /// The record of an object, the last one when it is gone.
    #[must_use]
    pub fn row(&self) -> &FixRow {
        let (Self::Live { row, .. } | Self::Gone { row, .. }) = self;
        row
    }
}

/// What became of a stand, and what happened.
pub type Transition = (Option<MembershipState>, Option<EventKind>);

/// Takes a look at an object that stood like this, or was outside.
#[must_use]
pub fn look(
    of: &Subscription,
    now: &CycleTime<'_>,
    before: Option<MembershipState>,
    look: &Observation,
) -> Transition {
    match (before, look) {
        (before, Observation::Gone { reason, .. }) => {
            (None, before.filter(MembershipState::is_member).map(|_| *reason))
        }
        (None, Observation::Live { row, .. }) => enter(of, now, now.clock_ms, row),
        (Some(MembershipState::Entering { since_ms }), Observation::Live { row, .. }) => {
            enter(of, now, since_ms, row)
        }
        (
            Some(MembershipState::Member { leaving_since_ms, reported_ms, inside_at }),
            Observation::Live { row, is_written },
        ) => {
            let mut leaving = None;
            let is_inside = of.holds(row, now.tick_ms);
            if !is_inside && !keeps(of, now, inside_at, row) {
                let since_ms = leaving_since_ms.unwrap_or(now.clock_ms);
                if now.clock_ms - since_ms >= i64::from(of.leave_dwell_ms) {
                    return (None, Some(exit_kind(of, row)));
                }
                leaving = Some(since_ms);
            }
            let is_due = now.clock_ms - reported_ms >= i64::from(of.move_interval_ms);
            let is_told = *is_written && is_due;
            let stand = MembershipState::Member {
                leaving_since_ms: leaving,
                reported_ms: if is_told { now.clock_ms } else { reported_ms },
                inside_at: if is_inside { (row.x, row.y) } else { inside_at },
            };
            (Some(stand), is_told.then_some(EventKind::Move))
        }
    }
}

/// Why a record that is there is not inside.
#[must_use]
pub fn exit_kind(of: &Subscription, row: &FixRow) -> EventKind {
    if of.region.contains(row.x, row.y) { EventKind::Filtered } else { EventKind::Left }
}

fn enter(of: &Subscription, now: &CycleTime<'_>, since_ms: i64, row: &FixRow) -> Transition {
    if !of.holds(row, now.tick_ms) {
        (None, None)
    } else if now.clock_ms - since_ms >= i64::from(of.enter_dwell_ms) {
        (Some(MembershipState::member(now.clock_ms, (row.x, row.y))), Some(EventKind::Enter))
    } else {
        (Some(MembershipState::Entering { since_ms }), None)
    }
}

/// Whether a member that is not inside keeps its place: it is near enough to where it last was.
fn keeps(of: &Subscription, now: &CycleTime<'_>, inside_at: (i32, i32), row: &FixRow) -> bool {
    let is_near = |rank_max: u64| {
        Ranker::new(now.space, inside_at.0, inside_at.1).rank(row.x, row.y) <= rank_max
    };
    of.hysteresis_rank_max.is_some_and(is_near) && of.passes(row, now.tick_ms)
}

/// Takes a member of the region before its change, last inside there, over into the changed one;
/// [`look`] is for those who were none.
#[must_use]
pub fn transfer_member(
    of: &Subscription,
    now: &CycleTime<'_>,
    inside_at: (i32, i32),
    look: &Observation,
) -> Transition {
    match look {
        Observation::Gone { reason, .. } => (None, Some(*reason)),
        Observation::Live { row, is_written } => {
            let is_inside = of.holds(row, now.tick_ms);
            if !is_inside && !keeps(of, now, inside_at, row) {
                return (None, Some(EventKind::RegionChanged));
            }
            let inside_at = if is_inside { (row.x, row.y) } else { inside_at };
            let stand = MembershipState::member(now.clock_ms, inside_at);
            (Some(stand), is_written.then_some(EventKind::Move))
        }
    }
}

/// The earliest clock at which time alone may change a stand.
#[must_use]
pub fn due_ms(of: &Subscription, stand: &MembershipState, row: &FixRow) -> Option<i64> {
    let lapse_ms = || {
        let last_ms = row.time_ms.checked_add(of.age_max_ms()?)?;
        tick_ms(last_ms).checked_add(1_000)
    };
    match stand {
        MembershipState::Entering { since_ms } => {
            let dwell_ms = since_ms.saturating_add(of.enter_dwell_ms.into());
            Some(lapse_ms().map_or(dwell_ms, |lapse_ms| lapse_ms.min(dwell_ms)))
        }
        MembershipState::Member { leaving_since_ms: Some(since_ms), .. } => {
            Some(since_ms.saturating_add(of.leave_dwell_ms.into()))
        }
        MembershipState::Member { .. } => lapse_ms(),
    }
}

/// What arrived for one object and was neither refused nor late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObjectChange {
    /// A row.
    Row(FixRow),
    /// Its life ended, by [`EventKind::Removed`] or [`EventKind::Cleared`].
    End(EventKind),
}

/// One step of an object: the record before it, and the look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The record before it in the same life.
    pub before: Option<FixRow>,
    /// What is there now.
    pub look: Observation,
}

/// Cuts a cycle's rows of one object into steps. `before` is its record at the start of the cycle,
/// `arrived` in order of arrival, which is lost, `expired` its record if it went by age at the end.
pub fn split_into_steps(
    before: Option<FixRow>,
    arrived: &mut [ObjectChange],
    expired: Option<FixRow>,
    steps: &mut Vec<Step>,
) {
    steps.clear();
    let mut record = before;
    for life in arrived.split_inclusive_mut(|arrived| matches!(arrived, ObjectChange::End(_))) {
        // Stable: at equal time the later arrival is the later step. The end stays the last.
        life.sort_by_key(|arrived| match arrived {
            ObjectChange::Row(row) => row.time_ms,
            ObjectChange::End(_) => i64::MAX,
        });
        for arrived in life {
            match *arrived {
                ObjectChange::Row(row) => {
                    if record != Some(row) {
                        let look = Observation::Live { row, is_written: true };
                        steps.push(Step { before: record, look });
                    }
                    record = Some(row);
                }
                ObjectChange::End(reason) => {
                    if let Some(row) = record {
                        let look = Observation::Gone { row, reason };
                        steps.push(Step { before: record, look });
                    }
                    record = None;
                }
            }
        }
    }
    if let Some(row) = expired {
        let look = Observation::Gone { row, reason: EventKind::Expired };
        steps.push(Step { before: record, look });
    } else if let Some(row) = record
        && steps.is_empty()
    {
        steps.push(Step { before: record, look: Observation::Live { row, is_written: false } });
    }
}

/// Takes a step of an object that stood like this, or was outside: the look at it, and whether the
/// step cut the region.
#[must_use]
pub fn apply_step(
    of: &Subscription,
    now: &CycleTime<'_>,
    before: Option<MembershipState>,
    step: &Step,
) -> Transition {
    let (after, event) = look(of, now, before, &step.look);
    let is_member = before.iter().chain(&after).any(MembershipState::is_member);
    let crossing = || is_crossing(of, now, step, is_member).then_some(EventKind::Cross);
    (after, event.or_else(crossing))
}

/// Whether a step from outside to outside cut the region: `is_member` before or after it.
fn is_crossing(of: &Subscription, now: &CycleTime<'_>, step: &Step, is_member: bool) -> bool {
    let (Some(before), Observation::Live { row, .. }) = (step.before, &step.look) else {
        return false;
    };
    of.judging == EvaluationMode::Crossing
        && !is_member
        && !of.region.contains(before.x, before.y)
        && !of.region.contains(row.x, row.y)
        && of.passes(row, now.tick_ms)
        && of.region.is_cut(now.space, (before.x, before.y), (row.x, row.y))
}
