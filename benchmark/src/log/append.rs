//! Appends as in the server: one thread fills a group while another writes the previous one.
//!
//! The reference is raw writes of the same sizes with the same syncs on the same disk.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use shoal_codec::PlanChoice;
use shoal_position_log::limits::PAGE_BYTES;
use shoal_position_log::{
    CycleSource as _, FleetIdentity, Group, LogError, LogOptions, LogReader, LogWriter, ReadMode,
    ReadOptions, RequestBody, create_log,
};

use super::content::{Content, ContentHash};
use super::options::{Durability, Options};
use super::raw_file::{Caching, RawFile};
use super::row::{Case, Contender};
use super::run::Context;
use super::trial::{GroupTimes, Run, Trial, by_turns};
use crate::error::BenchmarkError;
use crate::harness::WorkFolder;
use crate::harness::command::failed;

/// Folder of the log.
pub(super) const LOG: &str = "log";

/// Measures every plan, group size and durability.
pub(super) fn run(context: &mut Context<'_>) -> Result<(), BenchmarkError> {
    let (options, folder) = (context.options, context.folder);
    for (plan, group_bytes) in plans_and_groups(options) {
        let content = Content::of_groups(options, plan, group_bytes)?;
        for durability in &options.durability {
            let case = Case {
                plan: Some(plan.name()),
                group_bytes: Some(group_bytes),
                durability: Some(*durability),
                ..context.case_of(&content)
            };
            let measured = by_turns(options.runs, trials(options, folder, &content, &case)?)?;
            context.report(&case, &measured)?;
        }
    }
    Ok(())
}

fn trials<'a>(
    options: &'a Options,
    folder: &'a WorkFolder,
    content: &'a Content,
    case: &Case,
) -> Result<Vec<Trial<'a>>, BenchmarkError> {
    let durability = case.durability.unwrap_or(Durability::Logged);
    let frame_bytes = content.frame_bytes()?;
    let bytes = frame_bytes.iter().sum::<usize>() as u64;
    let raw = |contender, caching| {
        let (file, frame_bytes) = (RawFile::create(folder, caching, bytes)?, frame_bytes.clone());
        let run = move |times: &mut _| file.run(content, &frame_bytes, durability, times);
        Ok::<_, BenchmarkError>(Trial::new(contender, run))
    };
    let mut trials = vec![raw(Contender::Buffered, Caching::Buffered)?];
    if folder.is_direct {
        trials.insert(0, raw(Contender::Direct, Caching::Direct)?);
    }
    let expected = content.hash();
    trials.push(Trial::new(Contender::Log, move |times| {
        let seconds = write_log(options, folder, content, 0, durability, times)?;
        let hash = read_hash(folder)?;
        check(&hash, &expected)?;
        Ok(Run::new(seconds, hash))
    }));
    Ok(trials)
}

/// Fails if the hash of the content read differs from that of the content written.
pub(super) fn check(read: &str, written: &str) -> Result<(), BenchmarkError> {
    if read == written {
        return Ok(());
    }
    Err(BenchmarkError::Disagreement {
        case: "the content of the log".into(),
        backend: "what is read".into(),
        answers: read.into(),
        other: "what was written".into(),
        others: written.into(),
    })
}

/// Writes a new log after an epoch and closes it. Returns the seconds from the first cycle appended
/// to the last sync.
pub(super) fn write_log(
    options: &Options,
    folder: &WorkFolder,
    content: &Content,
    epoch: u64,
    durability: Durability,
    times: &mut GroupTimes,
) -> Result<f64, BenchmarkError> {
    let storage = folder.storage();
    storage.remove_dir(LOG).map_err(|source| failed(&folder.path().join(LOG), source))?;
    create_log(&*storage, LOG)?;
    let fleet = FleetIdentity::new(1, "benchmark")?;
    let log = LogOptions {
        segment_bytes: options.segment,
        reserve_bytes: 0,
        ..LogOptions::new(fleet, options.common.seed)
    };
    let read = ReadOptions { fleet: None, after_epoch: 0, mode: ReadMode::Recover };
    let recovered = LogReader::open(storage.clone(), LOG, read)?.finish()?;
    let mut writer = LogWriter::open(storage.clone(), LOG, log, recovered, epoch, 1)?;
    prepare(options, content, &mut writer)?;
    let start = Instant::now();
    write_groups(content, epoch + 1, durability, &mut writer, times)?;
    writer.sync()?;
    let seconds = start.elapsed().as_secs_f64();
    writer.close()?;
    Ok(seconds)
}

