//! Exports while cycles run.
//!
//! The rows must show the state at the start of the export, whatever later cycles change.

use super::*;

/// Objects of the cases: more than a few slices of [`SLICE`] rows.
const OBJECTS: u64 = 1_000;
/// Rows of a slice.
const SLICE: usize = 64;

/// A trial with [`OBJECTS`] objects.
fn filled(make: Make, options: EngineOptions) -> Trial {
    let mut trial = Trial::new(make, options, "exports");
    trial.send_one(moved(0));
    trial
}

/// A row of each object, `step` after the first.
fn moved(step: i64) -> Request {
    let row = |id: u64| fix(id, step, ((id as i64 + step) % 1_000) as i32, (id / 2) as i32);
    fixes(&(0..OBJECTS).map(row).collect::<Vec<_>>())
}

/// Updates, removals, re-added and new objects between slices do not change the export.
pub fn cycles_do_not_reach_an_export(make: Make) {
    let mut trial = filled(make, EngineOptions::new(plane()));
    trial.begin_export();
    let mut step = 1;
    while trial.export_next(SLICE) {
        let every = |n: u64| (0..OBJECTS).filter(move |id| (id + step as u64).is_multiple_of(n));
        let back = fix(every(3).next().unwrap_or(0), step, 9, 9);
        trial.send(vec![
            moved(step),
            Request::Remove(every(3).collect()),
            fixes(&[back, fix(OBJECTS + step as u64, step, 1, 1)]),
        ]);
        step += 1;
    }
    assert!(step > 3, "cycles ran between slices");
    trial.export();
}

/// A slot that was free at the begin is not exported once it is used again.
pub fn new_objects_in_free_slots_stay_out(make: Make) {
    let mut trial = filled(make, EngineOptions::new(plane()));
    trial.send_one(Request::Remove((0..OBJECTS / 2).collect()));
    trial.begin_export();
    assert!(trial.export_next(1));
    let all: Vec<_> = (0..OBJECTS).map(|id| fix(OBJECTS + id, 0, 5, 5)).collect();
    trial.send_one(fixes(&all));
    while trial.export_next(SLICE) {}
}

/// A clear and the rows after it do not change an export.
pub fn a_clear_does_not_reach_an_export(make: Make) {
    for before in [0, 1, 5] {
        let mut trial = filled(make, EngineOptions::new(plane()));
        trial.begin_export();
        (0..before).for_each(|_| assert!(trial.export_next(SLICE)));
        trial.send(vec![Request::Clear]);
        assert_eq!(trial.backend().objects(), 0);
        assert!(trial.export_next(SLICE));
        trial.send(vec![moved(1), Request::Clear, moved(2)]);
        while trial.export_next(SLICE) {}
        assert_eq!(trial.export().rows(), OBJECTS);
    }
}

/// Records that expire after the start of an export, even on arrival, are exported.
pub fn expiry_does_not_reach_an_export(make: Make) {
    let options = EngineOptions { ttl_ms: Some(1_000), ..EngineOptions::new(plane()) };
    let mut trial = filled(make, options);
    trial.begin_export();
    assert!(trial.export_next(SLICE));
    trial.send_one(fixes(&[fix(3, 500, 4, 4), fix(5, 1_400, 4, 4)]));
    trial.send_one(fixes(&[fix(7, 1_500, 4, 4)]));
    assert!(trial.backend().objects() < OBJECTS);
    assert!(trial.export_next(SLICE));
    trial.send_one(fixes(&[fix(9, 9_000, 4, 4), fix(11, 1_500, 4, 4)]));
    while trial.export_next(SLICE) {}
}

