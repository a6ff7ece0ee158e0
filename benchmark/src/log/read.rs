//! Compares the reader of recovery, which verifies every frame, with a plain sequential read of the
//! same segments with a checksum.

use std::sync::Arc;
use std::time::Instant;

use shoal_position_log::limits::READ_BYTES;
use shoal_position_log::{AlignedBuffer, LogReader, ReadMode, ReadOptions, Storage};

use super::append::{LOG, check, plans_and_groups, read_hash, write_log};
use super::content::Content;
use super::options::Durability;
use super::row::{Case, Contender};
use super::run::Context;
use super::trial::{Run, Trial, by_turns};
use crate::error::BenchmarkError;
use crate::harness::WorkFolder;
use crate::harness::command::read_failed;

/// Name ending of segment files.
const SEGMENT: &str = ".segment";

/// Measures every plan and group size.
pub(super) fn run(context: &mut Context<'_>) -> Result<(), BenchmarkError> {
    let (options, folder) = (context.options, context.folder);
    for (plan, group_bytes) in plans_and_groups(options) {
        let content = Content::of_groups(options, plan, group_bytes)?;
        context
            .write(|times| write_log(options, folder, &content, 0, Durability::Applied, times))?;
        let expected = content.hash();
        let case = Case {
            plan: Some(plan.name()),
            group_bytes: Some(group_bytes),
            ..context.case_of(&content)
        };
        let trials = vec![
            Trial::new(Contender::Plain, |_| read_plain(folder)),
            Trial::new(Contender::Log, |_| {
                let seconds = read_frames(&folder.storage())?;
                Ok(Run::new(seconds, read_hash(folder)?))
            }),
        ];
        let measured = by_turns(options.runs, trials)?;
        check(&measured[1].median.hash, &expected)?;
        context.report(&case, &measured)?;
    }
    Ok(())
}

/// Reads and verifies all frames; returns the seconds.
fn read_frames(storage: &Arc<dyn Storage>) -> Result<f64, BenchmarkError> {
    let start = Instant::now();
    let read = ReadOptions { fleet: None, after_epoch: 0, mode: ReadMode::Recover };
    let mut reader = LogReader::open(storage.clone(), LOG, read)?;
    while reader.next_frame()?.is_some() {}
    reader.finish()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Reads all segments from beginning to end. The hash is the checksum of all bytes.
fn read_plain(folder: &WorkFolder) -> Result<Run, BenchmarkError> {
    let path = folder.path().join(LOG);
    let failed = |source| read_failed(&path, source);
    let start = Instant::now();
    let storage = folder.storage();
    let mut buffer = AlignedBuffer::zeroed(READ_BYTES);
    let mut crc = 0;
    for name in storage.list(LOG).map_err(failed)?.iter().filter(|name| name.ends_with(SEGMENT)) {
        let file = storage.open(&format!("{LOG}/{name}")).map_err(failed)?;
        let mut offset = 0;
        loop {
            let bytes = file.read_at(offset, &mut buffer).map_err(failed)?;
            if bytes == 0 {
                break;
            }
            crc = crc32c::crc32c_append(crc, &buffer[..bytes]);
            offset += bytes as u64;
        }
    }
    Ok(Run::new(start.elapsed().as_secs_f64(), format!("crc32c:{crc:08x}")))
}
