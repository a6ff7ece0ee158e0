//! Dwell, hysteresis, move intervals and ages over time.
//!
//! The cases are timelines of the system clock, the position of the object and the event.

use super::*;

/// Inside the square.
const IN: i32 = 150;
/// Outside the square by a metre.
const NEAR: i32 = 201;
/// Far outside the square.
const FAR: i32 = 400;

/// A trial with a system clock and this subscription as region 1.
fn trial(make: Make, subscription: &Subscription) -> Trial {
    let options = EngineOptions { clock: Clock::System, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "timeline");
    trial.change(set(1, subscription, false));
    trial.events(Vec::new());
    trial
}

/// Moves object 1 along a timeline. An entry has the milliseconds after the start, the x (`None`:
/// no report) and the expected event.
fn follow(trial: &mut Trial, timeline: &[(i64, Option<i32>, Option<EventKind>)]) {
    for (after_ms, x, kind) in timeline {
        trial.system_ms = START_MS + after_ms;
        let rows: Vec<_> = x.iter().map(|x| fix(1, *after_ms, *x, 150)).collect();
        let events = trial.events(vec![fixes(&rows)]);
        let expected: Vec<_> = kind.iter().map(|kind| (1, *kind)).collect();
        assert_eq!(events_of(&events, 1), expected, "after {after_ms} ms");
    }
}

/// An enter needs its dwell without a break; the clock alone ends it.
pub fn an_enter_waits_for_its_dwell(make: Make) {
    let mut trial = trial(make, &Subscription { enter_dwell_ms: 1_000, ..square() });
    let steps = [
        (0, Some(IN), None),
        (400, Some(IN + 1), None),
        (800, Some(FAR), None),
        (900, Some(IN), None),
        (1_899, Some(IN + 1), None),
    ];
    follow(&mut trial, &steps);
    assert_eq!(trial.model_due_ms(), Some(START_MS + 1_900));
    let steps = [
        (1_900, None, Some(Enter)),
        (1_950, Some(IN), Some(Move)),
        (2_000, Some(FAR), Some(Left)),
        (3_000, Some(IN), None),
        // The object is still inside when it reports after its dwell, so it enters by this fix.
        (9_000, Some(IN + 1), Some(Enter)),
    ];
    follow(&mut trial, &steps);
    // An entering object that is removed has no event.
    trial.events(vec![fixes(&[fix(2, 9_000, IN, IN)])]);
    assert!(trial.events(vec![Request::Remove(vec![2])]).is_empty());
    assert_eq!(trial.model_due_ms(), None);
}

/// A leave needs its dwell; an object that returns in time never left, a removed one ends at once.
pub fn a_leave_waits_for_its_dwell(make: Make) {
    let mut trial = trial(make, &Subscription { leave_dwell_ms: 1_000, ..square() });
    let steps = [
        (0, Some(IN), Some(Enter)),
        (100, Some(FAR), Some(Move)),
        (1_000, Some(IN), Some(Move)),
        (1_100, Some(FAR), Some(Move)),
        (2_000, Some(FAR + 1), Some(Move)),
        (2_099, None, None),
        (2_100, None, Some(Left)),
        (2_200, Some(IN), Some(Enter)),
        (2_300, Some(FAR), Some(Move)),
    ];
    follow(&mut trial, &steps);
    let events = trial.events(vec![Request::Remove(vec![1])]);
    assert_eq!(events_of(&events, 1), [(1, Removed)]);
    follow(&mut trial, &[(9_000, None, None)]);
}

