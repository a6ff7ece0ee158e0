//! The history that the questions query: built from a workload batch by batch, as in a server.
//!
//! A separate thread generates the fixes, so that the build times cover the history only.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use shoal_codec::FixColumns;
use shoal_engine::Space;
use shoal_history::{Batch, HistoryOptions, HistoryWriter, PageMemory, Version, Watermark};
use shoal_position_log::FileStorage;
use shoal_workload::{Params, START_MS};

use super::options::Options;
use crate::error::BenchmarkError;
use crate::harness::source::{Attributes, Source};

const FOLDER: &str = "history";
/// Rows of a batch, as in a server.
const BATCH_ROWS: u64 = shoal_history::limits::BATCH_ROWS_DEFAULT as u64;
/// Rows of a step of a merge.
const STEP_ROWS: usize = 1 << 20;

/// One version of a history, to be queried.
pub(super) struct Past {
    pub(super) version: Arc<Version>,
    /// First and last time.
    pub(super) window_ms: (i64, i64),
    /// Length of a quantum, metres.
    pub(super) quantum_m: f64,
}

impl Past {
    /// Opens the history in a folder; builds it if it has no rows.
    pub(super) fn open(options: &Options, folder: &Path) -> Result<Self, BenchmarkError> {
        let params = Params {
            objects: options.objects,
            seed: options.common.seed,
            step_ms: interval_ms(options),
            update_interval_ms: interval_ms(options).max(1_000),
            ..Params::default()
        };
        let source = Source::open(&options.workload, &params, Attributes::Motion)?;
        let space = source.space();
        let storage = Arc::new(FileStorage::new(folder));
        let pages = PageMemory::new(options.cache_mib << 20);
        let of_fleet = HistoryOptions::new(1, space.tag());
        let writer = HistoryOptions { pages, reserve_bytes: 0, ..of_fleet };
        let mut writer = HistoryWriter::open(storage, FOLDER, &writer)?;
        if writer.history().version().rows() == 0 {
            build(&mut writer, source, options.fixes)?;
        }
        Self::of(&writer, &space)
    }

    fn of(writer: &HistoryWriter, space: &Space) -> Result<Self, BenchmarkError> {
        let version = writer.history().version();
        let window_ms = version.times_ms().expect("it has rows");
        let per_fix = version.bytes() as f64 / version.rows() as f64;
        let (rows, runs) = (version.rows(), version.runs());
        println!("# {rows} fixes in {runs} runs, {} bytes, {per_fix:.3} a fix", version.bytes());
        Ok(Self { version, window_ms, quantum_m: space.quantum() })
    }
}

/// Time between two fixes of an object, on average.
fn interval_ms(options: &Options) -> i64 {
    let all_ms = u128::from(options.minutes) * 60_000 * u128::from(options.objects);
    ((all_ms / u128::from(options.fixes)) as i64).max(1)
}

/// Seals all rows and merges until no merge is worthwhile.
fn build(writer: &mut HistoryWriter, mut source: Source, fixes: u64) -> Result<(), BenchmarkError> {
    let (mut sealing, mut merging) = (Duration::ZERO, Duration::ZERO);
    let mut clock_ms = START_MS;
    thread::scope(|scope| {
        // One batch is made while another one is sealed.
        let (sender, receiver) = sync_channel::<Result<FixColumns, BenchmarkError>>(1);
        scope.spawn(move || {
            let sizes = (0..fixes).step_by(BATCH_ROWS as usize);
            for first in sizes {
                let rows = source.columns((fixes - first).min(BATCH_ROWS) as usize);
                if sender.send(rows).is_err() {
                    // The receiver has failed and reports its own error.
                    break;
                }
            }
        });
        let mut batch = Batch::default();
        for rows in receiver {
            let rows = rows?;
            let start = Instant::now();
            (0..rows.len()).for_each(|row| batch.fix(rows.row(row)));
            clock_ms = rows.time_ms.iter().copied().max().unwrap_or(clock_ms);
            writer.seal(&mut batch, watermark(clock_ms))?;
            batch.clear();
            sealing += start.elapsed();
            merging += merge(writer)?;
        }
        Ok::<_, BenchmarkError>(())
    })?;
    // A watermark beyond all partitions closes them.
    writer.seal(&mut Batch::default(), watermark(clock_ms + 7 * 86_400_000))?;
    merging += merge(writer)?;
    let rate = |took: Duration| fixes as f64 / took.as_secs_f64() / 1e6;
    println!(
        "# sealed in {sealing:.1?} ({:.2} M rows/s), merged in {merging:.1?} ({:.2} M rows/s)",
        rate(sealing),
        rate(merging)
    );
    Ok(())
}

fn watermark(clock_ms: i64) -> Watermark {
    Watermark { clock_ms, ..Watermark::default() }
}

fn merge(writer: &mut HistoryWriter) -> Result<Duration, BenchmarkError> {
    let start = Instant::now();
    while let Some(mut work) = writer.next_work()? {
        while !work.step(STEP_ROWS)? {}
        writer.finish(work)?;
    }
    Ok(start.elapsed())
}
