//! Admission: a fleet never holds more objects than its limit.
//!
//! The limit applies row by row in order of arrival: removals and clears free capacity for later
//! arrivals, expiry for the next cycle. A refused row has no effect, not even on the clock.

use super::*;

/// An empty engine on a plane with this object limit and an event clock.
fn limited(make: Make, objects_max: u64) -> Trial {
    let options = EngineOptions { objects_max, ..EngineOptions::new(plane()) };
    Trial::new(make, options, &format!("at most {objects_max} objects"))
}

/// One row of each of these objects.
fn rows_of(objects: impl IntoIterator<Item = u64>) -> Vec<FixRow> {
    objects.into_iter().map(|object| fix(object, 0, 1, 1)).collect()
}

/// One row of each of these objects as a request.
fn fixes_of(objects: impl IntoIterator<Item = u64>) -> Request {
    fixes(&rows_of(objects))
}

/// Asserts that exactly these rows are refused, all by the object limit.
#[track_caller]
fn over_limit(outcome: &RequestOutcome, rows: impl IntoIterator<Item = u32>) {
    let expected: Vec<_> = rows.into_iter().map(|row| (row, Refusal::ObjectLimit)).collect();
    assert_eq!(outcome.refused, expected);
}

/// All objects of the engine, ascending.
fn objects(trial: &mut Trial) -> Vec<u64> {
    let snapshot = trial.export();
    snapshot.batches.into_iter().flat_map(|batch| batch.object).collect()
}

/// If one message has more new objects than fit, the first ones are admitted.
pub fn the_limit_holds_inside_a_message(make: Make) {
    let mut trial = limited(make, 10);
    let outcome = trial.send_one(fixes_of(0..15));
    assert_eq!(outcome.applied, 10);
    over_limit(&outcome, 10..15);
    assert_eq!(objects(&mut trial), (0..10).collect::<Vec<_>>());
    // Order of arrival decides, not the order of ids.
    let mut trial = limited(make, 3);
    over_limit(&trial.send_one(fixes_of([9, 5, 7, 1, 8])), [3, 4]);
    assert_eq!(objects(&mut trial), [5, 7, 9]);
}

/// One below the limit, the limit and one above, in one message, in several and in several cycles.
pub fn the_limit_and_its_neighbours(make: Make) {
    for count in [9, 10, 11] {
        let mut trial = limited(make, 10);
        let outcome = trial.send_one(fixes_of(0..count));
        assert_eq!(outcome.applied, count.min(10));
        over_limit(&outcome, 10..count as u32);
        let mut trial = limited(make, 10);
        let outcomes = trial.send((0..count).map(|object| fixes_of([object])).collect());
        let applied: u64 = outcomes.iter().map(|outcome| outcome.applied).sum();
        assert_eq!((applied, trial.backend().objects()), (count.min(10), count.min(10)));
        let mut trial = limited(make, 10);
        for object in 0..count {
            assert_eq!(trial.send_one(fixes_of([object])).applied, u64::from(object < 10));
        }
        // Existing objects are updated at the limit.
        let outcome = trial.send_one(fixes(&[fix(3, 7, 2, 2), fix(3, -5, 2, 2), fix(4, 0, 1, 1)]));
        assert_eq!((outcome.applied, outcome.late, outcome.duplicate), (1, 1, 1));
    }
}

/// A limit of zero objects is legal.
pub fn a_fleet_without_capacity(make: Make) {
    let mut trial = limited(make, 0);
    over_limit(&trial.send_one(fixes(&[fix(1, 0, 1, 1), fix(1, 1, 1, 1)])), [0, 1]);
    let outcomes = trial.send(vec![Request::Clear, fixes_of([1]), Request::Remove(vec![1])]);
    over_limit(&outcomes[1], [0]);
    assert_eq!(outcomes[2].missing, 1);
    assert_eq!((trial.export().rows(), trial.model().clock_ms()), (0, 0));
}

