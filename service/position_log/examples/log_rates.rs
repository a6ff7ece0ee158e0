//! Rates of the log on the disk of a folder: `cargo run --release --example log_rates -- FOLDER`.
//!
//! For each size of group: raw aligned writes with a sync each, the log with one thread, the log
//! with a second thread that fills the next group, and reading all of it back.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use shoal_position_log::{
    AlignedBuffer, CycleHeader, CycleSource, FileStorage, FleetIdentity, Group, LogOptions,
    LogReader, LogWriter, LoggedRequest, ReadMode, ReadOptions, RequestBody, Retention, Storage,
    create_log,
};

const BLOCK_BYTES: usize = 64 << 10;
/// One run fits a segment; in steady state segments are recycled, so they are written before.
const SEGMENT_BYTES: u64 = 512 << 20;
const LOG: &str = "log";

fn fill(group: &mut Group, epoch: &mut u64, block: &[u8], bytes: usize) {
    while group.bytes() < bytes {
        *epoch += 1;
        let header = CycleHeader { epoch: *epoch, system_ms: 0, time_max_ms: 0 };
        let body = RequestBody::Block(&block[..block.len().min(bytes)]);
        group.append(header, [LoggedRequest { body, batch: None }]).expect("valid");
    }
}

fn open(storage: &Arc<dyn Storage>) -> LogWriter {
    storage.remove_dir(LOG).expect("remove");
    create_log(&**storage, LOG).expect("create");
    let fleet = FleetIdentity::new(1, "rates").expect("valid");
    let read = ReadOptions { fleet: None, after_epoch: 0, mode: ReadMode::Recover };
    let recovered = LogReader::open(storage.clone(), LOG, read).expect("open");
    let recovered = recovered.finish().expect("read");
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::new(fleet, 7) };
    let mut log = LogWriter::open(storage.clone(), LOG, options, recovered, 0, 1).expect("open");
    if let Some(job) = log.spare_job() {
        log.add_spare(job.run().expect("spare"));
    }
    log
}

fn raw(folder: &Path, bytes: usize, groups: usize) -> f64 {
    let mut options = OpenOptions::new();
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    options.read(true).write(true).create(true).truncate(true).custom_flags(direct);
    let file = options.open(folder.join("raw")).expect("open");
    let buffer = AlignedBuffer::zeroed(bytes + 4096);
    for index in 0..groups {
        file.write_all_at(&buffer, (index * buffer.len()) as u64).expect("write");
    }
    file.sync_all().expect("sync");
    let start = Instant::now();
    for index in 0..groups {
        file.write_all_at(&buffer, (index * buffer.len()) as u64).expect("write");
        file.sync_data().expect("sync");
    }
    start.elapsed().as_secs_f64()
}

fn one_thread(log: &mut LogWriter, block: &[u8], bytes: usize, groups: usize) -> f64 {
    let (mut group, mut epoch) = (Group::new(), log.written().epoch);
    let start = Instant::now();
    for _ in 0..groups {
        fill(&mut group, &mut epoch, block, bytes);
        log.write(&mut group).expect("write");
        log.sync().expect("sync");
    }
    start.elapsed().as_secs_f64()
}

fn two_threads(log: &mut LogWriter, block: &[u8], bytes: usize, groups: usize) -> f64 {
    let (full, to_write) = sync_channel::<Group>(1);
    let (empty, to_fill) = sync_channel::<Group>(2);
    for _ in 0..2 {
        empty.send(Group::new()).expect("open");
    }
    let mut epoch = log.written().epoch;
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut group in to_fill.iter().take(groups) {
                fill(&mut group, &mut epoch, block, bytes);
                full.send(group).expect("open");
            }
        });
        for mut group in to_write {
            log.write(&mut group).expect("write");
            log.sync().expect("sync");
            let _ = empty.send(group);
        }
    });
    start.elapsed().as_secs_f64()
}

/// Reads up to the last epoch; the search for frames after the end is not included.
fn read(storage: &Arc<dyn Storage>, last_epoch: u64) -> (f64, f64) {
    let options = ReadOptions { fleet: None, after_epoch: 0, mode: ReadMode::Recover };
    let start = Instant::now();
    let mut reader = LogReader::open(storage.clone(), LOG, options).expect("open");
    let (mut bytes, mut epoch) = (0, 0);
    while epoch < last_epoch {
        let cycle = reader.next_cycle().expect("read").expect("not the end");
        bytes += cycle.encoded().len();
        epoch = cycle.header.epoch;
    }
    (bytes as f64, start.elapsed().as_secs_f64())
}

fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    let folder = Path::new(&folder);
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::new(folder));
    let block: Vec<u8> = (0..BLOCK_BYTES).map(|byte| (byte * 7) as u8).collect();
    println!("group bytes | raw MB/s, us | one thread MB/s, us | two threads MB/s, us | read MB/s");
    for (bytes, groups) in [(400, 1000), (60 << 10, 800), (500 << 10, 300), (2 << 20, 150)] {
        let row = |seconds: f64| {
            let rate = (bytes * groups) as f64 / seconds / 1e6;
            format!("{rate:8.1} {:7.0}", seconds * 1e6 / groups as f64)
        };
        let raw = raw(folder, bytes, groups);
        let mut log = open(&storage);
        let one = one_thread(&mut log, &block, bytes, groups);
        let (amount, seconds) = read(&storage, log.written().epoch);
        log.retire(u64::MAX, &Retention::default(), 0).expect("retire");
        let two = two_threads(&mut log, &block, bytes, groups);
        let read = amount / seconds / 1e6;
        println!("{bytes:10} | {} | {} | {} | {read:8.0}", row(raw), row(one), row(two));
        log.close().expect("close");
    }
    storage.remove_dir(LOG).expect("remove");
    std::fs::remove_file(folder.join("raw")).expect("remove");
}
