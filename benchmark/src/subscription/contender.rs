//! Any backend of the engine's contract with standing regions.
//!
//! Objects are loaded, circles set, some cycles warm up; then cycles run back to back, as many in
//! flight as the backend overlaps. Outputs are taken beside the clock, which counts their events.
//! At rest, snapshots of some circles must equal range queries of them.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use shoal_engine::cpu::CpuBackend;
use shoal_engine::{
    Backend, CycleInput, CycleOutput, EngineOptions, EventSet, Projection, Query, QueryKind,
    Region, RegionId, SubscriptionChange,
};

#[cfg(feature = "cuda")]
use super::cuda_contender::cuda;
use super::options::BackendName;
use super::prepared::{RowCycle, Rows, Standing, input};
use crate::answer_hash::AnswerHash;
use crate::answered::answers;
use crate::cycle_times::CycleTimes;
use crate::drive::{Place, check_objects, check_rows, drive};
use crate::error::BenchmarkError;

/// Circles whose members are compared at rest.
const COMPARED_MAX: usize = 200;

/// A backend, and how it is driven.
pub(super) struct Contender {
    pub(super) backend: Box<dyn Backend>,
    /// Cycles under way, 1 to [`shoal_engine::limits::CYCLES_IN_FLIGHT_MAX`].
    pub(super) in_flight: usize,
    pub(super) place: Place,
}

/// One run, measured.
pub(super) struct Measured {
    /// From the first row given to the last event readable.
    pub(super) seconds: f64,
    pub(super) times: CycleTimes,
    /// Events while the clock ran.
    pub(super) events: u64,
    /// Of how many events each circle had in every cycle, and of all events of the last one.
    pub(super) event_hash: String,
    /// Circles that an object is in at the end, on average over the circles compared.
    pub(super) memberships_per_object: f64,
    pub(super) memory_bytes: u64,
}

