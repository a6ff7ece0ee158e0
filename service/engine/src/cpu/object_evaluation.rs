//! Evaluates the queries that examine every fix or have membership states, object by object.
//!
//! For each modified object, evaluates the queries in which it has a membership and those indexed
//! in the cells of its positions; then the memberships that time alone may have changed. The rules
//! are in `stage/subscription.rs`.

use shoal_codec::{Attributes, FixRow};

use super::motion::{
    Arrival, ArrivedChange, Event, EventContext, Motion, MotionOutcome, ShardEvents, fix_of,
};
use super::prefetch;
use super::query_table::{Position, QueryHead, Role};
use super::shard::Shard;
use crate::stage::subscription::{
    Class, MembershipState, ObjectChange, Observation, Step, evaluate, split_into_steps, transition,
};
use crate::subscription::{EvaluationMode, EventKind};

/// Number of objects ahead for which lists are prefetched; cells are prefetched twice as far ahead,
/// queries half as far.
const AHEAD: usize = 8;
/// Queries of one cell that are prefetched.
const PREFETCHED: usize = 16;

/// The inputs of the evaluation of a shard's objects.
#[derive(Clone, Copy)]
pub(super) struct ObjectEvaluation<'a> {
    pub(super) context: &'a EventContext<'a>,
    pub(super) shard: &'a Shard,
}

/// Lists that are reused from object to object.
#[derive(Default)]
struct Scratch {
    changes: Vec<ObjectChange>,
    steps: Vec<Step>,
    queries: Vec<u32>,
}

/// One object while its queries are evaluated.
struct Object<'a> {
    place: usize,
    motion: &'a Motion,
    before: Option<FixRow>,
    after: Observation,
    steps: &'a [Step],
}

/// The queries that a pass evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// All queries that are evaluated object by object.
    First,
    /// Only those without membership states, a second time.
    Again,
}

