//! What becomes of an object over time in a region with dwell, hysteresis or a move interval?
//!
//! Written as timelines: when the system's clock stands, where the object is, what is told.

use crate::backend::{Clock, EngineOptions};
use crate::conformance::rows::{START_MS, fix, fixes};
use crate::conformance::trial::{Make, Trial, plane};
use crate::cycle::Request;
use crate::query::Filter;
use crate::region::Region;
use crate::subscription::{EventKind, EventKinds, RegionId, Subscription, SubscriptionChange};

use super::memberships::{set, square, told};

/// Inside the square.
const IN: i32 = 150;
/// Outside of it, by a metre.
const NEAR: i32 = 201;
/// Outside of it, by far.
const FAR: i32 = 400;

/// A trial by the system's clock whose region 1 stands.
fn trial(make: Make, subscription: &Subscription) -> Trial {
    let options = EngineOptions { clock: Clock::System, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "timeline");
    trial.change(set(1, subscription, false));
    trial.tell(Vec::new());
    trial
}

/// Moves object 1 along: after so many milliseconds to this x (none: nothing arrives), and then
/// this is told.
fn follow(trial: &mut Trial, timeline: &[(i64, Option<i32>, Option<EventKind>)]) {
    for (after_ms, x, kind) in timeline {
        trial.system_ms = START_MS + after_ms;
        let rows: Vec<_> = x.iter().map(|x| fix(1, *after_ms, *x, 150)).collect();
        let events = trial.tell(vec![fixes(&rows)]);
        let expected: Vec<_> = kind.iter().map(|kind| (1, *kind)).collect();
        assert_eq!(told(&events, 1), expected, "after {after_ms} ms");
    }
}

/// An enter needs its dwell without a break; the clock alone ends it.
pub fn an_enter_waits_for_its_dwell(make: Make) {
    let mut trial = trial(make, &Subscription { enter_dwell_ms: 1_000, ..square() });
    follow(
        &mut trial,
        &[
            (0, Some(IN), None),
            (400, Some(IN + 1), None),
            (800, Some(FAR), None),
            (900, Some(IN), None),
            (1_899, Some(IN + 1), None),
        ],
    );
    assert_eq!(trial.model_due_ms(), Some(START_MS + 1_900));
    follow(
        &mut trial,
        &[
            (1_900, None, Some(EventKind::Enter)),
            (1_950, Some(IN), Some(EventKind::Move)),
            (2_000, Some(FAR), Some(EventKind::Left)),
            (3_000, Some(IN), None),
            // Inside still when it reports again after its dwell: it enters by this fix.
            (9_000, Some(IN + 1), Some(EventKind::Enter)),
        ],
    );
    // One that is entering and goes is not told.
    trial.tell(vec![fixes(&[fix(2, 9_000, IN, IN)])]);
    assert!(trial.tell(vec![Request::Remove(vec![2])]).is_empty());
    assert_eq!(trial.model_due_ms(), None);
}

/// A leave needs its dwell too; one that comes back in time never left, one that goes is gone.
pub fn a_leave_waits_for_its_dwell(make: Make) {
    let mut trial = trial(make, &Subscription { leave_dwell_ms: 1_000, ..square() });
    follow(
        &mut trial,
        &[
            (0, Some(IN), Some(EventKind::Enter)),
            (100, Some(FAR), Some(EventKind::Move)),
            (1_000, Some(IN), Some(EventKind::Move)),
            (1_100, Some(FAR), Some(EventKind::Move)),
            (2_000, Some(FAR + 1), Some(EventKind::Move)),
            (2_099, None, None),
            (2_100, None, Some(EventKind::Left)),
            (2_200, Some(IN), Some(EventKind::Enter)),
            (2_300, Some(FAR), Some(EventKind::Move)),
        ],
    );
    let events = trial.tell(vec![Request::Remove(vec![1])]);
    assert_eq!(told(&events, 1), [(1, EventKind::Removed)]);
    follow(&mut trial, &[(9_000, None, None)]);
}

