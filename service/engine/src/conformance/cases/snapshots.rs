//! Export and import.
//!
//! Records, epoch and clock survive the move. A refused import leaves an empty engine that works.

use super::*;

/// An empty state moves.
pub fn an_empty_state_moves(make: Make) {
    let mut trial = Trial::planar(make);
    assert_eq!(trial.export().rows(), 0);
    trial.migrate(EngineOptions::new(plane()));
    assert_eq!(trial.send_one(fixes(&[fix(1, 0, 1, 1)])).applied, 1);
    assert_eq!(trial.export().epoch, 1);
}

/// Records with every attribute, the epoch and the clock move; the term does not.
pub fn a_state_moves_whole(make: Make) {
    let options = EngineOptions { term: 1, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options.clone(), "moves");
    let mut row = fix(4, 400, 4, 4);
    row.speed_mm_s = 0;
    row.heading_cdeg = 35_999;
    row.altitude_mm = -5;
    row.state = u32::MAX;
    trial.send_one(fixes(&[fix(9, 100, 1, 1), fix(u64::MAX - 1, 300, 1_000, 1_000), row]));
    trial.send_one(Request::Remove(vec![9]));
    assert_eq!(trial.export().term, 1);
    trial.migrate(EngineOptions { term: 2, ..options });
    assert_eq!(trial.export().term, 2);
    assert_eq!(trial.model().clock_ms(), START_MS + 400);
    assert_eq!(trial.send_one(fixes(&[fix(4, 399, 9, 9)])).late, 1);
    assert_eq!(trial.send_one(fixes(&[row])).duplicate, 1);
    assert_eq!(trial.export().epoch, 4);
    assert_eq!(trial.ids(QueryKind::nearest(0, 0, 5)), [4, u64::MAX - 1]);
}

/// More rows than one batch holds, at both sides of its length.
pub fn batches_are_cut_at_their_length(make: Make) {
    for rows in [SNAPSHOT_BATCH_ROWS - 1, SNAPSHOT_BATCH_ROWS, SNAPSHOT_BATCH_ROWS + 1] {
        let mut trial = Trial::planar(make);
        let place = |id: usize| fix(id as u64 * 3, 0, (id % 1_000) as i32, (id / 1_000) as i32);
        let all: Vec<_> = (0..rows).map(place).collect();
        trial.send_one(fixes(&all));
        let snapshot = trial.export();
        let batches: Vec<usize> = snapshot.batches.iter().map(FixColumns::len).collect();
        assert_eq!(batches.iter().sum::<usize>(), rows);
        let whole = batches[..batches.len() - 1].iter().all(|rows| *rows == SNAPSHOT_BATCH_ROWS);
        assert!(whole, "{batches:?}");
        trial.migrate(EngineOptions::new(plane()));
    }
}

/// An import runs no cycle: what a shorter TTL or the clock removes expires in the next one.
pub fn an_import_expires_nothing_by_itself(make: Make) {
    let options = EngineOptions::new(plane());
    for clock in [Clock::Event, Clock::System] {
        let mut trial = Trial::new(make, options.clone(), "import");
        trial.send_one(fixes(&[fix(1, 0, 1, 1), fix(2, 5_000, 2, 2)]));
        let ttl_ms = Some(1_000);
        trial.migrate(EngineOptions { ttl_ms, clock, ..options.clone() });
        assert_eq!(trial.backend().objects(), 2);
        trial.system_ms = START_MS;
        trial.submit(Vec::new(), Vec::new());
        let output = trial.wait(0);
        assert_eq!((output.expired, output.objects), (1, 1));
        assert_eq!(output.clock_ms, START_MS + 5_000);
    }
}

/// A snapshot's clock may be ahead of its rows, and rows may be ahead of the clock.
pub fn the_clock_of_a_snapshot_is_taken_as_it_is(make: Make) {
    for clock_ms in [0, START_MS, START_MS + 10_000] {
        let mut backend = make(EngineOptions::new(plane()));
        let batches = vec![columns(&[fix(1, 5_000, 1, 1)])];
        let snapshot = Snapshot { term: 5, epoch: 77, clock_ms, batches };
        backend.import(snapshot).expect("the snapshot is right");
        let exported = backend.export().expect("it exports");
        assert_eq!((exported.epoch, exported.clock_ms, exported.term), (77, clock_ms, 0));
        let output = backend.run(CycleInput::default()).expect("it runs");
        assert_eq!((output.epoch, output.clock_ms, output.objects), (78, clock_ms, 1));
    }
}