/// The contender of a name; why there is none otherwise.
pub(super) fn contender(name: BackendName, rows: &Rows) -> Result<Contender, String> {
    let options = EngineOptions::new(rows.space);
    match name {
        // Its `submit` does all the work, so one cycle is under way at a time.
        BackendName::Cpu => Ok(Contender::alone(Box::new(CpuBackend::new(options)))),
        BackendName::Cuda => cuda(options),
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda(_options: EngineOptions) -> Result<Contender, String> {
    Err(shoal_gpu::Unavailable::NotBuilt.to_string())
}

impl Contender {
    /// One cycle at a time, rows where they are.
    pub(super) fn alone(backend: Box<dyn Backend>) -> Self {
        Self { backend, in_flight: 1, place: Box::new(|block| Ok(block.clone())) }
    }

    /// Runs a case.
    pub(super) fn run(
        mut self,
        rows: &Rows,
        standing: &Standing,
    ) -> Result<Measured, BenchmarkError> {
        self.begin(rows, standing)?;
        let inputs = self.inputs(&rows.cycles, &standing.cycles)?;
        // A backend lets go of rows when it has them; that their maker frees them is not its cost.
        let kept: Vec<_> = inputs.iter().map(|input| input.requests.clone()).collect();
        let mut times = CycleTimes::new()?;
        let (sender, outputs) = channel();
        let (seconds, taken) = thread::scope(|scope| {
            let taker = scope.spawn(move || take(&rows.cycles, &outputs));
            let start = Instant::now();
            let driven = drive(&mut *self.backend, self.in_flight, inputs, &mut times, &sender);
            let seconds = start.elapsed().as_secs_f64();
            drop(sender);
            let taken = taker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            driven.map(|()| (seconds, taken))
        })?;
        drop(kept);
        let Taken { events, mut hash, last } = taken;
        add_events(&mut hash, &last);
        let memberships = self.compare_at_rest(standing)?;
        Ok(Measured {
            seconds,
            times,
            events,
            event_hash: hash.finish(),
            memberships_per_object: memberships / rows.motion.params.objects as f64,
            memory_bytes: self.backend.memory_bytes(),
        })
    }

    /// Loads the objects, sets the circles, warms up.
    fn begin(&mut self, rows: &Rows, standing: &Standing) -> Result<(), BenchmarkError> {
        for cycle in &rows.load {
            let output = self.backend.run(input(cycle.blocks.clone(), Vec::new()))?;
            check_rows(&cycle.blocks, &output)?;
        }
        check_objects(&*self.backend, rows.motion.params.objects)?;
        for changes in &standing.first {
            self.backend.run(input(Vec::new(), changes.clone()))?;
        }
        let warm = self.inputs(&rows.warm, &standing.warm)?;
        let (sender, outputs) = channel();
        drive(&mut *self.backend, self.in_flight, warm, &mut CycleTimes::new()?, &sender)?;
        drop(sender);
        take(&rows.warm, &outputs).map(drop)
    }

    fn inputs(
        &self,
        rows: &[RowCycle],
        changes: &[Vec<SubscriptionChange>],
    ) -> Result<Vec<CycleInput>, BenchmarkError> {
        let one = |(cycle, changes): (&RowCycle, &Vec<SubscriptionChange>)| {
            let blocks = cycle.blocks.iter().map(&self.place).collect::<Result<_, _>>()?;
            Ok(input(blocks, changes.clone()))
        };
        rows.iter().zip(changes).map(one).collect()
    }

    /// Compares snapshots with range queries; gives the memberships of all objects together, as
    /// many as the circles compared let expect.
    fn compare_at_rest(&mut self, standing: &Standing) -> Result<f64, BenchmarkError> {
        let count = standing.last.len();
        let step = count.div_ceil(COMPARED_MAX).max(1);
        let some: Vec<(&RegionId, &Region)> = standing.last.iter().step_by(step).collect();
        let query = |region: &Region| Query {
            kind: QueryKind::Range(region.clone()),
            filter: None,
            projection: Projection::Ids,
            limit: None,
        };
        let cycle = CycleInput {
            queries: some.iter().map(|(_, region)| query(region)).collect(),
            ..input(
                Vec::new(),
                some.iter().map(|(id, _)| SubscriptionChange::Snapshot(**id)).collect(),
            )
        };
        let output = self.backend.run(cycle)?;
        let mut members = 0;
        let answers = answers(&output, some.len())?;
        for ((id, _), answer) in some.iter().zip(answers.iter()) {
            let told = output.events.find(**id);
            let is_equal =
                told.is_some_and(|told| told.is_snapshot && told.objects == answer.objects);
            if !is_equal {
                let told = told.map_or(0, |told| told.objects.len());
                return Err(BenchmarkError::Membership(format!(
                    "circle {} has {told} members, a range query finds {} or others",
                    id.0, answer.total
                )));
            }
            members += answer.total;
        }
        Ok(members as f64 * count as f64 / some.len().max(1) as f64)
    }
}

/// What outputs held.
struct Taken {
    events: u64,
    hash: AnswerHash,
    /// Of the last cycle.
    last: EventSet,
}

/// Takes outputs beside the clock: checks them and counts the events of each circle.
fn take(cycles: &[RowCycle], outputs: &Receiver<CycleOutput>) -> Result<Taken, BenchmarkError> {
    let mut taken = Taken { events: 0, hash: AnswerHash::new(), last: EventSet::default() };
    for cycle in cycles {
        let Ok(output) = outputs.recv() else { break };
        check_rows(&cycle.blocks, &output)?;
        for told in output.events.iter() {
            if told.is_lagged {
                let text = format!(
                    "epoch {}: circle {} lags, the cycle has more events than are told",
                    output.epoch, told.region.0
                );
                return Err(BenchmarkError::Membership(text));
            }
            let events = told.objects.len() as u64;
            taken.hash.add_word(told.region.0);
            taken.hash.add_word(events);
            taken.events += events;
        }
        taken.last = output.events;
    }
    Ok(taken)
}

/// Folds every event of a cycle in.
fn add_events(hash: &mut AnswerHash, events: &EventSet) {
    for told in events.iter() {
        hash.add_word(told.region.0);
        for (object, kind, _) in told.iter() {
            hash.add_word(object);
            hash.add_word(kind as u64);
        }
    }
}
