//! Measures a history on files: size of real data as runs, and rates of seals and queries.
//!
//! `history_rates public DIR` compares the public set with blocks in the order of arrival.
//! `history_rates day ROWS OBJECTS FOLDER` seals a day of random walks and asks questions of it.

#![allow(clippy::unwrap_used, reason = "a measurement ends at the first error")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_codec::{
    Aim, BlockStream, CpuCodec, FixColumns, FixRow, MEASURES, PlanChoice, SpaceKind, SpaceTag,
};
use shoal_history::{
    AsOf, AsOfQuery, Batch, Everywhere, HistoryOptions, HistoryWriter, QueryBudget, RowFilter,
    Scan, Trajectory, Version, Watermark, Zone,
};
use shoal_position_log::{FileStorage, Storage};
use shoal_table::{CsvReader, SpeedUnit};

const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Geographic, origin_x: 0.0, origin_y: 0.0, quantum: 1e-7 };
/// Rows of a block in the order of arrival.
const BLOCK_ROWS: usize = 65_536;
const START_MS: i64 = 1_700_006_400_000;
const DAY_MS: i64 = 86_400_000;

fn open(folder: &Path) -> HistoryWriter {
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::new(folder));
    let options = HistoryOptions { reserve_bytes: 0, ..HistoryOptions::new(1, SPACE) };
    HistoryWriter::open(storage, "history", &options).unwrap()
}

fn work(writer: &mut HistoryWriter) {
    while let Some(mut merge) = writer.next_work().unwrap() {
        while !merge.step(1 << 20).unwrap() {}
        writer.finish(merge).unwrap();
    }
}

fn watermark(clock_ms: i64) -> Watermark {
    Watermark { clock_ms, ..Watermark::default() }
}

