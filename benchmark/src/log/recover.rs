//! Recovery as in the server: replays the cycles of a log into an engine that holds a checkpoint's
//! state. The reference runs the same blocks from memory through the same engine.

use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_codec::{Block, Budget};
use shoal_engine::{Backend, CycleInput, EngineOptions, Request, Snapshot, Space};
use shoal_position_log::{
    CycleSource as _, LogReader, LoggedCycle, ReadMode, ReadOptions, RequestBody,
};
use shoal_workload::Params;

use super::append::{LOG, check, read_hash, write_log};
use super::content::Content;
use super::options::{Durability, Options};
use super::row::{Case, Contender};
use super::run::Context;
use super::trial::{Run, Trial, by_turns};
use crate::error::BenchmarkError;
use crate::harness::WorkFolder;
use crate::harness::source::{Attributes, Source};
use crate::harness::{AnswerHash, Driver, check_rows, cycle_input};

/// Maximum bytes of a group; the server's limit is `LOG_GROUP_BYTES_MAX`, 8 MiB.
const GROUP_BYTES: u64 = 2 << 20;
/// Maximum number of parsed cycles that wait for the engine.
const CYCLES_AHEAD: usize = 2;

/// Measures every plan.
pub(super) fn run(context: &mut Context<'_>) -> Result<(), BenchmarkError> {
    let (options, folder) = (context.options, context.folder);
    let (space, state) = loaded(options, options.objects)?;
    let mut first = None;
    for plan in &options.plans {
        let content = Content::of_tail(options, *plan, GROUP_BYTES)?;
        context.write(|times| {
            write_log(options, folder, &content, state.epoch, Durability::Applied, times)
        })?;
        check(&read_hash(folder)?, &content.hash())?;
        let case = Case {
            plan: Some(plan.name()),
            group_bytes: Some(GROUP_BYTES),
            objects: Some(options.objects),
            ..context.case_of(&content)
        };
        let engine = || with_state(options, space, state.clone());
        let trials = vec![
            Trial::new(Contender::Engine, |_| run_engine(engine()?, &content)),
            Trial::new(Contender::Replay, |_| replay(engine()?, state.epoch, folder)),
        ];
        let measured = by_turns(options.runs, trials)?;
        let hash = measured[0].median.hash.clone();
        check(&hash, first.get_or_insert(hash.clone()))?;
        context.report(&case, &measured)?;
    }
    Ok(())
}

/// An engine without objects.
pub(super) fn engine(options: &Options, space: Space) -> Result<Box<dyn Backend>, BenchmarkError> {
    let driver = Driver::open(options.backend, EngineOptions::new(space));
    Ok(driver.map_err(BenchmarkError::Backend)?.backend)
}

/// An engine with the state of a checkpoint.
fn with_state(
    options: &Options,
    space: Space,
    state: Snapshot,
) -> Result<Box<dyn Backend>, BenchmarkError> {
    let mut engine = engine(options, space)?;
    engine.import(state)?;
    Ok(engine)
}

/// The state after the first report of every object, and its space.
pub(super) fn loaded(options: &Options, objects: u64) -> Result<(Space, Snapshot), BenchmarkError> {
    let params = Params { objects, seed: options.common.seed, ..Params::default() };
    let mut source = Source::open(&options.workload, &params, Attributes::None)?;
    let mut engine = engine(options, source.space())?;
    let mut left = objects;
    while left > 0 {
        let rows = left.min(u64::from(options.cycle));
        let requests = vec![Request::Fixes(source.columns(rows as usize)?)].into();
        engine.run(CycleInput { requests, ..cycle_input(Vec::new(), Vec::new(), Vec::new()) })?;
        left -= rows;
    }
    let present = engine.objects();
    if present != objects {
        let text = format!("the first reports created {present} of {objects} objects");
        return Err(BenchmarkError::WorkloadRows(text));
    }
    Ok((source.space(), engine.export()?))
}

/// The hash of a state.
pub(super) fn state_hash(state: &Snapshot) -> String {
    let mut hash = AnswerHash::new();
    for batch in &state.batches {
        for row in 0..batch.len() {
            hash.add_word(batch.object[row]);
            hash.add_word(batch.time_ms[row].cast_unsigned());
            let (x, y) = (batch.x[row].cast_unsigned(), batch.y[row].cast_unsigned());
            hash.add_word(u64::from(x) << 32 | u64::from(y));
        }
    }
    hash.finish()
}

fn run_engine(mut engine: Box<dyn Backend>, content: &Content) -> Result<Run, BenchmarkError> {
    let cycle = |number| content.cycle(number).map(parse).collect::<Result<Vec<_>, _>>();
    let cycles = (0..content.cycles()).map(cycle).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    for blocks in &cycles {
        apply(&mut *engine, blocks)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Run::new(seconds, state_hash(&engine.export()?)))
}

/// Copies a block and reads its head, as the server does.
fn parse(bytes: &[u8]) -> Result<Block, BenchmarkError> {
    Ok(Block::parse(Bytes::copy_from_slice(bytes), &Budget::default())?)
}

fn apply(engine: &mut dyn Backend, blocks: &[Block]) -> Result<u64, BenchmarkError> {
    let output = engine.run(cycle_input(blocks.to_vec(), Vec::new(), Vec::new()))?;
    check_rows(blocks, &output)?;
    Ok(output.epoch)
}

/// Replays a log into an engine: another thread reads and parses, this one runs the cycles.
fn replay(
    mut engine: Box<dyn Backend>,
    epoch: u64,
    folder: &WorkFolder,
) -> Result<Run, BenchmarkError> {
    let start = Instant::now();
    let read = ReadOptions { fleet: None, after_epoch: epoch, mode: ReadMode::Recover };
    let reader = LogReader::open(folder.storage(), LOG, read)?;
    let (sender, cycles) = sync_channel(CYCLES_AHEAD);
    let mut running = Duration::ZERO;
    thread::scope(|scope| {
        let reading = scope.spawn(move || read_cycles(reader, &sender));
        for (number, blocks) in cycles {
            let run_start = Instant::now();
            let epoch = apply(&mut *engine, &blocks)?;
            running += run_start.elapsed();
            if epoch != number {
                let text = format!("cycle {number} of the log ran as {epoch}");
                return Err(BenchmarkError::WorkloadRows(text));
            }
        }
        reading.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    let (seconds, run_s) = (start.elapsed().as_secs_f64(), running.as_secs_f64());
    let parts = vec![("wait", seconds - run_s), ("engine", run_s)];
    Ok(Run { parts, ..Run::new(seconds, state_hash(&engine.export()?)) })
}

/// Sends the cycles of a log with their epochs; returns early if the receiver is gone.
fn read_cycles(
    mut reader: LogReader,
    cycles: &SyncSender<(u64, Vec<Block>)>,
) -> Result<(), BenchmarkError> {
    while let Some(cycle) = reader.next_cycle()? {
        if cycles.send((cycle.header.epoch, blocks(&cycle)?)).is_err() {
            return Ok(());
        }
    }
    reader.finish()?;
    Ok(())
}

fn blocks(cycle: &LoggedCycle<'_>) -> Result<Vec<Block>, BenchmarkError> {
    let block = |body| match body {
        RequestBody::Block(bytes) => Some(parse(bytes)),
        _ => None,
    };
    cycle.requests().filter_map(|request| block(request.body)).collect()
}
