//! Output files of a run, and skipped combinations.

use std::fs;

use super::options;
use crate::subscription::case::{Motion, cases};
use crate::subscription::options::{Distribution, Experiment};
use crate::subscription::run;

/// The published keys.
const KEYS: [&str; 17] = [
    "experiment",
    "backend",
    "objects",
    "distribution",
    "regions",
    "radius_m",
    "events_wanted",
    "updates",
    "events",
    "seconds",
    "updates_per_s",
    "events_per_s",
    "ns_per_update",
    "cycle_ms_p99",
    "event_hash",
    "memory_bytes",
    "machine",
];

#[test]
fn rows_are_written_with_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (json, svg) = (path("rows.json"), path("plots"));
    run(&options(&["--json", &json, "--svg", &svg, "--backends", "cpu"])).unwrap();

    let text = fs::read_to_string(&json).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(rows.len(), 2 * 2 * 5, "two experiments, two workloads, 1 + 2 * 2 circles");
    for row in &rows {
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert!(KEYS.iter().all(|key| keys.iter().any(|is| is == key)), "{keys:?}");
        let number = |key: &str| row[key].as_f64().unwrap();
        assert_eq!(number("events") > 0.0, number("regions") > 0.0, "{row}");
        assert!(number("updates_per_s") > 0.0 && number("memory_bytes") > 0.0);
        assert!((number("ns_per_update") * number("updates_per_s") / 1e9 - 1.0).abs() < 1e-9);
        assert_eq!(row["event_hash"].as_str().unwrap().len(), 16);
    }
    for name in ["enter_leave_uniform", "enter_leave_gauss", "with_move_uniform"] {
        let plot = fs::read_to_string(format!("{svg}/subscription_{name}.svg")).unwrap();
        for text in
            ["<svg", "circles", "nanoseconds an update", "cpu, 3000 m", "cpu, 9000 m", "150"]
        {
            assert!(plot.contains(text), "{name} lacks {text}");
        }
    }
}

#[test]
fn combinations_with_too_much_overlap_are_skipped_with_a_notice() {
    let sizes = ["--objects", "10000000", "--updates", "40000000", "--cycle", "4000000"];
    let circles = ["--regions", "0,1000,10000,100000,1000000", "--radius", "100,500,5000"];
    let options = options(&[&sizes[..], &circles].concat());
    let motion = Motion::new(Distribution::Uniform, &options);
    let (taken, left_out) = cases(Experiment::WithMove, &motion, &options);
    assert_eq!((taken.len(), left_out.len()), (1 + 8, 4), "{left_out:?}");
    assert_eq!(left_out[0], "10000 of 5000 m left out: 78.5 circles an object, at most 20");
    let bar = taken.iter().find(|case| case.label() == "100000 of 500 m").unwrap();
    assert_eq!(bar.regions.regions, 100_000, "the bar of the project is measured");
    let wide = super::options(&[&sizes[..], &circles, &["--memberships-max", "100"]].concat());
    let (_, left_out) = cases(Experiment::WithMove, &motion, &wide);
    assert!(left_out[0].contains("events a cycle"), "{left_out:?}");
}

#[test]
fn cycles_that_change_too_much_are_refused() {
    let flags = ["--regions", "40000", "--radius", "50", "--follow", "--cycle", "4500"];
    let error = run(&options(&flags)).unwrap_err().to_string();
    assert!(error.contains("changes of circles a cycle"), "{error}");
}