fn read(file: &Path) -> Vec<FixRow> {
    let reader = CsvReader::open(file, SpeedUnit::MetresPerSecond).unwrap();
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

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

struct Circle {
    x: i32,
    y: i32,
    radius: i64,
}

impl RowFilter for Circle {
    fn may_match(&self, zone: &Zone) -> bool {
        let apart = |(low, high): (i32, i32), at: i32| {
            (i64::from(low) - i64::from(at)).max(i64::from(at) - i64::from(high))
        };
        apart(zone.x, self.x) <= self.radius && apart(zone.y, self.y) <= self.radius
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        let (dx, dy) = (i64::from(rows.x[row] - self.x), i64::from(rows.y[row] - self.y));
        dx * dx + dy * dy <= self.radius * self.radius
    }
}

/// Few rows, which no zone excludes.
struct Slow {
    speed_mm_s: u32,
}

impl RowFilter for Slow {
    fn may_match(&self, _: &Zone) -> bool {
        true
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        rows.speed_mm_s.as_ref().is_some_and(|speeds| speeds[row] <= self.speed_mm_s)
    }
}

fn fill(writer: &mut HistoryWriter, rows: u64, objects: u64) {
    let mut state = 1;
    let mut places: Vec<[i32; 4]> = (0..objects)
        .map(|_| {
            let mut place = || (random(&mut state) % 6_000_000) as i32;
            [24_000_000 + place(), 488_000_000 + place(), 0, 0]
        })
        .collect();
    let mut batch = Batch::default();
    let (mut sealing, mut bytes) = (Duration::ZERO, 0);
    for row in 0..rows {
        let object = row % objects;
        let time_ms = START_MS + (u128::from(row) * DAY_MS as u128 / u128::from(rows)) as i64;
        let [x, y, dx, dy] = &mut places[object as usize];
        let noise = random(&mut state);
        if noise.is_multiple_of(8) {
            *dx = (noise >> 8 & 0xfff) as i32 - 2_048;
            *dy = (noise >> 24 & 0xfff) as i32 - 2_048;
        }
        *x += *dx + (noise >> 40 & 63) as i32;
        *y += *dy + (noise >> 48 & 63) as i32;
        let speed_mm_s = ((*dx).unsigned_abs() + (*dy).unsigned_abs()) / 100 * 100;
        batch.fix(FixRow { speed_mm_s, ..FixRow::new(object * 7, time_ms, *x, *y) });
        if batch.len() == 1 << 20 || row + 1 == rows {
            let start = Instant::now();
            bytes += writer.seal(&mut batch, watermark(time_ms)).unwrap().bytes;
            sealing += start.elapsed();
            batch.clear();
        }
    }
    let rate = rows as f64 / sealing.as_secs_f64() / 1e6;
    println!("sealed {rows} rows in {sealing:.2?}: {rate:.2} M rows/s on one core, {bytes} bytes");
    writer.seal(&mut batch, watermark(START_MS + 2 * DAY_MS)).unwrap();
    let start = Instant::now();
    work(writer);
    println!("merged in {:.2?}", start.elapsed());
}

fn median(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (half, last) = (times.len() / 2, times.len() * 99 / 100);
    println!("{name}: p50 {:.2?}, p99 {:.2?} of {}", times[half], times[last], times.len());
}

fn scan_all(version: &Arc<Version>) {
    for (name, threads) in [("1 thread", 1), ("2 threads", 2)] {
        let start = Instant::now();
        let rows = std::thread::scope(|scope| {
            let part_ms = DAY_MS / threads;
            let scans: Vec<_> = (0..threads)
                .map(|part| {
                    let from_ms = START_MS + part * part_ms;
                    let window = (from_ms, from_ms + part_ms - 1);
                    let version = version.clone();
                    scope.spawn(move || {
                        let filter = Slow { speed_mm_s: 100 };
                        let mut scan = Scan::new(version, window, filter, QueryBudget::unlimited());
                        let (mut out, mut rows) = (FixColumns::new(), 0);
                        while scan.next(&mut out).unwrap() {
                            rows += out.len();
                            out.clear();
                        }
                        rows
                    })
                })
                .collect();
            scans.into_iter().map(|scan| scan.join().unwrap()).sum::<usize>()
        });
        let rate = version.rows() as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("full scan, {name}: {rows} rows of {}, {rate:.1} M rows/s", version.rows());
    }
}

fn ask(version: &Arc<Version>, objects: u64) {
    scan_all(version);
    let mut state = 9;
    let budget = QueryBudget::unlimited;
    let mut out = FixColumns::new();
    for pass in ["first", "again"] {
        let mut state = 5;
        let mut times = Vec::new();
        for _ in 0..300 {
            let object = random(&mut state) % objects * 7;
            let start = Instant::now();
            let window = (START_MS, START_MS + DAY_MS);
            let mut track = Trajectory::new(version.clone(), &[object], window, 0, budget());
            out.clear();
            while track.next(&mut out).unwrap() {}
            times.push(start.elapsed());
        }
        median(&format!("trajectory of a day ({} fixes), {pass}", out.len()), times);
    }
    let mut times = Vec::new();
    let mut found = 0;
    for _ in 0..100 {
        let place = (random(&mut state) % 6_000_000) as i32;
        let filter = Circle { x: 24_000_000 + place, y: 491_000_000, radius: 90_000 };
        let from_ms = START_MS + (random(&mut state) % 23) as i64 * 3_600_000;
        let start = Instant::now();
        let scan = Scan::new(version.clone(), (from_ms, from_ms + 3_600_000), filter, budget());
        found += scan.objects().unwrap().len();
        times.push(start.elapsed());
    }
    median(&format!("objects in a circle in an hour ({found} in all)"), times);
    let mut times = Vec::new();
    for hour in 1..20 {
        let time_ms = START_MS + hour * 4_000_000;
        let query = AsOfQuery { time_ms, ttl_ms: None, objects: None };
        let start = Instant::now();
        let mut as_of = AsOf::new(version.clone(), query, Everywhere, budget());
        out.clear();
        while as_of.next(&mut out).unwrap() {}
        times.push(start.elapsed());
    }
    median(&format!("as of a moment for all ({} objects)", out.len()), times);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["public", folder] => public(Path::new(folder)),
        ["day", rows, objects, folder] => {
            let (rows, objects) = (rows.parse().unwrap(), objects.parse().unwrap());
            let mut writer = open(Path::new(folder));
            if writer.history().version().runs() == 0 {
                fill(&mut writer, rows, objects);
            }
            let version = writer.history().version();
            let per_row = version.bytes() as f64 / version.rows() as f64;
            println!("{} runs, {} bytes, {per_row:.3} a fix", version.runs(), version.bytes());
            ask(&version, objects);
        }
        _ => println!("history_rates public DIR | day ROWS OBJECTS FOLDER"),
    }
}
