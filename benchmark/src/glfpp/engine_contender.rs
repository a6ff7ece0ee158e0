//! Any backend of the engine's contract as a contender.
//!
//! Cycles are submitted back to back, as many in flight as the backend overlaps. Outputs are taken
//! by a thread of their own, which checks that every row was taken, and dropped; the queries that
//! come back with them are freed after the clock has stopped, as are the rows.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_engine::{AnswerSet, Backend, CycleInput, CycleOutput, Query};

use super::contender::{Contender, Measured, Settings};
use super::prepared::{Cycle, Prepared};
use super::timeline::Recorder;
use crate::answer_hash::AnswerHash;
use crate::answered::answers;
use crate::cycle_times::CycleTimes;
use crate::drive::{Place, check_objects, check_rows, drive};
use crate::error::BenchmarkError;

/// Cycles that warm up what is kept between cycles: as many as fly, several times over.
const WARM_CYCLES: usize = 8;

/// A backend, and how it is driven.
pub(super) struct EngineContender {
    backend: Box<dyn Backend>,
    in_flight: usize,
    place: Place,
    recorder: Option<Box<dyn Recorder>>,
    settings: Settings,
}

impl EngineContender {
    /// Keeps `in_flight` cycles under way, 1 to [`CYCLES_IN_FLIGHT_MAX`].
    pub(super) fn new(backend: Box<dyn Backend>, in_flight: usize, place: Place) -> Self {
        assert!((1..=CYCLES_IN_FLIGHT_MAX).contains(&in_flight), "{in_flight} cycles in flight");
        Self { backend, in_flight, place, recorder: None, settings: Settings::default() }
    }

    /// Tells when its stages ran.
    #[cfg(feature = "cuda")]
    pub(super) fn recorded_by(self, recorder: Option<Box<dyn Recorder>>) -> Self {
        Self { recorder, ..self }
    }

    /// Tells what it was set to.
    #[cfg(feature = "cuda")]
    pub(super) fn set_to(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    fn input(&self, cycle: &Cycle) -> Result<CycleInput, BenchmarkError> {
        let blocks = cycle.blocks.iter().map(&self.place).collect::<Result<_, _>>()?;
        Ok(Cycle { blocks, queries: cycle.queries.clone() }.input())
    }

    fn load(&mut self, prepared: &Prepared) -> Result<(), BenchmarkError> {
        for cycle in &prepared.load {
            let output = self.backend.run(cycle.input())?;
            check(cycle, &output)?;
        }
        let warm = (0..WARM_CYCLES).map(|_| self.input(&prepared.warm));
        let warm = warm.collect::<Result<_, _>>()?;
        // Answers are held until the last is there, so that as much memory as that is at hand
        // later.
        let (sender, outputs) = channel();
        drive(&mut *self.backend, self.in_flight, warm, &mut CycleTimes::new()?, &sender)?;
        drop((sender, outputs));
        check_objects(&*self.backend, prepared.case.objects)
    }

    /// The answers to some queries when nothing changes.
    fn at_rest(&mut self, queries: &[Query]) -> Result<AnswerSet, BenchmarkError> {
        let input = CycleInput { queries: queries.to_vec(), ..CycleInput::default() };
        let output = self.backend.run(input)?;
        answers(&output, queries.len())?;
        Ok(output.answers)
    }
}

impl Contender for EngineContender {
    fn run(mut self: Box<Self>, prepared: &Prepared) -> Result<Measured, BenchmarkError> {
        self.load(prepared)?;
        let inputs = prepared.cycles.iter().map(|cycle| self.input(cycle));
        let inputs: Vec<CycleInput> = inputs.collect::<Result<_, _>>()?;
        // A backend lets go of rows when it has them; that their maker frees them is not its cost.
        let rows: Vec<_> = inputs.iter().map(|input| input.requests.clone()).collect();
        let mut times = CycleTimes::new()?;
        self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.start())?;
        let (sender, outputs) = channel();
        let (seconds, found) = thread::scope(|scope| {
            let taker = scope.spawn(move || take(prepared, &outputs));
            let start = Instant::now();
            let driven = drive(&mut *self.backend, self.in_flight, inputs, &mut times, &sender);
            let seconds = start.elapsed().as_secs_f64();
            drop(sender);
            let found = taker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            driven.map(|()| (seconds, found))
        })?;
        drop(rows);
        let recording = self.recorder.as_ref().map(|recorder| recorder.stop()).transpose()?;
        let (results, run_hash) = found;
        let mut answer_hash = AnswerHash::new();
        answer_hash.add(&self.at_rest(&prepared.rest)?);
        Ok(Measured {
            seconds,
            times,
            cycle_updates: prepared.case.cycle_updates(),
            epochs_behind: self.backend.answer_lag(),
            results,
            run_hash,
            answer_hash: answer_hash.finish(),
            recording,
            memory_bytes: self.backend.memory_bytes(),
            settings: self.settings,
        })
    }
}

/// Takes outputs beside the clock: checks them, counts and hashes what was found by each query.
fn take(
    prepared: &Prepared,
    outputs: &Receiver<CycleOutput>,
) -> Result<(u64, String), BenchmarkError> {
    let (mut results, mut hash) = (0, AnswerHash::new());
    let mut queries = Vec::new();
    for cycle in &prepared.cycles {
        let Ok(mut output) = outputs.recv() else { break };
        queries.push(std::mem::take(&mut output.queries));
        check(cycle, &output)?;
        for answer in output.answers.iter() {
            hash.add_word(answer.total);
            results += answer.total;
        }
    }
    Ok((results, hash.finish()))
}

/// Every row of a cycle was taken, none refused, and every query answered.
fn check(cycle: &Cycle, output: &CycleOutput) -> Result<(), BenchmarkError> {
    check_rows(&cycle.blocks, output)?;
    answers(output, cycle.queries.len()).map(drop)
}