/// A row that the limit refuses does not move an event clock, so it makes no record expire.
pub fn a_row_over_the_limit_leaves_the_clock(make: Make) {
    let options = EngineOptions {
        objects_max: 1,
        clock: Clock::Event,
        ttl_ms: Some(10_000),
        ..EngineOptions::new(plane())
    };
    let late = || fixes(&[fix(2, 50_000, 1, 1), fix(1, 40, 2, 2)]);
    let mut trial = Trial::new(make, options.clone(), "the clock at the limit");
    trial.send_one(fixes_of([1]));
    over_limit(&trial.send_one(late()), [0]);
    assert_eq!(trial.model().clock_ms(), START_MS + 40);
    assert_eq!(trial.ids(QueryKind::Get(vec![1, 2])), [1]);
    // In the cycle that fills the fleet, and in one with removals and clears.
    let mut trial = Trial::new(make, options.clone(), "the clock while it fills");
    over_limit(&trial.send(vec![fixes_of([1]), late()])[1], [0]);
    assert_eq!((trial.model().clock_ms(), objects(&mut trial)), (START_MS + 40, vec![1]));
    for change in [Request::Remove(vec![1]), Request::Clear] {
        let mut trial = Trial::new(make, options.clone(), "the clock after a removal");
        trial.send_one(fixes_of([1]));
        over_limit(&trial.send(vec![late(), change, fixes_of([3, 4])])[0], [0]);
        assert_eq!((trial.model().clock_ms(), objects(&mut trial)), (START_MS + 40, vec![3]));
    }
    // As a dictionary entry among admitted rows.
    let mut trial = Trial::new(make, options, "the clock and a dictionary");
    let rows: Vec<_> = (0..400).map(|at| fix(1 + at % 2, at as i64 % 2 * 50_000, 1, 1)).collect();
    let outcome = trial.send_one(planned_block(&plane(), &rows, &BlockPlan::fixes()));
    over_limit(&outcome, (1..400).step_by(2));
    assert_eq!((trial.model().clock_ms(), objects(&mut trial)), (START_MS, vec![1]));
}

/// Every row of a refused object is refused, at any place; rows of admitted objects pass.
pub fn all_rows_of_a_refused_object_are_refused(make: Make) {
    let mut trial = limited(make, 2);
    trial.send_one(fixes(&[fix(1, 100, 1, 1)]));
    let rows = [fix(2, 50, 1, 1), fix(3, 0, 1, 1), fix(2, 10, 1, 1), fix(3, 99, 1, 1)];
    let outcomes = trial.send(vec![
        fixes(&rows),
        fixes(&[fix(3, 500, 1, 1), fix(1, 0, 1, 1), fix(2, 60, 2, 2), fix(4, 0, 1, 1)]),
    ]);
    over_limit(&outcomes[0], [1, 3]);
    over_limit(&outcomes[1], [0, 3]);
    assert_eq!((outcomes[0].applied, outcomes[0].superseded), (0, 2));
    assert_eq!((outcomes[1].applied, outcomes[1].late), (1, 1));
    assert_eq!(trial.model().clock_ms(), START_MS + 100);
    assert_eq!(objects(&mut trial), [1, 2]);
}

/// Rows refused for another reason use no capacity and keep their reason.
pub fn faulty_rows_take_no_capacity(make: Make) {
    let mut trial = limited(make, 2);
    let mut too_fast = fix(7, 0, 1, 1);
    too_fast.speed_mm_s = u32::MAX - 1;
    let rows = [
        fix(5, 0, -1, 1),
        fix(u64::MAX, 0, 1, 1),
        fix(1, 0, 1, 1),
        too_fast,
        fix(2, 0, 1, 1),
        fix(6, 0, 1, 1),
        fix(6, 0, -1, 1),
        fix(7, 0, 1, 1),
    ];
    let (limit, outside) = (Refusal::ObjectLimit, Refusal::OutsideSpace);
    let expected = [
        (0, outside),
        (1, Refusal::Object),
        (3, Refusal::Speed),
        (5, limit),
        (6, outside),
        (7, limit),
    ];
    assert_eq!(trial.send_one(fixes(&rows)).refused, expected);
    assert_eq!(objects(&mut trial), [1, 2]);
}

/// A block that fails to decode uses no capacity, at any place.
pub fn rows_of_an_invalid_block_take_no_capacity(make: Make) {
    for plan in [BlockPlan::raw(), BlockPlan::fixes()] {
        let mut trial = limited(make, 2);
        let mut rows = vec![fix(1, 900, 5, 5)];
        rows.extend((0..200).map(|at| fix(2 + at % 3, 0, 6, 5)));
        let invalid = invalid_block(&plane(), &rows, &plan);
        let outcomes = trial.send(vec![invalid.clone(), fixes_of([7, 8, 9]), invalid.clone()]);
        assert!(outcomes[0].block_error.is_some() && outcomes[2].block_error.is_some());
        over_limit(&outcomes[1], [2]);
        let outcomes = trial.send(vec![invalid, Request::Remove(vec![7]), fixes_of([1, 2])]);
        assert_eq!(outcomes[1].removed, 1);
        over_limit(&outcomes[2], [1]);
        assert_eq!((objects(&mut trial), trial.model().clock_ms()), (vec![1, 8], START_MS));
    }
}

