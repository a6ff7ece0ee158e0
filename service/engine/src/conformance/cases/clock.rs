//! The clock, expiry and filters by age.
//!
//! The clock steps back on request only. Expiry uses the clock of the cycle, after its rows; the
//! due time may be early but never late.

use super::*;

fn trial(make: Make, clock: Clock, ttl_ms: Option<i64>) -> Trial {
    let options = EngineOptions { clock, ttl_ms, ..EngineOptions::new(plane()) };
    Trial::new(make, options, "clock")
}

/// An event clock follows the greatest time accepted, late rows included, and ignores the system.
pub fn an_event_clock_follows_the_rows(make: Make) {
    let mut trial = trial(make, Clock::Event, None);
    trial.system_ms = START_MS + 1_000_000;
    trial.send(Vec::new());
    assert_eq!(trial.model().clock_ms(), 0);
    trial.send_one(fixes(&[fix(1, 100, 1, 1), fix(1, 50, 1, 1)]));
    assert_eq!(trial.model().clock_ms(), START_MS + 100);
    trial.send_one(fixes(&[fix(2, 70, 1, 1)]));
    trial.send_one(fixes(&[fix(1, 60, 1, 1)]));
    assert_eq!(trial.model().clock_ms(), START_MS + 100);
    trial.send_one(Request::Clear);
    assert_eq!(trial.model().clock_ms(), START_MS + 100);
    // Superseded by a removal, and still the newest accepted time.
    trial.send(vec![fixes(&[fix(3, 300, 1, 1)]), Request::Remove(vec![3])]);
    assert_eq!(trial.model().clock_ms(), START_MS + 300);
}

/// A clock that is ahead of the system clock can be set back; records stay.
pub fn a_clock_is_set_back(make: Make) {
    for clock in [Clock::System, Clock::Event] {
        let mut trial = trial(make, clock, Some(1_000));
        trial.system_ms = START_MS + 60_000;
        trial.send_one(fixes(&[fix(1, 60_000, 1, 1), fix(2, 59_500, 2, 2)]));
        trial.system_ms = START_MS;
        assert_eq!(trial.send_one(fixes(&[fix(3, 0, 3, 3)])).expired, 1);
        assert_eq!(trial.model().clock_ms(), START_MS + 60_000);
        let outcomes = trial.send(vec![
            fixes(&[fix(3, 5, 3, 3)]),
            Request::Rewind,
            fixes(&[fix(1, 3, 4, 4), fix(4, 2, 4, 4)]),
        ]);
        assert_eq!((outcomes[0].applied, outcomes[2].applied, outcomes[2].late), (1, 1, 1));
        let event_ms = if clock == Clock::Event { 5 } else { 0 };
        assert_eq!(trial.model().clock_ms(), START_MS + event_ms);
        assert_eq!(trial.ids(QueryKind::Get(vec![1, 2, 3, 4])), [1, 2, 3, 4]);
        // A clock that is not ahead stays.
        trial.system_ms = START_MS + 100;
        let before_ms = trial.model().clock_ms();
        trial.send_one(Request::Rewind);
        let after_ms = if clock == Clock::Event { before_ms } else { trial.system_ms };
        assert_eq!((trial.model().clock_ms(), trial.export().rows()), (after_ms, 4));
    }
}

/// A row beyond the bound moves the clock to the bound: other records do not expire.
pub fn an_event_clock_stops_at_its_bound(make: Make) {
    let mut trial = trial(make, Clock::Event, Some(100));
    let rows: Vec<FixRow> = (1..=50).map(|object| fix(object, 50 + object as i64, 1, 1)).collect();
    trial.send_one(fixes(&rows));
    trial.event_clock_max_ms = Some(START_MS + 120);
    trial.submit(vec![fixes(&[fix(99, 59_000, 2, 2)])], Vec::new());
    let output = trial.wait(0);
    assert_eq!((output.clock_ms, output.expired), (START_MS + 120, 0));
    assert_eq!((output.requests[0].applied, output.requests[0].ahead), (1, 1));
    // Reports of the others are seen, and the record that is ahead remains.
    assert_eq!(trial.send_one(fixes(&[fix(7, 118, 3, 3)])).applied, 1);
    assert_eq!(trial.ids(QueryKind::Get(vec![7, 99])), [7, 99]);
    assert_eq!(trial.export().rows(), 51);
    // Without a bound the same row would have removed them all.
    trial.event_clock_max_ms = None;
    trial.submit(vec![fixes(&[fix(99, 59_000, 2, 2)])], Vec::new());
    assert_eq!(trial.wait(0).expired, 50);
}

