//! Memberships evaluated on the state after each cycle.
//!
//! There is no dwell and no hysteresis, so the members are the answer of a range query.

use super::*;

/// Enters, moves and leaves, at the borders and across cycles.
pub fn objects_enter_move_and_leave(make: Make) {
    let mut trial = Trial::planar(make);
    trial.change(set(5, &square(), false));
    assert!(trial.events(vec![fixes(&[fix(1, 0, 99, 100)])]).is_empty());
    let events = trial.events(vec![fixes(&[fix(1, 1, 100, 100), fix(2, 1, 200, 200)])]);
    assert_eq!(events_of(&events, 5), [(1, Enter), (2, Enter)]);
    // A newer time at the same place is a move; a duplicate has no event.
    let events = trial.events(vec![fixes(&[fix(2, 2, 200, 200), fix(1, 1, 100, 100)])]);
    assert_eq!(events_of(&events, 5), [(2, Move)]);
    let events = trial.events(vec![fixes(&[fix(2, 3, 201, 200), fix(1, 2, 150, 150)])]);
    assert_eq!(events_of(&events, 5), [(1, Move), (2, Left)]);
    assert!(trial.events(vec![fixes(&[fix(2, 1, 150, 150)])]).is_empty(), "late");
    // Out and in again within one cycle, and out by the newest of two.
    let rows = [fix(1, 5, 150, 151), fix(1, 4, 0, 0)];
    assert_eq!(events_of(&trial.events(vec![fixes(&rows)]), 5), [(1, Move)]);
    let rows = [fix(1, 7, 0, 0), fix(1, 6, 150, 150)];
    assert_eq!(events_of(&trial.events(vec![fixes(&rows)]), 5), [(1, Left)]);
}

/// Removal, clearing and expiry end memberships with their reasons.
pub fn events_name_the_end_of_a_life(make: Make) {
    let options = EngineOptions { ttl_ms: Some(1_000), ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "gone");
    let all = Subscription { with_fixes: true, ..square() };
    trial.change(set(1, &all, true));
    let rows: Vec<_> = (1..=5).map(|object| fix(object, 0, 150, 150)).collect();
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(events_of(&events, 1).len(), 5);
    assert!(events.get(0).is_snapshot);
    // Objects that are removed and reported again move if they are inside, and leave if outside.
    let back = [fix(2, 1, 160, 160), fix(3, 1, 0, 0)];
    let events = trial.events(vec![Request::Remove(vec![1, 2, 3]), fixes(&back)]);
    let expected = [(1, Removed), (2, Move), (3, Left)];
    assert_eq!(events_of(&events, 1), expected);
    assert_eq!(events.get(0).fixes, [rows[0], back[0], back[1]]);
    // A removal before a clear is the reason, unless a row came between them.
    let moved = fixes(&[fix(4, 2, 150, 151)]);
    let events = trial.events(vec![Request::Remove(vec![2, 4]), moved, Request::Clear]);
    let expected = [(2, Removed), (4, Cleared), (5, Cleared)];
    assert_eq!(events_of(&events, 1), expected);
    assert_eq!(events.get(0).fixes, [back[0], rows[3], rows[4]]);
    trial.events(vec![fixes(&[fix(6, 10, 150, 150), fix(7, 900, 150, 150)])]);
    let events = trial.events(vec![fixes(&[fix(8, 1_500, 0, 0)])]);
    assert_eq!(events_of(&events, 1), [(6, Expired)]);
    // A row that is too old expires with the record that arrived.
    let last = fix(7, 901, 120, 120);
    let events = trial.events(vec![fixes(&[last, fix(8, 5_000, 0, 0), fix(9, 0, 150, 150)])]);
    assert_eq!(events_of(&events, 1), [(7, Expired)]);
    assert_eq!(events.get(0).fixes, [last]);
}

