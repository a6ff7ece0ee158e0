//! What is told of objects that report several times in one cycle, or pass between two reports?
//!
//! Every fix is judged in the order of its time, within each life of its object; a way between two
//! fixes outside may cut the region.

use crate::backend::{Clock, EngineOptions};
use crate::conformance::rows::{START_MS, fix, fixes};
use crate::conformance::trial::{Make, Trial, plane};
use crate::cycle::Request;
use crate::query::Filter;
use crate::region::Region;
use crate::subscription::{EvaluationMode, EventKind, Subscription};

use super::memberships::{set, square, told};

use EventKind::{Cleared, Cross, Enter, Expired, Filtered, Left, Move, Removed};

fn kinds(events: &crate::events::EventSet, region: u64) -> Vec<EventKind> {
    told(events, region).into_iter().map(|(_, kind)| kind).collect()
}

/// A pass through a region within one cycle is told step by step, in the order of time.
pub fn a_pass_within_one_cycle_is_told(make: Make) {
    let mut trial = Trial::planar(make);
    let every = Subscription { judging: EvaluationMode::EveryFix, with_fixes: true, ..square() };
    trial.change(set(1, &every, false));
    trial.change(set(2, &square(), false));
    trial.tell(Vec::new());
    let rows = [fix(1, 30, 300, 150), fix(1, 10, 110, 150), fix(1, 20, 120, 150)];
    let events = trial.tell(vec![fixes(&rows)]);
    assert_eq!(kinds(&events, 1), [Enter, Move, Left]);
    assert_eq!(events.get(0).fixes, [rows[1], rows[2], rows[0]]);
    assert_eq!(kinds(&events, 2), []);
    // Late rows are no steps; at equal time the later arrival is the later step, and one that
    // equals the record before it is none.
    let rows = [
        fix(1, 29, 150, 150),
        fix(1, 40, 150, 150),
        fix(1, 40, 150, 150),
        fix(1, 40, 151, 150),
        fix(1, 40, 300, 150),
        fix(1, 40, 152, 150),
    ];
    assert_eq!(kinds(&trial.tell(vec![fixes(&rows)]), 1), [Enter, Move, Left, Enter]);
    // The record again by its own time, with another between: the state ends as it began.
    let rows = [fix(1, 40, 300, 150), fix(1, 40, 152, 150)];
    let events = trial.tell(vec![fixes(&rows)]);
    assert_eq!((kinds(&events, 1), kinds(&events, 2)), (vec![Left, Enter], vec![]));
    assert!(trial.tell(vec![fixes(&[fix(1, 40, 152, 150)])]).is_empty());
    // A region that is set in this cycle sees the state after it.
    trial.change(set(1, &every, false));
    let rows = [fix(1, 50, 300, 150), fix(1, 60, 150, 150)];
    assert_eq!(kinds(&trial.tell(vec![fixes(&rows)]), 1), [Move]);
}

