//! Continuous queries of the model: each keeps the state of every object that is not outside, and
//! observes every object that a cycle modified or that has a state.
//!
//! It follows the contract of [`crate::Backend`] clause by clause. A query without dwell and
//! hysteresis is no special case.

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::FixRow;

use crate::backend::EngineOptions;
use crate::events::{EventSet, EventWriter};
use crate::rank::Ranker;
use crate::space::Space;
use crate::subscription::{
    EvaluationMode, EventKind, RegionId, Subscription, SubscriptionChange, tick_ms,
};

/// A change of one object during a cycle: a row, or the end of the object's life.
#[derive(Clone, Copy, Debug)]
pub(super) enum ObjectChange {
    /// A row that was neither refused nor late.
    Row(FixRow),
    /// Its life ended, by [`EventKind::Removed`] or [`EventKind::Cleared`].
    End(EventKind),
}

/// What a cycle does to one object.
#[derive(Clone, Debug)]
pub(super) struct ModifiedObject {
    /// Its record before the cycle.
    before: Option<FixRow>,
    /// The record that rows compete with; none once a removal or clear has arrived.
    pub(super) start: Option<FixRow>,
    /// Whether it exists at this point of the order of arrival.
    pub(super) exists: bool,
    /// The winner so far of the rows since the last removal, and its request.
    pub(super) winner: Option<(usize, FixRow)>,
    /// Its changes, in order of arrival.
    pub(super) arrived: Vec<ObjectChange>,
    /// A row was applied.
    pub(super) is_written: bool,
    /// Its record, if that expired at the end of the cycle.
    pub(super) expired: Option<FixRow>,
}

impl ModifiedObject {
    /// An object with this record before the cycle, not modified yet.
    pub(super) fn new(record: Option<FixRow>) -> Self {
        Self {
            before: record,
            start: record,
            exists: record.is_some(),
            winner: None,
            arrived: Vec::new(),
            is_written: false,
            expired: None,
        }
    }
}

/// The state of an object that is not outside.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MembershipState {
    Entering { since_ms: i64 },
    Member { leaving_since_ms: Option<i64>, reported_ms: i64, inside_at: (i32, i32) },
}

#[derive(Clone, Debug)]
struct ContinuousQuery {
    subscription: Box<Subscription>,
    states: BTreeMap<u64, MembershipState>,
}

/// An object at the moment of its evaluation.
#[derive(Clone, Copy)]
enum Observation {
    /// Its record, and whether this cycle wrote it.
    Live(FixRow, bool),
    /// Its last record, and what ended its life.
    Gone(FixRow, EventKind),
}

/// The cycle of an evaluation.
#[derive(Clone, Copy)]
struct CycleTime<'a> {
    space: &'a Space,
    clock_ms: i64,
    tick_ms: i64,
}

/// All continuous queries of a fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct ContinuousQueries {
    queries: BTreeMap<RegionId, ContinuousQuery>,
}

/// The changes of a cycle that concern one query.
#[derive(Default)]
struct QueryChange {
    /// The query before the cycle, unless it is new.
    old: Option<ContinuousQuery>,
    is_set: bool,
    is_snapshot: bool,
}

/// Events of one query, by object.
type Events = Vec<(EventKind, FixRow)>;

/// The state after an observation, and the event.
type Transition = (Option<MembershipState>, Option<EventKind>);

impl ContinuousQueries {
    pub(super) fn len(&self) -> usize {
        self.queries.len()
    }

    pub(super) fn contains(&self, region: RegionId) -> bool {
        self.queries.contains_key(&region)
    }

    /// Sets the queries again whose memberships depend on the clock.
    pub(super) fn begun_anew(&self) -> Vec<SubscriptionChange> {
        let queries = self.queries.iter().map(|(region, query)| (*region, &query.subscription));
        let lasting = queries.filter(|(_, subscription)| subscription.depends_on_clock());
        lasting
            .map(|(region, subscription)| SubscriptionChange::set(region, subscription))
            .collect()
    }