/// A new region has no events without a snapshot, which may be empty; snapshots replace events.
pub fn snapshots_list_all_members(make: Make) {
    let mut trial = Trial::planar(make);
    trial.change(set(1, &square(), false));
    trial.change(set(2, &square(), true));
    let events = trial.events(vec![fixes(&[fix(7, 0, 150, 150), fix(3, 0, 100, 200)])]);
    assert_eq!(events.len(), 1);
    assert_eq!(events_of(&events, 2), [(3, Present), (7, Present)]);
    trial.change(SubscriptionChange::Snapshot(RegionId(2)));
    trial.change(SubscriptionChange::Snapshot(RegionId(77)));
    let events = trial.events(vec![fixes(&[fix(3, 1, 0, 0), fix(8, 0, 101, 101)])]);
    assert_eq!(events_of(&events, 2), [(7, Present), (8, Present)]);
    assert!(events.find(RegionId(2)).is_some_and(|events| events.is_snapshot));
    assert_eq!(events_of(&events, 1), [(3, Left), (8, Enter)]);
    assert_eq!(events.len(), 2);
    let nowhere = rectangle(900.0, 900.0, 901.0, 901.0);
    trial.change(set(3, &Subscription::new(nowhere), true));
    let events = trial.events(Vec::new());
    assert_eq!((events.len(), events.events(), events.get(0).is_snapshot), (1, 0, true));
}

/// A changed region emits leaves and enters caused by the change.
pub fn a_changed_region_emits_the_difference(make: Make) {
    let mut trial = Trial::planar(make);
    trial.change(set(1, &square(), false));
    let rows: Vec<_> = (1..).zip([110, 150, 190, 250]).map(|(id, x)| fix(id, 0, x, 150)).collect();
    trial.events(vec![fixes(&rows)]);
    let moved = rectangle(140.0, 100.0, 260.0, 200.0);
    trial.change(set(1, &Subscription::new(moved), false));
    let events = trial.events(vec![fixes(&[fix(3, 1, 191, 150)])]);
    let expected = [(1, RegionChanged), (3, Move), (4, Enter)];
    assert_eq!(events_of(&events, 1), expected);
    // Set twice, the last wins; objects that moved out leave by the change as well.
    trial.change(set(1, &square(), false));
    let narrow = circle(150.0, 150.0, 5.0);
    trial.change(set(1, &Subscription::new(narrow), false));
    let events = trial.events(vec![Request::Remove(vec![4]), fixes(&[fix(3, 2, 0, 0)])]);
    assert_eq!(events_of(&events, 1), [(3, RegionChanged), (4, Removed)]);
    // A region that is removed and set again is a new region, without events.
    trial.change(SubscriptionChange::Remove(RegionId(1)));
    trial.change(set(1, &square(), false));
    assert!(trial.events(Vec::new()).is_empty());
    assert_eq!(events_of(&trial.events(vec![fixes(&[fix(1, 1, 0, 0)])]), 1), [(1, Left)]);
    trial.change(SubscriptionChange::Remove(RegionId(1)));
    trial.change(SubscriptionChange::Remove(RegionId(1)));
    assert!(trial.events(vec![fixes(&[fix(2, 1, 0, 0)])]).is_empty());
}

/// Filters end memberships by state at once, by age when the clock crosses a second.
pub fn filters_end_memberships(make: Make) {
    let options = EngineOptions { clock: Clock::System, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "filters");
    let filter = Filter { age_max_ms: Some(1_500), state_mask: 1, ..Filter::default() };
    let aged = Subscription { filter: filter.boxed(), ..square() };
    trial.system_ms = START_MS + 100;
    trial.change(set(1, &aged, false));
    trial.events(Vec::new());
    let mut taken = fix(2, 200, 150, 150);
    let rows = [fix(1, 200, 150, 150), taken, fix(3, 700, 150, 150)];
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(events_of(&events, 1).len(), 3);
    (taken.time_ms, taken.state) = (START_MS + 300, 1);
    let events = trial.events(vec![fixes(&[taken])]);
    assert_eq!(events_of(&events, 1), [(2, Filtered)]);
    assert_eq!(trial.model_due_ms(), Some(START_MS + 2_000));
    trial.system_ms = START_MS + 1_999;
    assert!(trial.events(Vec::new()).is_empty());
    // At 2,000 object 1 is 1,800 old, object 3 1,300 and written again outside.
    trial.system_ms = START_MS + 2_000;
    let events = trial.events(vec![fixes(&[fix(3, 701, 0, 0)])]);
    assert_eq!(events_of(&events, 1), [(1, Filtered), (3, Left)]);
    // An object that is too old on arrival is no member. It enters with a younger record.
    assert!(trial.events(vec![fixes(&[fix(4, 499, 150, 150)])]).is_empty());
    let events = trial.events(vec![fixes(&[fix(4, 500, 150, 150)])]);
    assert_eq!(events_of(&events, 1), [(4, Enter)]);
    trial.system_ms = START_MS + 60_000;
    let events = trial.events(vec![Request::Remove(vec![4])]);
    assert_eq!(events_of(&events, 1), [(4, Removed)]);
    assert_eq!(trial.model_due_ms(), None);
}

