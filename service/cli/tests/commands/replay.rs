//! Hazard: a replay loses rows on the ingest path, or prints example commands that do not work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::shoal::{Ran, Served};
use shoal_table::{CsvReader, Fix, FixFileOptions};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/bus_austin.csv.gz");

fn sample() -> Vec<Fix> {
    let csv = CsvReader::open(Path::new(SAMPLE), &FixFileOptions::default()).unwrap();
    csv.map(|row| row.unwrap()).collect()
}

#[test]
fn every_object_of_the_sample_is_served_at_its_last_position() {
    let mut last: BTreeMap<u64, Fix> = BTreeMap::new();
    let rows = sample();
    for fix in &rows {
        // Rows are sorted by time; at equal times the later row wins.
        last.insert(fix.object, *fix);
    }
    let mut served = Served::start(&["--replay", SAMPLE, "--speedup", "1e9"]);
    let lines = served.lines_until("stats --watch");
    let lines = if lines.iter().any(|line| line.starts_with("replay done")) {
        lines
    } else {
        served.lines_until("replay done")
    };
    let done = lines.iter().find(|line| line.starts_with("replay done")).unwrap();
    assert!(done.contains(&format!("{} rows", rows.len())), "{done}");

    let everywhere = served.run("range --rect -180,-90,180,90 --json").json(0);
    assert_eq!(everywhere["total"].as_u64(), Some(last.len() as u64));
    let clock_ms = rows.iter().map(|fix| fix.time_ms).max();
    assert_eq!(everywhere["clock_ms"].as_i64(), clock_ms, "the event clock");
    for (row, (object, fix)) in everywhere["rows"].as_array().unwrap().iter().zip(&last) {
        assert_eq!(row["object"], object.to_string());
        assert_eq!(row["time_ms"].as_i64(), Some(fix.time_ms), "object {object}");
        for (key, value) in [("x", fix.x), ("y", fix.y)] {
            let stored = row[key].as_f64().unwrap();
            assert!((stored - value).abs() <= 0.5e-7 + 1e-12, "object {object}, {key}: {stored}");
        }
    }
    let counts = served.run("stats --json").json(0)["rows"].clone();
    assert_eq!(counts["refused"], 0);
    let sum: u64 = ["applied", "duplicate", "superseded", "late", "refused"]
        .iter()
        .map(|key| counts[key].as_u64().unwrap())
        .sum();
    assert_eq!(sum, rows.len() as u64, "every row is in exactly one count");
}

#[test]
fn printed_example_commands_work_unchanged() {
    let mut served = Served::start(&["--replay", SAMPLE, "--speedup", "1e9"]);
    let mut lines = served.lines_until("replay done");
    lines.extend(served.lines_until("stats --watch"));
    let offered: BTreeSet<&str> = lines.iter().filter_map(|line| line.strip_prefix("  ")).collect();
    assert!(offered.len() >= 6, "{lines:#?}");
    assert!(offered.iter().any(|line| line.starts_with("curl 'http://")), "{lines:#?}");
    for line in offered {
        let mut words = line.split(' ').map(|word| word.trim_matches('\''));
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env_clear();
        if line.contains(" stats ") {
            command.args(["--lines", "1"]);
        }
        if line.contains(" watch ") {
            command.args(["--count", "2"]);
        }
        let text = Ran::command(&mut command).expect(0);
        assert!(text.lines().count() >= 2, "{line}: {text}");
    }
    assert_eq!(served.interrupt(), Some(0));
}
