//! Runs cycles back to back through an engine, with its number of overlapping cycles in flight.
//!
//! A separate thread receives and checks the outputs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;
use shoal_codec::Block;
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{
    AnswerSet, Backend, CycleInput, CycleOutput, EngineOptions, Projection, Query, QueryKind,
    Region, Request, RequestOutcome, SubscriptionChange,
};

use super::cycle_times::CycleTimes;
use crate::error::BenchmarkError;

/// The backends that commands measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackendName {
    /// PGrid, the baseline of the paper, on all cores (`glfpp` only).
    Pgrid,
    /// Shoal's engine on all cores.
    Cpu,
    /// Shoal's engine on the first NVIDIA GPU.
    Cuda,
}

impl BackendName {
    /// Its name in flags and files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pgrid => "pgrid",
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// Copies a block to the memory from which a backend reads it fastest.
type Place = Box<dyn Fn(&Block) -> Result<Block, BenchmarkError>>;

/// An engine and the parameters of its submission.
pub(crate) struct Driver {
    pub(crate) backend: Box<dyn Backend>,
    in_flight: usize,
    place: Place,
    /// The rows of warm-up cycles, kept because a backend may drop its own references during the
    /// timed run, where freeing page-locked memory would count.
    warm_rows: Vec<Arc<Vec<Request>>>,
}

/// A timed run.
pub(crate) struct Timed<T> {
    /// From the first submission to the last output.
    pub(crate) seconds: f64,
    /// Time of each cycle, from submission to output.
    pub(crate) times: CycleTimes,
    /// The result of the thread that took the outputs.
    pub(crate) taken: T,
}

impl Driver {
    /// Opens a backend.
    pub(crate) fn open(name: BackendName, options: EngineOptions) -> Result<Self, String> {
        match name {
            BackendName::Pgrid => Err("only `glfpp` runs it".to_owned()),
            BackendName::Cpu => Ok(Self::sequential(Box::new(CpuBackend::new(options)))),
            BackendName::Cuda => Self::open_cuda(options),
        }
    }

    /// A driver with one cycle in flight, because `submit` of this backend does all the work.
    pub(crate) fn sequential(backend: Box<dyn Backend>) -> Self {
        let place = Box::new(|block: &Block| Ok(block.clone()));
        Self { backend, in_flight: 1, place, warm_rows: Vec::new() }
    }

    #[cfg(not(feature = "cuda"))]
    fn open_cuda(_options: EngineOptions) -> Result<Self, String> {
        Err(shoal_gpu::Unavailable::NotBuilt.to_string())
    }

    #[cfg(feature = "cuda")]
    fn open_cuda(options: EngineOptions) -> Result<Self, String> {
        let gpu = shoal_gpu::Gpu::open(shoal_gpu::Gpu::FIRST).map_err(|cause| cause.to_string())?;
        let backend = shoal_gpu::CudaBackend::new(&gpu, options);
        Ok(Self::cuda(gpu, backend.map_err(|fault| fault.to_string())?, false))
    }

    /// A driver with the device's number of overlapping cycles in flight. Rows are in page-locked
    /// memory unless `is_pageable`.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(
        gpu: shoal_gpu::Gpu,
        backend: shoal_gpu::CudaBackend,
        is_pageable: bool,
    ) -> Self {
        let place = Box::new(move |block: &Block| {
            if is_pageable {
                return Ok(block.clone());
            }
            Ok(Block::parse(gpu.pinned_bytes(block.bytes())?, &Default::default())?)
        });
        let in_flight = shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
        Self { backend: Box::new(backend), in_flight, place, warm_rows: Vec::new() }
    }

    /// Copies blocks to the memory from which the backend reads them fastest.
    pub(crate) fn place(&self, blocks: &[Block]) -> Result<Vec<Block>, BenchmarkError> {
        blocks.iter().map(&self.place).collect()
    }

    /// Runs cycles untimed. All outputs remain in memory until the last, so that a later timed run
    /// reuses allocated memory.
    pub(crate) fn warm_up(
        &mut self,
        inputs: Vec<CycleInput>,
    ) -> Result<Receiver<CycleOutput>, BenchmarkError> {
        self.warm_rows.extend(inputs.iter().map(|input| input.requests.clone()));
        let (sender, outputs) = channel();
        self.drive(inputs, &mut CycleTimes::new()?, &sender)?;
        Ok(outputs)
    }

