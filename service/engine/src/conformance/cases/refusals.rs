//! Refused rows, and blocks that fail to decode.
//!
//! A refused row has no effect. A block equals its rows, unless its values contradict its header:
//! then the whole block is dropped, and nothing else.

use super::*;

use Refusal::{
    Altitude, Heading, NotFinite, Object, OutsideSpace, Speed, TimeTooEarly, TimeTooLate, Validity,
};

/// Changes a valid row; takes the latest accepted time.
type Change = fn(&mut FixRow, i64);

/// Changes that each make one fault, with its reason, and changes to the limit that are valid.
const CHANGES: [(Option<Refusal>, Change); 24] = [
    (None, |_, _| {}),
    (Some(Object), |row, _| row.object = u64::MAX),
    (Some(NotFinite), |row, _| row.x = NOT_FINITE_X),
    (Some(OutsideSpace), |row, _| row.x = i32::MIN + 1),
    (Some(OutsideSpace), |row, _| row.x = -1),
    (Some(OutsideSpace), |row, _| row.x = 1_001),
    (Some(OutsideSpace), |row, _| row.y = -1),
    (Some(OutsideSpace), |row, _| row.y = 1_001),
    (None, |row, _| (row.x, row.y) = (0, 0)),
    (None, |row, _| (row.x, row.y) = (1_000, 1_000)),
    (Some(TimeTooEarly), |row, _| row.time_ms = TIME_MIN_MS - 1),
    (None, |row, _| row.time_ms = TIME_MIN_MS),
    (Some(TimeTooLate), |row, max_ms| row.time_ms = max_ms + 1),
    (None, |row, max_ms| row.time_ms = max_ms),
    (Some(Speed), |row, _| row.speed_mm_s = u32::MAX - 1),
    (None, |row, _| row.speed_mm_s = u32::MAX - 2),
    (Some(Heading), |row, _| row.heading_cdeg = 36_000),
    (Some(Heading), |row, _| row.heading_cdeg = u16::MAX - 1),
    (None, |row, _| row.heading_cdeg = 35_999),
    (Some(Altitude), |row, _| row.altitude_mm = i32::MIN + 1),
    (None, |row, _| row.altitude_mm = i32::MIN + 2),
    (Some(Validity), |row, _| row.valid_ms = u32::MAX - 1),
    (None, |row, _| row.valid_ms = u32::MAX - 2),
    (None, |row, _| (row.time_ms, row.valid_ms) = (START_MS, 0)),
];

/// A row for each of the changes, each of an object of its own.
fn changed_rows(time_max_ms: i64) -> Vec<(FixRow, Option<Refusal>)> {
    let changed = |(object, (refusal, change)): (u64, &(Option<Refusal>, Change))| {
        let mut row = fix(object, 0, 10, 10);
        change(&mut row, time_max_ms);
        (row, *refusal)
    };
    (5..).zip(&CHANGES).map(changed).collect()
}

/// Every reason is reported by row, and the rows around it are applied.
pub fn every_reason_is_reported_by_row(make: Make) {
    let mut trial = Trial::planar(make);
    let cases = changed_rows(trial.time_max_ms);
    let rows: Vec<FixRow> = cases.iter().map(|(row, _)| *row).collect();
    let outcome = trial.send_one(fixes(&rows));
    let expected: Vec<(u32, Refusal)> = (0..)
        .zip(&cases)
        .filter_map(|(row, (_, refusal))| refusal.map(|refusal| (row, refusal)))
        .collect();
    assert_eq!(outcome.refused, expected);
    assert_eq!((outcome.applied, outcome.expired), (9, 1));
    assert_eq!(trial.model().records().len(), 9);
    trial.export();
}

/// A row with several faults names the one with the lowest number.
pub fn the_first_fault_is_named(make: Make) {
    let mut trial = Trial::planar(make);
    let mut row = fix(u64::MAX, i64::MIN / 2, i32::MIN, -5);
    row.speed_mm_s = u32::MAX - 1;
    row.heading_cdeg = u16::MAX - 1;
    row.altitude_mm = i32::MIN + 1;
    row.valid_ms = u32::MAX - 1;
    let repairs: [fn(&mut FixRow); 8] = [
        |row| row.object = 1,
        |row| row.x = 5,
        |row| row.y = 5,
        |row| row.time_ms = i64::MAX,
        |row| row.time_ms = START_MS,
        |row| row.speed_mm_s = 0,
        |row| row.heading_cdeg = 0,
        |row| row.altitude_mm = 0,
    ];
    let mut rows = vec![row];
    for repair in repairs {
        repair(&mut row);
        rows.push(row);
    }
    let refused = trial.send_one(fixes(&rows)).refused;
    let reasons: Vec<Refusal> = refused.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reasons[..8], Refusal::ALL[..8]);
    assert_eq!(reasons[8..], [Validity]);
}

/// The reasons of a row that is refused do not depend on the request around it.
pub fn a_whole_batch_may_be_refused(make: Make) {
    let mut trial = Trial::planar(make);
    let rows = vec![fix(1, 0, -1, 0); 300];
    let outcomes = trial.send(vec![fixes(&rows), fixes(&[fix(2, 0, 1, 1)]), fixes(&rows)]);
    assert_eq!(outcomes[0].refused.len(), 300);
    assert_eq!(outcomes[0].refused, outcomes[2].refused);
    assert_eq!(outcomes[1].applied, 1);
    assert_eq!(trial.ids(QueryKind::Get(vec![1, 2])), [2]);
}

