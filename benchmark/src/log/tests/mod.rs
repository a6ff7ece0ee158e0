//! Every experiment at a small size: what is read equals what was written; also files and folder.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;

use shoal_codec::PlanChoice;

use super::append::{check, read_hash, write_log};
use super::content::Content;
use super::options::{Durability, Options, byte_text};
use super::run;
use super::trial::GroupTimes;
use crate::harness::WorkFolder;
use crate::harness::command::parsed;

/// The published keys.
const KEYS: [&str; 18] = [
    "experiment",
    "contender",
    "plan",
    "group_bytes",
    "durability",
    "objects",
    "rows",
    "bytes",
    "seconds",
    "groups_per_s",
    "mb_per_s",
    "rows_per_s",
    "sync_us_p50",
    "sync_us_p99",
    "ratio",
    "hash",
    "file_system",
    "machine",
];

/// Flags for small sizes: several segments, and a tail of several cycles.
fn options(flags: &[&str]) -> Options {
    let small = ["--bytes", "400KiB", "--segment", "128KiB", "--runs", "2", "--objects", "1000"];
    let tail = ["--tail", "20000", "--cycle", "3000", "--block-rows", "500"];
    // A repeated list flag would append to the list.
    let lists = [["--groups", "16KiB,64KiB"], ["--checkpoint-objects", "1000,70000"]];
    let lists = lists.iter().filter(|[name, _]| !flags.contains(name)).flatten().copied();
    let small = small.into_iter().chain(tail).chain(lists);
    parsed(&small.collect::<Vec<_>>(), flags).unwrap()
}

#[test]
fn every_experiment_runs_and_writes_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (json, svg, disk) = (path("rows.json"), path("plots"), path("disk"));
    run(&options(&["--json", &json, "--svg", &svg, "--folder", &disk])).unwrap();
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "the work folder is removed");

    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let of = |experiment: &str, contender: &str| {
        let is = |row: &&serde_json::Value| {
            row["experiment"] == experiment && row["contender"] == contender
        };
        rows.iter().filter(is).count()
    };
    assert_eq!([of("append", "log"), of("append", "buffered")], [3 * 2 * 2; 2]);
    assert!([0, 3 * 2 * 2].contains(&of("append", "direct")), "where the disk has it");
    assert_eq!([of("read", "log"), of("read", "plain")], [3 * 2; 2]);
    assert_eq!([of("recover", "replay"), of("recover", "engine")], [3; 2]);
    assert_eq!(["export", "write", "load"].map(|name| of("checkpoint", name)), [2; 3]);
    assert_eq!(["engine", "export"].map(|name| of("busy", name)), [1; 2]);
    for row in &rows {
        assert!(KEYS.iter().all(|key| row.get(key).is_some()), "{row}");
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("seconds") > 0.0 && number("mb_per_s") > 0.0, "{row}");
        assert!((number("rows_per_s") * number("seconds") / number("rows") - 1.0).abs() < 1e-9);
    }
    let synced = |row: &&serde_json::Value| row["durability"] == "logged";
    assert!(rows.iter().filter(synced).all(|row| row["group_us_p99"].as_f64().unwrap() > 0.0));
    for name in ["append_logged", "append_applied", "read", "recover", "checkpoint"] {
        let plot = fs::read_to_string(format!("{svg}/log_{name}.svg")).unwrap();
        assert!(plot.contains("<svg"), "{name}");
    }
}

#[test]
fn groups_have_at_most_their_bytes_and_all_blocks() {
    for plan in PlanChoice::ALL {
        for group_bytes in [4 << 10, 64 << 10] {
            let options = options(&[]);
            let content = Content::of_groups(&options, plan, group_bytes).unwrap();
            assert!(content.bytes >= options.bytes && content.groups.len() > 1);
            let bytes = |cycles| content.group(cycles).map(<[u8]>::len).sum::<usize>() as u64;
            assert!(content.groups.iter().all(|cycles| bytes(cycles) <= group_bytes));
            assert_eq!(content.groups.iter().map(bytes).sum::<u64>(), content.bytes);
        }
    }
}

#[test]
fn changed_content_is_found() {
    let folder = WorkFolder::create(None).unwrap();
    let (options, mut times) = (options(&[]), GroupTimes::new().unwrap());
    let content = |plan| Content::of_groups(&options, plan, 16 << 10).unwrap();
    let raw = content(PlanChoice::Raw);
    write_log(&options, &folder, &raw, 0, Durability::Logged, &mut times).unwrap();
    check(&read_hash(&folder).unwrap(), &raw.hash()).unwrap();
    let other = content(PlanChoice::Fixes).hash();
    let error = check(&read_hash(&folder).unwrap(), &other).unwrap_err().to_string();
    assert!(error.contains(&other) && error.contains(&raw.hash()), "{error}");
}

#[test]
fn the_folder_names_its_file_system() {
    let folder = WorkFolder::create(None).unwrap();
    let text = folder.describe();
    assert!(text.contains(&folder.file_system), "{text}");
    assert_eq!(text.contains("this is memory"), folder.file_system == "tmpfs", "{text}");
}

#[test]
fn bytes_are_read_and_shown_with_units() {
    for (flag, bytes, text) in [
        ("1000", 1000, "1000"),
        ("64KiB", 64 << 10, "64 KiB"),
        ("3MiB", 3 << 20, "3 MiB"),
        ("1GiB", 1 << 30, "1 GiB"),
    ] {
        assert_eq!(options(&["--bytes", flag]).bytes, bytes, "{flag}");
        assert_eq!(byte_text(bytes), text);
    }
}

#[test]
fn invalid_flags_are_refused() {
    for flags in [
        &["--bytes", "0"][..],
        &["--bytes", "4MB"],
        &["--groups", "99999999999GiB"],
        &["--plans", "zstd"],
        &["--durability", "perhaps"],
        &["--runs", "0"],
        &["--tail", "0"],
        &["--block-rows", "0"],
        &["--backend", "gpu"],
    ] {
        assert!(parsed::<Options>(&[], flags).is_err(), "{flags:?}");
    }
}