    /// Applies the changes of a cycle and returns its events.
    pub(super) fn cycle(
        &mut self,
        options: &EngineOptions,
        clock_ms: i64,
        changes: Vec<SubscriptionChange>,
        modified: &BTreeMap<u64, ModifiedObject>,
        records: &BTreeMap<u64, FixRow>,
    ) -> EventSet {
        let now = CycleTime { space: &options.space, clock_ms, tick_ms: tick_ms(clock_ms) };
        let mut changes = self.change(changes);
        let mut writer = EventWriter::new(options.events_max);
        for (id, query) in &mut self.queries {
            let change = changes.remove(id).unwrap_or_default();
            let mut events = match (change.is_set, change.old) {
                (false, _) => query.evaluate(now, modified, records),
                (true, Some(old)) => query.replace(now, &old, modified, records),
                (true, None) => query.start(now, records),
            };
            events.retain(|(kind, _)| query.subscription.wanted.reports(*kind));
            if change.is_snapshot {
                events = query.snapshot(clock_ms, records);
            }
            writer.region(*id, change.is_snapshot, query.subscription.with_fixes, &events);
        }
        writer.finish()
    }

    /// Sets and removes queries; returns the changes of those that remain.
    fn change(&mut self, changes: Vec<SubscriptionChange>) -> BTreeMap<RegionId, QueryChange> {
        let mut changed: BTreeMap<RegionId, QueryChange> = BTreeMap::new();
        for change in changes {
            match change {
                SubscriptionChange::Set { region, subscription, is_snapshot_wanted } => {
                    let query = ContinuousQuery { subscription, states: BTreeMap::new() };
                    let before = self.queries.insert(region, query);
                    let change = changed.entry(region).or_default();
                    if !change.is_set {
                        change.old = before;
                    }
                    change.is_set = true;
                    change.is_snapshot |= is_snapshot_wanted;
                }
                SubscriptionChange::Snapshot(region) if self.contains(region) => {
                    changed.entry(region).or_default().is_snapshot = true;
                }
                SubscriptionChange::Snapshot(_) => {}
                SubscriptionChange::Remove(region) => {
                    self.queries.remove(&region);
                    changed.remove(&region);
                }
            }
        }
        changed
    }

    /// The earliest clock at which time alone may cause an event.
    pub(super) fn due_ms(&self, records: &BTreeMap<u64, FixRow>) -> Option<i64> {
        let dues = self.queries.values().flat_map(|ContinuousQuery { subscription, states }| {
            states.iter().filter_map(|(object, state)| match state {
                MembershipState::Entering { since_ms } => {
                    Some(since_ms.saturating_add(subscription.enter_dwell_ms.into()))
                }
                MembershipState::Member { leaving_since_ms: Some(since_ms), .. } => {
                    Some(since_ms.saturating_add(subscription.leave_dwell_ms.into()))
                }
                MembershipState::Member { .. } => {
                    // The first tick at which the record is older than allowed.
                    let time_ms = records.get(object)?.time_ms;
                    let last_ms = time_ms.checked_add(subscription.age_max_ms()?)?;
                    tick_ms(last_ms).checked_add(1_000)
                }
            })
        });
        dues.min()
    }
}

impl ContinuousQuery {
    /// Evaluates a query that was not changed.
    fn evaluate(
        &mut self,
        now: CycleTime<'_>,
        modified: &BTreeMap<u64, ModifiedObject>,
        records: &BTreeMap<u64, FixRow>,
    ) -> Events {
        let mut events = Vec::new();
        let objects: BTreeSet<u64> = modified.keys().chain(self.states.keys()).copied().collect();
        for object in objects {
            match modified.get(&object) {
                Some(change) if self.subscription.evaluation_mode != EvaluationMode::Cycle => {
                    self.steps(now, object, change, &mut events);
                }
                change => {
                    if let Some(observed) = Observation::last(change, records.get(&object)) {
                        self.observe(now, object, observed, &mut events);
                    }
                }
            }
        }
        events
    }

