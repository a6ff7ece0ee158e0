//! Order: which report of an object wins, and the outcome of the others.
//!
//! Event time decides, then arrival; removals act where they arrive. The outcomes of all requests
//! are written out.

use super::*;

fn outcome(applied: u64, duplicate: u64, superseded: u64, late: u64) -> RequestOutcome {
    RequestOutcome { applied, duplicate, superseded, late, ..RequestOutcome::default() }
}

fn removal(removed: u64, missing: u64) -> RequestOutcome {
    RequestOutcome { removed, missing, ..RequestOutcome::default() }
}

/// The x of every object, in the order of their ids.
fn places(trial: &mut Trial, objects: Vec<u64>) -> Vec<i32> {
    let answer = trial.answer(&query(QueryKind::Get(objects)));
    answer.fixes.iter().map(|row| row.x).collect()
}

/// An older report never overwrites, an equal time does.
pub fn late_reports_are_counted_and_dropped(make: Make) {
    let mut trial = Trial::planar(make);
    assert_eq!(trial.send_one(fixes(&[fix(1, 100, 1, 1)])), outcome(1, 0, 0, 0));
    assert_eq!(trial.send_one(fixes(&[fix(1, 99, 2, 1)])), outcome(0, 0, 0, 1));
    assert_eq!(places(&mut trial, vec![1]), [1]);
    assert_eq!(trial.send_one(fixes(&[fix(1, 100, 3, 1)])), outcome(1, 0, 0, 0));
    assert_eq!(places(&mut trial, vec![1]), [3]);
    assert_eq!(trial.send_one(fixes(&[fix(1, 101, 4, 1)])), outcome(1, 0, 0, 0));
    assert_eq!(places(&mut trial, vec![1]), [4]);
}

/// The newest of a cycle wins at any place; the others are superseded or late.
pub fn the_newest_of_a_cycle_wins(make: Make) {
    let mut trial = Trial::planar(make);
    trial.send_one(fixes(&[fix(1, 100, 1, 1)]));
    let rows = [fix(1, 110, 2, 1), fix(1, 130, 3, 1), fix(1, 90, 4, 1), fix(1, 120, 5, 1)];
    assert_eq!(trial.send_one(fixes(&rows)), outcome(1, 0, 2, 1));
    assert_eq!(places(&mut trial, vec![1]), [3]);
    // A row that would be late against the winner but not against the start is superseded.
    let rows = [fix(1, 150, 6, 1), fix(1, 140, 7, 1), fix(1, 129, 8, 1)];
    assert_eq!(trial.send_one(fixes(&rows)), outcome(1, 0, 1, 1));
}

/// At equal time the later arrival wins, inside a request and across requests.
pub fn at_equal_time_the_later_arrival_wins(make: Make) {
    let mut trial = Trial::planar(make);
    let rows = [fix(1, 100, 1, 1), fix(1, 100, 2, 1), fix(1, 100, 3, 1)];
    assert_eq!(trial.send_one(fixes(&rows)), outcome(1, 0, 2, 0));
    assert_eq!(places(&mut trial, vec![1]), [3]);
    let requests = vec![
        fixes(&[fix(1, 200, 4, 1), fix(2, 200, 4, 1)]),
        fixes(&[]),
        fixes(&[fix(2, 200, 5, 1)]),
        fixes(&[fix(1, 200, 6, 1)]),
    ];
    let outcomes = trial.send(requests);
    let expected =
        [outcome(0, 0, 2, 0), outcome(0, 0, 0, 0), outcome(1, 0, 0, 0), outcome(1, 0, 0, 0)];
    assert_eq!(outcomes, expected);
    assert_eq!(places(&mut trial, vec![1, 2]), [6, 5]);
}

/// A row equal to the record is a duplicate; a difference in any field makes it a change.
pub fn identical_reports_are_duplicates(make: Make) {
    let mut trial = Trial::planar(make);
    let mut row = fix(1, 100, 1, 1);
    row.speed_mm_s = 7;
    row.state = 3;
    trial.send_one(fixes(&[row]));
    assert_eq!(trial.send_one(fixes(&[row])), outcome(0, 1, 0, 0));
    // The second copy supersedes the first and is the duplicate.
    assert_eq!(trial.send_one(fixes(&[row, row])), outcome(0, 1, 1, 0));
    for change in 0..6 {
        let mut changed = row;
        match change {
            0 => changed.x += 1,
            1 => changed.y += 1,
            2 => changed.speed_mm_s = 8,
            3 => changed.heading_cdeg = 0,
            4 => changed.altitude_mm = 0,
            _ => changed.state = 0,
        }
        assert_eq!(trial.send_one(fixes(&[changed])), outcome(1, 0, 0, 0), "change {change}");
        assert_eq!(trial.send_one(fixes(&[row])), outcome(1, 0, 0, 0), "change {change} back");
    }
    // A winner equal to the record is a duplicate though others of the cycle differ.
    let rows = [FixRow { x: 9, ..row }, row];
    assert_eq!(trial.send_one(fixes(&rows)), outcome(0, 1, 1, 0));
    trial.export();
}

