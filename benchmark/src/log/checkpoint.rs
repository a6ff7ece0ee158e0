//! Checkpoints as the server makes them: the state is exported, written as blocks, read and loaded.
//! [`super::busy`] measures checkpoints while cycles run.

use std::borrow::Borrow;
use std::time::Instant;

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec as _, BlockPlan, Budget, CpuCodec, FixColumns, PlanChoice, SpaceTag,
};
use shoal_engine::{Backend, ExportHeader, Snapshot, Space};
use shoal_position_log::{
    CheckpointHeader, CheckpointReader, CheckpointWriter, FleetIdentity, Position, Section,
    open_newest,
};

use super::options::Options;
use super::recover::{engine, loaded, state_hash};
use super::row::{Case, Contender};
use super::run::Context;
use super::trial::{Run, Trial, by_turns};
use crate::error::BenchmarkError;
use crate::harness::WorkFolder;
use crate::harness::command::{failed, read_failed};

/// Folder of the checkpoint.
const CHECKPOINT: &str = "checkpoint";
/// Kind of the sections: any number from 16 on.
const ROWS: u16 = 16;

/// Measures every number of objects.
pub(super) fn run(context: &mut Context<'_>) -> Result<(), BenchmarkError> {
    let (options, folder) = (context.options, context.folder);
    for objects in &options.checkpoint_objects {
        let (space, state) = loaded(options, *objects)?;
        let mut exporting = engine(options, space)?;
        exporting.import(state.clone())?;
        create_folder(folder)?;
        let expected = state_hash(&state);
        let trials = vec![
            Trial::new(Contender::Export, |_| export(&mut *exporting)),
            Trial::new(Contender::Write, |_| {
                let Snapshot { term, epoch, clock_ms, .. } = state;
                let header = ExportHeader { term, epoch, clock_ms, objects: state.rows() };
                let (seconds, bytes) = write(folder, header, state.batches.iter(), &space.tag())?;
                Ok(Run { bytes: Some(bytes), ..Run::new(seconds, expected.clone()) })
            }),
            Trial::new(Contender::Load, |_| load(folder, options, space)),
        ];
        let mut measured = by_turns(options.runs, trials)?;
        let bytes = measured[1].median.bytes.unwrap_or(0);
        measured.iter_mut().for_each(|measured| measured.median.bytes = Some(bytes));
        let case = Case {
            plan: Some(PlanChoice::Fixes.name()),
            objects: Some(*objects),
            ..context.case(*objects, bytes)
        };
        context.report(&case, &measured)?;
    }
    Ok(())
}

fn export(engine: &mut dyn Backend) -> Result<Run, BenchmarkError> {
    let start = Instant::now();
    let state = engine.export()?;
    Ok(Run::new(start.elapsed().as_secs_f64(), state_hash(&state)))
}

/// Makes the folder of checkpoints.
pub(super) fn create_folder(folder: &WorkFolder) -> Result<(), BenchmarkError> {
    let created = folder.storage().create_dir(CHECKPOINT);
    created.map_err(|source| failed(&folder.path().join(CHECKPOINT), source))
}

/// Writes a checkpoint and syncs it; returns the seconds and the bytes of the file.
pub(super) fn write(
    folder: &WorkFolder,
    state: ExportHeader,
    batches: impl Iterator<Item = impl Borrow<FixColumns>>,
    space: &SpaceTag,
) -> Result<(f64, u64), BenchmarkError> {
    let start = Instant::now();
    let ExportHeader { epoch, clock_ms, .. } = state;
    let position = Position { epoch, ..Position::default() };
    let fleet = FleetIdentity::new(1, "benchmark")?;
    let header = CheckpointHeader { fleet, term: 1, epoch, clock_ms, position };
    let mut writer = CheckpointWriter::create(folder.storage(), CHECKPOINT, &header, &[], 0)?;
    let (plan, mut block) = (BlockPlan::fixes(), Vec::new());
    for batch in batches {
        block.clear();
        CpuCodec.encode_planned(batch.borrow(), &plan, space, 0, &mut block)?;
        writer.section(ROWS, &block)?;
    }
    let summary = writer.finish()?;
    Ok((start.elapsed().as_secs_f64(), summary.bytes))
}

/// Opens the checkpoint, which verifies all of it, reads it and loads it into a new engine.
fn load(folder: &WorkFolder, options: &Options, space: Space) -> Result<Run, BenchmarkError> {
    let mut engine = engine(options, space)?;
    let start = Instant::now();
    let found = open_newest(&folder.storage(), CHECKPOINT, None)?;
    let Some(mut reader) = found.newest else {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(read_failed(&folder.path().join(CHECKPOINT), source));
    };
    let opened = start.elapsed().as_secs_f64();
    let state = read(&mut reader)?;
    let decoded = start.elapsed().as_secs_f64();
    engine.import(state)?;
    let seconds = start.elapsed().as_secs_f64();
    let parts =
        vec![("verify", opened), ("decode", decoded - opened), ("import", seconds - decoded)];
    Ok(Run { parts, ..Run::new(seconds, state_hash(&engine.export()?)) })
}

fn read(reader: &mut CheckpointReader) -> Result<Snapshot, BenchmarkError> {
    let header = reader.header();
    let (term, epoch, clock_ms) = (header.term, header.epoch, header.clock_ms);
    let mut batches = Vec::new();
    while let Some(section) = reader.next_section()? {
        if let Section::Server { bytes, .. } = section {
            let block = Block::parse(Bytes::copy_from_slice(bytes), &Budget::default())?;
            let mut columns = FixColumns::new();
            block.decode_rows(0..block.rows(), &mut columns)?;
            batches.push(columns);
        }
    }
    Ok(Snapshot { term, epoch, clock_ms, batches })
}
