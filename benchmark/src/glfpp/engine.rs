//! Any backend of the engine's contract as a contender.
//!
//! Its answers while the clock runs and at rest are hashed for the comparison.

use std::sync::mpsc::Receiver;

use shoal_engine::{AnswerSet, CycleInput, CycleOutput, GridUpdates, Query};

use super::contender::{Contender, Measured, Settings};
use super::options::Options;
use super::prepared::{Cycle, Prepared};
use super::timeline::Recorder;
use crate::error::BenchmarkError;
use crate::harness::{AnswerHash, Driver, Totals, answers, check_rows, cycle_input};

/// Warm-up cycles: several times as many as are in flight, so that all pools are filled.
const WARM_CYCLES: usize = 8;

/// A backend with its settings.
pub(super) struct EngineContender {
    driver: Driver,
    recorder: Option<Box<dyn Recorder>>,
    settings: Settings,
}

impl EngineContender {
    pub(super) fn new(driver: Driver) -> Self {
        Self { driver, recorder: None, settings: Settings::default() }
    }

    #[cfg(not(feature = "cuda"))]
    pub(super) fn cuda(_prepared: &Prepared, _options: &Options) -> Result<Self, String> {
        Err(shoal_gpu::Unavailable::NotBuilt.to_string())
    }

    /// The engine on the first NVIDIA GPU, with the settings of the case.
    #[cfg(feature = "cuda")]
    pub(super) fn cuda(prepared: &Prepared, options: &Options) -> Result<Self, String> {
        use shoal_gpu::{CudaBackend, Gpu, Tuning, UpdateMethod};

        use super::options;

        let gpu = Gpu::open(Gpu::FIRST).map_err(|cause| cause.to_string())?;
        let (update_method, update_choice) = match prepared.case.update_method {
            Some(options::UpdateMethod::Apply) => (Some(UpdateMethod::Apply), "apply"),
            Some(options::UpdateMethod::Rebuild) => (Some(UpdateMethod::Rebuild), "rebuild"),
            None => (None, "cheaper"),
        };
        let side = prepared.case.side.or(options.cuda_side);
        let resident_threads = prepared.case.launch_threads;
        let tuning = Tuning { side, update_method, resident_threads };
        let engine = shoal_engine::EngineOptions::new(prepared.space);
        let budget_bytes = CudaBackend::usual_budget_bytes(&gpu);
        let backend = CudaBackend::with_tuning(&gpu, engine, budget_bytes, tuning);
        let backend = backend.map_err(|fault| fault.to_string())?;
        let recorder = options.timeline.then(|| Box::new(backend.recorder()) as Box<dyn Recorder>);
        let settings = Settings {
            cells: side.map_or(0, |side| u64::from(side).pow(2)),
            launch_threads: resident_threads.unwrap_or(0),
            update_choice,
            ..Settings::default()
        };
        Ok(Self { driver: Driver::cuda(gpu, backend, options.pageable), recorder, settings })
    }

    fn input(&self, cycle: &Cycle) -> Result<CycleInput, BenchmarkError> {
        let blocks = self.driver.place(&cycle.blocks)?;
        Ok(cycle_input(blocks, cycle.queries.clone(), Vec::new()))
    }

    fn load(&mut self, prepared: &Prepared) -> Result<(), BenchmarkError> {
        for cycle in &prepared.load {
            let input = cycle_input(cycle.blocks.clone(), cycle.queries.clone(), Vec::new());
            let output = self.driver.backend.run(input)?;
            check(cycle, &output)?;
        }
        let warm = (0..WARM_CYCLES).map(|_| self.input(&prepared.warm));
        let warm = warm.collect::<Result<_, _>>()?;
        drop(self.driver.warm_up(warm)?);
        self.driver.check_objects(prepared.case.objects)
    }

    /// Runs `queries` in a cycle without updates and returns the answers.
    fn at_rest(&mut self, queries: &[Query]) -> Result<AnswerSet, BenchmarkError> {
        let input = CycleInput { queries: queries.to_vec(), ..CycleInput::default() };
        let output = self.driver.backend.run(input)?;
        answers(&output, queries.len())?;
        Ok(output.answers)
    }
}

impl Contender for EngineContender {
    fn run(mut self: Box<Self>, prepared: &Prepared) -> Result<Measured, BenchmarkError> {
        self.load(prepared)?;
        let inputs = prepared.cycles.iter().map(|cycle| self.input(cycle));
        let inputs = inputs.collect::<Result<_, _>>()?;
        let before = self.driver.backend.grid_updates();
        self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.start())?;
        let timed = self.driver.run_timed(inputs, |outputs| take(prepared, outputs))?;
        let recording = self.recorder.as_ref().map(|recorder| recorder.stop()).transpose()?;
        let after = self.driver.backend.grid_updates();
        let mut answer_hash = AnswerHash::new();
        answer_hash.add(&self.at_rest(&prepared.rest)?);
        Ok(Measured {
            seconds: timed.seconds,
            times: timed.times,
            cycle_updates: prepared.case.cycle_updates(),
            epochs_behind: self.driver.backend.answer_lag(),
            totals: timed.taken,
            answer_hash: answer_hash.finish(),
            recording,
            memory_bytes: self.driver.backend.memory_bytes(),
            grid_updates: GridUpdates {
                applied: after.applied - before.applied,
                rebuilt: after.rebuilt - before.rebuilt,
            },
            settings: self.settings,
        })
    }
}

/// Checks outputs, and counts and hashes the objects found by each query.
///
/// It keeps up with a backend of less than a millisecond per cycle. A backend whose outputs are not
/// dropped in time allocates page-locked memory for the next ones, which takes longer than a cycle.
fn take(prepared: &Prepared, outputs: &Receiver<CycleOutput>) -> Result<Totals, BenchmarkError> {
    let mut totals = Totals::default();
    // The queries are kept until the end, because freeing them while the clock runs slows the
    // engine.
    let mut queries = Vec::new();
    for cycle in &prepared.cycles {
        let Ok(mut output) = outputs.recv() else { break };
        queries.push(std::mem::take(&mut output.queries));
        check(cycle, &output)?;
        let answers = &output.answers;
        totals.add(answers.len(), |range| answers.range(range).map(|answer| answer.total));
    }
    Ok(totals)
}

/// Checks that every row of a cycle was accepted and every query answered.
fn check(cycle: &Cycle, output: &CycleOutput) -> Result<(), BenchmarkError> {
    check_rows(&cycle.blocks, output)?;
    answers(output, cycle.queries.len()).map(drop)
}

#[cfg(feature = "cuda")]
impl Recorder for shoal_gpu::Recorder {
    fn start(&self) -> Result<(), BenchmarkError> {
        Ok(Self::start(self)?)
    }

    fn stop(&self) -> Result<super::timeline::Recording, BenchmarkError> {
        let shoal_gpu::Recording { spans, in_bytes, out_bytes } = Self::stop(self)?;
        let spans = spans.into_iter().map(|span| super::timeline::Span {
            epoch: span.epoch,
            stage: span.stage,
            begin_ms: span.begin_ms.into(),
            end_ms: span.end_ms.into(),
        });
        Ok(super::timeline::Recording { spans: spans.collect(), in_bytes, out_bytes })
    }
}
