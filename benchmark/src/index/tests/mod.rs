//! Every experiment at a small size on the CPU; the files it writes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;

use super::options::{Options, Structure};
use super::run;
use crate::harness::command::parsed;

/// Flags for small sizes.
fn options(flags: &[&str]) -> Options {
    let small =
        ["--keys", "1,17,5000", "--inner-keys", "3000", "--searches", "9000", "--runs", "1"];
    parsed(&small, flags).unwrap()
}

#[test]
fn every_structure_finds_the_ranks() {
    for fill in ["100", "1", "70"] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (json, svg) = (path("rows.json"), path("plots"));
        run(&options(&["--json", &json, "--svg", &svg, "--fill", fill])).unwrap();

        let rows: Vec<serde_json::Value> =
            serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let of =
            |experiment: &str| rows.iter().filter(|row| row["experiment"] == experiment).count();
        assert_eq!(of("inner"), 2, "two types of keys");
        assert_eq!(of("find"), 2 * 3 * 3 * 7, "key types, sizes, distributions, structures");
        for row in rows.iter().filter(|row| row["experiment"] == "find") {
            let hash = |other: &&serde_json::Value| {
                other["keys"] == row["keys"] && other["requests"] == row["requests"]
            };
            let mut alike = rows.iter().filter(hash);
            assert!(alike.all(|other| other["answer_hash"] == row["answer_hash"]), "{row}");
            assert!(row["per_s"].as_f64().unwrap() > 0.0, "{row}");
        }
        for name in ["index_find_cpu_word_uniform", "index_find_cpu_pair_sorted"] {
            let plot = fs::read_to_string(format!("{svg}/{name}.svg")).unwrap();
            assert!(plot.contains("eytzinger") && plot.contains("btree-map"), "{name}");
        }
    }
}

#[test]
fn large_maps_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("rows.json").display().to_string();
    let flags = ["--json", &json, "--btree-keys-max", "17", "--experiment", "find"];
    let options = options(&flags);
    assert!(options.structures.contains(&Structure::BtreeMap));
    run(&options).unwrap();
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let maps = rows.iter().filter(|row| row["structure"] == "btree-map");
    assert!(maps.clone().count() > 0 && maps.clone().all(|row| row["keys"] != 5_000));
}

#[test]
fn invalid_flags_are_refused() {
    for flags in [
        &["--keys", "0"][..],
        &["--threads", "3"],
        &["--threads", "64"],
        &["--fill", "0"],
        &["--structures", "skip-list"],
        &["--requests", "zipf"],
    ] {
        assert!(parsed::<Options>(&[], flags).is_err(), "{flags:?}");
    }
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_device_needs_a_build_with_cuda() {
    let error = run(&options(&["--places", "cuda"])).unwrap_err().to_string();
    assert!(error.contains("without CUDA"), "{error}");
}
