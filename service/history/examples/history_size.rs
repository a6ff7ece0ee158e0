//! Measures the size of real data as runs: `history_size DIR` compares the CSV files of a folder,
//! each a history, with their blocks in the order of arrival.
//!
//! `shoal-bench history` measures rates and times.

#![allow(clippy::unwrap_used, reason = "a measurement ends at the first error")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use shoal_codec::{
    Aim, BlockStream, CpuCodec, FixColumns, FixRow, MEASURES, PlanChoice, SpaceKind, SpaceTag,
};
use shoal_history::{Batch, HistoryOptions, HistoryWriter, Watermark};
use shoal_position_log::{FileStorage, Storage};
use shoal_table::{CsvReader, FixFileOptions, SpeedUnit};

const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Geographic, origin_x: 0.0, origin_y: 0.0, quantum: 1e-7 };
/// Rows of a block in the order of arrival.
const BLOCK_ROWS: usize = 65_536;

fn open(folder: &Path) -> HistoryWriter {
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::new(folder));
    let options = HistoryOptions { reserve_bytes: 0, ..HistoryOptions::new(1, SPACE) };
    HistoryWriter::open(storage, "history", &options).unwrap()
}

fn work(writer: &mut HistoryWriter) {
    while let Some(mut work) = writer.next_work().unwrap() {
        while !work.step(1 << 20).unwrap() {}
        writer.finish(work).unwrap();
    }
}

fn watermark(clock_ms: i64) -> Watermark {
    Watermark { clock_ms, ..Watermark::default() }
}

fn read(file: &Path) -> Vec<FixRow> {
    let reader =
        CsvReader::open(file, &FixFileOptions::strict(SpeedUnit::MetresPerSecond)).unwrap();
    let rows = reader.map(|fix| {
        let fix = fix.unwrap();
        let quanta = |value: f64| (value * 1e7).round_ties_even() as i32;
        FixRow {
            speed_mm_s: MEASURES.speed_mm_s.store_optional(fix.speed_mps.map(|it| it as f32)),
            heading_cdeg: MEASURES.heading_cdeg.store_optional(fix.heading_deg.map(|it| it as f32)),
            ..FixRow::new(fix.object, fix.time_ms, quanta(fix.x), quanta(fix.y))
        }
    });
    rows.filter(|row| row.time_ms > 946_684_800_000).collect()
}

fn public(folder: &Path) {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|it| it == "gz"));
    names.sort();
    let (mut all_blocks, mut all_runs) = (0, 0);
    for name in names {
        let rows = read(&name);
        let mut stream = BlockStream::new(SPACE, PlanChoice::Planned(Aim::Fast));
        let mut blocks = 0;
        let mut rest = &rows[..];
        while let Some(first) = rest.first() {
            // Times of a block span at most 49 days.
            let end = rest.partition_point(|row| row.time_ms - first.time_ms < 4_000_000_000);
            let (part, later) = rest.split_at(end.min(BLOCK_ROWS));
            let mut columns = FixColumns::with_capacity(part.len());
            part.iter().for_each(|row| columns.push_row(*row));
            blocks += stream.encode(&CpuCodec, &columns).unwrap().len();
            rest = later;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut writer = open(folder.path());
        let start = Instant::now();
        for part in rows.chunks(1 << 20) {
            let mut batch = Batch::default();
            part.iter().for_each(|row| batch.fix(*row));
            let end_ms = part.iter().map(|row| row.time_ms).max().unwrap();
            writer.seal(&mut batch, watermark(end_ms)).unwrap();
        }
        writer.seal(&mut Batch::default(), watermark(i64::MAX / 2)).unwrap();
        let sealed = start.elapsed();
        work(&mut writer);
        let version = writer.history().version();
        let (runs, bytes) = (version.runs(), version.bytes());
        all_blocks += blocks as u64;
        all_runs += bytes;
        println!(
            "{}: {} rows, {} distinct; fast {blocks} bytes, {runs} runs {bytes} bytes, \
             ratio {:.3}; sealed in {sealed:.2?}, merged in {:.2?}",
            name.file_name().unwrap().display(),
            rows.len(),
            version.rows(),
            blocks as f64 / bytes as f64,
            start.elapsed() - sealed,
        );
    }
    println!(
        "all: fast {all_blocks}, runs {all_runs}, ratio {:.3}",
        all_blocks as f64 / all_runs as f64
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [folder] => public(Path::new(folder)),
        _ => println!("history_size DIR"),
    }
}