/// Prepares spare segments for all groups, like the recycled segments of a long-running server.
fn prepare(
    options: &Options,
    content: &Content,
    writer: &mut LogWriter,
) -> Result<(), BenchmarkError> {
    let frame_bytes = content.frame_bytes()?;
    let (capacity, mut used, mut segments) = (options.segment as usize, 2 * PAGE_BYTES, 0);
    for bytes in frame_bytes {
        // A frame larger than `capacity` has a segment of its own, which is not one of the spares.
        if used + bytes + PAGE_BYTES > capacity {
            (used, segments) = (PAGE_BYTES, segments + 1);
        }
        used += bytes;
    }
    // `spare_job` returns jobs until a spare is added, so all jobs are taken first.
    let jobs: Vec<_> = (0..segments).map_while(|_| writer.spare_job()).collect();
    let spares: Result<Vec<_>, _> = jobs.into_iter().map(|job| job.run()).collect();
    spares?.into_iter().for_each(|spare| writer.add_spare(spare));
    Ok(())
}

fn write_groups(
    content: &Content,
    first_epoch: u64,
    durability: Durability,
    writer: &mut LogWriter,
    times: &mut GroupTimes,
) -> Result<(), LogError> {
    let (full_sender, full) = sync_channel::<Group>(0);
    let (empty_sender, empty) = sync_channel::<Group>(2);
    thread::scope(|scope| {
        let filler = scope.spawn(move || fill(content, first_epoch, &empty, &full_sender));
        // Sending fails only if the filler has ended.
        (0..2).for_each(|_| drop(empty_sender.send(Group::new())));
        let mut written = Ok(());
        for mut group in &full {
            written = write(writer, &mut group, durability, times);
            if written.is_err() {
                break;
            }
            let _ = empty_sender.send(group);
        }
        drop((full, empty_sender));
        let filled = filler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(filled)
    })
}

fn write(
    writer: &mut LogWriter,
    group: &mut Group,
    durability: Durability,
    times: &mut GroupTimes,
) -> Result<(), LogError> {
    let sync = |writer: &mut LogWriter| writer.sync().map(drop);
    let sync = (durability == Durability::Logged).then_some(sync);
    times.time(writer, |writer| writer.write(group).map(drop), sync).map(drop)
}

/// Fills groups until all are filled or the writer has ended.
fn fill(
    content: &Content,
    first_epoch: u64,
    empty: &Receiver<Group>,
    full: &SyncSender<Group>,
) -> Result<(), LogError> {
    for cycles in &content.groups {
        let Ok(mut group) = empty.recv() else { return Ok(()) };
        content.fill(cycles, first_epoch, &mut group)?;
        if full.send(group).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The hash of the blocks in the log.
pub(super) fn read_hash(folder: &WorkFolder) -> Result<String, BenchmarkError> {
    let read = ReadOptions { fleet: None, after_epoch: 0, mode: ReadMode::Inspect };
    let mut reader = LogReader::open(folder.storage(), LOG, read)?;
    let mut hash = ContentHash::new();
    while let Some(cycle) = reader.next_cycle()? {
        for request in cycle.requests() {
            if let RequestBody::Block(block) = request.body {
                hash.add(block);
            }
        }
    }
    Ok(hash.finish())
}

/// Every combination of the plans and group sizes of the flags.
pub(super) fn plans_and_groups(options: &Options) -> impl Iterator<Item = (PlanChoice, u64)> {
    let groups = |plan: &PlanChoice| {
        let plan = *plan;
        options.groups.iter().map(move |bytes| (plan, *bytes))
    };
    options.plans.iter().flat_map(groups)
}
