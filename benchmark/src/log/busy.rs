//! The cost of checkpoints: cycles of an engine with and without concurrent checkpoints, in turn.
//!
//! As in the server, the engine exports one slice between two cycles while another thread encodes
//! and writes. Until all slices are exported, a cycle has no more rows than a slice. The next
//! checkpoint begins after a pause. The group times of the rows are times of cycles.

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
use crate::error::BenchmarkError;
use crate::harness::WorkFolder;
use crate::harness::cycle_input;
use crate::harness::source::{Attributes, Source};

/// Rows of a slice and maximum number of slices waiting for the writer, as in the server.
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
        let params =
            Params { objects: options.objects, seed: options.common.seed, ..Params::default() };
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

    /// Runs all cycles; writes checkpoints meanwhile if `folder` is given.
    fn run(
        &mut self,
        options: &Options,
        times: &mut GroupTimes,
        folder: Option<&WorkFolder>,
    ) -> Result<Run, BenchmarkError> {
        let (mut busy, mut cycle_max, mut checkpoints) = (Duration::ZERO, Duration::ZERO, 0);
        let (before, mut most) = (Memory::of(&*self.engine), Memory::default());
        let mut left = options.tail.next_multiple_of(u64::from(options.cycle));
        thread::scope(|scope| {
            let (mut checkpoint, mut next) = (None::<Checkpoint<'_>>, Instant::now());
            while left > 0 {
                let is_exporting =
                    checkpoint.as_ref().is_some_and(|running| running.rows.is_some());
                let rows_max = if is_exporting { SLICE_ROWS } else { usize::MAX };
                let rows = rows_max.min(options.cycle as usize).min(left as usize);
                let columns = self.source.columns(rows)?;
                left -= rows as u64;
                let start = Instant::now();
                self.engine.run(input(columns))?;
                if let Some(running) = &mut checkpoint {
                    running.export(&mut *self.engine)?;
                }
                if let Some(written) = checkpoint.take_if(|running| running.is_written()) {
                    next = Instant::now() + written.begun.elapsed() * options.pause;
                    written.finish()?;
                    checkpoints += 1;
                }
                if let (true, None, Some(folder)) = (next <= start, &checkpoint, folder) {
                    let (state, space) = (self.engine.begin_export()?, self.space);
                    let (rows, receiver) = sync_channel(SLICES_WAITING);
                    let writing = scope.spawn(move || {
                        write(folder, state, receiver.into_iter(), &space.tag()).map(drop)
                    });
                    checkpoint = Some(Checkpoint::new(state, rows, writing));
                }
                let took = start.elapsed();
                times.group.add(took);
                (busy, cycle_max) = (busy + took, cycle_max.max(took));
                most = most.max(&Memory::of(&*self.engine));
            }
            self.engine.end_export();
            checkpoint.map_or(Ok(()), Checkpoint::finish)
        })?;
        let more = |most: u64, before: u64| most.saturating_sub(before) as f64 / 1e6;
        let parts = vec![
            ("longest cycle", cycle_max.as_secs_f64()),
            ("checkpoints", f64::from(checkpoints)),
            ("MB of the engine", more(before.engine_bytes, 0)),
            ("MB more", more(most.engine_bytes, before.engine_bytes)),
            ("MB resident", more(before.resident_bytes, 0)),
            ("MB resident more", more(most.resident_bytes, before.resident_bytes)),
        ];
        Ok(Run { parts, ..Run::new(busy.as_secs_f64(), self.engine.objects().to_string()) })
    }
}

fn input(columns: FixColumns) -> CycleInput {
    let requests = vec![Request::Fixes(columns)].into();
    CycleInput { requests, ..cycle_input(Vec::new(), Vec::new(), Vec::new()) }
}

/// Memory in use.
#[derive(Default)]
struct Memory {
    engine_bytes: u64,
    /// Resident memory of the process; 0 if the system does not report it.
    resident_bytes: u64,
}

impl Memory {
    fn of(engine: &dyn Backend) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        Self { engine_bytes: engine.memory_bytes(), resident_bytes: kib.unwrap_or(0) << 10 }
    }

    fn max(&self, other: &Self) -> Self {
        Self {
            engine_bytes: self.engine_bytes.max(other.engine_bytes),
            resident_bytes: self.resident_bytes.max(other.resident_bytes),
        }
    }
}

/// A checkpoint in progress.
struct Checkpoint<'scope> {
    begun: Instant,
    state: ExportHeader,
    /// Rows sent to the writer.
    sent: u64,
    /// `None` once all were sent.
    rows: Option<SyncSender<FixColumns>>,
    /// An exported slice that did not fit the writer's queue.
    waiting: Option<FixColumns>,
    writing: ScopedJoinHandle<'scope, Result<(), BenchmarkError>>,
}

impl<'scope> Checkpoint<'scope> {
    fn new(
        state: ExportHeader,
        rows: SyncSender<FixColumns>,
        writing: ScopedJoinHandle<'scope, Result<(), BenchmarkError>>,
    ) -> Self {
        let (begun, rows) = (Instant::now(), Some(rows));
        Self { begun, state, sent: 0, rows, waiting: None, writing }
    }

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
            // The writer has failed; joining it returns its error.
            Err(TrySendError::Disconnected(_)) => self.rows = None,
        }
        Ok(())
    }

    fn is_written(&self) -> bool {
        self.rows.is_none() && self.writing.is_finished()
    }

    /// Waits for the writer. If the cycles ended before the export, the checkpoint is incomplete.
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