/// Only wanted events are emitted, and records only where they are wanted.
pub fn only_wanted_events_are_emitted(make: Make) {
    let mut trial = Trial::planar(make);
    let wanted = EventKinds::of(&[Left, Cleared]);
    trial.change(set(1, &Subscription { wanted, with_fixes: true, ..square() }, true));
    trial.change(set(2, &Subscription { wanted: EventKinds::NONE, ..square() }, true));
    let rows = [fix(1, 0, 150, 150), fix(2, 0, 150, 150)];
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(events_of(&events, 1), events_of(&events, 2));
    assert_eq!((events.get(0).fixes, events.get(1).fixes.len()), (&rows[..], 0));
    let (inside, outside) = (fix(1, 1, 150, 151), fix(2, 1, 99, 99));
    let events = trial.events(vec![fixes(&[inside, outside, fix(3, 1, 150, 150)])]);
    assert_eq!(events_of(&events, 1), [(2, Left)]);
    assert_eq!((events.len(), events.get(0).fixes), (1, &[outside][..]));
    let events = trial.events(vec![Request::Remove(vec![1]), Request::Clear]);
    assert_eq!(events_of(&events, 1), [(3, Cleared)]);
}

/// Circles over a pole and the antimeridian, a meridian, a triangle, the whole world.
pub fn regions_of_every_kind_work_everywhere(make: Make) {
    let mut trial = Trial::geographic(make);
    let space = trial.space();
    let triangle = vec![vec![(179.0, 0.0), (180.0, 0.0), (180.0, 1.0)]];
    let beyond = vec![vec![(-180.0, -1.0), (-179.0, -1.0), (-180.0, 1.0)]];
    let regions = [
        Region::circle(&space, 30.0, 89.9, 50_000.0),
        Region::circle(&space, 179.99, 0.0, 5_000.0),
        Region::rectangle(&space, 180.0, -90.0, 180.0, 90.0),
        Region::polygon(&space, &triangle),
        Region::rectangle(&space, -180.0, -90.0, 180.0, 90.0),
        Region::circle(&space, 0.0, 0.0, f64::INFINITY),
        Region::multi_polygon(&space, &[triangle.clone(), beyond, triangle.clone()]),
    ];
    for (region, number) in regions.into_iter().zip(1..) {
        trial.change(set(number, &Subscription::new(region.expect("a region")), true));
    }
    let places = [
        (-1_500_000_000, 899_500_000),
        (-1_799_900_000, 1_000),
        (-1_800_000_000, 5_000_000),
        (1_799_900_000, 0),
        (0, 0),
    ];
    let at = |shift_ms: i64, from: usize| -> Vec<_> {
        let places = places.iter().cycle().skip(from).take(places.len());
        (1..).zip(places).map(|(object, (x, y))| fix(object, shift_ms, *x, *y)).collect()
    };
    for turn in 0..6 {
        let events = trial.events(vec![fixes(&at(turn, turn as usize))]);
        assert_eq!(events_of(&events, 5).len(), 5);
        for region in [1, 2, 3, 4] {
            let kinds: Vec<_> = events_of(&events, region).iter().map(|(_, kind)| *kind).collect();
            assert!(turn == 0 || kinds.contains(&Enter), "region {region}: {kinds:?}");
        }
    }
}

