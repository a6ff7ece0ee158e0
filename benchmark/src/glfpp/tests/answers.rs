//! The answers of the backends equal those of a naive scan of the newest reports.

use std::collections::BTreeMap;

use clap::ValueEnum;
use shoal_codec::FixRow;
use shoal_engine::{Query, QueryKind};

use super::{options, rows_of};
use crate::glfpp::case::{Case, cases};
use crate::glfpp::options::Experiment;
use crate::glfpp::prepared::{Cycle, Prepared};
use crate::glfpp::row::Row;
use crate::harness::BackendName;
use crate::harness::table::agree;
use crate::harness::{AnswerHash, Totals};

#[derive(Default)]
struct Naive(BTreeMap<u64, FixRow>);

impl Naive {
    fn apply(&mut self, cycle: &Cycle) {
        for block in &cycle.blocks {
            let columns = block.decode().unwrap();
            for row in (0..columns.len()).map(|row| columns.row(row)) {
                let present = self.0.entry(row.object).or_insert(row);
                if row.time_ms >= present.time_ms {
                    *present = row;
                }
            }
        }
    }

    fn answer(&self, queries: &[Query], mut found: impl FnMut(&[u64])) {
        let rows: Vec<&FixRow> = self.0.values().collect();
        for query in queries {
            let QueryKind::Range(region) = &query.kind else { panic!("{query:?}") };
            let inside = rows.iter().filter(|row| region.contains(row.x, row.y));
            let objects: Vec<u64> = inside.map(|row| row.object).collect();
            found(&objects);
        }
    }
}

/// What a scan finds.
struct Expected {
    run: Totals,
    hash_at_rest: String,
}

fn expected(case: &Case) -> Expected {
    let prepared = Prepared::new(case).unwrap();
    let mut naive = Naive::default();
    prepared.load.iter().for_each(|cycle| naive.apply(cycle));
    assert_eq!(naive.0.len() as u64, case.objects, "the load is the whole fleet");
    naive.apply(&prepared.warm);
    let mut found = Vec::new();
    for cycle in &prepared.cycles {
        naive.apply(cycle);
        naive.answer(&cycle.queries, |objects| found.push(objects.len() as u64));
    }
    let mut run = Totals::default();
    run.add(found.len(), |range| found[range].iter().copied());
    let mut rest = AnswerHash::new();
    assert!(!prepared.rest.is_empty(), "there are queries at rest");
    naive.answer(&prepared.rest, |found| rest.add_answer(found.len() as u64, found));
    Expected { run, hash_at_rest: rest.finish() }
}

fn check(row: &Row, case: &Case, Expected { run, hash_at_rest }: &Expected) {
    let about = format!("{:?} {} {:?}", case.experiment, case.label(), row.backend);
    assert_eq!(row.answer_hash, *hash_at_rest, "{about}");
    if row.backend == BackendName::Cpu || case.updates == 0 {
        assert_eq!(row.run_hash, run.hash(), "{about}");
        let found = row.results_per_query * case.queries as f64;
        assert!((found - run.matches as f64).abs() < 0.5, "{about}: {found} of {run:?}");
    }
    assert_eq!((row.updates, row.queries), (case.updates, case.queries), "{about}");
    assert_eq!(row.epochs_behind, 0, "{about}");
    assert!(row.seconds > 0.0 && row.cycle_ms_p99 >= row.cycle_ms_p50, "{about}");
    assert_eq!(row.cells > 0, row.backend == BackendName::Pgrid, "{about}");
}

/// Runs every case of an experiment, with windows wide enough to find objects.
fn check_experiment(experiment: Experiment, backends_per_case: usize) {
    let flags = match experiment {
        Experiment::Gauss => &["--windows-follow", "--seed", "7"][..],
        _ => &["--seed", "7"],
    };
    let options = options(flags);
    for case in cases(experiment, &options) {
        let case = Case { window: case.window.max(0.05), ..case };
        let rows = rows_of(&case, &options);
        // Only a device has a choice of methods.
        let backends = if case.update_method.is_some() { 0 } else { backends_per_case };
        assert_eq!(rows.len(), backends, "{experiment:?}");
        if backends > 0 {
            let expected = expected(&case);
            rows.iter().for_each(|row| check(row, &case, &expected));
        }
    }
}

/// `threads` requires a device, so no backend here runs it.
#[test]
fn answers_of_every_experiment_equal_a_scan() {
    for experiment in Experiment::value_variants() {
        let backends = match experiment {
            Experiment::Threads => 0,
            // One backend has configurable cells, the other stores attributes.
            Experiment::CellsUpdates | Experiment::CellsQueries | Experiment::Attributes => 1,
            _ => 2,
        };
        check_experiment(*experiment, backends);
    }
}

#[test]
fn fitted_windows_find_ten_objects() {
    let options = options(&["--windows-follow", "--objects", "5000"]);
    for case in cases(Experiment::Gauss, &options) {
        let prepared = Prepared::new(&case).unwrap();
        let mut naive = Naive::default();
        prepared.load.iter().for_each(|cycle| naive.apply(cycle));
        let queries = &prepared.cycles[0].queries[..200];
        let mut found = 0;
        naive.answer(queries, |objects| found += objects.len());
        let mean = found as f64 / queries.len() as f64;
        assert!((7.0..14.0).contains(&mean), "{}: {mean}", case.label());
    }
}

#[test]
fn different_answers_end_the_run_and_are_named() {
    let options = options(&["--pgrid-side", "16", "--pgrid-bucket-lines", "2"]);
    let case = cases(Experiment::Small, &options).remove(0);
    let mut rows = rows_of(&case, &options);
    assert_eq!((rows[0].cells, rows[0].bucket_objects), (256, 7));
    rows[1].answer_hash = "0123".into();
    let error = agree(&rows).unwrap_err().to_string();
    assert!(error.contains("cpu answers 0123") && error.contains("Small"), "{error}");
}
