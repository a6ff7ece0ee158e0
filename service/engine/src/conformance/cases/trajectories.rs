//! Evaluation of every fix, and of the segments between fixes.
//!
//! Fixes are evaluated in the order of their times, within each life of their object; a segment
//! between two fixes outside may cut the region.

use super::*;

fn kinds(events: &EventSet, region: u64) -> Vec<EventKind> {
    events_of(events, region).into_iter().map(|(_, kind)| kind).collect()
}

/// A pass through a region within one cycle is reported step by step, in the order of time.
pub fn a_pass_within_one_cycle_is_reported(make: Make) {
    let mut trial = Trial::planar(make);
    let every =
        Subscription { evaluation_mode: EvaluationMode::EveryFix, with_fixes: true, ..square() };
    trial.change(set(1, &every, false));
    trial.change(set(2, &square(), false));
    trial.events(Vec::new());
    let rows = [fix(1, 30, 300, 150), fix(1, 10, 110, 150), fix(1, 20, 120, 150)];
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(kinds(&events, 1), [Enter, Move, Left]);
    assert_eq!(events.get(0).fixes, [rows[1], rows[2], rows[0]]);
    assert_eq!(kinds(&events, 2), []);
    // Late rows are no steps; at equal time the later arrival is the later step, and one that
    // equals the record before it is no step.
    let rows = [
        fix(1, 29, 150, 150),
        fix(1, 40, 150, 150),
        fix(1, 40, 150, 150),
        fix(1, 40, 151, 150),
        fix(1, 40, 300, 150),
        fix(1, 40, 152, 150),
    ];
    assert_eq!(kinds(&trial.events(vec![fixes(&rows)]), 1), [Enter, Move, Left, Enter]);
    // A row equal to the record follows another row of the same time, so the state does not change.
    let rows = [fix(1, 40, 300, 150), fix(1, 40, 152, 150)];
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!((kinds(&events, 1), kinds(&events, 2)), (vec![Left, Enter], vec![]));
    assert!(trial.events(vec![fixes(&[fix(1, 40, 152, 150)])]).is_empty());
    // A region that is set in this cycle sees the state after it.
    trial.change(set(1, &every, false));
    let rows = [fix(1, 50, 300, 150), fix(1, 60, 150, 150)];
    assert_eq!(kinds(&trial.events(vec![fixes(&rows)]), 1), [Move]);
}

/// Each life is evaluated on its own, whatever the times of its rows.
pub fn lives_are_judged_one_after_the_other(make: Make) {
    let options = EngineOptions { ttl_ms: Some(1_000), ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "lives");
    let every =
        Subscription { evaluation_mode: EvaluationMode::EveryFix, with_fixes: true, ..square() };
    trial.change(set(1, &every, false));
    trial.change(set(2, &square(), false));
    trial.events(vec![fixes(&[fix(1, 100, 150, 150)])]);
    let (moved, again) = (fix(1, 200, 150, 151), fix(1, 50, 160, 160));
    let events = trial.events(vec![
        fixes(&[moved]),
        Request::Remove(vec![1, 1]),
        fixes(&[again]),
        Request::Clear,
        Request::Clear,
        fixes(&[fix(1, 10, 170, 170), fix(1, 5, 0, 0)]),
    ]);
    assert_eq!(kinds(&events, 1), [Move, Removed, Enter, Cleared, Enter]);
    assert_eq!(kinds(&events, 2), [Move]);
    assert_eq!(events.get(0).fixes[..4], [moved, moved, again, again]);
    // A whole life in one cycle.
    let events = trial.events(vec![fixes(&[fix(9, 300, 150, 150)]), Request::Remove(vec![9])]);
    assert_eq!((kinds(&events, 1), kinds(&events, 2)), (vec![Enter, Removed], vec![]));
    // Rows that are too old are evaluated before they expire.
    let rows = [fix(7, 1_150, 150, 150), fix(8, 2_000, 0, 0), fix(7, 20, 150, 150)];
    let events = trial.events(vec![fixes(&rows[1..])]);
    assert_eq!(events_of(&events, 1), [(1, Expired), (7, Enter), (7, Expired)]);
    assert_eq!(events_of(&events, 2), [(1, Expired)]);
    trial.events(vec![fixes(&rows[..1])]);
    // Late rows alone: no step, and the object expires all the same.
    let events = trial.events(vec![fixes(&[fix(7, 1_149, 0, 0), fix(8, 2_500, 0, 0)])]);
    assert_eq!(events_of(&events, 1), [(7, Expired)]);
}