/// Each life is judged for itself, whatever the times of its rows.
pub fn lives_are_judged_one_after_the_other(make: Make) {
    let options = EngineOptions { ttl_ms: Some(1_000), ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "lives");
    let every = Subscription { judging: EvaluationMode::EveryFix, with_fixes: true, ..square() };
    trial.change(set(1, &every, false));
    trial.change(set(2, &square(), false));
    trial.tell(vec![fixes(&[fix(1, 100, 150, 150)])]);
    let (moved, again) = (fix(1, 200, 150, 151), fix(1, 50, 160, 160));
    let events = trial.tell(vec![
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
    // One that comes and goes in one cycle.
    let events = trial.tell(vec![fixes(&[fix(9, 300, 150, 150)]), Request::Remove(vec![9])]);
    assert_eq!((kinds(&events, 1), kinds(&events, 2)), (vec![Enter, Removed], vec![]));
    // Rows that are too old are judged before they go.
    let rows = [fix(7, 1_150, 150, 150), fix(8, 2_000, 0, 0), fix(7, 20, 150, 150)];
    let events = trial.tell(vec![fixes(&rows[1..])]);
    assert_eq!(told(&events, 1), [(1, Expired), (7, Enter), (7, Expired)]);
    assert_eq!(told(&events, 2), [(1, Expired)]);
    trial.tell(vec![fixes(&rows[..1])]);
    // Late rows alone: no step, and gone by age all the same.
    let events = trial.tell(vec![fixes(&[fix(7, 1_149, 0, 0), fix(8, 2_500, 0, 0)])]);
    assert_eq!(told(&events, 1), [(7, Expired)]);
}

/// A way between two fixes outside that cuts a region is a cross, of those who are no members.
pub fn ways_cut_regions(make: Make) {
    let mut trial = Trial::planar(make);
    let circle = Region::circle(&plane(), 150.0, 150.0, 50.0).expect("a circle");
    let ring = vec![(100.0, 100.0), (200.0, 100.0), (150.0, 200.0)];
    let triangle = Region::polygon(&plane(), &[ring]).expect("a triangle");
    for (number, region) in (1..).zip([square().region, circle, triangle]) {
        let judging = EvaluationMode::Crossing;
        trial.change(set(number, &Subscription { judging, ..Subscription::new(region) }, false));
    }
    let every = Subscription { judging: EvaluationMode::EveryFix, ..square() };
    trial.change(set(4, &every, false));
    trial.tell(vec![fixes(&[fix(1, 0, 0, 150), fix(2, 0, 99, 190), fix(3, 0, 0, 0)])]);
    let rows = [fix(1, 10, 300, 150), fix(2, 10, 110, 201), fix(3, 10, 300, 99)];
    let events = trial.tell(vec![fixes(&rows)]);
    assert_eq!(told(&events, 1), [(1, Cross), (2, Cross)]);
    assert_eq!((told(&events, 2), told(&events, 3)), (vec![(1, Cross)], vec![(1, Cross)]));
    assert_eq!(told(&events, 4), []);
    // From inside or into it there is no cross; back again within the cycle there are two.
    let rows = [fix(1, 20, 150, 150), fix(1, 30, 0, 150), fix(1, 40, 300, 150), fix(1, 50, 0, 150)];
    assert_eq!(kinds(&trial.tell(vec![fixes(&rows)]), 1), [Enter, Left, Cross, Cross]);
    // A new life begins without a way.
    let events = trial.tell(vec![Request::Remove(vec![1]), fixes(&[fix(1, 60, 300, 150)])]);
    assert!(events.is_empty());
}

/// The later record must pass the filter; who is held by hysteresis does not cross.
pub fn crosses_are_filtered(make: Make) {
    let options = EngineOptions { clock: Clock::System, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "crosses");
    let filter = Filter { state_mask: 1, age_max_ms: Some(10_000), ..Filter::default() };
    let judging = EvaluationMode::Crossing;
    trial.change(set(1, &Subscription { filter: filter.boxed(), judging, ..square() }, false));
    let held = Subscription { hysteresis_rank_max: Some(80 * 80), judging, ..square() };
    trial.change(set(2, &held, false));
    let state = |mut row: shoal_codec::FixRow| {
        row.state = 1;
        row
    };
    trial.tell(vec![fixes(&[state(fix(1, 0, 0, 150)), fix(2, 0, 150, 150)])]);
    let rows = [fix(1, 1, 300, 150), state(fix(1, 2, 0, 150)), fix(1, 3, 0, 151)];
    let events = trial.tell(vec![fixes(&rows)]);
    assert_eq!(told(&events, 1), [(1, Cross)]);
    assert_eq!(kinds(&events, 2), [Cross, Cross]);
    trial.system_ms = START_MS + 20_000;
    let events = trial.tell(vec![fixes(&[fix(1, 4, 300, 150)])]);
    assert_eq!(told(&events, 1), [(2, Filtered)], "object 2 grew too old, 1 is");
    assert_eq!(told(&events, 2), [(1, Cross)]);
    // Over 210 and 90, both within 80 of where it was inside: a member all the way, then out.
    let rows =
        [fix(2, 10, 210, 150), fix(2, 20, 90, 150), fix(2, 30, 0, 150), fix(2, 40, 300, 150)];
    let events = trial.tell(vec![fixes(&rows)]);
    assert_eq!(kinds(&events, 2), [Move, Move, Left, Cross]);
}

/// Over the antimeridian and near a pole, the short way round.
pub fn ways_go_over_the_antimeridian(make: Make) {
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
        let judging = EvaluationMode::Crossing;
        trial.change(set(number, &Subscription { judging, ..subscription }, true));
    }
    let (east, west, quarter) = (1_790_000_000, -1_790_000_000, 900_000_000);
    let rows = [fix(1, 0, east, 1_000), fix(2, 0, -quarter, 0), fix(3, 0, east, 890_000_000)];
    trial.tell(vec![fixes(&rows)]);
    let rows = [fix(1, 1, west, 0), fix(2, 1, quarter, 0), fix(3, 1, west, 890_000_000)];
    let events = trial.tell(vec![fixes(&rows)]);
    assert_eq!((told(&events, 1), told(&events, 2)), (vec![(1, Cross)], vec![(1, Cross)]));
    assert_eq!((told(&events, 3), told(&events, 4)), (vec![(2, Cross)], vec![(3, Cross)]));
}