/// A removal frees capacity for later rows only, once for each object that it ends.
pub fn a_removal_frees_capacity_for_later_rows(make: Make) {
    let mut trial = limited(make, 3);
    trial.send_one(fixes_of([1, 2]));
    let outcomes = trial.send(vec![
        fixes_of([3, 4]),
        Request::Remove(vec![1, 4, 1, 9]),
        fixes_of([5, 6]),
        Request::Remove(vec![5, 2]),
        fixes_of([6, 2, 1, 3]),
    ]);
    over_limit(&outcomes[0], [1]);
    assert_eq!((outcomes[1].removed, outcomes[1].missing), (1, 3));
    over_limit(&outcomes[2], [1]);
    assert_eq!((outcomes[3].removed, outcomes[3].missing), (2, 0));
    over_limit(&outcomes[4], [2]);
    assert_eq!(objects(&mut trial), [2, 3, 6]);
}

/// A removed object has no claim: another object may be admitted before it reports again.
pub fn a_removed_object_may_find_no_capacity(make: Make) {
    let mut trial = limited(make, 2);
    trial.send_one(fixes(&[fix(1, 100, 1, 1), fix(2, 100, 1, 1)]));
    let remove = || Request::Remove(vec![1]);
    let outcomes = trial.send(vec![remove(), fixes_of([3, 1, 2]), remove()]);
    over_limit(&outcomes[1], [1]);
    assert_eq!((outcomes[1].applied, outcomes[1].late, outcomes[2].missing), (1, 1, 1));
    assert_eq!(objects(&mut trial), [2, 3]);
    let remove = || Request::Remove(vec![2]);
    let outcomes = trial.send(vec![
        fixes(&[fix(2, 300, 1, 1)]),
        remove(),
        fixes_of([2, 1]),
        remove(),
        fixes_of([4, 2]),
    ]);
    assert_eq!(outcomes[0].superseded, 1);
    over_limit(&outcomes[2], [1]);
    over_limit(&outcomes[4], [1]);
    assert_eq!(objects(&mut trial), [3, 4]);
}

/// A clear frees all capacity for the rows after it.
pub fn a_clear_frees_capacity(make: Make) {
    let mut trial = limited(make, 2);
    trial.send_one(fixes_of([1, 2]));
    let outcomes = trial.send(vec![
        fixes_of([3]),
        Request::Clear,
        fixes_of([3, 1, 2, 3]),
        Request::Remove(vec![2, 3]),
        Request::Clear,
        Request::Clear,
        fixes_of([2, 5, 1]),
    ]);
    over_limit(&outcomes[0], [0]);
    over_limit(&outcomes[2], [2]);
    let removed = [1, 3, 4, 5].map(|request: usize| outcomes[request].removed);
    assert_eq!((removed, outcomes[3].missing), ([2, 1, 1, 0], 1));
    over_limit(&outcomes[6], [2]);
    assert_eq!(objects(&mut trial), [2, 5]);
    // A clear at the end frees nothing for the rows before it.
    let outcomes = trial.send(vec![fixes_of([7]), Request::Clear]);
    over_limit(&outcomes[0], [0]);
    assert_eq!(outcomes[1].removed, 2);
    assert_eq!(trial.send_one(fixes_of([7, 8])).applied, 2);
}

/// Expiry frees capacity for the next cycle, also of rows that were too old on arrival.
pub fn expiry_frees_capacity_for_the_next_cycle(make: Make) {
    let options = EngineOptions {
        objects_max: 2,
        clock: Clock::System,
        ttl_ms: Some(1_000),
        ..EngineOptions::new(plane())
    };
    let mut trial = Trial::new(make, options, "expiry at the limit");
    trial.send_one(fixes(&[fix(1, 0, 1, 1), fix(2, 500, 1, 1)]));
    trial.system_ms = START_MS + 1_001;
    over_limit(&trial.send_one(fixes(&[fix(3, 1_000, 1, 1)])), [0]);
    assert_eq!(objects(&mut trial), [2]);
    // A row that is too old counts in its cycle.
    let outcome = trial.send_one(fixes(&[fix(4, 0, 1, 1), fix(3, 1_000, 1, 1)]));
    over_limit(&outcome, [1]);
    assert_eq!((outcome.expired, objects(&mut trial)), (1, vec![2]));
    assert_eq!(trial.send_one(fixes(&[fix(3, 1_000, 1, 1)])).applied, 1);
}