/// The reason of a leave is judged when it is told.
pub fn the_reason_is_judged_at_the_end_of_a_dwell(make: Make) {
    let filter = Filter { state_mask: 1, ..Filter::default() }.boxed();
    let mut trial = trial(make, &Subscription { leave_dwell_ms: 1_000, filter, ..square() });
    follow(&mut trial, &[(0, Some(IN), Some(EventKind::Enter))]);
    let mut taken = fix(1, 10, IN, 150);
    taken.state = 1;
    trial.system_ms = START_MS + 10;
    assert_eq!(told(&trial.tell(vec![fixes(&[taken])]), 1), [(1, EventKind::Move)]);
    follow(
        &mut trial,
        &[(500, Some(FAR), Some(EventKind::Move)), (1_010, None, Some(EventKind::Left))],
    );
    follow(&mut trial, &[(2_000, Some(IN), Some(EventKind::Enter))]);
    (taken.time_ms, trial.system_ms) = (START_MS + 2_010, START_MS + 2_010);
    trial.tell(vec![fixes(&[taken])]);
    follow(&mut trial, &[(3_010, None, Some(EventKind::Filtered))]);
}

/// With hysteresis a member stays one near to where it last was inside; others do not enter there.
pub fn hysteresis_holds_who_is_near(make: Make) {
    let rank_max = Some(60 * 60);
    let mut trial = trial(make, &Subscription { hysteresis_rank_max: rank_max, ..square() });
    follow(
        &mut trial,
        &[
            (0, Some(NEAR), None),
            (1, Some(200), Some(EventKind::Enter)),
            (2, Some(NEAR), Some(EventKind::Move)),
            (3, Some(260), Some(EventKind::Move)),
            (4, Some(261), Some(EventKind::Left)),
            (5, Some(NEAR), None),
            (6, Some(150), Some(EventKind::Enter)),
            (7, Some(210), Some(EventKind::Move)),
            // 61 from 150, though one from where it was.
            (8, Some(211), Some(EventKind::Left)),
        ],
    );
}

/// Moves between are not told, and the time counts from what was.
pub fn moves_keep_their_interval(make: Make) {
    let mut trial = trial(make, &Subscription { move_interval_ms: 1_000, ..square() });
    follow(
        &mut trial,
        &[
            (0, Some(IN), Some(EventKind::Enter)),
            (999, Some(IN + 1), None),
            (1_000, Some(IN + 2), Some(EventKind::Move)),
            (1_500, None, None),
            (1_999, Some(IN + 3), None),
            (2_500, Some(IN + 4), Some(EventKind::Move)),
            (2_600, Some(FAR), Some(EventKind::Left)),
            (2_700, Some(IN), Some(EventKind::Enter)),
        ],
    );
    trial.change(SubscriptionChange::Snapshot(RegionId(1)));
    trial.system_ms = START_MS + 3_500;
    let present = [(1, EventKind::Present)];
    assert_eq!(told(&trial.tell(vec![fixes(&[fix(1, 3_500, IN, 150)])]), 1), present);
    follow(&mut trial, &[(4_499, Some(IN), None), (4_500, Some(IN + 1), Some(EventKind::Move))]);
    // Moves that are not wanted are none, and the interval does not hold back anything else.
    let wanted = EventKinds(EventKinds::ALL.0 & !(1 << EventKind::Move as u8));
    let quiet = Subscription { wanted, move_interval_ms: 1_000, ..square() };
    trial.change(set(1, &quiet, false));
    follow(&mut trial, &[(9_000, Some(IN), None), (9_001, Some(FAR), Some(EventKind::Left))]);
}

