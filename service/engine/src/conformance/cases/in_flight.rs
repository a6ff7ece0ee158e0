//! Cycles in flight, and determinism.
//!
//! Two cycles may be submitted before the first wait; each output is returned once, in any order.
//! Twenty runs of the same cycles agree in every field.

use super::*;

/// Two cycles in flight, waited for in either order.
pub fn two_cycles_in_flight(make: Make) {
    for first in [0, 1] {
        let mut trial = Trial::planar(make);
        let queries = || vec![query(QueryKind::Get(vec![1, 2, 3]))];
        trial.submit(vec![fixes(&[fix(1, 0, 1, 1)])], queries());
        trial.submit(vec![fixes(&[fix(2, 0, 1, 1)]), Request::Remove(vec![1])], queries());
        let one = trial.wait(first);
        assert_eq!(one.epoch, 1 + first as u64);
        let other = trial.wait(0);
        assert_eq!(other.epoch, 2 - first as u64);
        assert_eq!(trial.ids(QueryKind::Get(vec![1, 2, 3])), [2]);
    }
}

/// One cycle too many in flight is refused and changes nothing.
pub fn too_many_in_flight_are_refused(make: Make) {
    let mut trial = Trial::planar(make);
    for object in 0..CYCLES_IN_FLIGHT_MAX as u64 {
        trial.submit(vec![fixes(&[fix(object, 0, 1, 1)])], Vec::new());
    }
    let error = trial.refused(vec![fixes(&[fix(9, 0, 1, 1)])], Vec::new());
    assert_eq!(error, EngineError::TooManyInFlight(CYCLES_IN_FLIGHT_MAX));
    while trial.in_flight() > 0 {
        trial.wait(0);
    }
    assert_eq!(trial.ids(QueryKind::Get(vec![0, 1, 9])), [0, 1]);
}

/// A ticket that was never issued is unknown.
pub fn unknown_tickets_are_refused(make: Make) {
    let mut trial = Trial::planar(make);
    let ticket = Ticket(u64::MAX);
    let error = trial.backend().wait(ticket).map(|_| ());
    assert_eq!(error, Err(EngineError::UnknownTicket(u64::MAX)));
}

/// An export does not disturb outputs in flight.
pub fn export_with_cycles_in_flight(make: Make) {
    let mut trial = Trial::planar(make);
    trial.submit(vec![fixes(&[fix(1, 0, 1, 1)])], Vec::new());
    assert_eq!(trial.export().rows(), 1);
    trial.submit(vec![fixes(&[fix(2, 0, 1, 1)])], vec![query(QueryKind::Get(vec![1]))]);
    assert_eq!(trial.export().rows(), 2);
    trial.wait(0);
    trial.wait(0);
    assert_eq!(trial.export().epoch, 2);
}

/// Twenty runs have the same outputs.
pub fn the_same_input_gives_the_same_output(make: Make) {
    let cycles = cycles(41);
    let first = outputs(make, &cycles);
    for run in 1..20 {
        let again = outputs(make, &cycles);
        assert_eq!(first.len(), again.len());
        for (expected, actual) in first.iter().zip(&again) {
            if let Some(difference) = first_difference(expected, actual) {
                panic!("run {run}, cycle {}: {difference}", actual.epoch);
            }
        }
    }
}

/// Cycles large enough that a backend spreads them over its threads.
fn cycles(seed: u64) -> Vec<CycleInput> {
    let random = &mut Random::new(seed);
    let mut cycles = Vec::new();
    for cycle in 0..4 {
        let mut requests = Vec::new();
        for _ in 0..8 {
            let row = |random: &mut Random| {
                let time = cycle * 100 + random.between(0, 150);
                let (x, y) = (random.quanta(0, 1_000), random.quanta(0, 1_000));
                fix(random.below(5_000), time, x, y)
            };
            let rows: Vec<_> = (0..2_000).map(|_| row(random)).collect();
            requests.push(fixes(&rows));
            requests.push(Request::Remove((0..50).map(|_| random.below(5_000)).collect()));
        }
        let mut queries = Vec::new();
        for _ in 0..200 {
            let (x, y) = (random.quanta(0, 1_000), random.quanta(0, 1_000));
            queries.push(query(QueryKind::nearest(x, y, 20)));
        }
        cycles.push(CycleInput {
            system_ms: START_MS,
            time_max_ms: START_MS + 1_000_000,
            requests: requests.into(),
            queries,
            ..CycleInput::default()
        });
    }
    cycles
}

fn outputs(make: Make, cycles: &[CycleInput]) -> Vec<CycleOutput> {
    let mut backend = make(EngineOptions::new(plane()));
    let run = |input: &CycleInput| backend.run(input.clone()).expect("the cycle runs");
    cycles.iter().map(run).collect()
}