/// The reason of a leave is that at the end of the dwell.
pub fn the_reason_is_judged_at_the_end_of_a_dwell(make: Make) {
    let filter = Filter { state_mask: 1, ..Filter::default() }.boxed();
    let mut trial = trial(make, &Subscription { leave_dwell_ms: 1_000, filter, ..square() });
    follow(&mut trial, &[(0, Some(IN), Some(Enter))]);
    let mut taken = fix(1, 10, IN, 150);
    taken.state = 1;
    trial.system_ms = START_MS + 10;
    assert_eq!(events_of(&trial.events(vec![fixes(&[taken])]), 1), [(1, Move)]);
    follow(&mut trial, &[(500, Some(FAR), Some(Move)), (1_010, None, Some(Left))]);
    follow(&mut trial, &[(2_000, Some(IN), Some(Enter))]);
    (taken.time_ms, trial.system_ms) = (START_MS + 2_010, START_MS + 2_010);
    trial.events(vec![fixes(&[taken])]);
    follow(&mut trial, &[(3_010, None, Some(Filtered))]);
}

/// A member remains near to where it last was inside; other objects do not enter there.
pub fn hysteresis_keeps_near_members(make: Make) {
    let rank_max = Some(60 * 60);
    let mut trial = trial(make, &Subscription { hysteresis_rank_max: rank_max, ..square() });
    let steps = [
        (0, Some(NEAR), None),
        (1, Some(200), Some(Enter)),
        (2, Some(NEAR), Some(Move)),
        (3, Some(260), Some(Move)),
        (4, Some(261), Some(Left)),
        (5, Some(NEAR), None),
        (6, Some(150), Some(Enter)),
        (7, Some(210), Some(Move)),
        // 61 away from 150, where it last was inside, though only one from its last position.
        (8, Some(211), Some(Left)),
    ];
    follow(&mut trial, &steps);
}

/// Moves within the interval are dropped; the interval counts from the last event.
pub fn moves_keep_their_interval(make: Make) {
    let mut trial = trial(make, &Subscription { move_interval_ms: 1_000, ..square() });
    let steps = [
        (0, Some(IN), Some(Enter)),
        (999, Some(IN + 1), None),
        (1_000, Some(IN + 2), Some(Move)),
        (1_500, None, None),
        (1_999, Some(IN + 3), None),
        (2_500, Some(IN + 4), Some(Move)),
        (2_600, Some(FAR), Some(Left)),
        (2_700, Some(IN), Some(Enter)),
    ];
    follow(&mut trial, &steps);
    trial.change(SubscriptionChange::Snapshot(RegionId(1)));
    trial.system_ms = START_MS + 3_500;
    let present = [(1, Present)];
    assert_eq!(events_of(&trial.events(vec![fixes(&[fix(1, 3_500, IN, 150)])]), 1), present);
    follow(&mut trial, &[(4_499, Some(IN), None), (4_500, Some(IN + 1), Some(Move))]);
    // Unwanted moves are not emitted, and the interval delays no other event.
    let wanted = EventKinds(EventKinds::ALL.0 & !(1 << Move as u8));
    let quiet = Subscription { wanted, move_interval_ms: 1_000, ..square() };
    trial.change(set(1, &quiet, false));
    follow(&mut trial, &[(9_000, Some(IN), None), (9_001, Some(FAR), Some(Left))]);
}

/// A change drops pending dwells, and keeps members and where they last were inside.
pub fn a_change_drops_pending_dwells(make: Make) {
    let waiting = Subscription { enter_dwell_ms: 1_000, leave_dwell_ms: 1_000, ..square() };
    let mut trial = trial(make, &waiting);
    let steps = [(0, Some(IN), None), (1_000, None, Some(Enter)), (1_100, Some(NEAR), Some(Move))];
    follow(&mut trial, &steps);
    // Object 2 is entering, object 1 leaving; hysteresis counts from where 1 last was inside.
    trial.events(vec![fixes(&[fix(2, 1_100, IN, 150)])]);
    let near = Some(51 * 51);
    trial.change(set(1, &Subscription { hysteresis_rank_max: near, ..waiting.clone() }, false));
    assert_eq!(events_of(&trial.events(Vec::new()), 1), [(2, Enter)]);
    assert_eq!(trial.model_due_ms(), None);
    let nearer = Some(50 * 50);
    trial.change(set(1, &Subscription { hysteresis_rank_max: nearer, ..waiting.clone() }, false));
    assert_eq!(events_of(&trial.events(Vec::new()), 1), [(1, RegionChanged)]);
    // A plain region that gets hysteresis: members were inside before the cycle.
    trial.change(set(1, &square(), true));
    trial.events(Vec::new());
    trial.change(set(1, &Subscription { hysteresis_rank_max: near, ..square() }, false));
    let events = trial.events(vec![fixes(&[fix(2, 1_200, NEAR, 150), fix(3, 1_200, NEAR, 150)])]);
    assert_eq!(events_of(&events, 1), [(2, Move)]);
    // New regions have their members at once.
    trial.change(set(2, &waiting, true));
    trial.events(vec![fixes(&[fix(4, 1_200, IN, 150)])]);
    let events = trial.events(vec![fixes(&[fix(4, 1_201, IN, 151)])]);
    assert_eq!(events_of(&events, 2), [(4, Move)]);
}