    /// Evaluates every row of one object.
    fn steps(
        &mut self,
        now: CycleTime<'_>,
        object: u64,
        change: &ModifiedObject,
        events: &mut Events,
    ) {
        let mut record = change.before;
        let mut rows = Vec::new();
        let mut is_observed = false;
        for arrived in change.arrived.iter().map(Some).chain([None]) {
            if let Some(ObjectChange::Row(row)) = arrived {
                rows.push(*row);
                continue;
            }
            // Stable: at equal time the later arrival is the later one.
            rows.sort_by_key(|row| row.time_ms);
            for row in rows.drain(..) {
                if record != Some(row) {
                    self.step(now, object, record, row, events);
                    is_observed = true;
                }
                record = Some(row);
            }
            if let (Some(ObjectChange::End(reason)), Some(last)) = (arrived, record) {
                self.observe(now, object, Observation::Gone(last, *reason), events);
                record = None;
            }
        }
        match (change.expired, record) {
            (Some(last), _) => {
                self.observe(now, object, Observation::Gone(last, EventKind::Expired), events);
            }
            (None, Some(record)) if !is_observed => {
                self.observe(now, object, Observation::Live(record, false), events);
            }
            _ => {}
        }
    }

    /// Evaluates one row after the record before it.
    fn step(
        &mut self,
        now: CycleTime<'_>,
        object: u64,
        before: Option<FixRow>,
        row: FixRow,
        events: &mut Events,
    ) {
        let was_member = self.is_member(object);
        self.observe(now, object, Observation::Live(row, true), events);
        let Subscription { region, evaluation_mode, .. } = &*self.subscription;
        if let Some(before) = before
            && *evaluation_mode == EvaluationMode::Crossing
            && !was_member
            && !self.is_member(object)
            && !region.contains(before.x, before.y)
            && !region.contains(row.x, row.y)
            && region.is_cut(now.space, (before.x, before.y), (row.x, row.y))
            && self.subscription.passes(&row, now.tick_ms)
        {
            events.push((EventKind::Cross, row));
        }
    }

    fn is_member(&self, object: u64) -> bool {
        matches!(self.states.get(&object), Some(MembershipState::Member { .. }))
    }

    /// Evaluates one observation of an object.
    fn observe(
        &mut self,
        now: CycleTime<'_>,
        object: u64,
        observed: Observation,
        events: &mut Events,
    ) {
        use MembershipState::{Entering, Member};
        let before = self.states.get(&object).copied();
        let (row, (state, event)) = match (observed, before) {
            (Observation::Gone(row, reason), Some(Member { .. })) => (row, (None, Some(reason))),
            (Observation::Gone(row, _), _) => (row, (None, None)),
            (Observation::Live(row, is_written), Some(state @ Member { .. })) => {
                (row, self.remain(now, state, &row, is_written))
            }
            (Observation::Live(row, _), Some(Entering { since_ms })) => {
                (row, self.enter(now, since_ms, &row))
            }
            (Observation::Live(row, _), None) => (row, self.enter(now, now.clock_ms, &row)),
        };
        match state {
            Some(state) => self.states.insert(object, state),
            None => self.states.remove(&object),
        };
        events.extend(event.map(|kind| (kind, row)));
    }

    /// The transition of an object that is no member and has been inside since `since_ms`.
    fn enter(&self, now: CycleTime<'_>, since_ms: i64, row: &FixRow) -> Transition {
        if !self.subscription.holds(row, now.tick_ms) {
            (None, None)
        } else if now.clock_ms - since_ms >= i64::from(self.subscription.enter_dwell_ms) {
            (Some(member(now, (row.x, row.y))), Some(EventKind::Enter))
        } else {
            (Some(MembershipState::Entering { since_ms }), None)
        }
    }

    /// The transition of a member.
    fn remain(
        &self,
        now: CycleTime<'_>,
        state: MembershipState,
        row: &FixRow,
        is_written: bool,
    ) -> Transition {
        let MembershipState::Member { leaving_since_ms, reported_ms, inside_at } = state else {
            unreachable!("a member remains");
        };
        let subscription = &self.subscription;
        let mut leaving = None;
        if !self.keeps(now, inside_at, row) {
            let since_ms = leaving_since_ms.unwrap_or(now.clock_ms);
            if now.clock_ms - since_ms >= i64::from(subscription.leave_dwell_ms) {
                let is_outside = !subscription.region.contains(row.x, row.y);
                let kind = if is_outside { EventKind::Left } else { EventKind::Filtered };
                return (None, Some(kind));
            }
            leaving = Some(since_ms);
        }
        // The clock may have been set back.
        let is_due = subscription.move_interval_ms == 0
            || now.clock_ms - reported_ms >= i64::from(subscription.move_interval_ms);
        let is_reported = is_written && is_due;
        let state = MembershipState::Member {
            leaving_since_ms: leaving,
            reported_ms: if is_reported { now.clock_ms } else { reported_ms },
            inside_at: self.inside_at(now, inside_at, row),
        };
        (Some(state), is_reported.then_some(EventKind::Move))
    }

