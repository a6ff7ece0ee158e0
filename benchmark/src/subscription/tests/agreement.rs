//! The events of backends equal those of the model.

use shoal_engine::{EngineOptions, Model};

use super::options;
use crate::harness::table::agree;
use crate::harness::{BackendName, Driver, Output};
use crate::subscription::case::{Case, Motion, cases};
use crate::subscription::options::{Distribution, Experiment};
use crate::subscription::prepared::{Circles, Rows};
use crate::subscription::run::run_case;
use crate::subscription::trial::{Measured, Trial};

fn by_model(rows: &Rows, circles: &Circles) -> Measured {
    let model = Box::new(Model::new(EngineOptions::new(rows.space)));
    Trial { driver: Driver::sequential(model), rows, circles }.run().unwrap()
}

/// Runs every case of both experiments on a backend and on the model.
fn check(name: BackendName, flags: &[&str]) {
    let options = options(flags);
    let mut events = 0;
    for distribution in [Distribution::Uniform, Distribution::Gauss] {
        let motion = Motion::new(distribution, &options);
        let rows = Rows::new(&motion).unwrap();
        for experiment in [Experiment::EnterLeave, Experiment::WithMove] {
            let (cases, left_out) = cases(experiment, &motion, &options);
            assert_eq!((cases.len(), left_out), (5, Vec::new()));
            for case in cases {
                let circles = Circles::new(&case, &rows).unwrap();
                let expected = by_model(&rows, &circles);
                let driver = Driver::open(name, EngineOptions::new(rows.space)).unwrap();
                let got = Trial { driver, rows: &rows, circles: &circles }.run().unwrap();
                let about = format!("{experiment:?} {} {distribution:?} {flags:?}", case.label());
                assert_eq!(got.events, expected.events, "{about}");
                assert_eq!(got.event_hash, expected.event_hash, "{about}");
                events += expected.events;
                assert!(case.regions.regions > 0 || expected.events == 0, "{about}");
                let members = (got.memberships_per_object, expected.memberships_per_object);
                assert!((members.0 - members.1).abs() < 1e-9, "{about}: {members:?}");
            }
        }
    }
    assert!(events > 1_000, "{events} events prove little, {flags:?}");
}

const CIRCLES: [&[&str]; 5] = [
    &[],
    &["--churn", "0.2"],
    &["--follow", "--churn", "0.05"],
    &["--evaluation-mode", "every-fix"],
    &["--evaluation-mode", "crossing", "--churn", "0.2"],
];

#[test]
fn the_cpu_backend_equals_the_model() {
    CIRCLES.iter().for_each(|flags| check(BackendName::Cpu, flags));
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cuda_backend_equals_the_model() {
    CIRCLES.iter().for_each(|flags| check(BackendName::Cuda, flags));
}

fn case_of(regions: &str, experiment: Experiment) -> (Case, Rows) {
    let options = options(&["--regions", regions, "--radius", "9000"]);
    let motion = Motion::new(Distribution::Uniform, &options);
    let (mut cases, _) = cases(experiment, &motion, &options);
    (cases.remove(0), Rows::new(&motion).unwrap())
}

#[test]
fn moves_are_the_reports_of_members() {
    let (case, rows) = case_of("150", Experiment::EnterLeave);
    let turns = by_model(&rows, &Circles::new(&case, &rows).unwrap());
    let (case, rows) = case_of("150", Experiment::WithMove);
    let all = by_model(&rows, &Circles::new(&case, &rows).unwrap());
    let moves = all.events - turns.events;
    // A report of a member is a move event, unless the object enters the circle with it. Entries
    // are about half of the enter and leave events.
    let members = all.memberships_per_object * rows.motion.updates as f64;
    let stayed = members - turns.events as f64 / 2.0;
    assert!((moves as f64 / stayed - 1.0).abs() < 0.1, "{moves} moves, about {stayed} stayed");
}

#[test]
fn other_circles_and_other_rows_have_other_events() {
    let hash = |flags: &[&str]| {
        let options = options(flags);
        let motion = Motion::new(Distribution::Uniform, &options);
        let case = cases(Experiment::WithMove, &motion, &options).0.remove(1);
        let rows = Rows::new(&motion).unwrap();
        by_model(&rows, &Circles::new(&case, &rows).unwrap()).event_hash
    };
    let plain = hash(&[]);
    assert_eq!(plain, hash(&[]));
    for flags in [&["--seed", "2"][..], &["--follow"], &["--churn", "0.5"], &["--cycle", "4500"]] {
        assert_ne!(plain, hash(flags), "{flags:?}");
    }
}

#[test]
fn different_events_end_the_run_and_are_named() {
    let (case, rows) = case_of("40", Experiment::EnterLeave);
    let mut out = Output::new("a test".into());
    let options = options(&["--backends", "cpu,cpu"]);
    run_case(&case, &rows, &options, &mut out).unwrap();
    let mut rows = out.rows().to_vec();
    rows[1].event_hash = "0123".into();
    let error = agree(&rows).unwrap_err().to_string();
    assert!(error.contains("cpu answers 0123") && error.contains("EnterLeave 40"), "{error}");
}