/// Refused rows do not move an event clock; late ones and superseded ones do.
pub fn refused_rows_do_not_move_the_clock(make: Make) {
    let mut trial = Trial::planar(make);
    trial.send_one(fixes(&[fix(1, 100, 1, 1)]));
    trial.send_one(fixes(&[fix(1, 900, -1, 1)]));
    assert_eq!(trial.model().clock_ms(), START_MS + 100);
    let removed = vec![fixes(&[fix(1, 500, 1, 1)]), Request::Remove(vec![1])];
    trial.send(removed);
    assert_eq!(trial.model().clock_ms(), START_MS + 500);
}

/// A block equals its rows, with and without optional columns, among other requests.
pub fn blocks_equal_their_rows(make: Make) {
    let plain: Vec<FixRow> = (0..500).map(|at| fix(at % 90, at as i64, at as i32, 7)).collect();
    let cases = changed_rows(START_MS + 1_000_000);
    // A block may have rows of any value, as long as the box in its header is right.
    let faulty: Vec<FixRow> =
        cases.iter().map(|(row, _)| *row).filter(|row| row.time_ms > TIME_MIN_MS).collect();
    let plans = [None, Some(BlockPlan::raw()), Some(BlockPlan::fixes())];
    let outcomes = plans.map(|plan| {
        let mut trial = Trial::planar(make);
        trial.time_max_ms = START_MS + 1_000_000;
        let request = |rows: &[FixRow]| request(&plane(), rows, plan.as_ref());
        let requests = vec![
            request(&plain),
            Request::Remove(vec![3]),
            request(&faulty),
            request(&[]),
            fixes(&plain[..9]),
        ];
        let outcomes = trial.send(requests);
        (outcomes, trial.export())
    });
    for as_block in &outcomes[1..] {
        assert_eq!(outcomes[0].0, as_block.0);
        assert_eq!(outcomes[0].1.rows(), as_block.1.rows());
    }
}

/// Encoded blocks longer than a segment equal their rows, alone and among others.
pub fn long_encoded_blocks_equal_their_rows(make: Make) {
    let row = |at: u64| fix(at * 7919 % 3_001, at as i64, (at * at % 9_973) as i32, at as i32);
    let rows: Vec<FixRow> = (0..70_000).map(row).collect();
    let outcomes = [None, Some(BlockPlan::fixes())].map(|plan| {
        let mut trial = Trial::planar(make);
        trial.time_max_ms = START_MS + 1_000_000;
        let request = |rows: &[FixRow]| request(&plane(), rows, plan.as_ref());
        let requests = vec![request(&rows[..900]), request(&rows), request(&rows[500..9_000])];
        (trial.send(requests), trial.export())
    });
    assert_eq!(outcomes[0].0, outcomes[1].0);
    assert_eq!(outcomes[0].1.rows(), outcomes[1].1.rows());
}

/// A block with a wrong box is dropped whole, and its neighbours are applied.
pub fn an_invalid_block_is_dropped_whole(make: Make) {
    [BlockPlan::raw(), BlockPlan::fixes()]
        .iter()
        .for_each(|plan| drop_an_invalid_block(make, plan));
}

fn drop_an_invalid_block(make: Make, plan: &BlockPlan) {
    let mut trial = Trial::planar(make);
    let space = trial.space();
    let mut rows = vec![fix(1, 900, 5, 5)];
    rows.extend((0..200).map(|_| fix(2, 0, 6, 5)));
    let outcomes = trial.send(vec![
        fixes(&[fix(3, 0, 1, 1)]),
        invalid_block(&space, &rows, plan),
        planned_block(&space, &[fix(4, 0, 1, 1)], &BlockPlan::raw()),
    ]);
    assert!(outcomes[1].block_error.is_some());
    let rest = RequestOutcome { block_error: None, ..outcomes[1].clone() };
    assert_eq!(rest, RequestOutcome::default());
    assert_eq!((outcomes[0].applied, outcomes[2].applied), (1, 1));
    assert_eq!(trial.ids(QueryKind::Get(vec![1, 2, 3, 4])), [3, 4]);
    assert_eq!(trial.model().clock_ms(), START_MS);
    // The invalid block alone: nothing changes.
    let outcome = trial.send_one(invalid_block(&space, &rows, plan));
    assert!(outcome.block_error.is_some());
    assert_eq!(trial.answer(&query(QueryKind::Get(vec![1]))).total, 0);
}

/// Requests without rows have their outcome in their place.
pub fn empty_requests_keep_their_place(make: Make) {
    let mut trial = Trial::planar(make);
    let space = trial.space();
    assert_eq!(trial.send(Vec::new()), []);
    let outcomes = trial.send(vec![
        fixes(&[]),
        Request::Remove(Vec::new()),
        planned_block(&space, &[], &BlockPlan::raw()),
        fixes(&[fix(1, 0, -1, 1), fix(1, 0, 1, 1)]),
        fixes(&[]),
        Request::Clear,
        Request::Remove(Vec::new()),
        Request::Clear,
        fixes(&[fix(1, 0, 1, -1)]),
        fixes(&[]),
    ]);
    assert_eq!(outcomes.len(), 10);
    assert_eq!(outcomes[3].refused, [(0, OutsideSpace)]);
    assert_eq!(outcomes[3].superseded, 1);
    assert_eq!((outcomes[5].removed, outcomes[7].removed), (1, 0));
    assert_eq!(outcomes[8].refused, [(0, OutsideSpace)]);
    let empty = RequestOutcome::default();
    for place in [0, 1, 2, 4, 6, 9] {
        assert_eq!(outcomes[place], empty, "request {place}");
    }
}