/// The limit applies to blocks as to their rows: raw, encoded, before and after removals.
pub fn blocks_meet_the_limit_as_their_rows(make: Make) {
    let row = |at: u64| fix(at * 7919 % 91, at as i64, (at % 990) as i32, 7);
    let rows: Vec<FixRow> = (0..3_000).map(row).collect();
    for objects_max in [1, 40, 90, 91, 92] {
        for change in [None, Some(Request::Remove((0..50).collect())), Some(Request::Clear)] {
            let plans = [None, Some(BlockPlan::raw()), Some(BlockPlan::fixes())];
            let [plain, raw, encoded] = plans.map(|plan| {
                let mut trial = limited(make, objects_max);
                let request = |rows: &[FixRow]| request(&plane(), rows, plan.as_ref());
                trial.send_one(request(&rows[..30]));
                let mut requests = vec![request(&rows[20..700]), fixes_of([500, 3, 501])];
                requests.extend(change.clone());
                requests.extend([request(&rows[600..]), request(&rows[..900])]);
                let outcomes = trial.send(requests);
                (outcomes, trial.export())
            });
            assert_eq!(plain, raw);
            assert_eq!(plain, encoded);
            let most = if matches!(change, Some(Request::Clear)) { 91 } else { 93 };
            assert_eq!(plain.1.rows(), objects_max.min(most));
        }
    }
}

/// More rows than are processed at once, of existing and new objects.
pub fn many_rows_meet_the_limit(make: Make) {
    let mut trial = limited(make, 30_000);
    let row = |at: u64| fix(at, at as i64 % 50, (at % 1_000) as i32, (at % 997) as i32);
    let all: Vec<FixRow> = (0..70_000).map(row).collect();
    assert_eq!(trial.send_one(fixes(&all[..20_000])).applied, 20_000);
    let mixed: Vec<FixRow> = (0..70_000).map(|at| all[(at * 40_009) % 70_000]).collect();
    let outcome = trial.send_one(fixes(&mixed));
    assert_eq!((outcome.applied, outcome.duplicate), (10_000, 20_000));
    assert_eq!(outcome.refused.len(), 40_000);
    assert_eq!(trial.export().rows(), 30_000);
    let outcomes = trial.send(vec![
        fixes(&mixed[..10_000]),
        Request::Remove((0..20_000).collect()),
        fixes(&mixed),
        Request::Clear,
        fixes(&mixed),
    ]);
    assert_eq!(outcomes[2].refused.len(), 40_000);
    over_limit(&outcomes[4], 30_000..70_000);
    assert_eq!(trial.export().rows(), 30_000);
}

/// A refused row has no events, in any evaluation mode.
pub fn a_refused_row_has_no_events(make: Make) {
    let mut trial = limited(make, 2);
    let region = rectangle(0.0, 0.0, 100.0, 100.0);
    for (number, evaluation_mode) in
        [(1, EvaluationMode::Cycle), (2, EvaluationMode::EveryFix), (3, EvaluationMode::Crossing)]
    {
        let subscription = Subscription { evaluation_mode, ..Subscription::new(region.clone()) };
        trial.change(set(number, &subscription, false));
    }
    trial.send_one(fixes(&[fix(1, 0, 500, 500), fix(2, 0, 500, 500)]));
    let events = trial.events(vec![
        fixes(&[fix(3, 10, 5, 5), fix(3, 20, 500, 500), fix(3, 30, 6, 6)]),
        Request::Remove(vec![1]),
        fixes(&[fix(4, 10, 5, 5), fix(1, 10, 5, 5), fix(1, 20, 500, 500)]),
    ]);
    for region in events.iter() {
        assert!(region.objects.iter().all(|object| *object == 4), "{:?}", region.objects);
    }
    assert_eq!(events.len(), 3);
    let inside = query(QueryKind::Range(region));
    assert_eq!(trial.answer(&inside).objects, [4]);
}
