//! Evaluates the host's queries for the objects of a cycle.
//!
//! Evaluates each object that the device lists, in the queries near it and in those of which it has
//! a membership. Then evaluates the memberships that are due. Uses the engine's state machine.

use std::collections::BTreeMap;

use rayon::prelude::*;
use shoal_codec::FixRow;
use shoal_engine::stage::subscription::{
    CycleTime, MembershipState, ObjectChange, Observation, Step, evaluate, split_into_steps,
};
use shoal_engine::{EvaluationMode, EventKind};

use super::host_queries::HostQueries;

/// Objects that a thread evaluates at a time.
const CHUNK: usize = 1 << 10;

/// One object of a cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservedObject {
    pub(super) object: u64,
    /// Its record before the cycle.
    pub(super) before: Option<FixRow>,
    /// Its outcome; `None` if it was created and removed within the cycle.
    pub(super) after: Option<Observation>,
    /// Its changes, if every fix is evaluated; evaluation loses their order.
    pub(super) changes: Vec<ObjectChange>,
}

impl ObservedObject {
    fn expired(&self) -> Option<FixRow> {
        match self.after {
            Some(Observation::Gone { row, reason: EventKind::Expired }) => Some(row),
            _ => None,
        }
    }

    /// The object after the cycle, unless its record is unchanged.
    fn changed(&self) -> Option<&Observation> {
        let is_left_alone =
            |it: &Observation| matches!(it, Observation::Live { is_written: false, .. });
        self.after.as_ref().filter(|after| !is_left_alone(after))
    }
}

/// The effect of one object on one query.
struct Evaluated {
    number: u32,
    /// Place of the membership before the cycle.
    place: Option<u32>,
    row: FixRow,
    state: Option<MembershipState>,
    events: Vec<(EventKind, FixRow)>,
}

/// Events by the number of a query, in order of evaluation.
pub(super) type QueryEvents = BTreeMap<u32, Vec<(EventKind, FixRow)>>;

/// Evaluates all objects of a cycle, which ascend, and the memberships that are due.
pub(super) fn evaluate_all(
    queries: &mut HostQueries,
    now: &CycleTime<'_>,
    objects: &mut [ObservedObject],
) -> QueryEvents {
    let mut all = QueryEvents::new();
    let known = &*queries;
    let chunks = objects.par_chunks_mut(CHUNK).map(|chunk| evaluate_some(known, now, chunk));
    let evaluated: Vec<Vec<Evaluated>> = chunks.collect();
    for Evaluated { number, place, row, state, mut events } in evaluated.into_iter().flatten() {
        queries.update(number, place, &row, state);
        if !events.is_empty() {
            all.entry(number).or_default().append(&mut events);
        }
    }
    queries.run_due(now, |number, kind, row| all.entry(number).or_default().push((kind, row)));
    for events in all.values_mut() {
        // The sort is stable, so the events of one object remain in order.
        events.sort_by_key(|(_, row)| row.object);
    }
    all
}

/// Evaluates some objects, in their order; objects do not depend on each other.
fn evaluate_some(
    queries: &HostQueries,
    now: &CycleTime<'_>,
    objects: &mut [ObservedObject],
) -> Vec<Evaluated> {
    let mut evaluated = Vec::new();
    let (mut steps, mut numbers) = (Vec::new(), Vec::new());
    for object in objects {
        steps.clear();
        if queries.has_every_fix() {
            let expired = object.expired();
            split_into_steps(object.before, &mut object.changes, expired, &mut steps);
        }
        numbers.clear();
        numbers.extend(queries.of_object(object.object).map(|entry| entry.query));
        let after = object.after.as_ref().map(Observation::row);
        let positions = after.into_iter().chain(&object.before).map(|row| (row.x, row.y));
        queries.queries_near(now.space, positions, &steps, &mut numbers);
        let one = |number: &u32| evaluate_one(queries, now, object, &steps, *number);
        evaluated.extend(numbers.iter().filter_map(one));
    }
    evaluated
}

/// Evaluates one object in one query; `None` if there is no membership before or after, and no
/// event.
fn evaluate_one(
    queries: &HostQueries,
    now: &CycleTime<'_>,
    object: &ObservedObject,
    steps: &[Step],
    number: u32,
) -> Option<Evaluated> {
    let of = &queries.get(number).subscription;
    if of.evaluation_mode == EvaluationMode::Cycle {
        object.changed()?;
    }
    let held = queries.of_object(object.object).find(|entry| entry.query == number);
    let before = held.map(|held| held.state);
    let mut events = Vec::new();
    let state = evaluate(of, now, before, object.changed(), steps, |kind, row| {
        events.push((kind, *row));
    });
    // An object that ended without an observation has no membership.
    let unobserved = FixRow::new(object.object, 0, 0, 0);
    let row = object.after.map_or(unobserved, |after| *after.row());
    let matters = held.is_some() || state.is_some() || !events.is_empty();
    let place = held.map(|held| held.place);
    matters.then_some(Evaluated { number, place, row, state, events })
}
