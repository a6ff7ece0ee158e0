//! Every experiment at a small size: answers equal those of the exported rows; also the files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::options::Options;
use super::run;
use crate::harness::command::parsed;

/// A row of an export: object, time, x, y, speed.
type ExportedRow = (u64, i64, i64, i64, u32);

fn options(flags: &[&str]) -> Options {
    let small = ["--fixes", "30000", "--objects", "60", "--questions", "8", "--runs", "3"];
    parsed(&small, flags).unwrap()
}

fn take<'a, const BYTES: usize>(bytes: &mut &'a [u8], rows: usize) -> &'a [[u8; BYTES]] {
    let (column, rest) = bytes.split_at(rows * BYTES);
    *bytes = rest;
    column.as_chunks().0
}

fn exported(mut bytes: &[u8]) -> Vec<ExportedRow> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let rows = u32::from_le_bytes(take::<4>(&mut bytes, 1)[0]) as usize;
        let (objects, times) = (take::<8>(&mut bytes, rows), take::<8>(&mut bytes, rows));
        let (xs, ys) = (take::<4>(&mut bytes, rows), take::<4>(&mut bytes, rows));
        let speeds = take::<4>(&mut bytes, rows);
        take::<2>(&mut bytes, rows);
        all.extend((0..rows).map(|row| {
            (
                u64::from_le_bytes(objects[row]),
                i64::from_le_bytes(times[row]),
                i32::from_le_bytes(xs[row]).into(),
                i32::from_le_bytes(ys[row]).into(),
                u32::from_le_bytes(speeds[row]),
            )
        }));
    }
    all
}

/// The answer to a question, computed by a scan of every row.
fn naive(rows: &[ExportedRow], question: &Value) -> (u64, i64) {
    let number = |name: &str| question[name].as_i64().unwrap();
    let range = |name: &str| [0, 1].map(|side| question[name][side].as_i64().unwrap());
    let is_timed = |row: &&ExportedRow| (number("from_ms")..=number("to_ms")).contains(&row.1);
    let of_rows =
        |found: Vec<&ExportedRow>| (found.len() as u64, found.iter().map(|row| row.2).sum::<i64>());
    match question["kind"].as_str().unwrap() {
        "trajectory" => {
            let own = rows.iter().filter(|row| row.0 as i64 == number("object"));
            of_rows(own.filter(is_timed).collect())
        }
        "as-of" => {
            let mut newest: BTreeMap<u64, &ExportedRow> = BTreeMap::new();
            for row in rows.iter().filter(|row| row.1 <= number("time_ms")) {
                let known = newest.entry(row.0).or_insert(row);
                *known = if known.1 < row.1 { row } else { known };
            }
            of_rows(newest.into_values().collect())
        }
        "passed" => {
            let is_near = |row: &&ExportedRow| {
                let [dx, dy] = [row.2 - number("x"), row.3 - number("y")];
                dx * dx + dy * dy <= number("radius") * number("radius")
            };
            let found = rows.iter().filter(is_timed).filter(is_near).map(|row| row.0 as i64);
            let found: BTreeSet<i64> = found.collect();
            (found.len() as u64, found.iter().sum())
        }
        "filter" => {
            let speeds = number("low")..=number("high");
            (rows.iter().filter(|row| speeds.contains(&row.4.into())).count() as u64, 0)
        }
        _ => {
            let ([west, east], [south, north]) = (range("x"), range("y"));
            let is_inside = |row: &&ExportedRow| {
                (west..=east).contains(&row.2) && (south..=north).contains(&row.3)
            };
            (rows.iter().filter(is_timed).filter(is_inside).count() as u64, 0)
        }
    }
}

#[test]
fn answers_equal_those_of_the_exported_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (json, svg, rows) = (path("rows.json"), path("plots"), path("rows"));
    let (answers, past) = (path("answers.json"), path("past"));
    let files = ["--json", &json, "--svg", &svg, "--export", &rows, "--answers", &answers];
    run(&options(&[&files[..], &["--folder", &past]].concat())).unwrap();
    let rows = exported(&fs::read(rows).unwrap());
    assert_eq!(rows.len(), 30_000);
    let answers: Vec<Value> = serde_json::from_slice(&fs::read(&answers).unwrap()).unwrap();
    assert_eq!(answers.len(), 8 + 3 + 8 + 3 + 3);
    for question in &answers {
        let found = (question["count"].as_u64().unwrap(), question["sum"].as_i64().unwrap());
        assert_eq!(found, naive(&rows, question), "{question}");
    }
    assert!(answers.iter().all(|question| question["count"] != 0), "each question finds something");
    let results: Vec<Value> = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(results.len(), 5);
    for (name, row) in ["trajectory", "as-of", "passed", "filter", "region"].iter().zip(&results) {
        assert_eq!(row["experiment"], *name);
        let keys = ["fixes", "threads", "bytes_per_fix", "found", "p50_ms", "p99_ms", "rows_per_s"];
        assert!(keys.iter().all(|key| row[key].is_number()), "{row}");
    }
    assert_eq!(fs::read_dir(&svg).unwrap().count(), 5);

    // The past is kept. With other threads and less memory, the answers are the same.
    let flags = ["--folder", &past, "--json", &json, "--threads", "3", "--cache-mib", "0"];
    run(&options(&flags)).unwrap();
    let again: Vec<Value> = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let hashes = |rows: &[Value]| rows.iter().map(|row| row["answer_hash"].clone()).collect();
    let (found, expected): (Vec<_>, Vec<_>) = (hashes(&again), hashes(&results));
    assert_eq!(found, expected);
}
