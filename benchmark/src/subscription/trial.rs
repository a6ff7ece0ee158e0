//! A run of one backend on one case.
//!
//! Loads the objects, sets the circles and warms up; then runs cycles back to back while another
//! thread counts their events. At rest, snapshots of some circles must equal range queries.

use std::sync::mpsc::Receiver;

use shoal_engine::{CycleInput, CycleOutput, EventSet, Region, RegionId, SubscriptionChange};

use super::prepared::{Circles, RowCycle, Rows};
use crate::error::BenchmarkError;
use crate::harness::{
    AnswerHash, CycleTimes, Driver, answers, check_rows, cycle_input, range_query,
};

/// Circles whose members are compared at rest.
const COMPARED_MAX: usize = 200;

/// A backend with the rows and circles of a case.
pub(super) struct Trial<'a> {
    pub(super) driver: Driver,
    pub(super) rows: &'a Rows,
    pub(super) circles: &'a Circles,
}

/// The result of a run.
pub(super) struct Measured {
    /// Time from the first submitted row until the last event is readable.
    pub(super) seconds: f64,
    pub(super) times: CycleTimes,
    /// Events while the clock ran.
    pub(super) events: u64,
    /// Hash of the number of events of each circle in every cycle, and of all events of the last.
    pub(super) event_hash: String,
    /// Circles that contain an object at the end, on average over the compared circles.
    pub(super) memberships_per_object: f64,
    pub(super) memory_bytes: u64,
}

impl Trial<'_> {
    /// Runs the case.
    pub(super) fn run(mut self) -> Result<Measured, BenchmarkError> {
        let rows = self.rows;
        self.begin()?;
        let inputs = self.inputs(&rows.cycles, &self.circles.cycles)?;
        let timed = self.driver.run_timed(inputs, |outputs| take(&rows.cycles, outputs))?;
        let Taken { events, mut hash, last } = timed.taken;
        add_events(&mut hash, &last);
        let memberships = self.compare_at_rest()?;
        Ok(Measured {
            seconds: timed.seconds,
            times: timed.times,
            events,
            event_hash: hash.finish(),
            memberships_per_object: memberships / rows.motion.params.objects as f64,
            memory_bytes: self.driver.backend.memory_bytes(),
        })
    }

    /// Loads the objects, sets the circles, warms up.
    fn begin(&mut self) -> Result<(), BenchmarkError> {
        for cycle in &self.rows.load {
            let input = cycle_input(cycle.blocks.clone(), Vec::new(), Vec::new());
            check_rows(&cycle.blocks, &self.driver.backend.run(input)?)?;
        }
        self.driver.check_objects(self.rows.motion.params.objects)?;
        for changes in &self.circles.first {
            self.driver.backend.run(cycle_input(Vec::new(), Vec::new(), changes.clone()))?;
        }
        let warm = self.inputs(&self.rows.warm, &self.circles.warm)?;
        let outputs = self.driver.warm_up(warm)?;
        take(&self.rows.warm, &outputs).map(drop)
    }

    fn inputs(
        &self,
        rows: &[RowCycle],
        changes: &[Vec<SubscriptionChange>],
    ) -> Result<Vec<CycleInput>, BenchmarkError> {
        let one = |(cycle, changes): (&RowCycle, &Vec<SubscriptionChange>)| {
            Ok(cycle_input(self.driver.place(&cycle.blocks)?, Vec::new(), changes.clone()))
        };
        rows.iter().zip(changes).map(one).collect()
    }

    /// Compares snapshots with range queries. Returns the memberships of all objects, extrapolated
    /// from the compared circles.
    fn compare_at_rest(&mut self) -> Result<f64, BenchmarkError> {
        let count = self.circles.last.len();
        let step = count.div_ceil(COMPARED_MAX).max(1);
        let some: Vec<(&RegionId, &Region)> = self.circles.last.iter().step_by(step).collect();
        let queries = some.iter().map(|(_, region)| range_query((*region).clone())).collect();
        let snapshots = some.iter().map(|(id, _)| SubscriptionChange::Snapshot(**id)).collect();
        let output = self.driver.backend.run(cycle_input(Vec::new(), queries, snapshots))?;
        let mut members = 0;
        for ((id, _), answer) in some.iter().zip(answers(&output, some.len())?.iter()) {
            let found = output.events.find(**id);
            let is_equal =
                found.is_some_and(|found| found.is_snapshot && found.objects == answer.objects);
            if !is_equal {
                return Err(BenchmarkError::Membership(format!(
                    "circle {} has {} members, a range query finds {} or others",
                    id.0,
                    found.map_or(0, |found| found.objects.len()),
                    answer.total
                )));
            }
            members += answer.total;
        }
        Ok(members as f64 * count as f64 / some.len().max(1) as f64)
    }
}

/// A summary of the events in the outputs of some cycles.
struct Taken {
    /// Number of all events.
    events: u64,
    hash: AnswerHash,
    /// Events of the last cycle.
    last: EventSet,
}

/// Checks outputs and counts the events of each circle.
fn take(cycles: &[RowCycle], outputs: &Receiver<CycleOutput>) -> Result<Taken, BenchmarkError> {
    let mut taken = Taken { events: 0, hash: AnswerHash::new(), last: EventSet::default() };
    for cycle in cycles {
        let Ok(output) = outputs.recv() else { break };
        check_rows(&cycle.blocks, &output)?;
        for region in output.events.iter() {
            if region.is_lagged {
                let text = format!(
                    "epoch {}: circle {} lags, the cycle exceeds the limit of events",
                    output.epoch, region.region.0
                );
                return Err(BenchmarkError::Membership(text));
            }
            let events = region.objects.len() as u64;
            taken.hash.add_word(region.region.0);
            taken.hash.add_word(events);
            taken.events += events;
        }
        taken.last = output.events;
    }
    Ok(taken)
}

/// Adds every event of a cycle to a hash.
fn add_events(hash: &mut AnswerHash, events: &EventSet) {
    for region in events.iter() {
        hash.add_word(region.region.0);
        for (object, kind, _) in region.iter() {
            hash.add_word(object);
            hash.add_word(kind as u64);
        }
    }
}