/// Rows of every outcome but refused ones are ahead by their time alone.
pub fn rows_ahead_of_the_clock_are_counted(make: Make) {
    let options = EngineOptions { objects_max: 3, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "ahead");
    trial.send_one(fixes(&[fix(1, 500, 1, 1)]));
    trial.event_clock_max_ms = Some(START_MS + 400);
    let outside = FixRow { x: -1, ..fix(2, 900, 1, 1) };
    let rows = [
        fix(1, 500, 1, 1),
        fix(1, 501, 1, 1),
        fix(1, 600, 2, 2),
        fix(2, 400, 1, 1),
        fix(2, 700, 1, 1),
        outside,
        fix(3, 800, 1, 1),
        // Beyond the limit of objects.
        fix(4, 900, 1, 1),
    ];
    let encoded = [fix(1, 499, 1, 1), fix(1, 650, 1, 1), fix(2, 650, 1, 1)];
    let outcomes = trial.send(vec![
        fixes(&rows),
        Request::Remove(vec![3]),
        planned_block(&plane(), &encoded, &BlockPlan::fixes()),
    ]);
    let ahead: Vec<u64> = outcomes.iter().map(|outcome| outcome.ahead).collect();
    assert_eq!(ahead, [4, 0, 2]);
    assert_eq!(outcomes[0].refused.len(), 2);
    assert_eq!(trial.model().clock_ms(), START_MS + 500);
    // A late row can be ahead: its object's record is further ahead.
    trial.event_clock_max_ms = Some(START_MS + 510);
    let late = trial.send_one(fixes(&[fix(2, 620, 1, 1)]));
    assert_eq!((late.late, late.ahead), (1, 1));
    // With a system clock no row is ahead.
    let options = EngineOptions { clock: Clock::System, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "ahead, system clock");
    trial.event_clock_max_ms = Some(0);
    assert_eq!(trial.send_one(fixes(&[fix(1, 50_000, 1, 1)])).ahead, 0);
}

/// A record that was ahead expires when the clock exceeds its own time by the TTL.
pub fn rows_ahead_expire_by_their_own_time(make: Make) {
    let mut trial = trial(make, Clock::Event, Some(100));
    trial.event_clock_max_ms = Some(START_MS);
    trial.send_one(fixes(&[fix(1, 0, 1, 1), fix(2, 1_000, 2, 2)]));
    for (bound_ms, expired) in [(100, 0), (101, 1), (1_100, 1), (1_101, 2)] {
        trial.event_clock_max_ms = Some(START_MS + bound_ms);
        trial.submit(vec![fixes(&[fix(3, 9_000 + bound_ms, 3, 3)])], Vec::new());
        let output = trial.wait(0);
        assert_eq!(output.clock_ms, START_MS + bound_ms);
        assert_eq!(output.objects, 3 - expired, "at {bound_ms} ms");
    }
}

/// The bound limits and never drives: not without rows, not below the clock, not at its extremes.
pub fn a_bound_never_moves_a_clock(make: Make) {
    let mut trial = trial(make, Clock::Event, None);
    trial.event_clock_max_ms = Some(START_MS + 5_000);
    trial.send(Vec::new());
    trial.send(vec![Request::Clear, Request::Remove(vec![1])]);
    assert_eq!(trial.model().clock_ms(), 0);
    trial.send_one(fixes(&[fix(1, 100, 1, 1)]));
    assert_eq!(trial.model().clock_ms(), START_MS + 100);
    for bound_ms in [0, START_MS, i64::MIN] {
        trial.event_clock_max_ms = Some(bound_ms);
        assert_eq!(trial.send_one(fixes(&[fix(1, 101, 1, 1)])).ahead, 1);
        assert_eq!(trial.model().clock_ms(), START_MS + 100);
    }
    trial.event_clock_max_ms = Some(i64::MAX);
    assert_eq!(trial.send_one(fixes(&[fix(1, 101, 1, 1)])).ahead, 0);
    assert_eq!(trial.model().clock_ms(), START_MS + 101);
}

