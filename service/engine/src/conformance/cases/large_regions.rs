//! Events and answers of regions with very many objects.
//!
//! There are enough members that backends process them in bulk: order, epoch and the event limit
//! must hold all the same.

use super::*;

const OBJECTS: u64 = 140_000;

/// All objects on the plane, ids in no order, every second one in another state.
fn all_rows(after_ms: i64) -> Vec<FixRow> {
    let row = |number: u64| {
        let place = number * 7_919 + after_ms as u64 * 31;
        let (x, y) = ((place % 1_000) as i32, (place / 1_000 % 1_000) as i32);
        let object = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
        FixRow { state: (number % 2) as u32, ..fix(object, after_ms, x, y) }
    };
    (0..OBJECTS).map(row).collect()
}

/// The plane, a circle and a square on its corner, each with more than half of the objects.
fn regions() -> [Region; 3] {
    let corners = [(0.0, 499.0), (499.0, 0.0), (999.0, 499.0), (499.0, 999.0)];
    [rectangle(0.0, 0.0, 999.0, 999.0), circle(500.0, 499.0, 480.0), polygon(&corners)]
}

fn heads(events: &EventSet) -> Vec<(u64, bool, bool)> {
    events.heads().map(|head| (head.region.0, head.is_lagged, head.is_snapshot)).collect()
}

/// Snapshots of large regions list the members as of their epoch, even if they are read after later
/// cycles.
pub fn large_regions_list_their_members(make: Make) {
    let options = EngineOptions { events_max: 4 * OBJECTS, ..EngineOptions::new(plane()) };
    let mut trial = Trial::new(make, options, "large regions");
    for (number, region) in (1..).zip(regions()) {
        let with_fixes = number == 2;
        trial.change(set(number, &Subscription { with_fixes, ..Subscription::new(region) }, true));
    }
    let filter = Filter { state_mask: 1, state_value: 1, ..Filter::default() }.boxed();
    let [all, circle, _] = regions();
    let half = Subscription { filter, with_fixes: true, ..Subscription::new(all.clone()) };
    trial.change(set(4, &half, true));
    let events = trial.events(vec![fixes(&all_rows(0))]);
    assert_eq!(events_of(&events, 1).len() as u64, OBJECTS);
    assert_eq!((events_of(&events, 4).len() as u64, events_of(&events, 4)[0].1), {
        (OBJECTS / 2, Present)
    });
    assert_eq!(heads(&events), [1, 2, 3, 4].map(|region| (region, false, true)));
    // These snapshots are read after a later cycle has moved all objects. Region 3 has other events
    // in the same cycle.
    trial.change(SubscriptionChange::Snapshot(RegionId(1)));
    trial.change(set(2, &Subscription::new(all.clone()), true));
    trial.change(SubscriptionChange::Snapshot(RegionId(4)));
    trial.submit(vec![fixes(&all_rows(1)[..500])], Vec::new());
    trial.submit(vec![fixes(&all_rows(2))], Vec::new());
    let events = trial.wait(0).events;
    assert_eq!(
        heads(&events),
        [(1, false, true), (2, false, true), (3, false, false), (4, false, true)]
    );
    trial.wait(0);
    // Four snapshots of all objects fit exactly, a fifth does not, and an empty one does.
    let nowhere = rectangle(1_000.0, 0.0, 1_000.0, 0.0);
    for (region, of) in (5..).zip([&all, &all, &all, &all, &circle, &nowhere]) {
        let of = Subscription { wanted: EventKinds::NONE, ..Subscription::new(of.clone()) };
        trial.change(set(region, &of, true));
    }
    for region in 1..=4 {
        trial.change(SubscriptionChange::Remove(RegionId(region)));
    }
    let lagged = |region| (region, region == 9, region != 9);
    assert_eq!(heads(&trial.events(Vec::new())), [5, 6, 7, 8, 9, 10].map(lagged));
}

/// Large answers are cut, filtered and ordered as small ones are.
pub fn large_answers_are_whole(make: Make) {
    let mut trial = Trial::planar(make);
    trial.send(vec![fixes(&all_rows(0))]);
    let filter = Filter { state_mask: 1, state_value: 1, ..Filter::default() };
    let mut queries = Vec::new();
    for region in regions() {
        for projection in [Projection::Ids, Projection::Fixes, Projection::Count] {
            let limits = [0, 1, 70_000, OBJECTS].map(|rows| Some(RowLimit::First(rows)));
            for limit in limits.into_iter().chain([None]) {
                let filter = match limit {
                    Some(RowLimit::First(1)) => filter.boxed(),
                    Some(RowLimit::First(70_000)) => {
                        Filter { object_after: Some(OBJECTS / 3), ..filter }.boxed()
                    }
                    _ => None,
                };
                let kind = QueryKind::Range(region.clone());
                queries.push(Query { filter, projection, limit, ..query(kind) });
            }
        }
    }
    // A lagging backend answers on the same state; later cycles change no answer.
    trial.send(Vec::new());
    trial.submit(Vec::new(), queries);
    trial.submit(vec![fixes(&all_rows(1))], Vec::new());
    let answers = trial.wait(0).answers;
    assert_eq!((answers.get(4).total, answers.get(4).objects.len() as u64), (OBJECTS, OBJECTS));
    assert!(answers.get(4).objects.is_sorted());
    trial.wait(0);
}

/// All-or-none answers with limits below, at and above their total, alone and among other queries.
pub fn answers_beyond_their_limit_are_counted(make: Make) {
    let mut trial = Trial::planar(make);
    trial.send(vec![fixes(&all_rows(0))]);
    let filter = Filter { state_mask: 1, state_value: 1, ..Filter::default() };
    let [all, circle, polygon] = regions();
    // The last two have some 12,600 and 1,400 objects.
    let regions =
        [all, circle, polygon, rectangle(0.0, 0.0, 299.0, 299.0), rectangle(0.0, 0.0, 99.0, 99.0)];
    for filter in [None, filter.boxed()] {
        for region in &regions {
            let kind = || QueryKind::Range(region.clone());
            let count = Query { projection: Projection::Count, ..query(kind()) };
            let total = trial.answer(&Query { filter: filter.clone(), ..count }).total;
            let limits = [0, total / 64, total - 1, total, total + 1].map(RowLimit::AllOrNone);
            let limited = |(limit, projection)| {
                let (filter, limit) = (filter.clone(), Some(limit));
                Query { filter, limit, projection, ..query(kind()) }
            };
            let ids: Vec<Query> = limits.map(|limit| limited((limit, Projection::Ids))).to_vec();
            let mut mixed: Vec<Query> =
                limits.map(|limit| limited((limit, Projection::Fixes))).to_vec();
            mixed.extend_from_slice(&ids);
            // A lagging backend answers on the same state.
            trial.send(Vec::new());
            for queries in [ids, mixed] {
                // Short answers come first, from which a backend may expect more short answers.
                let short = rectangle(7.0, 7.0, 7.0, 7.0);
                let short = Query { projection: Projection::Ids, ..query(QueryKind::Range(short)) };
                trial.submit(Vec::new(), vec![short; 40]);
                trial.wait(0);
                trial.submit(Vec::new(), queries);
                let answers = trial.wait(0).answers;
                let returned: Vec<usize> =
                    answers.iter().map(|answer| answer.objects.len()).collect();
                let whole = total as usize;
                assert_eq!(returned[..5], [0, 0, 0, whole, whole]);
                assert!(answers.iter().all(|answer| answer.total == total));
            }
        }
    }
}
