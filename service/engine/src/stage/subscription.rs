//! The state machine of continuous queries, and how a cycle's rows become its steps.
//!
//! The rules of [`crate::Backend`] as pure functions that every fast backend shares. A backend
//! chooses the queries to evaluate and stores the membership states.

use shoal_codec::FixRow;

use crate::rank::Ranker;
use crate::space::Space;
use crate::subscription::{EvaluationMode, EventKind, Subscription, tick_ms};

/// How a continuous query is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The record before the cycle and the one after it decide.
    Plain,
    /// As `Plain`, step by step over all rows.
    Stepped,
    /// Its objects have membership states that last from cycle to cycle.
    Stateful,
}

impl Class {
    /// The class of a subscription. A filter of age makes it stateful, because time alone may end a
    /// membership. A move interval makes it stateful if moves are wanted.
    #[must_use]
    pub fn of(subscription: &Subscription) -> Self {
        let is_stateful =
            subscription.depends_on_clock() || subscription.hysteresis_rank_max.is_some();
        match subscription.evaluation_mode {
            _ if is_stateful => Self::Stateful,
            EvaluationMode::Cycle => Self::Plain,
            EvaluationMode::EveryFix | EvaluationMode::Crossing => Self::Stepped,
        }
    }
}

/// The state of an object in a region; an object that is outside has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipState {
    /// Inside, not yet a member.
    Entering {
        /// The clock at which it was first inside.
        since_ms: i64,
    },
    /// A member.
    Member {
        /// The clock at which it stopped holding its membership; `None` while it holds it.
        leaving_since_ms: Option<i64>,
        /// The clock of its last `Enter`, `Present` or `Move`.
        reported_ms: i64,
        /// Where it last was inside.
        inside_at: (i32, i32),
    },
}

impl MembershipState {
    /// A member that is inside at a position, reported at this clock.
    #[must_use]
    pub fn member(clock_ms: i64, inside_at: (i32, i32)) -> Self {
        Self::Member { leaving_since_ms: None, reported_ms: clock_ms, inside_at }
    }

    /// Whether the object is a member.
    #[must_use]
    pub fn is_member(&self) -> bool {
        matches!(self, Self::Member { .. })
    }
}

/// Space and clock of the cycle that evaluates.
#[derive(Clone, Copy, Debug)]
pub struct CycleTime<'a> {
    /// The fleet's space.
    pub space: &'a Space,
    /// The cycle's clock.
    pub clock_ms: i64,
    /// Its last whole second.
    pub tick_ms: i64,
}

impl<'a> CycleTime<'a> {
    /// The time of a cycle with this clock.
    #[must_use]
    pub fn new(space: &'a Space, clock_ms: i64) -> Self {
        Self { space, clock_ms, tick_ms: tick_ms(clock_ms) }
    }
}

/// An object as an evaluation finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// It exists.
    Live {
        /// Its record.
        row: FixRow,
        /// Whether this cycle wrote the record.
        is_written: bool,
    },
    /// It does not exist any more.
    Gone {
        /// Its last record.
        row: FixRow,
        /// The event kind that ended its life.
        reason: EventKind,
    },
}

impl Observation {
    /// The record, the last one of an object that is gone.
    #[must_use]
    pub fn row(&self) -> &FixRow {
        let (Self::Live { row, .. } | Self::Gone { row, .. }) = self;
        row
    }
}

/// The state after an evaluation, and its event.
pub type Transition = (Option<MembershipState>, Option<EventKind>);

/// Evaluates an object whose state was `before`; `None` means outside.
#[must_use]
pub fn transition(
    of: &Subscription,
    now: &CycleTime<'_>,
    before: Option<MembershipState>,
    observation: &Observation,
) -> Transition {
    match (before, observation) {
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
            if !is_inside && !is_retained(of, now, inside_at, row) {
                let since_ms = leaving_since_ms.unwrap_or(now.clock_ms);
                if now.clock_ms - since_ms >= i64::from(of.leave_dwell_ms) {
                    return (None, Some(exit_kind(of, row)));
                }
                leaving = Some(since_ms);
            }
            // The clock may have been set back.
            let is_due = of.move_interval_ms == 0
                || now.clock_ms - reported_ms >= i64::from(of.move_interval_ms);
            let is_reported = *is_written && is_due;
            let state = MembershipState::Member {
                leaving_since_ms: leaving,
                reported_ms: if is_reported { now.clock_ms } else { reported_ms },
                inside_at: if is_inside { (row.x, row.y) } else { inside_at },
            };
            (Some(state), is_reported.then_some(EventKind::Move))
        }
    }
}