/// A system clock follows the system and does not step back with it.
pub fn a_system_clock_does_not_step_back(make: Make) {
    let mut trial = trial(make, Clock::System, Some(1_000));
    trial.system_ms = -5;
    trial.send(Vec::new());
    assert_eq!(trial.model().clock_ms(), 0);
    trial.system_ms = START_MS + 5_000;
    trial.send_one(fixes(&[fix(1, 4_500, 1, 1), fix(2, 90_000, 2, 2)]));
    assert_eq!(trial.model().clock_ms(), START_MS + 5_000);
    trial.system_ms = START_MS - 60_000;
    trial.send(Vec::new());
    assert_eq!(trial.model().clock_ms(), START_MS + 5_000);
    assert_eq!(trial.ids(QueryKind::Get(vec![1, 2])), [1, 2]);
    trial.system_ms = START_MS + 5_501;
    assert_eq!(trial.ids(QueryKind::Get(vec![1, 2])), [2]);
}

/// A record expires when its age exceeds the TTL, not when it reaches it.
pub fn records_expire_beyond_their_ttl(make: Make) {
    let mut trial = trial(make, Clock::System, Some(1_000));
    assert_eq!(trial.backend().due_ms(), None);
    trial.system_ms = START_MS;
    trial.send_one(fixes(&[fix(1, 0, 1, 1), fix(2, 1, 2, 2), fix(3, 500, 3, 3)]));
    let due_ms = trial.backend().due_ms();
    assert!(due_ms.is_some_and(|due_ms| due_ms <= START_MS + 1_001), "due {due_ms:?}");
    for (after_ms, expired, left) in
        [(1_000, 0, 3), (1_001, 1, 2), (1_001, 0, 2), (1_002, 1, 1), (1_500, 0, 1), (9_999, 1, 0)]
    {
        trial.system_ms = START_MS + after_ms;
        trial.submit(Vec::new(), Vec::new());
        let output = trial.wait(0);
        assert_eq!((output.expired, output.objects), (expired, left), "after {after_ms} ms");
    }
    // A new report keeps an object that would expire in this cycle.
    trial.system_ms = START_MS + 10_000;
    trial.send_one(fixes(&[fix(4, 10_000, 1, 1)]));
    trial.system_ms = START_MS + 11_001;
    assert_eq!(trial.send_one(fixes(&[fix(4, 10_500, 1, 1)])).applied, 1);
    assert_eq!(trial.ids(QueryKind::Get(vec![4])), [4]);
}

/// A record expires when its age exceeds its own validity or the TTL, whichever is less.
pub fn records_expire_beyond_their_validity(make: Make) {
    let valid = |object, time_ms, valid_ms| FixRow { valid_ms, ..fix(object, time_ms, 1, 1) };
    for ttl_ms in [None, Some(1_000)] {
        let mut trial = trial(make, Clock::System, ttl_ms);
        trial.system_ms = START_MS;
        let rows = [valid(1, 0, 10), valid(2, 5, 10), fix(3, 0, 1, 1), valid(4, 0, u32::MAX - 2)];
        trial.send_one(fixes(&rows));
        let due_ms = trial.backend().due_ms();
        assert!(due_ms.is_some_and(|due_ms| due_ms <= START_MS + 11), "due {due_ms:?}");
        let of_the_ttl = if ttl_ms.is_some() { 2 } else { 0 };
        for (after_ms, expired) in
            [(10, 0), (11, 1), (15, 0), (16, 1), (1_000, 0), (1_001, of_the_ttl), (9_999, 0)]
        {
            trial.system_ms = START_MS + after_ms;
            trial.submit(Vec::new(), Vec::new());
            assert_eq!(trial.wait(0).expired, expired, "after {after_ms} ms, TTL {ttl_ms:?}");
        }
        // The newest fix alone decides: a late one with a longer validity does not, and one
        // without a validity has none, whatever the fix before it had.
        let outcomes = trial.send(vec![
            fixes(&[valid(5, 9_999, 5), valid(6, 9_999, 5), valid(7, 9_999, 0)]),
            fixes(&[valid(5, 9_998, 60_000)]),
        ]);
        assert_eq!((outcomes[0].applied, outcomes[1].superseded), (3, 1));
        trial.system_ms = START_MS + 10_004;
        trial.send_one(fixes(&[fix(6, 9_999, 1, 1)]));
        assert_eq!(trial.ids(QueryKind::Get(vec![5, 6, 7])), [5, 6]);
        trial.system_ms = START_MS + 10_005;
        assert_eq!(trial.ids(QueryKind::Get(vec![5, 6, 7])), [6]);
        // One that had ended on arrival leaves nothing, and ends the record before it.
        let outcome = trial.send_one(fixes(&[valid(6, 10_000, 4), valid(8, 10_000, 5)]));
        assert_eq!((outcome.applied, outcome.expired), (1, 1));
        assert_eq!(trial.ids(QueryKind::Get(vec![5, 6, 7, 8])), [8]);
        trial.export();
    }
}