/// Attributes that the first row brings during an export, and those at its begin.
pub fn attributes_are_those_of_the_begin(make: Make) {
    let fast = |id: u64, time: i64, speed_mm_s: u32| {
        let mut row = fix(id, time, 1, 1);
        row.speed_mm_s = speed_mm_s;
        row
    };
    let mut trial = filled(make, EngineOptions::new(plane()));
    for step in 1..4 {
        trial.begin_export();
        assert!(trial.export_next(SLICE));
        let all: Vec<_> = (0..OBJECTS).map(|id| fast(id, step, step as u32 * 7)).collect();
        trial.send_one(fixes(&all[..OBJECTS as usize / 2]));
        assert!(trial.export_next(SLICE));
        trial.send_one(fixes(&all));
        while trial.export_next(SLICE) {}
    }
}

/// Growth by far more objects than the export has, and a spread of all that moves the grid.
pub fn growth_does_not_reach_an_export(make: Make) {
    let mut trial = filled(make, EngineOptions::new(plane()));
    trial.begin_export();
    let mut first = OBJECTS;
    while trial.export_next(4 * SLICE) {
        let more = (first..4 * first).map(|id| fix(id, 1, (id % 1_000) as i32, 7));
        trial.send_one(fixes(&more.collect::<Vec<_>>()));
        first *= 4;
    }
    assert!(first > 16 * OBJECTS);
}

/// A second export shows the state at its own begin.
pub fn a_second_export_replaces_the_first(make: Make) {
    let mut trial = filled(make, EngineOptions::new(plane()));
    trial.begin_export();
    assert!(trial.export_next(SLICE));
    trial.send_one(moved(1));
    trial.begin_export();
    trial.send_one(moved(2));
    while trial.export_next(SLICE) {}
    trial.begin_export();
    assert!(trial.export_next(SLICE));
    trial.send_one(moved(3));
    // At once, in place of the one that has not ended.
    trial.export();
    assert_eq!(trial.backend().export_next(SLICE), Ok(None));
}

/// An export that ended or was dropped returns nothing; one that is complete ends by itself.
pub fn exports_end(make: Make) {
    let mut trial = filled(make, EngineOptions::new(plane()));
    assert_eq!(trial.backend().export_next(SLICE), Ok(None));
    trial.begin_export();
    assert!(trial.export_next(SLICE));
    trial.backend().end_export();
    assert_eq!(trial.backend().export_next(SLICE), Ok(None));
    trial.send_one(moved(1));
    trial.begin_export();
    while trial.export_next(usize::MAX) {}
    assert_eq!(trial.backend().export_next(SLICE), Ok(None));
    trial.send_one(moved(2));
    // A slice has at least one row.
    trial.begin_export();
    while trial.export_next(0) {}
}

/// An empty state has no rows, and stays empty for its export.
pub fn an_export_of_nothing(make: Make) {
    let mut trial = Trial::planar(make);
    trial.begin_export();
    assert!(!trial.export_next(SLICE));
    trial.begin_export();
    trial.send_one(moved(0));
    assert!(!trial.export_next(SLICE));
}

/// A cycle that is refused changes neither state nor export; a migrated state exports too.
pub fn refused_cycles_and_imports(make: Make) {
    let options = EngineOptions::new(plane());
    let mut trial = filled(make, options.clone());
    trial.migrate(options);
    trial.begin_export();
    assert!(trial.export_next(SLICE));
    let objects = vec![1; GET_OBJECTS_MAX + 1];
    let input =
        CycleInput { requests: vec![Request::Remove(objects)].into(), ..CycleInput::default() };
    let refused = trial.backend().submit(input).map(|_| ());
    assert!(matches!(refused, Err(EngineError::Limit { .. })), "{refused:?}");
    trial.send_one(moved(1));
    while trial.export_next(SLICE) {}
}

/// Cycles in flight at the begin belong to the state, those submitted later do not.
pub fn an_export_begins_after_the_cycles_in_flight(make: Make) {
    let mut trial = filled(make, EngineOptions::new(plane()));
    trial.submit(vec![moved(1)], Vec::new());
    trial.begin_export();
    trial.submit(vec![moved(2)], Vec::new());
    assert!(trial.export_next(SLICE));
    trial.wait(1);
    trial.wait(0);
    trial.send_one(moved(3));
    while trial.export_next(SLICE) {}
}