    /// Runs timed cycles while `take` checks their outputs in a separate thread.
    pub(crate) fn run_timed<T: Send>(
        &mut self,
        inputs: Vec<CycleInput>,
        take: impl FnOnce(&Receiver<CycleOutput>) -> Result<T, BenchmarkError> + Send,
    ) -> Result<Timed<T>, BenchmarkError> {
        // Rows are freed after the clock has stopped, because freeing is not a cost of the backend.
        let kept: Vec<_> = inputs.iter().map(|input| input.requests.clone()).collect();
        let mut times = CycleTimes::new()?;
        let (sender, outputs) = channel();
        let (seconds, taken) = thread::scope(|scope| {
            let taker = scope.spawn(move || take(&outputs));
            let start = Instant::now();
            let driven = self.drive(inputs, &mut times, &sender);
            let seconds = start.elapsed().as_secs_f64();
            drop(sender);
            let taken = taker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            driven.map(|()| (seconds, taken))
        })?;
        drop(kept);
        Ok(Timed { seconds, times, taken })
    }

    fn drive(
        &mut self,
        inputs: Vec<CycleInput>,
        times: &mut CycleTimes,
        outputs: &Sender<CycleOutput>,
    ) -> Result<(), BenchmarkError> {
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
                    return Ok(());
                };
                let output = self.backend.wait(ticket)?;
                times.add(submitted.elapsed());
                // The receiving thread stops at the first wrong output.
                let _ = outputs.send(output);
            }
        }
    }

    /// Checks that the engine holds all objects of a workload.
    pub(crate) fn check_objects(&self, objects: u64) -> Result<(), BenchmarkError> {
        let present = self.backend.objects();
        if present == objects {
            return Ok(());
        }
        let text = format!("the first reports created {present} of {objects} objects");
        Err(BenchmarkError::WorkloadRows(text))
    }
}

/// One cycle without system time or limits on event time.
pub(crate) fn cycle_input(
    blocks: Vec<Block>,
    queries: Vec<Query>,
    subscriptions: Vec<SubscriptionChange>,
) -> CycleInput {
    let requests = Arc::new(blocks.into_iter().map(Request::Block).collect());
    CycleInput { time_max_ms: i64::MAX, requests, queries, subscriptions, ..Default::default() }
}

/// A query for the ids of all objects in a region.
pub(crate) fn range_query(region: Region) -> Query {
    let kind = QueryKind::Range(region);
    Query { kind, filter: None, projection: Projection::Ids, limit: None }
}

/// Checks that every row of a cycle's blocks was accepted.
pub(crate) fn check_rows(blocks: &[Block], output: &CycleOutput) -> Result<(), BenchmarkError> {
    for (number, (block, outcome)) in blocks.iter().zip(&output.requests).enumerate() {
        let RequestOutcome { applied, superseded, late, duplicate, expired, .. } = outcome;
        let accepted = applied + superseded + late + duplicate + expired;
        if accepted != block.rows() as u64 || outcome.block_error.is_some() {
            let text = format!(
                "epoch {}, block {number}: {accepted} of {} rows accepted, {:?}",
                output.epoch,
                block.rows(),
                outcome.block_error
            );
            return Err(BenchmarkError::WorkloadRows(text));
        }
    }
    Ok(())
}

/// The answers of a cycle with this number of queries.
///
/// # Errors
/// [`BenchmarkError::Unanswered`] if the engine had no memory for them, or if their number differs.
pub(crate) fn answers(output: &CycleOutput, queries: usize) -> Result<&AnswerSet, BenchmarkError> {
    let epoch = output.epoch;
    let failed = |why| Err(BenchmarkError::Unanswered { epoch, queries, why });
    match &output.unanswered {
        Some(fault) => failed(fault.to_string()),
        None if output.answers.len() == queries => Ok(&output.answers),
        None => failed(format!("there are {} answers", output.answers.len())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use shoal_engine::EngineError;

    use super::*;

    #[test]
    fn unanswered_queries_are_an_error_with_the_cause() {
        let unanswered = EngineError::Device("no memory".into());
        let output =
            CycleOutput { epoch: 7, unanswered: Some(unanswered), ..CycleOutput::default() };
        for queries in [0, 3] {
            let error = answers(&output, queries).map(drop).unwrap_err().to_string();
            assert!(error.contains("cycle 7") && error.contains("no memory"), "{error}");
        }
    }

    #[test]
    fn every_query_has_an_answer() {
        let output = CycleOutput::default();
        assert_eq!(answers(&output, 0).unwrap().len(), 0);
        let error = answers(&output, 2).map(drop).unwrap_err().to_string();
        assert!(error.contains("2 queries") && error.contains("0 answers"), "{error}");
    }
}