/// A segment between two fixes outside that cuts a region is a cross, unless of a member.
pub fn trajectories_cut_regions(make: Make) {
    let mut trial = Trial::planar(make);
    let circle = circle(150.0, 150.0, 50.0);
    let ring = vec![(100.0, 100.0), (200.0, 100.0), (150.0, 200.0)];
    let triangle = polygon(&ring);
    for (number, region) in (1..).zip([square().region, circle, triangle]) {
        let evaluation_mode = EvaluationMode::Crossing;
        trial.change(set(
            number,
            &Subscription { evaluation_mode, ..Subscription::new(region) },
            false,
        ));
    }
    let every = Subscription { evaluation_mode: EvaluationMode::EveryFix, ..square() };
    trial.change(set(4, &every, false));
    trial.events(vec![fixes(&[fix(1, 0, 0, 150), fix(2, 0, 99, 190), fix(3, 0, 0, 0)])]);
    let rows = [fix(1, 10, 300, 150), fix(2, 10, 110, 201), fix(3, 10, 300, 99)];
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(events_of(&events, 1), [(1, Cross), (2, Cross)]);
    assert_eq!(
        (events_of(&events, 2), events_of(&events, 3)),
        (vec![(1, Cross)], vec![(1, Cross)])
    );
    assert_eq!(events_of(&events, 4), []);
    // From inside or into it there is no cross; back again within the cycle there are two.
    let rows = [fix(1, 20, 150, 150), fix(1, 30, 0, 150), fix(1, 40, 300, 150), fix(1, 50, 0, 150)];
    assert_eq!(kinds(&trial.events(vec![fixes(&rows)]), 1), [Enter, Left, Cross, Cross]);
    // A new life begins without a segment.
    let events = trial.events(vec![Request::Remove(vec![1]), fixes(&[fix(1, 60, 300, 150)])]);
    assert!(events.is_empty());
}

/// The later record must pass the filter; a member kept by hysteresis does not cross.
pub fn crosses_are_filtered(make: Make) {
    let options = EngineOptions { clock: Clock::System, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "crosses");
    let filter = Filter { state_mask: 1, age_max_ms: Some(10_000), ..Filter::default() };
    let evaluation_mode = EvaluationMode::Crossing;
    trial.change(set(
        1,
        &Subscription { filter: filter.boxed(), evaluation_mode, ..square() },
        false,
    ));
    let held = Subscription { hysteresis_rank_max: Some(80 * 80), evaluation_mode, ..square() };
    trial.change(set(2, &held, false));
    let state = |mut row: FixRow| {
        row.state = 1;
        row
    };
    trial.events(vec![fixes(&[state(fix(1, 0, 0, 150)), fix(2, 0, 150, 150)])]);
    let rows = [fix(1, 1, 300, 150), state(fix(1, 2, 0, 150)), fix(1, 3, 0, 151)];
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(events_of(&events, 1), [(1, Cross)]);
    assert_eq!(kinds(&events, 2), [Cross, Cross]);
    trial.system_ms = START_MS + 20_000;
    let events = trial.events(vec![fixes(&[fix(1, 4, 300, 150)])]);
    assert_eq!(events_of(&events, 1), [(2, Filtered)], "object 2 grew too old, 1 is");
    assert_eq!(events_of(&events, 2), [(1, Cross)]);
    // At 210 and at 90 the object is within 80 of where it was inside, so it remains a member; then
    // it leaves.
    let rows =
        [fix(2, 10, 210, 150), fix(2, 20, 90, 150), fix(2, 30, 0, 150), fix(2, 40, 300, 150)];
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(kinds(&events, 2), [Move, Move, Left, Cross]);
}

/// Over the antimeridian and near a pole, the short way round.
pub fn trajectories_cross_the_antimeridian(make: Make) {
    let mut trial = Trial::geographic(make);
    let space = trial.space();
    let regions = [
        Region::circle(&space, 180.0, 0.0, 20_000.0),
        Region::rectangle(&space, 179.9, -1.0, -179.9, 1.0),
        Region::rectangle(&space, -10.0, -1.0, 10.0, 1.0),
        Region::circle(&space, -179.9, 89.0, 1_000.0),
    ];
    for (number, region) in (1..).zip(regions) {
        let subscription = Subscription::new(region.expect("a region"));
        let evaluation_mode = EvaluationMode::Crossing;
        trial.change(set(number, &Subscription { evaluation_mode, ..subscription }, true));
    }
    let (east, west, quarter) = (1_790_000_000, -1_790_000_000, 900_000_000);
    let rows = [fix(1, 0, east, 1_000), fix(2, 0, -quarter, 0), fix(3, 0, east, 890_000_000)];
    trial.events(vec![fixes(&rows)]);
    let rows = [fix(1, 1, west, 0), fix(2, 1, quarter, 0), fix(3, 1, west, 890_000_000)];
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(
        (events_of(&events, 1), events_of(&events, 2)),
        (vec![(1, Cross)], vec![(1, Cross)])
    );
    assert_eq!(
        (events_of(&events, 3), events_of(&events, 4)),
        (vec![(2, Cross)], vec![(3, Cross)])
    );
}