/// A removal ends what arrived before it and nothing after it.
pub fn removal_acts_at_its_arrival(make: Make) {
    let mut trial = Trial::planar(make);
    trial.send_one(fixes(&[fix(1, 100, 1, 1), fix(2, 100, 2, 1)]));
    let requests = vec![
        fixes(&[fix(1, 200, 3, 1), fix(1, 50, 3, 2), fix(3, 10, 3, 3)]),
        Request::Remove(vec![1, 3, 4, 1]),
        fixes(&[fix(1, 10, 4, 1)]),
        Request::Remove(vec![2]),
    ];
    let outcomes = trial.send(requests);
    let expected = [outcome(0, 0, 2, 1), removal(2, 2), outcome(1, 0, 0, 0), removal(1, 0)];
    assert_eq!(outcomes, expected);
    assert_eq!(trial.ids(QueryKind::Get(vec![1, 2, 3, 4])), [1]);
    assert_eq!(places(&mut trial, vec![1]), [4]);
}

/// There is no tombstone: after a removal any time is new, and the same record no duplicate.
pub fn removal_leaves_no_tombstone(make: Make) {
    let mut trial = Trial::planar(make);
    let row = fix(1, 100, 1, 1);
    trial.send_one(fixes(&[row]));
    let outcomes = trial.send(vec![Request::Remove(vec![1]), fixes(&[row])]);
    assert_eq!(outcomes, [removal(1, 0), outcome(1, 0, 0, 0)]);
    trial.send_one(Request::Remove(vec![1]));
    assert_eq!(trial.send_one(Request::Remove(vec![1])), removal(0, 1));
    assert_eq!(trial.send_one(fixes(&[fix(1, -1_000, 7, 1)])), outcome(1, 0, 0, 0));
    assert_eq!(places(&mut trial, vec![1]), [7]);
    // Removed, back, removed, back: only the last row remains.
    let requests = vec![
        Request::Remove(vec![1]),
        fixes(&[fix(1, 300, 1, 1)]),
        Request::Remove(vec![1]),
        fixes(&[fix(1, 200, 2, 1)]),
    ];
    let outcomes = trial.send(requests);
    let expected = [removal(1, 0), outcome(0, 0, 1, 0), removal(1, 0), outcome(1, 0, 0, 0)];
    assert_eq!(outcomes, expected);
    assert_eq!(places(&mut trial, vec![1]), [2]);
}

/// A clear removes all that arrived before it, also in its cycle; epoch and clock remain.
pub fn clear_removes_everything_before_it(make: Make) {
    let mut trial = Trial::planar(make);
    assert_eq!(trial.send_one(Request::Clear), removal(0, 0));
    trial.send_one(fixes(&[fix(1, 100, 1, 1), fix(2, 100, 2, 1)]));
    let requests = vec![
        fixes(&[fix(3, 100, 3, 1), fix(1, 200, 3, 2), fix(2, 1, 3, 3)]),
        Request::Clear,
        fixes(&[fix(2, 1, 5, 5), fix(4, 1, 6, 6)]),
        Request::Clear,
        fixes(&[fix(2, 1, 7, 7)]),
    ];
    let outcomes = trial.send(requests);
    let expected = [
        outcome(0, 0, 2, 1),
        removal(3, 0),
        outcome(0, 0, 2, 0),
        removal(2, 0),
        outcome(1, 0, 0, 0),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(places(&mut trial, vec![1, 2, 3, 4]), [7]);
    assert_eq!(trial.send_one(Request::Clear), removal(1, 0));
    assert_eq!(trial.export().epoch, if trial.backend().answer_lag() == 0 { 5 } else { 6 });
}

/// Several reports of one object in one request are normal.
pub fn one_object_many_times_in_a_batch(make: Make) {
    let mut trial = Trial::planar(make);
    let rows: Vec<_> = (0..1_000).map(|at| fix(7, (at * 37) % 1_000, at as i32, 1)).collect();
    assert_eq!(trial.send_one(fixes(&rows)), outcome(1, 0, 999, 0));
    let newest = rows.iter().max_by_key(|row| row.time_ms).map(|row| row.x);
    assert_eq!(places(&mut trial, vec![7]), [newest.expect("there are rows")]);
}

/// Ids at both ends of the range and far apart.
pub fn ids_of_every_size(make: Make) {
    let mut trial = Trial::planar(make);
    let mut ids: Vec<u64> = (0..64).map(|bit| 1 << bit).collect();
    ids.extend([0, u64::MAX - 1, u64::from(u32::MAX), 1 << 33 | 1]);
    ids.sort_unstable();
    let rows: Vec<_> = ids.iter().map(|id| fix(*id, 1, 5, 5)).collect();
    assert_eq!(trial.send_one(fixes(&rows)).applied, 68);
    assert_eq!(trial.ids(QueryKind::Get(ids.clone())), ids);
    let half: Vec<u64> = ids.iter().copied().step_by(2).collect();
    assert_eq!(trial.send_one(Request::Remove(half)), removal(34, 0));
    let rest: Vec<u64> = ids.iter().copied().skip(1).step_by(2).collect();
    assert_eq!(trial.ids(QueryKind::Get(ids)), rest);
}
