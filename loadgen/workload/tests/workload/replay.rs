//! Hazard: a replay changes real data.
//!
//! The sample is replayed row by row, shards and copies are complete, faults are counted, and
//! windows are on the data.

use std::path::PathBuf;

use shoal_table::{CsvReader, FixFileOptions};
use shoal_workload::{Fix, Params, SpeedUnit, Workload, WorkloadSpace, open};

const SAMPLE_ROWS: usize = 33_140;

fn sample() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../sample/bus_austin.csv.gz")
}

fn replay(params: &Params) -> Box<dyn Workload> {
    open(&format!("replay:{}", sample().display()), params).expect("the sample is shipped")
}

fn all(workload: &mut dyn Workload) -> Vec<Fix> {
    let mut out = Vec::new();
    while workload.fill(1_000, &mut out) == 1_000 {}
    assert_eq!(workload.fill(1, &mut out), 0);
    out
}

/// Writes a file and opens it as a replay; the folder must outlive the workload.
fn written(text: &[u8]) -> (tempfile::TempDir, Result<Box<dyn Workload>, String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.csv");
    std::fs::write(&file, text).unwrap();
    let workload = open(&format!("replay:{}", file.display()), &Params::default());
    (folder, workload.map_err(|error| error.to_string()))
}

#[test]
fn the_sample_is_replayed_row_by_row() {
    let rows =
        CsvReader::open(&sample(), &FixFileOptions::strict(SpeedUnit::MetresPerSecond)).unwrap();
    let rows: Vec<Fix> = rows.map(|row| row.unwrap()).collect();
    let mut workload = replay(&Params::default());
    assert_eq!(workload.space(), WorkloadSpace::Geographic);
    assert_eq!(all(workload.as_mut()), rows);
    assert_eq!(rows.len(), SAMPLE_ROWS);
    assert_eq!(rows[SAMPLE_ROWS - 1].time_ms - rows[0].time_ms, 86_333_000);
    assert_eq!(workload.unreadable_rows(), 0);
    assert!(workload.failure().is_none());
}

#[test]
fn a_fan_out_contains_k_copies_in_time_order_with_the_original() {
    let original = all(replay(&Params::default()).as_mut());
    let params = Params { fan_out: 7, ..Params::default() };
    let copies = all(replay(&params).as_mut());
    assert_eq!(copies.len(), 7 * SAMPLE_ROWS);
    assert!(copies.is_sorted_by_key(|fix| fix.time_ms));
    for copy in 0..7 {
        let of_copy: Vec<&Fix> = copies.iter().filter(|fix| fix.object % 7 == copy).collect();
        let (dx, dy) = (of_copy[0].x - original[0].x, of_copy[0].y - original[0].y);
        assert_eq!(dx == 0.0 && dy == 0.0, copy == 0, "copy {copy} moves by {dx}, {dy}");
        for (fix, origin) in of_copy.iter().zip(&original) {
            assert_eq!(fix.object, origin.object * 7 + copy);
            assert_eq!(fix.time_ms, origin.time_ms + copy as i64 * 1_000 / 7);
            assert!((fix.x - origin.x - dx).abs() < 1e-9 && (fix.y - origin.y - dy).abs() < 1e-9);
        }
    }
}

#[test]
fn shards_of_a_fan_out_are_complete() {
    let params = Params { fan_out: 5, ..Params::default() };
    let mut whole = all(replay(&params).as_mut());
    let mut union = Vec::new();
    for shard in 0..3 {
        let part = all(replay(&Params { shard, shards: 3, ..params.clone() }).as_mut());
        assert!(part.iter().all(|fix| fix.object % 3 == u64::from(shard)));
        assert!(part.is_sorted_by_key(|fix| fix.time_ms));
        union.extend(part);
    }
    let order = |fix: &Fix| (fix.time_ms, fix.object, fix.x.to_bits(), fix.y.to_bits());
    whole.sort_by_key(order);
    union.sort_by_key(order);
    assert_eq!(whole, union);
}

#[test]
fn windows_are_on_the_data_and_have_their_size() {
    let params = Params { window: 0.1, ..Params::default() };
    let mut workload = replay(&params);
    let first = workload.window();
    for _ in 0..1_000 {
        let window = workload.window();
        let (width, height) = (window.east - window.west, window.north - window.south);
        assert!((0.01..0.04).contains(&width) && (0.01..0.04).contains(&height), "{window:?}");
        assert!((-98.0..-97.5).contains(&window.west) && (30.0..30.6).contains(&window.south));
    }
    assert_eq!(replay(&params).window(), first);
    all(workload.as_mut());
}

#[test]
fn bad_rows_are_counted_and_file_order_is_kept() {
    let text = b"object_id,t_ms,lon,lat\n1,30,1,1\nx,0,0,0\n2,20,2,2\n3,,3,3\n4,25,4,95\n";
    let (_folder, workload) = written(text);
    let mut workload = workload.unwrap();
    let rows: Vec<(u64, i64)> =
        all(workload.as_mut()).iter().map(|fix| (fix.object, fix.time_ms)).collect();
    assert_eq!(rows, [(1, 30), (2, 20), (4, 25)]);
    assert_eq!(workload.unreadable_rows(), 2);
}

#[test]
fn a_truncated_file_ends_with_an_error() {
    let whole = std::fs::read(sample()).unwrap();
    let (_folder, workload) = written(&whole[..whole.len() - 100_000]);
    let mut workload = workload.unwrap();
    let rows = all(workload.as_mut());
    assert!((10_000..SAMPLE_ROWS).contains(&rows.len()), "{}", rows.len());
    let reason = workload.failure().expect("the file is cut off").to_string();
    assert!(reason.contains("fleet.csv, line ") && reason.contains("read further"), "{reason}");
}

#[test]
fn an_empty_or_missing_file_is_refused() {
    let (_folder, refused) = written(b"object_id,t_ms,lon,lat\n1,1,north,0\n");
    let refusal = refused.err().unwrap();
    assert!(refusal.contains("none of its first 65536 rows can be read"), "{refusal}");
    let refusal = open("replay:/no/such/fleet.csv", &Params::default()).err().unwrap().to_string();
    assert!(refusal.starts_with("/no/such/fleet.csv: "), "{refusal}");
}

#[test]
fn copies_are_within_valid_coordinates() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("world.csv");
    let text = "object_id,t_ms,lon,lat\n1,1,179.5,89.5\n2,2,-179.5,-89.5\n3,3,0,0\n";
    std::fs::write(&file, text).unwrap();
    let params = Params { fan_out: 50, ..Params::default() };
    let mut workload = open(&format!("replay:{}", file.display()), &params).unwrap();
    for fix in all(workload.as_mut()) {
        assert!((-180.0..=180.0).contains(&fix.x) && (-90.0..=90.0).contains(&fix.y), "{fix:?}");
    }
}
