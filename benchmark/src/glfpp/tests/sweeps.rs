//! Experiments over settings and mixes: their cases, shared rows, and comparisons.

use super::{options, rows_of};
use crate::glfpp::case::{Case, cases};
use crate::glfpp::options::Experiment;
use crate::glfpp::run;
use crate::glfpp::summary::{best, losses, rates_by_threads};
use crate::harness::BackendName;

#[test]
fn cells_grow_from_256_to_16_million() {
    let options = options(&["--objects", "10000000"]);
    for experiment in [Experiment::CellsUpdates, Experiment::CellsQueries] {
        let cases = cases(experiment, &options);
        let labels: Vec<String> = cases.iter().map(Case::label).collect();
        assert_eq!((labels.len(), &labels[0][..], &labels[8][..]), (9, "256", "16777216"));
        assert!(labels.contains(&"16384".into()) && labels.contains(&"262144".into()));
    }
}

#[test]
fn the_threads_experiment_uses_the_grid_of_the_paper() {
    let cases = cases(Experiment::Threads, &options(&["--cuda-threads", "1000"]));
    let labels: Vec<String> = cases.iter().map(Case::label).collect();
    let (updating, querying) = cases.split_at(7);
    assert_eq!(labels[..7], labels[7..]);
    assert_eq!((&labels[0][..], &labels[6][..]), ("4224", "full"));
    assert!(updating.iter().all(|case| case.queries == 0 && case.updates == 12_000));
    assert!(querying.iter().all(|case| case.updates == 0 && case.queries == 1_200));
    assert!(cases.iter().all(|case| case.side == Some(256)));
    assert_eq!(cases[6].launch_threads, None);
}

#[test]
fn settings_are_compared_on_the_same_rows() {
    let options = options(&[]);
    let parts = |experiment| {
        let cases = cases(experiment, &options);
        let next = cases.windows(2).filter(|pair| !pair[0].is_workload_of(&pair[1]));
        1 + next.count()
    };
    assert_eq!(parts(Experiment::CellsUpdates), 1);
    assert_eq!(parts(Experiment::CellsQueries), 1);
    assert_eq!(parts(Experiment::Threads), 2, "updates, then queries");
    assert_eq!(parts(Experiment::UpdatesAlone), 3);
    assert_eq!(parts(Experiment::Gauss), 3);
}

#[test]
fn the_threads_experiment_requires_a_device() {
    let usual = options(&[]).experiment;
    assert!(usual.len() == 8 && !usual.contains(&Experiment::Threads), "{usual:?}");
    let case = cases(Experiment::Threads, &options(&[])).remove(0);
    assert_eq!(rows_of(&case, &options(&[])).len(), 0);
}

#[test]
fn answers_do_not_depend_on_the_number_of_cells() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("rows.json").display().to_string();
    let experiments = ["--experiment", "cells-updates,cells-queries", "--json", &json];
    run(&options(&experiments)).unwrap();
    let text = std::fs::read_to_string(&json).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    for experiment in ["cells-updates", "cells-queries"] {
        let rows: Vec<_> = rows.iter().filter(|row| row["experiment"] == experiment).collect();
        let cells: Vec<u64> = rows.iter().map(|row| row["cells"].as_u64().unwrap()).collect();
        assert_eq!(cells, [256, 1_024, 4_096, 16_384]);
        assert!(rows.iter().all(|row| row["answer_hash"] == rows[0]["answer_hash"]));
        assert!(rows.iter().all(|row| row["launch_threads"] == 0 && row["update_choice"] == ""));
        assert!(rows.iter().all(|row| row["dispatch_ms"].is_null()), "no device, no stages");
    }
}

#[test]
fn the_loss_of_updates_is_computed_per_mix() {
    let mut rows = Vec::new();
    for (case, updates_per_s) in
        cases(Experiment::UpdatesAlone, &options(&[])).iter().zip([200.0, 180.0, 150.0])
    {
        for mut row in rows_of(case, &options(&[])) {
            let factor = if row.backend == BackendName::Cpu { 10.0 } else { 1.0 };
            row.updates_per_s = factor * updates_per_s;
            rows.push(row);
        }
    }
    let found: Vec<(&str, &str, f64)> = losses(&rows)
        .into_iter()
        .map(|(row, loss)| (row.backend.name(), row.case.as_str(), loss.round()))
        .collect();
    let of = |name| [(name, "alone", 0.0), (name, "100:1", 10.0), (name, "100:10", 25.0)];
    let expected: Vec<_> =
        of("pgrid").into_iter().zip(of("cpu")).flat_map(|(one, other)| [one, other]).collect();
    assert_eq!(found, expected);
}

#[test]
fn both_rates_of_a_width_are_joined() {
    let flags = ["--backends", "pgrid", "--pgrid-side", "16", "--pgrid-bucket-lines", "2"];
    let mut rows = Vec::new();
    for case in cases(Experiment::Threads, &options(&[])) {
        let as_cells = Case { experiment: Experiment::CellsUpdates, ..case.clone() };
        let mut row = rows_of(&as_cells, &options(&flags)).remove(0);
        (row.case, row.experiment) = (case.label(), Experiment::Threads);
        rows.push(row);
    }
    let found = rates_by_threads(&rows);
    let threads: Vec<&str> = found.iter().map(|(threads, ..)| *threads).collect();
    assert_eq!(threads, ["4224", "8448", "16896", "33792", "67584", "135168", "full"]);
    for (number, (_, updates, queries)) in found.iter().enumerate() {
        assert_eq!(
            (*updates, *queries),
            (rows[number].updates_per_s, rows[7 + number].queries_per_s)
        );
    }
    assert_eq!(
        (rows[0].series().as_str(), rows[7].series().as_str()),
        ("pgrid, updates", "pgrid, queries",)
    );
}

#[test]
fn the_best_row_is_the_fastest_of_each_backend() {
    let case = cases(Experiment::UpdatesAlone, &options(&[])).remove(0);
    let mut rows = [rows_of(&case, &options(&[])), rows_of(&case, &options(&[]))].concat();
    for (row, updates_per_s) in rows.iter_mut().zip([2.0, 3.0, 1.0, 4.0]) {
        row.updates_per_s = updates_per_s;
    }
    let found: Vec<(BackendName, f64)> =
        best(&rows).into_iter().map(|row| (row.backend, row.updates_per_s)).collect();
    assert_eq!(found, [(BackendName::Pgrid, 2.0), (BackendName::Cpu, 4.0)]);
}