/// A change drops what was pending, keeps members that hold, and knows where they were inside.
pub fn a_change_drops_what_is_pending(make: Make) {
    let waiting = Subscription { enter_dwell_ms: 1_000, leave_dwell_ms: 1_000, ..square() };
    let mut trial = trial(make, &waiting);
    follow(
        &mut trial,
        &[
            (0, Some(IN), None),
            (1_000, None, Some(EventKind::Enter)),
            (1_100, Some(NEAR), Some(EventKind::Move)),
        ],
    );
    // Object 2 is entering, object 1 leaving; hysteresis counts from where 1 last was inside.
    trial.tell(vec![fixes(&[fix(2, 1_100, IN, 150)])]);
    let near = Some(51 * 51);
    trial.change(set(1, &Subscription { hysteresis_rank_max: near, ..waiting.clone() }, false));
    assert_eq!(told(&trial.tell(Vec::new()), 1), [(2, EventKind::Enter)]);
    assert_eq!(trial.model_due_ms(), None);
    let nearer = Some(50 * 50);
    trial.change(set(1, &Subscription { hysteresis_rank_max: nearer, ..waiting.clone() }, false));
    assert_eq!(told(&trial.tell(Vec::new()), 1), [(1, EventKind::RegionChanged)]);
    // A plain region that gets hysteresis: members were inside before the cycle.
    trial.change(set(1, &square(), true));
    trial.tell(Vec::new());
    trial.change(set(1, &Subscription { hysteresis_rank_max: near, ..square() }, false));
    let events = trial.tell(vec![fixes(&[fix(2, 1_200, NEAR, 150), fix(3, 1_200, NEAR, 150)])]);
    assert_eq!(told(&events, 1), [(2, EventKind::Move)]);
    // New regions have their members at once.
    trial.change(set(2, &waiting, true));
    trial.tell(vec![fixes(&[fix(4, 1_200, IN, 150)])]);
    let events = trial.tell(vec![fixes(&[fix(4, 1_201, IN, 151)])]);
    assert_eq!(told(&events, 2), [(4, EventKind::Move)]);
}

/// Ages let go at whole seconds, of members and of those that are entering, and dwells count from
/// there.
pub fn ages_end_at_whole_seconds(make: Make) {
    let filter = Filter { age_max_ms: Some(700), ..Filter::default() }.boxed();
    let aged = Subscription { filter, leave_dwell_ms: 500, ..square() };
    let mut trial = trial(make, &aged);
    follow(&mut trial, &[(100, Some(IN), Some(EventKind::Enter)), (999, None, None)]);
    assert_eq!(trial.model_due_ms(), Some(START_MS + 1_000));
    follow(
        &mut trial,
        &[
            (1_300, None, None),
            (1_799, None, None),
            (1_800, None, Some(EventKind::Filtered)),
            (1_900, Some(IN), Some(EventKind::Enter)),
            (2_900, None, None),
            (3_000, None, None),
            (3_100, Some(IN), Some(EventKind::Move)),
            (3_600, None, None),
        ],
    );
    // A record that is too old at the start of a region is no member.
    trial.change(set(2, &Subscription { enter_dwell_ms: 2_000, ..aged }, true));
    trial.system_ms = START_MS + 4_000;
    let events = trial.tell(vec![fixes(&[fix(3, 3_300, IN, 150), fix(4, 3_299, IN, 150)])]);
    assert_eq!(told(&events, 2), [(3, EventKind::Present)]);
    // One that is entering and grows too old begins anew.
    for (after_ms, expected) in [(4_100, 0), (5_000, 0), (5_100, 0), (7_099, 0), (7_100, 1)] {
        trial.system_ms = START_MS + after_ms;
        let rows = if after_ms == 5_000 { vec![] } else { vec![fix(5, after_ms, IN, 150)] };
        let events = trial.tell(vec![fixes(&rows)]);
        let entered = (5, EventKind::Enter);
        let entered = told(&events, 2).iter().filter(|told| **told == entered).count();
        assert_eq!(entered, expected, "after {after_ms} ms");
    }
}

/// What is kept of an object goes with it, whoever comes into its place.
pub fn what_is_kept_goes_with_its_object(make: Make) {
    let circle = Region::circle(&plane(), 150.0, 150.0, 40.0).expect("a circle");
    let kept = Subscription { enter_dwell_ms: 100, ..Subscription::new(circle) };
    let mut trial = trial(make, &kept);
    for turn in 0..4_i64 {
        let after_ms = turn * 1_000;
        trial.system_ms = START_MS + after_ms;
        let ids = (turn as u64 * 10)..(turn as u64 * 10 + 5);
        let rows: Vec<_> = ids.clone().map(|id| fix(id, after_ms, IN, 150)).collect();
        assert!(trial.tell(vec![fixes(&rows)]).is_empty());
        trial.system_ms += 100;
        assert_eq!(told(&trial.tell(Vec::new()), 1).len(), 5);
        let events = trial.tell(vec![if turn % 2 == 0 {
            Request::Clear
        } else {
            Request::Remove(ids.collect())
        }]);
        let reason = if turn % 2 == 0 { EventKind::Cleared } else { EventKind::Removed };
        assert!(told(&events, 1).iter().all(|(_, kind)| *kind == reason));
        assert_eq!((events.events(), trial.model_due_ms()), (5, None));
    }
}