    /// Where a member last was inside.
    fn inside_at(&self, now: CycleTime<'_>, before: (i32, i32), row: &FixRow) -> (i32, i32) {
        if self.subscription.holds(row, now.tick_ms) { (row.x, row.y) } else { before }
    }

    /// True if a member that was last inside at `inside_at` holds its membership.
    fn keeps(&self, now: CycleTime<'_>, inside_at: (i32, i32), row: &FixRow) -> bool {
        let subscription = &self.subscription;
        let is_near = |rank_max: u64| {
            Ranker::new(now.space, inside_at.0, inside_at.1).rank(row.x, row.y) <= rank_max
        };
        subscription.holds(row, now.tick_ms)
            || (subscription.hysteresis_rank_max.is_some_and(is_near)
                && subscription.passes(row, now.tick_ms))
    }

    /// Starts a changed query with the members of the one before the cycle.
    fn replace(
        &mut self,
        now: CycleTime<'_>,
        old: &Self,
        modified: &BTreeMap<u64, ModifiedObject>,
        records: &BTreeMap<u64, FixRow>,
    ) -> Events {
        let mut events = Vec::new();
        let objects: BTreeSet<u64> = records.keys().chain(old.states.keys()).copied().collect();
        for object in objects {
            let observed = Observation::last(modified.get(&object), records.get(&object));
            let inside_at = match old.states.get(&object) {
                Some(MembershipState::Member { inside_at, .. }) => Some(*inside_at),
                _ => None,
            };
            match (observed, inside_at) {
                (Some(Observation::Gone(row, reason)), Some(_)) => events.push((reason, row)),
                (Some(Observation::Live(row, is_written)), Some(inside_at)) => {
                    if self.keeps(now, inside_at, &row) {
                        let inside_at = self.inside_at(now, inside_at, &row);
                        self.states.insert(object, member(now, inside_at));
                        events.extend(is_written.then_some((EventKind::Move, row)));
                    } else {
                        events.push((EventKind::RegionChanged, row));
                    }
                }
                (Some(Observation::Live(row, _)), None)
                    if self.subscription.holds(&row, now.tick_ms) =>
                {
                    self.states.insert(object, member(now, (row.x, row.y)));
                    events.push((EventKind::Enter, row));
                }
                _ => {}
            }
        }
        events
    }

    /// Starts a new query: everything inside is a member, without events.
    fn start(&mut self, now: CycleTime<'_>, records: &BTreeMap<u64, FixRow>) -> Events {
        let inside = records.iter().filter(|(_, row)| self.subscription.holds(row, now.tick_ms));
        self.states = inside.map(|(object, row)| (*object, member(now, (row.x, row.y)))).collect();
        Vec::new()
    }

    /// Reports all members as `Present`.
    fn snapshot(&mut self, clock_ms: i64, records: &BTreeMap<u64, FixRow>) -> Events {
        let mut events = Vec::new();
        for (object, state) in &mut self.states {
            if let MembershipState::Member { reported_ms, .. } = state {
                *reported_ms = clock_ms;
                events.push((EventKind::Present, records[object]));
            }
        }
        events
    }
}

fn member(now: CycleTime<'_>, inside_at: (i32, i32)) -> MembershipState {
    MembershipState::Member { leaving_since_ms: None, reported_ms: now.clock_ms, inside_at }
}

impl Observation {
    /// An object after the cycle, given its record; `None` if its whole life lay in the cycle.
    fn last(change: Option<&ModifiedObject>, record: Option<&FixRow>) -> Option<Self> {
        if let Some(row) = record {
            return Some(Self::Live(*row, change.is_some_and(|change| change.is_written)));
        }
        let change = change?;
        if let Some(row) = change.expired {
            return Some(Self::Gone(row, EventKind::Expired));
        }
        let reason = change.arrived.iter().rev().find_map(|arrived| match arrived {
            ObjectChange::End(reason) => Some(*reason),
            ObjectChange::Row(_) => None,
        });
        Some(Self::Gone(change.before?, reason?))
    }
}
