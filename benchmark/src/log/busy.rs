//! Cycles of an engine alone and beside checkpoints, by turns: what a checkpoint costs the cycles.
//!
//! A checkpoint is made as the server makes it: a slice between two cycles while another thread
//! encodes and writes. The next begins when one is written. Group times are those of the cycles.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use shoal_codec::FixColumns;
use shoal_engine::{Backend, CycleInput, ExportHeader, Request, Space};
use shoal_workload::Params;

use super::checkpoint::{create_folder, write};
use super::options::Options;
use super::recover::engine;
use super::row::{Case, Contender};
use super::run::Context;
use super::trial::{GroupTimes, Run, Trial, by_turns};
use super::work_folder::WorkFolder;
use crate::error::BenchmarkError;
use crate::harness::cycle_input;
use crate::harness::source::{Attributes, Source};

/// Rows of a slice, and slices that wait for the writer: those of the server.
const SLICE_ROWS: usize = 1 << 16;
const SLICES_WAITING: usize = 8;
/// Bytes of a row without attributes.
const ROW_BYTES: u64 = 24;

/// Measures one number of objects.
pub(super) fn run(context: &mut Context<'_>) -> Result<(), BenchmarkError> {
    let (options, folder) = (context.options, context.folder);
    create_folder(folder)?;
    let mut fleet = Fleet::load(options)?;
    let fleet = std::cell::RefCell::new(&mut fleet);
    let trials = vec![
        Trial::new(Contender::Engine, |times| fleet.borrow_mut().run(options, times, None)),
        Trial::new(Contender::Export, |times| fleet.borrow_mut().run(options, times, Some(folder))),
    ];
    let measured = by_turns(options.runs, trials)?;
    let cycles = options.tail.div_ceil(u64::from(options.cycle));
    let bytes = cycles * u64::from(options.cycle) * ROW_BYTES;
    let case = Case {
        objects: Some(options.objects),
        groups: cycles,
        ..context.case(cycles * u64::from(options.cycle), bytes)
    };
    context.report(&case, &measured)
}

/// An engine and the source of its updates.
struct Fleet {
    engine: Box<dyn Backend>,
    source: Source,
    space: Space,
}

impl Fleet {
    fn load(options: &Options) -> Result<Self, BenchmarkError> {
        let params = Params { objects: options.objects, seed: options.seed, ..Params::default() };
        let source = Source::open(&options.workload, &params, Attributes::None)?;
        let space = source.space();
        let mut fleet = Self { engine: engine(options, space)?, source, space };
        let mut left = options.objects;
        while left > 0 {
            let rows = left.min(u64::from(options.cycle));
            let columns = fleet.source.columns(rows as usize)?;
            fleet.engine.run(input(columns))?;
            left -= rows;
        }
        Ok(fleet)
    }

    /// Runs all cycles; beside checkpoints in the folder, if there is one.
    fn run(
        &mut self,
        options: &Options,
        times: &mut GroupTimes,
        folder: Option<&WorkFolder>,
    ) -> Result<Run, BenchmarkError> {
        let (mut busy, mut cycle_max, mut bytes_max) = (Duration::ZERO, Duration::ZERO, 0);
        let bytes_before = self.engine.memory_bytes();
        let mut checkpoints = 0;
        thread::scope(|scope| {
            let mut checkpoint: Option<Checkpoint<'_>> = None;
            for _ in 0..options.tail.div_ceil(u64::from(options.cycle)) {
                let columns = self.source.columns(options.cycle as usize)?;
                let start = Instant::now();
                self.engine.run(input(columns))?;
                if let Some(running) = &mut checkpoint {
                    for _ in 0..(options.cycle as usize).div_ceil(SLICE_ROWS) {
                        running.export(&mut *self.engine)?;
                    }
                }
                let is_over = checkpoint.as_ref().is_none_or(Checkpoint::is_written);
                if let (true, Some(folder)) = (is_over, folder) {
                    checkpoints += u64::from(checkpoint.is_some());
                    let (state, space) = (self.engine.begin_export()?, self.space);
                    let (rows, receiver) = sync_channel(SLICES_WAITING);
                    let writing = scope.spawn(move || {
                        write(folder, state, receiver.into_iter(), &space.tag()).map(drop)
                    });
                    let rows = Some(rows);
                    let new = Checkpoint { state, sent: 0, rows, waiting: None, writing };
                    if let Some(old) = checkpoint.replace(new) {
                        old.finish()?;
                    }
                }
                let took = start.elapsed();
                times.group.add(took);
                (busy, cycle_max) = (busy + took, cycle_max.max(took));
                bytes_max = bytes_max.max(self.engine.memory_bytes());
            }
            self.engine.end_export();
            checkpoint.map_or(Ok(()), Checkpoint::finish)
        })?;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let parts = vec![
            ("longest cycle", cycle_max.as_secs_f64()),
            ("checkpoints", checkpoints as f64),
            ("MB of the engine", megabytes(bytes_before)),
            ("MB more", megabytes(bytes_max - bytes_before)),
        ];
        Ok(Run { parts, ..Run::new(busy.as_secs_f64(), self.engine.objects().to_string()) })
    }
}

fn input(columns: FixColumns) -> CycleInput {
    let requests = vec![Request::Fixes(columns)].into();
    CycleInput { requests, ..cycle_input(Vec::new(), Vec::new(), Vec::new()) }
}

/// A checkpoint that is written.
struct Checkpoint<'scope> {
    state: ExportHeader,
    /// Rows sent to the writer.
    sent: u64,
    /// `None` once all were sent.
    rows: Option<SyncSender<FixColumns>>,
    /// A slice for which the writer had no space.
    waiting: Option<FixColumns>,
    writing: ScopedJoinHandle<'scope, Result<(), BenchmarkError>>,
}

impl Checkpoint<'_> {
    fn export(&mut self, engine: &mut dyn Backend) -> Result<(), BenchmarkError> {
        let Some(rows) = &self.rows else { return Ok(()) };
        let slice = match self.waiting.take() {
            None => engine.export_next(SLICE_ROWS)?,
            waiting => waiting,
        };
        let Some(slice) = slice else {
            self.rows = None;
            return Ok(());
        };
        let length = slice.len() as u64;
        match rows.try_send(slice) {
            Ok(()) => self.sent += length,
            Err(TrySendError::Full(slice)) => self.waiting = Some(slice),
            // The writer has failed, which is reported when it is joined.
            Err(TrySendError::Disconnected(_)) => self.rows = None,
        }
        Ok(())
    }

    fn is_written(&self) -> bool {
        self.rows.is_none() && self.writing.is_finished()
    }

    /// Waits for the writer, which ends early if the cycles have ended.
    fn finish(self) -> Result<(), BenchmarkError> {
        let is_whole = self.rows.is_none();
        drop(self.rows);
        self.writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        if is_whole && self.sent != self.state.objects {
            let text = format!("{} of {} rows were exported", self.sent, self.state.objects);
            return Err(BenchmarkError::WorkloadRows(text));
        }
        Ok(())
    }
}