/// Ages end memberships and enters at whole seconds, and dwells count from there.
pub fn ages_end_at_whole_seconds(make: Make) {
    let filter = Filter { age_max_ms: Some(700), ..Filter::default() }.boxed();
    let aged = Subscription { filter, leave_dwell_ms: 500, ..square() };
    let mut trial = trial(make, &aged);
    follow(&mut trial, &[(100, Some(IN), Some(Enter)), (999, None, None)]);
    assert_eq!(trial.model_due_ms(), Some(START_MS + 1_000));
    let steps = [
        (1_300, None, None),
        (1_799, None, None),
        (1_800, None, Some(Filtered)),
        (1_900, Some(IN), Some(Enter)),
        (2_900, None, None),
        (3_000, None, None),
        (3_100, Some(IN), Some(Move)),
        (3_600, None, None),
    ];
    follow(&mut trial, &steps);
    // A record that is too old at the start of a region is no member.
    trial.change(set(2, &Subscription { enter_dwell_ms: 2_000, ..aged }, true));
    trial.system_ms = START_MS + 4_000;
    let events = trial.events(vec![fixes(&[fix(3, 3_300, IN, 150), fix(4, 3_299, IN, 150)])]);
    assert_eq!(events_of(&events, 2), [(3, Present)]);
    // An entering object that becomes too old starts again.
    for (after_ms, expected) in [(4_100, 0), (5_000, 0), (5_100, 0), (7_099, 0), (7_100, 1)] {
        trial.system_ms = START_MS + after_ms;
        let rows = if after_ms == 5_000 { vec![] } else { vec![fix(5, after_ms, IN, 150)] };
        let events = trial.events(vec![fixes(&rows)]);
        let entered = (5, Enter);
        let entered = events_of(&events, 2).iter().filter(|event| **event == entered).count();
        assert_eq!(entered, expected, "after {after_ms} ms");
    }
}

/// The state of an object ends with it; an object that takes its slot starts without.
pub fn state_ends_with_its_object(make: Make) {
    let circle = circle(150.0, 150.0, 40.0);
    let kept = Subscription { enter_dwell_ms: 100, ..Subscription::new(circle) };
    let mut trial = trial(make, &kept);
    for turn in 0..4_i64 {
        let after_ms = turn * 1_000;
        trial.system_ms = START_MS + after_ms;
        let ids = (turn as u64 * 10)..(turn as u64 * 10 + 5);
        let rows: Vec<_> = ids.clone().map(|id| fix(id, after_ms, IN, 150)).collect();
        assert!(trial.events(vec![fixes(&rows)]).is_empty());
        trial.system_ms += 100;
        assert_eq!(events_of(&trial.events(Vec::new()), 1).len(), 5);
        let events = trial.events(vec![if turn % 2 == 0 {
            Request::Clear
        } else {
            Request::Remove(ids.collect())
        }]);
        let reason = if turn % 2 == 0 { Cleared } else { Removed };
        assert!(events_of(&events, 1).iter().all(|(_, kind)| *kind == reason));
        assert_eq!((events.events(), trial.model_due_ms()), (5, None));
    }
}