/// Rows of a snapshot may have any order, over any batches.
pub fn rows_move_in_any_order(make: Make) {
    let mut trial = Trial::planar(make);
    let place = |id: u64| fix(id, 0, (id % 1_000) as i32, 5);
    trial.send_one(fixes(&(0..500).map(place).collect::<Vec<_>>()));
    let Snapshot { term, epoch, clock_ms, batches } = trial.export();
    let rows: Vec<_> =
        batches.iter().flat_map(|batch| (0..batch.len()).map(|row| batch.row(row))).collect();
    let odd: Vec<_> = rows.iter().rev().filter(|row| row.object % 2 == 1).copied().collect();
    let even: Vec<_> = rows.iter().filter(|row| row.object % 2 == 0).copied().collect();
    let batches = vec![columns(&odd), columns(&[]), columns(&even)];
    let mut backend = make(EngineOptions::new(plane()));
    backend.import(Snapshot { term, epoch, clock_ms, batches }).expect("the order is free");
    assert_eq!(backend.export(), Ok(trial.export()));
}

/// A fleet at its object limit moves whole, in several batches, and is full afterwards.
pub fn a_full_state_moves(make: Make) {
    let objects_max = SNAPSHOT_BATCH_ROWS as u64 + 5;
    let options = EngineOptions { objects_max, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options.clone(), "full");
    let place = |id: u64| fix(id, 0, (id % 1_000) as i32, 5);
    let all: Vec<_> = (0..objects_max + 1).map(place).collect();
    assert_eq!(trial.send_one(fixes(&all)).applied, objects_max);
    trial.migrate(options);
    let outcome = trial.send_one(fixes(&[fix(objects_max, 0, 1, 1), fix(3, 1, 1, 1)]));
    assert_eq!(outcome.refused, [(0, Refusal::ObjectLimit)]);
    assert_eq!((outcome.applied, trial.backend().objects()), (1, objects_max));
}

/// A snapshot with more objects than the limit is refused.
pub fn snapshots_beyond_the_object_limit_are_refused(make: Make) {
    for objects_max in [0, 1, 2, 3] {
        let options = EngineOptions { objects_max, ..EngineOptions::new(plane()) };
        let batches = vec![columns(&[fix(1, 0, 1, 1), fix(2, 0, 1, 1)])];
        let snapshot = Snapshot { epoch: 3, clock_ms: START_MS, batches, ..Snapshot::default() };
        let mut backend = make(options);
        let imported = backend.import(snapshot);
        if objects_max >= 2 {
            imported.expect("within the limit");
            assert_eq!(backend.objects(), 2);
            continue;
        }
        match imported.expect_err("one too many") {
            EngineError::Limit { value, limit, .. } => assert_eq!((value, limit), (2, objects_max)),
            other => panic!("expected a limit, got {other}"),
        }
        assert_eq!(backend.objects(), 0);
    }
}

/// Unequal columns, repeated objects, refused rows, a backend that has run.
pub fn wrong_snapshots_are_refused(make: Make) {
    let right = columns(&[fix(1, 0, 1, 1), fix(2, 0, 2, 2)]);
    let mut unequal = right.clone();
    unequal.x.pop();
    let outside = columns(&[fix(1, 0, 1, 1), fix(2, 0, 1_001, 2)]);
    let mut too_fast = fix(1, 0, 1, 1);
    too_fast.speed_mm_s = u32::MAX - 1;
    let wrong = [
        vec![unequal],
        vec![outside],
        vec![columns(&[too_fast])],
        vec![columns(&[fix(u64::MAX, 0, 1, 1)])],
        vec![columns(&[fix(1, 0, 1, 1), fix(1, 0, 1, 1)])],
        vec![columns(&[fix(2, 0, 1, 1), fix(1, 0, 1, 1), fix(2, 0, 1, 1)])],
        vec![right.clone(), columns(&[fix(2, 0, 1, 1)])],
    ];
    for (number, batches) in wrong.into_iter().enumerate() {
        let mut backend = make(EngineOptions::new(plane()));
        let snapshot = Snapshot { epoch: 9, clock_ms: START_MS, batches, ..Snapshot::default() };
        let error = backend.import(snapshot).expect_err("it is wrong");
        assert!(matches!(error, EngineError::Snapshot(_)), "snapshot {number}: {error}");
        let output = backend.run(CycleInput::default()).expect("it runs");
        assert_eq!((output.epoch, output.objects), (1, 0), "snapshot {number}");
        let snapshot = Snapshot { batches: vec![right.clone()], ..Snapshot::default() };
        let error = backend.import(snapshot).expect_err("a cycle has run");
        assert!(matches!(error, EngineError::Snapshot(_)), "snapshot {number}: {error}");
    }
}