/// A row that is too old on arrival is counted as expired, and leaves nothing.
pub fn old_rows_expire_on_arrival(make: Make) {
    let mut trial = trial(make, Clock::Event, Some(100));
    let rows = [fix(1, 0, 1, 1), fix(2, 101, 1, 1), fix(3, 1, 1, 1)];
    trial.submit(vec![fixes(&rows)], Vec::new());
    let output = trial.wait(0);
    let outcome = &output.requests[0];
    assert_eq!((outcome.applied, outcome.expired), (2, 1));
    assert_eq!((output.expired, output.objects), (1, 2));
    // The same object reports again; it had no record left.
    assert_eq!(trial.send_one(fixes(&[fix(1, 50, 9, 9)])).applied, 1);
    // One that equals its record, which expires, is a duplicate.
    let outcome = trial.send_one(fixes(&[fix(3, 1, 1, 1), fix(4, 102, 1, 1)]));
    assert_eq!((outcome.applied, outcome.duplicate, outcome.expired), (1, 1, 0));
    let outcomes = trial.send(vec![Request::Remove(vec![2]), fixes(&[fix(5, 400, 1, 1)])]);
    assert_eq!((outcomes[0].removed, outcomes[1].applied), (1, 1));
    assert_eq!(trial.export().rows(), 1);
}

/// A TTL of zero keeps the records at the clock.
pub fn a_ttl_of_zero_keeps_the_newest(make: Make) {
    let mut trial = trial(make, Clock::Event, Some(0));
    trial.send_one(fixes(&[fix(1, 5, 1, 1), fix(2, 5, 1, 1), fix(3, 4, 1, 1)]));
    assert_eq!(trial.ids(QueryKind::Get(vec![1, 2, 3])), [1, 2]);
}

/// The largest TTL expires nothing and does not overflow.
pub fn the_largest_ttl_keeps_everything(make: Make) {
    let mut trial = trial(make, Clock::System, Some(i64::MAX));
    trial.send_one(fixes(&[fix(1, 5, 1, 1)]));
    trial.system_ms = i64::MAX;
    assert_eq!(trial.ids(QueryKind::Get(vec![1])), [1]);
}

/// Ages are relative to the clock of the answer, negative ones included.
pub fn the_age_filter_uses_the_clock(make: Make) {
    let mut trial = trial(make, Clock::System, None);
    trial.system_ms = START_MS + 1_000;
    trial.send_one(fixes(&[fix(1, 0, 1, 1), fix(2, 900, 1, 1), fix(3, 2_000, 1, 1)]));
    for (age_max_ms, expected) in [
        (-1_001, vec![]),
        (-1_000, vec![3]),
        (0, vec![3]),
        (99, vec![3]),
        (100, vec![2, 3]),
        (999, vec![2, 3]),
        (1_000, vec![1, 2, 3]),
        (i64::MAX, vec![1, 2, 3]),
        (i64::MIN, vec![]),
    ] {
        let filter = Filter { age_max_ms: Some(age_max_ms), ..Filter::default() };
        let get = Query { filter: filter.boxed(), ..query(QueryKind::Get(vec![1, 2, 3])) };
        assert_eq!(trial.answer(&get).objects, expected, "age {age_max_ms}");
    }
}
