//! The files of a run: keys and their order, one line per row, plots that are text.

use std::fs;

use super::options;
use crate::glfpp::run;

/// The published keys, in order.
const KEYS: [&str; 11] = [
    "experiment",
    "backend",
    "objects",
    "distribution",
    "updates",
    "queries",
    "seconds",
    "updates_per_s",
    "queries_per_s",
    "cycle_ms_p99",
    "answer_hash",
];

#[test]
fn rows_are_written_with_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (json, csv, svg) = (path("rows.json"), path("rows.csv"), path("plots"));
    let layout = ["--pgrid-side", "32", "--pgrid-bucket-lines", "2"];
    let files = ["--json", &json, "--csv", &csv, "--svg", &svg];
    let experiments = ["--experiment", "gauss,cells-queries"];
    run(&options(&[&layout[..], &files, &experiments].concat())).unwrap();

    let text = fs::read_to_string(&json).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(rows.len(), 2 * 3 + 4, "two backends, three hot-spots; four grids of one");
    for row in &rows {
        let row = row.as_object().unwrap();
        assert!(KEYS.iter().all(|key| row.contains_key(*key)), "{row:?}");
        assert!(["pgrid", "cpu"].contains(&row["backend"].as_str().unwrap()), "{row:?}");
        assert!(["gauss", "cells-queries"].contains(&row["experiment"].as_str().unwrap()));
        assert!(row["seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(row["answer_hash"].as_str().unwrap().len(), 16);
    }

    let text = fs::read_to_string(&csv).unwrap();
    assert!(text.starts_with(&(KEYS.join(",") + ",")), "{text}");
    assert_eq!(text.lines().count(), rows.len() + 1);

    let plot = fs::read_to_string(format!("{svg}/glfpp_gauss.svg")).unwrap();
    for text in ["<svg", "H = 1", "H = 10", "H = 100", "pgrid", "cpu", "million updates/s"] {
        assert!(plot.contains(text), "the plot lacks {text}");
    }
    let plot = fs::read_to_string(format!("{svg}/glfpp_cells_queries.svg")).unwrap();
    assert!(plot.contains("million queries/s") && plot.contains("16384"));
}
