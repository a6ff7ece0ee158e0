//! Any backend of the engine's contract as a contender.
//!
//! Cycles are submitted back to back, as many in flight as the backend overlaps. Outputs are kept
//! until the clock has stopped, then checked: every row must have been taken.

use std::collections::VecDeque;
use std::time::Instant;

use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_engine::{AnswerSet, Backend, CycleInput, CycleOutput};

use super::contender::{Contender, Measured};
use super::prepared::{Cycle, Prepared};
use crate::answer_hash::AnswerHash;
use crate::cycle_times::CycleTimes;
use crate::error::BenchmarkError;

/// A backend, and how it is driven.
pub(super) struct EngineContender {
    backend: Box<dyn Backend>,
    in_flight: usize,
}

impl EngineContender {
    /// Keeps `in_flight` cycles under way, 1 to [`CYCLES_IN_FLIGHT_MAX`].
    pub(super) fn new(backend: Box<dyn Backend>, in_flight: usize) -> Self {
        assert!((1..=CYCLES_IN_FLIGHT_MAX).contains(&in_flight), "{in_flight} cycles in flight");
        Self { backend, in_flight }
    }

    /// Runs cycles back to back.
    fn drive(
        &mut self,
        inputs: Vec<CycleInput>,
        times: &mut CycleTimes,
    ) -> Result<Vec<CycleOutput>, BenchmarkError> {
        let mut outputs = Vec::with_capacity(inputs.len());
        let mut flying = VecDeque::with_capacity(self.in_flight);
        let mut inputs = inputs.into_iter();
        loop {
            let next = inputs.next();
            let is_last = next.is_none();
            if let Some(input) = next {
                let submitted = Instant::now();
                flying.push_back((self.backend.submit(input)?, submitted));
            }
            while flying.len() >= self.in_flight || is_last {
                let Some((ticket, submitted)) = flying.pop_front() else {
                    return Ok(outputs);
                };
                outputs.push(self.backend.wait(ticket)?);
                times.add(submitted.elapsed());
            }
        }
    }

    fn load(&mut self, prepared: &Prepared) -> Result<(), BenchmarkError> {
        for cycle in prepared.load.iter().chain([&prepared.warm]) {
            let output = self.backend.run(cycle.input())?;
            check(cycle, &output)?;
        }
        let (known, objects) = (self.backend.objects(), prepared.case.objects);
        if known == objects {
            return Ok(());
        }
        let text = format!("the first reports brought {known} of {objects} objects");
        Err(BenchmarkError::WorkloadRows(text))
    }

    /// The answers to some queries when nothing changes.
    fn at_rest(&mut self, cycle: &Cycle) -> Result<AnswerSet, BenchmarkError> {
        let queries = cycle.queries.clone();
        let input = CycleInput { queries, ..CycleInput::default() };
        Ok(self.backend.run(input)?.answers)
    }
}

impl Contender for EngineContender {
    fn run(mut self: Box<Self>, prepared: &Prepared) -> Result<Measured, BenchmarkError> {
        self.load(prepared)?;
        let inputs = prepared.cycles.iter().map(Cycle::input).collect();
        let mut times = CycleTimes::new()?;
        let start = Instant::now();
        let outputs = self.drive(inputs, &mut times)?;
        let seconds = start.elapsed().as_secs_f64();

        let mut run_hash = AnswerHash::new();
        let mut results = 0;
        for (cycle, output) in prepared.cycles.iter().zip(&outputs) {
            check(cycle, output)?;
            run_hash.add(&output.answers);
            results += output.answers.iter().map(|answer| answer.total).sum::<u64>();
        }
        let mut answer_hash = AnswerHash::new();
        if let Some(last) = prepared.cycles.last() {
            answer_hash.add(&self.at_rest(last)?);
        }
        Ok(Measured {
            seconds,
            times,
            cycle_updates: prepared.case.cycle_updates(),
            epochs_behind: self.backend.answer_lag(),
            results,
            run_hash: run_hash.finish(),
            answer_hash: answer_hash.finish(),
            memory_bytes: self.backend.memory_bytes(),
            layout: None,
        })
    }
}

/// Every row of a cycle was taken, none refused.
fn check(cycle: &Cycle, output: &CycleOutput) -> Result<(), BenchmarkError> {
    for (number, (block, outcome)) in cycle.blocks.iter().zip(&output.requests).enumerate() {
        let taken = outcome.applied + outcome.superseded + outcome.late + outcome.duplicate;
        if taken != block.rows() as u64 || outcome.block_error.is_some() {
            let text = format!(
                "epoch {}, block {number}: {taken} of {} rows taken, {:?}",
                output.epoch,
                block.rows(),
                outcome.block_error
            );
            return Err(BenchmarkError::WorkloadRows(text));
        }
    }
    if output.answers.len() == cycle.queries.len() {
        return Ok(());
    }
    let (answers, queries) = (output.answers.len(), cycle.queries.len());
    let text = format!("epoch {}: {answers} answers to {queries} queries", output.epoch);
    Err(BenchmarkError::WorkloadRows(text))
}
