//! Hazard: a compressed table takes more bytes than a general compressor needs for its text.
//!
//! The sample is compressed with the aim `small` and read back.

use std::path::Path;

use shoal_codec::Aim;
use shoal_table::{CpuTableCodec, FrameReader, TableOptions, TableSource, compress, inspect};

/// Rows of a block, the command's default.
const BLOCK_ROWS: usize = 65_536;
/// Bytes of the sample after `zstd -9` (1.5.4). The text has 1,392,253 bytes.
const ZSTD_9_BYTES: u64 = 336_499;

#[test]
fn the_sample_is_smaller_than_zstd_makes_it() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample/bus_austin.csv.gz");
    let options = TableOptions { separator: b',', ..TableOptions::default() };
    let progress = |_| ();
    let mut source = TableSource::open(&sample, &options, &progress).unwrap();
    let file = Path::new("bus_austin.shoal");
    let plans = (BLOCK_ROWS, Aim::Small);
    let (out, done) = compress(&mut source, plans, &mut CpuTableCodec, Vec::new(), file).unwrap();
    assert_eq!(done.trailer.file_bytes, out.len() as u64);
    assert!(out.len() as u64 * 5 < ZSTD_9_BYTES * 3, "{} bytes", out.len());
    // The sums of the columns account for the compact form.
    assert!(done.totals.compact_saved_bytes > 0);
    assert!(done.totals.stored_bytes() < done.trailer.file_bytes);
    assert!(done.totals.stored_bytes() * 100 > done.trailer.file_bytes * 99);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::write(&path, &out).unwrap();
    let read = inspect(FrameReader::open_file(&path).unwrap(), &mut CpuTableCodec, true).unwrap();
    assert_eq!(read.totals.stored_bytes(), done.totals.stored_bytes());
    assert_eq!(read.trailer.rows, done.trailer.rows);
}