/// Regions get their events in the order of their ids until the limit is reached.
pub fn events_beyond_the_limit_make_a_region_lag(make: Make) {
    let options = EngineOptions { events_max: 5, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "lag");
    let west = rectangle(100.0, 100.0, 149.0, 200.0);
    for (region, subscription) in [(3, square()), (1, Subscription::new(west)), (2, square())] {
        trial.change(set(region, &subscription, false));
    }
    trial.change(set(9, &square(), true));
    let rows: Vec<_> = (0..3).map(|id| fix(id, 0, 120 + 30 * id as i32, 150)).collect();
    let heads = |events: &EventSet| -> Vec<_> {
        events.iter().map(|of| (of.region.0, of.is_lagged, of.objects.len())).collect()
    };
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(heads(&events), [(9, false, 3)]);
    let rows: Vec<_> = rows.iter().map(|row| fix(row.object, 1, row.x, 150)).collect();
    let events = trial.events(vec![fixes(&rows)]);
    assert_eq!(heads(&events), [(1, false, 1), (2, false, 3), (3, true, 0), (9, true, 0)]);
    // The memberships advanced all the same: no object enters again.
    let events = trial.events(vec![fixes(&[fix(0, 2, 0, 0), fix(1, 2, 149, 150)])]);
    assert_eq!(heads(&events), [(1, false, 2), (2, false, 2), (3, true, 0), (9, true, 0)]);
    assert_eq!(events_of(&events, 1), [(0, Left), (1, Enter)]);
}

/// Applying events to the snapshot yields the answer of a range query.
pub fn events_add_up_to_the_members(make: Make) {
    let mut trial = Trial::planar(make);
    trial.change(set(4, &square(), true));
    let mut held = std::collections::BTreeSet::new();
    for turn in 0..40_i64 {
        let rows: Vec<_> = (0..20)
            .map(|id| {
                let place = |step: i64| ((id as i64 * 37 + turn * step) % 300) as i32;
                fix(id, turn, place(11), place(17))
            })
            .collect();
        let gone = (0..3).map(|id| (turn as u64 * 7 + id) % 20).collect();
        let events = trial.events(vec![fixes(&rows), Request::Remove(gone)]);
        for (object, kind) in events_of(&events, 4) {
            let is_right = match kind {
                Present | Enter => held.insert(object),
                Move | Cross => held.contains(&object),
                _ => held.remove(&object),
            };
            assert!(is_right, "turn {turn}: {kind:?} of {object}");
        }
        let range = Query { filter: None, ..query(QueryKind::Range(square().region)) };
        assert_eq!(trial.answer(&range).objects, held.iter().copied().collect::<Vec<_>>());
    }
}

/// Invalid times and too many changes are refused, and nothing of the cycle is applied.
pub fn impossible_changes_are_refused(make: Make) {
    let mut trial = Trial::planar(make);
    let wrong = Subscription { enter_dwell_ms: u32::MAX, ..square() };
    trial.change(set(1, &wrong, true));
    let rows = Request::Fixes(columns(&[fix(1, 0, 150, 150)]));
    let error = trial.refused(vec![rows.clone()], Vec::new()).to_string();
    assert!(error.contains("the dwell before an enter in milliseconds is"), "{error}");
    let filter = Filter { object_after: Some(5), ..Filter::default() }.boxed();
    trial.change(set(1, &Subscription { filter, ..square() }, true));
    let error = trial.refused(vec![rows.clone()], Vec::new()).to_string();
    assert!(error.contains("conditions on objects"), "{error}");
    for _ in 0..=crate::limits::SUBSCRIPTION_CHANGES_MAX {
        trial.change(SubscriptionChange::Remove(RegionId(1)));
    }
    let error = trial.refused(vec![rows.clone()], Vec::new()).to_string();
    assert!(error.contains("subscription changes of a cycle is 65537"), "{error}");
    assert!(trial.events(vec![rows]).is_empty());
}