/// Why a live record is not inside.
fn exit_kind(of: &Subscription, row: &FixRow) -> EventKind {
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

/// Whether hysteresis retains a member that is not inside, because it is near the position where it
/// last was inside.
fn is_retained(
    of: &Subscription,
    now: &CycleTime<'_>,
    inside_at: (i32, i32),
    row: &FixRow,
) -> bool {
    let is_near = |rank_max: u64| {
        Ranker::new(now.space, inside_at.0, inside_at.1).rank(row.x, row.y) <= rank_max
    };
    of.hysteresis_rank_max.is_some_and(is_near) && of.passes(row, now.tick_ms)
}

/// Evaluates a member of a changed region under the new subscription. `inside_at` is where the
/// member last was inside the old region.
#[must_use]
pub fn transfer_member(
    of: &Subscription,
    now: &CycleTime<'_>,
    inside_at: (i32, i32),
    observation: &Observation,
) -> Transition {
    match observation {
        Observation::Gone { reason, .. } => (None, Some(*reason)),
        Observation::Live { row, is_written } => {
            let is_inside = of.holds(row, now.tick_ms);
            if !is_inside && !is_retained(of, now, inside_at, row) {
                return (None, Some(EventKind::RegionChanged));
            }
            let inside_at = if is_inside { (row.x, row.y) } else { inside_at };
            let state = MembershipState::member(now.clock_ms, inside_at);
            (Some(state), is_written.then_some(EventKind::Move))
        }
    }
}

/// The earliest clock at which time alone may change a state.
#[must_use]
pub fn due_ms(of: &Subscription, state: &MembershipState, row: &FixRow) -> Option<i64> {
    let lapse_ms = || {
        let last_ms = row.time_ms.checked_add(of.age_max_ms()?)?;
        tick_ms(last_ms).checked_add(1_000)
    };
    match state {
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

/// A change of one object that was neither refused nor late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObjectChange {
    /// A row.
    Row(FixRow),
    /// The end of its life, by [`EventKind::Removed`] or [`EventKind::Cleared`].
    End(EventKind),
}

/// One step of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The record before it in the same life.
    pub before: Option<FixRow>,
    /// The object after it.
    pub observation: Observation,
}

/// Splits a cycle's changes of one object into steps. `before` is its record at the start of the
/// cycle. `changes` are in order of arrival and are reordered. `expired` is the record that
/// exceeded the TTL at the end of the cycle, if one did.
pub fn split_into_steps(
    before: Option<FixRow>,
    changes: &mut [ObjectChange],
    expired: Option<FixRow>,
    steps: &mut Vec<Step>,
) {
    steps.clear();
    let mut record = before;
    let mut push = |before: Option<FixRow>, observation: Observation| {
        steps.push(Step { before, observation });
    };
    for life in changes.split_inclusive_mut(|change| matches!(change, ObjectChange::End(_))) {
        // Stable: at equal time the later arrival is the later step. The end stays last.
        life.sort_by_key(|change| match change {
            ObjectChange::Row(row) => row.time_ms,
            ObjectChange::End(_) => i64::MAX,
        });
        for change in life {
            match *change {
                ObjectChange::Row(row) => {
                    if record != Some(row) {
                        push(record, Observation::Live { row, is_written: true });
                    }
                    record = Some(row);
                }
                ObjectChange::End(reason) => {
                    if let Some(row) = record {
                        push(record, Observation::Gone { row, reason });
                    }
                    record = None;
                }
            }
        }
    }
    if let Some(row) = expired {
        push(record, Observation::Gone { row, reason: EventKind::Expired });
    } else if let Some(row) = record
        && steps.is_empty()
    {
        let observation = Observation::Live { row, is_written: false };
        steps.push(Step { before: record, observation });
    }
}

/// Evaluates a step of an object in this state: its transition, and whether it crossed the region.
#[must_use]
pub fn apply_step(
    of: &Subscription,
    now: &CycleTime<'_>,
    before: Option<MembershipState>,
    step: &Step,
) -> Transition {
    let (after, event) = transition(of, now, before, &step.observation);
    let is_member = before.iter().chain(&after).any(MembershipState::is_member);
    let crossing = || is_crossing(of, now, step, is_member).then_some(EventKind::Cross);
    (after, event.or_else(crossing))
}

/// Whether a step is a [`EventKind::Cross`]. `is_member` is true if the object is a member before
/// or after the step.
fn is_crossing(of: &Subscription, now: &CycleTime<'_>, step: &Step, is_member: bool) -> bool {
    let (Some(before), Observation::Live { row, .. }) = (step.before, &step.observation) else {
        return false;
    };
    of.evaluation_mode == EvaluationMode::Crossing
        && !is_member
        && !of.region.contains(before.x, before.y)
        && !of.region.contains(row.x, row.y)
        && of.passes(row, now.tick_ms)
        && of.region.is_cut(now.space, (before.x, before.y), (row.x, row.y))
}

/// Evaluates an object for a cycle, by its [`EvaluationMode`]: `observation` after the cycle
/// (`None` where the cycle left it alone) or all `steps`. Calls `emit` with every event and its
/// record; returns the state after the cycle.
#[must_use]
pub fn evaluate(
    of: &Subscription,
    now: &CycleTime<'_>,
    mut state: Option<MembershipState>,
    observation: Option<&Observation>,
    steps: &[Step],
    mut emit: impl FnMut(EventKind, &FixRow),
) -> Option<MembershipState> {
    if of.evaluation_mode == EvaluationMode::Cycle {
        if let Some(observation) = observation {
            let (after, event) = transition(of, now, state, observation);
            event.into_iter().for_each(|kind| emit(kind, observation.row()));
            state = after;
        }
        return state;
    }
    for step in steps {
        let (after, event) = apply_step(of, now, state, step);
        event.into_iter().for_each(|kind| emit(kind, step.observation.row()));
        state = after;
    }
    state
}
