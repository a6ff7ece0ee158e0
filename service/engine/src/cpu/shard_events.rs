//! Runs the evaluations of one shard and lists their events.
//!
//! Events of queries without membership states can be evaluated again. Once all shards together
//! exceed the event limit of a cycle, further events of this kind are only counted. A second
//! evaluation then lists the events of the queries that fit.

use std::sync::atomic::{AtomicU64, Ordering};

use shoal_codec::FixRow;

use super::motion::{BUCKETS, Event, EventContext, Motion, MotionOutcome, ShardEvents};
use super::object_evaluation::{ObjectEvaluation, Pass};
use super::plain_evaluation::{Finding, PlainEvaluation};
use super::shard::Shard;
use crate::stage::subscription::{Class, Observation};

/// Number of events after which a shard adds its count to the total of all shards and checks it.
const LISTED_AT_ONCE: u64 = 4096;

/// Counts the events of a shard against the limit of the cycle.
struct Listing<'a> {
    context: &'a EventContext<'a>,
    uncounted: u64,
    is_full: bool,
}

impl Listing<'_> {
    fn new<'a>(context: &'a EventContext<'a>) -> Listing<'a> {
        let mut listing = Listing { context, uncounted: 0, is_full: false };
        listing.count();
        listing
    }

    fn count(&mut self) {
        let before = self.context.listed.fetch_add(self.uncounted, Ordering::Relaxed);
        self.is_full = before + self.uncounted > self.context.events_max;
        self.uncounted = 0;
    }

    /// Counts an event; returns true if it is to be listed.
    fn takes(&mut self) -> bool {
        self.uncounted += 1;
        if self.uncounted == LISTED_AT_ONCE {
            self.count();
        }
        !self.is_full
    }
}

impl Shard {
    /// A record by its slot.
    pub(super) fn row_in(&self, slot: u32) -> FixRow {
        self.records[slot as usize].row(self.attributes_of(slot as usize))
    }

    /// The record of an object after the cycle, or its last one if it no longer exists.
    pub(super) fn row_of(&self, motion: &Motion) -> FixRow {
        FixRow { object: motion.object, ..self.row_in(motion.slot) }
    }

    /// An object after the cycle.
    pub(super) fn observe(&self, motion: &Motion) -> Observation {
        let row = self.row_of(motion);
        match motion.outcome {
            MotionOutcome::Gone(reason) => Observation::Gone { row, reason },
            outcome => Observation::Live { row, is_written: outcome == MotionOutcome::Written },
        }
    }

    /// Evaluates all queries for the cycle and lists their events.
    pub(super) fn evaluate(&mut self, context: &EventContext<'_>) {
        let mut output = std::mem::take(&mut self.events);
        output.events.resize_with(2 * BUCKETS, Vec::new);
        let mut listing = Listing::new(context);
        let queries = context.queries;
        let ShardEvents { motions, befores, events, former, .. } = &mut output;
        let plain = PlainEvaluation { context: *context, shard: self, motions, befores };
        plain.run(|query, place, finding| match finding {
            Finding::FormerMember => former.push((query, place as u32)),
            Finding::Event(kind) if listing.takes() => {
                let motion = &plain.motions[place];
                let event = Event::of_slot(query, motion.object, kind, motion.slot);
                events[query as usize % BUCKETS].push(event);
            }
            Finding::Event(_) => {}
        });
        let objectwise = ObjectEvaluation { context, shard: self };
        let mut list = |output: &mut ShardEvents, event: Event, class: Class| {
            let is_kept = class == Class::Stateful;
            if listing.takes() || is_kept {
                output.list(event, is_kept);
            }
        };
        if queries.has_stateful() || queries.has_every_fix() {
            objectwise.run(&mut output, Pass::First, &mut list);
        }
        if queries.has_stateful() {
            objectwise.run_due(&mut output, &mut list);
        }
        listing.count();
        self.events = output;
    }

    /// Counts, by query number, the events that can be found again.
    pub(super) fn count_again(&mut self, context: &EventContext<'_>, counts: &[AtomicU64]) {
        self.evaluate_again(context, |_, event| {
            counts[event.query as usize].fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Lists the events that can be found again, only for the queries that fit.
    pub(super) fn list_again(&mut self, context: &EventContext<'_>, fits: &[bool]) {
        self.events.events[..BUCKETS].iter_mut().for_each(Vec::clear);
        self.evaluate_again(context, |output, event| {
            if fits[event.query as usize] {
                output.list(event, false);
            }
        });
    }

    fn evaluate_again(
        &mut self,
        context: &EventContext<'_>,
        mut each: impl FnMut(&mut ShardEvents, Event),
    ) {
        let mut output = std::mem::take(&mut self.events);
        let motions = std::mem::take(&mut output.motions);
        let befores = std::mem::take(&mut output.befores);
        let plain = PlainEvaluation {
            context: EventContext { has_comparison: false, ..*context },
            shard: self,
            motions: &motions,
            befores: &befores,
        };
        plain.run(|query, place, finding| {
            if let Finding::Event(kind) = finding {
                let motion = &motions[place];
                each(&mut output, Event::of_slot(query, motion.object, kind, motion.slot));
            }
        });
        (output.motions, output.befores) = (motions, befores);
        if context.queries.has_every_fix() {
            let objectwise = ObjectEvaluation { context, shard: self };
            objectwise.run(&mut output, Pass::Again, &mut |output, event, _| each(output, event));
        }
        self.events = output;
    }
}