impl ObjectEvaluation<'_> {
    /// Evaluates all objects of a cycle; `emit` takes every event that is wanted.
    pub(super) fn run(
        &self,
        output: &mut ShardEvents,
        pass: Pass,
        emit: &mut impl FnMut(&mut ShardEvents, Event, Class),
    ) {
        let mut scratch = Scratch::default();
        let motions = std::mem::take(&mut output.motions);
        let mut arrivals = std::mem::take(&mut output.arrivals);
        // Stable: an object's changes keep their order of arrival.
        arrivals.sort_by_key(|arrival| arrival.place);
        for (place, motion) in motions.iter().enumerate() {
            self.prefetch(output, &motions, place);
            let before = output.befores.get(place).copied().filter(|_| motion.existed);
            let after = self.shard.observe(motion);
            scratch.steps.clear();
            if self.context.queries.has_every_fix() {
                self.split(output.places[place], motion, before, &arrivals, &mut scratch);
            }
            let Scratch { steps, queries, .. } = &mut scratch;
            queries.clear();
            queries.extend(output.members.of_object(motion.slot).map(|entry| entry.query));
            let from = motion.existed.then_some(motion.from);
            let positions = [motion.to].into_iter().chain(from);
            self.context.queries.queries_near(self.context.now.space, positions, steps, queries);
            let object = Object { place, motion, before, after, steps };
            for query in queries {
                self.query(output, &object, *query, pass, emit);
            }
        }
        (output.motions, output.arrivals) = (motions, arrivals);
    }

    /// Evaluates the memberships that time alone may have changed.
    pub(super) fn run_due(
        &self,
        output: &mut ShardEvents,
        emit: &mut impl FnMut(&mut ShardEvents, Event, Class),
    ) {
        let EventContext { queries, now, .. } = self.context;
        while let Some(due) = output.members.pop_due(now.clock_ms) {
            let head = queries.head(due.query);
            if matches!(head.role, Role::Changed | Role::Removed) {
                continue;
            }
            let of = &queries.get(due.query).subscription;
            let row = self.shard.row_in(due.slot);
            let observation = Observation::Live { row, is_written: false };
            let (after, event) = transition(of, now, Some(due.state), &observation);
            output.members.update(due.slot, due.query, Some(due.place), after, of, &row);
            if let Some(kind) = event.filter(|kind| is_emitted(head, *kind)) {
                let event = Event::of_slot(due.query, row.object, kind, due.slot);
                emit(output, event, Class::Stateful);
            }
        }
    }

    /// Prefetches the cells of later objects, then their lists.
    fn prefetch(&self, output: &ShardEvents, motions: &[Motion], place: usize) {
        let queries = self.context.queries;
        let index = queries.objectwise();
        if queries.has_stateful() {
            let slot = |ahead: usize| motions.get(place + ahead).map(|motion| motion.slot);
            if let Some(slot) = slot(2 * AHEAD) {
                prefetch::read(output.members.first_places(), slot as usize);
            }
            for (ahead, is_second) in [(AHEAD, false), (AHEAD / 2, true)] {
                let entry = |slot| output.members.first_entry(slot, is_second);
                if let Some(entry) = slot(ahead).and_then(entry) {
                    prefetch::read(std::slice::from_ref(entry), 0);
                }
            }
        }
        for level in 0..index.levels() {
            let cell = |(x, y): (i32, i32)| index.cell(level, x, y);
            if let Some(motion) = motions.get(place + 2 * AHEAD) {
                for key in [cell(motion.from), cell(motion.to)] {
                    prefetch::read(std::slice::from_ref(index.first_look(level, key)), 0);
                }
            }
            let numbers = |ahead: usize| {
                let motion = motions.get(place + ahead)?;
                Some(index.regions(level, cell(motion.to)).all())
            };
            if let Some(numbers) = numbers(AHEAD) {
                prefetch::read(numbers, 0);
            }
            let some = |numbers: &[u32]| numbers.len().min(PREFETCHED);
            if let Some(numbers) = numbers(AHEAD / 2) {
                numbers[..some(numbers)].iter().for_each(|query| queries.prefetch(*query));
            }
            if let Some(numbers) = numbers(2) {
                let numbers = &numbers[..some(numbers)];
                numbers.iter().for_each(|query| queries.prefetch_subscription(*query));
            }
        }
    }

    /// Splits the changes of an object into steps.
    fn split(
        &self,
        place: u32,
        motion: &Motion,
        before: Option<FixRow>,
        arrivals: &[Arrival],
        scratch: &mut Scratch,
    ) {
        let first = arrivals.partition_point(|arrival| arrival.place < place);
        let own = arrivals[first..].iter().take_while(|arrival| arrival.place == place);
        scratch.changes.clear();
        scratch.changes.extend(own.map(|arrival| match arrival.change {
            ArrivedChange::End(reason) => ObjectChange::End(reason),
            ArrivedChange::Row(row) => {
                let attributes = self.context.attributes;
                let attributes = attributes.map_or(Attributes::UNKNOWN, |of| of(row.arrival()));
                ObjectChange::Row(fix_of(&row, attributes))
            }
        }));
        let is_expired = motion.outcome == MotionOutcome::Gone(EventKind::Expired);
        let expired = is_expired.then(|| self.shard.row_of(motion));
        split_into_steps(before, &mut scratch.changes, expired, &mut scratch.steps);
    }

    /// Evaluates one query for one object.
    fn query(
        &self,
        output: &mut ShardEvents,
        object: &Object<'_>,
        query: u32,
        pass: Pass,
        emit: &mut impl FnMut(&mut ShardEvents, Event, Class),
    ) {
        let EventContext { queries, now, .. } = self.context;
        let head = queries.head(query);
        let (is_stateful, slot) = (head.class == Class::Stateful, object.motion.slot);
        if head.role == Role::Removed || (is_stateful && pass == Pass::Again) {
            return;
        }
        let held = is_stateful.then(|| output.members.find(slot, query)).flatten();
        if held.is_none() && head.mode != EvaluationMode::Crossing && !self.touches(query, object) {
            return;
        }
        let is_unchanged = object.motion.outcome == MotionOutcome::Unchanged;
        if head.class == Class::Stepped
            && head.mode == EvaluationMode::EveryFix
            && !head.has_filter
            && head.role != Role::Changed
        {
            return self.positions(output, object, query, emit);
        }
        let of = &queries.get(query).subscription;
        let before = if is_stateful {
            held.map(|held| held.state)
        } else {
            let inside = object.before.filter(|row| of.holds(row, now.tick_ms));
            inside.map(|row| MembershipState::member(now.clock_ms, (row.x, row.y)))
        };
        if head.role == Role::Changed {
            let is_listed = before.is_some_and(|state| state.is_member())
                && !is_unchanged
                && (!is_stateful || matches!(object.motion.outcome, MotionOutcome::Gone(_)));
            if is_listed && pass == Pass::First {
                output.former.push((query, object.place as u32));
            }
            return;
        }
        if head.mode == EvaluationMode::Cycle && is_unchanged {
            return;
        }
        let state = evaluate(of, now, before, Some(&object.after), object.steps, |kind, row| {
            if is_emitted(head, kind) {
                let event = if head.mode == EvaluationMode::Cycle {
                    Event::of_slot(query, row.object, kind, slot)
                } else {
                    output.rows.push(*row);
                    Event::of_row(query, row.object, kind, output.rows.len() - 1)
                };
                emit(output, event, head.class);
            }
        });
        if is_stateful {
            let place = held.map(|held| held.place);
            output.members.update(slot, query, place, state, of, object.after.row());
        }
    }

    /// Whether some position of an object lies in the region of a query.
    fn touches(&self, query: u32, object: &Object<'_>) -> bool {
        let queries = self.context.queries;
        let contains = |(x, y): (i32, i32)| queries.contains(query, &mut Position::new(x, y));
        let Motion { from, to, .. } = *object.motion;
        let others = object.steps.iter().filter_map(|step| match &step.observation {
            Observation::Live { row, .. } => Some((row.x, row.y)),
            Observation::Gone { .. } => None,
        });
        contains(to) || contains(from) || others.filter(|at| *at != to).any(contains)
    }

    /// Evaluates every step by position alone, without reading the subscription.
    fn positions(
        &self,
        output: &mut ShardEvents,
        object: &Object<'_>,
        query: u32,
        emit: &mut impl FnMut(&mut ShardEvents, Event, Class),
    ) {
        let queries = self.context.queries;
        let contains = |row: &FixRow| queries.contains(query, &mut Position::new(row.x, row.y));
        let head = queries.head(query);
        let mut was_inside = object.before.as_ref().is_some_and(contains);
        for step in object.steps {
            let row = step.observation.row();
            let is_live = matches!(step.observation, Observation::Live { .. });
            let is_inside = is_live && contains(row);
            let kind = match (was_inside, is_inside, step.observation) {
                (_, _, Observation::Live { is_written: false, .. }) | (false, false, _) => None,
                (true, true, _) => Some(EventKind::Move),
                (false, true, _) => Some(EventKind::Enter),
                (true, false, Observation::Live { .. }) => Some(EventKind::Left),
                (true, false, Observation::Gone { reason, .. }) => Some(reason),
            };
            was_inside = is_inside;
            if let Some(kind) = kind.filter(|kind| is_emitted(head, *kind)) {
                output.rows.push(*row);
                let event = Event::of_row(query, row.object, kind, output.rows.len() - 1);
                emit(output, event, Class::Stepped);
            }
        }
    }
}

/// Whether a query emits events of a kind in this cycle.
fn is_emitted(head: &QueryHead, kind: EventKind) -> bool {
    head.role == Role::Active && head.wanted.contains(kind)
}
