//! Queries: every kind, filter, projection and limit.
//!
//! Ten hand-made records; expectations are written out, not computed.

use super::*;

/// Ten objects on a line, 10 quanta apart, with attributes that differ.
fn crowd(make: Make) -> Trial {
    let mut trial = Trial::planar(make);
    let row = |id: u64| FixRow {
        speed_mm_s: if id == 9 { u32::MAX } else { id as u32 * 100 },
        heading_cdeg: if id == 9 { u16::MAX } else { id as u16 * 4_000 },
        altitude_mm: if id == 9 { i32::MIN } else { (id as i32 - 4) * 1_000 },
        state: if id == 9 { 0 } else { 1 << id | 1 },
        ..fix(id, id as i64 * 10, 100 + id as i32 * 10, 500)
    };
    let rows: Vec<FixRow> = (0..10).map(row).collect();
    trial.send_one(fixes(&rows));
    trial
}

fn everything() -> QueryKind {
    QueryKind::Range(rectangle(0.0, 0.0, 1e3, 1e3))
}

/// Unknown ids are absent, repeated ids count once, order is ascending.
pub fn get_returns_existing_ids_once(make: Make) {
    let mut trial = crowd(make);
    let answer = trial.answer(&query(QueryKind::Get(vec![7, 3, 7, 99, 3, 0, u64::MAX, 3])));
    assert_eq!((answer.total, answer.truncated), (3, false));
    assert_eq!(answer.objects, [0, 3, 7]);
    assert_eq!(answer.fixes.iter().map(|row| row.x).collect::<Vec<_>>(), [100, 130, 170]);
    assert_eq!(answer.ranks, []);
    assert_eq!(trial.ids(QueryKind::Get(Vec::new())), []);
    assert_eq!(trial.ids(QueryKind::Get(vec![12, 13])), []);
}

/// Ids, records or the total alone, for each kind of query.
pub fn projections_return_what_they_name(make: Make) {
    let mut trial = crowd(make);
    let kinds = [
        (QueryKind::Get((0..20).collect()), 10, 0),
        (everything(), 10, 0),
        (QueryKind::nearest(100, 500, 4), 4, 4),
    ];
    for (kind, total, ranks) in kinds {
        let mut answer = |projection| trial.answer(&Query { projection, ..query(kind.clone()) });
        let fixes = answer(Projection::Fixes);
        assert_eq!(
            (fixes.total, fixes.objects.len(), fixes.fixes.len()),
            (total, total as usize, total as usize)
        );
        assert_eq!(fixes.ranks.len(), ranks);
        let ids = answer(Projection::Ids);
        assert_eq!((ids.total, &ids.objects, &ids.ranks), (total, &fixes.objects, &fixes.ranks));
        assert_eq!(ids.fixes, []);
        let count = answer(Projection::Count);
        assert_eq!((count.total, count.truncated), (total, false));
        assert!(count.objects.is_empty() && count.fixes.is_empty() && count.ranks.is_empty());
    }
}

/// A limit of nothing, one, all but one, all, and more than there are.
pub fn limits_cut_and_set_truncated(make: Make) {
    let mut trial = crowd(make);
    let kinds = [QueryKind::Get((0..20).collect()), everything(), QueryKind::nearest(0, 500, 10)];
    for kind in kinds {
        for (limit, first) in [(0, 0), (1, 1), (9, 9), (10, 10), (11, 10), (u64::MAX, 10)] {
            let all_or_none = if limit < 10 { 0 } else { 10 };
            for (limit, returned) in
                [(RowLimit::First(limit), first), (RowLimit::AllOrNone(limit), all_or_none)]
            {
                let limited = Query { limit: Some(limit), ..query(kind.clone()) };
                let projection = Projection::Ids;
                for limited in [Query { projection, ..limited.clone() }, limited.clone()] {
                    let answer = trial.answer(&limited);
                    assert_eq!((answer.total, answer.truncated), (10, returned < 10));
                    assert_eq!(answer.objects, (0..returned).collect::<Vec<_>>());
                }
                let answer = trial.answer(&Query { projection: Projection::Count, ..limited });
                assert_eq!((answer.total, answer.truncated), (10, false), "count is never cut");
            }
        }
    }
}

/// A limit of 0 on an empty answer cuts nothing.
pub fn nothing_is_never_truncated(make: Make) {
    let mut trial = Trial::planar(make);
    for kind in [QueryKind::Get(vec![1]), everything(), QueryKind::nearest(0, 0, 3)] {
        for limit in [RowLimit::First(0), RowLimit::AllOrNone(0)].map(Some) {
            let answer = trial.answer(&Query { limit, ..query(kind.clone()) });
            assert_eq!((answer.total, answer.truncated), (0, false));
        }
    }
}

/// No neighbours, fewer than there are, as many, more, and the limit.
pub fn nearest_returns_at_most_what_there_is(make: Make) {
    let mut trial = crowd(make);
    for (k, expected) in [(0, 0), (1, 1), (9, 9), (10, 10), (11, 10), (NEAREST_MAX as u32, 10)] {
        let answer = trial.answer(&query(QueryKind::nearest(195, 500, k)));
        assert_eq!(answer.total, expected);
        let nearest: Vec<u64> = (0..10).rev().take(expected as usize).collect();
        assert_eq!(answer.objects, nearest);
        assert_eq!(answer.ranks.first().copied(), (k > 0).then_some(25));
    }
}

/// Equal distances are ordered by object, also where k cuts through them.
pub fn ties_are_ordered_by_object(make: Make) {
    let mut trial = Trial::planar(make);
    let around = [(3, 4), (-3, 4), (5, 0), (0, -5), (-4, -3), (4, 3), (0, 5), (-5, 0)];
    let rows: Vec<FixRow> =
        (0..).zip(around).map(|(id, (x, y))| fix(1_000 - id * 7, 0, 500 + x, 500 + y)).collect();
    trial.send_one(fixes(&rows));
    let mut ids: Vec<u64> = rows.iter().map(|row| row.object).collect();
    ids.sort_unstable();
    for k in 0..=8 {
        let answer = trial.answer(&query(QueryKind::nearest(500, 500, k)));
        assert_eq!(answer.objects, ids[..k as usize], "k {k}");
        assert_eq!(answer.ranks, vec![25; k as usize]);
    }
    // All on one point.
    let rows: Vec<FixRow> = (0..500).map(|id| fix(id * 3, 1, 7, 7)).collect();
    trial.send(vec![Request::Clear, fixes(&rows)]);
    let expected: Vec<u64> = (0..100).map(|id| id * 3).collect();
    assert_eq!(trial.ids(QueryKind::nearest(7, 7, 100)), expected);
    assert_eq!(trial.ids(QueryKind::nearest(8, 900, 100)), expected);
}

/// State, speed, heading and altitude, each alone, borders included, unknown never.
pub fn every_filter_keeps_its_borders(make: Make) {
    let mut trial = crowd(make);
    let with_attributes: Vec<u64> = (0..9).collect();
    let all = Filter::default();
    let state = |mask, value| Filter { state_mask: mask, state_value: value, ..all };
    let speed = |min, max| Filter { speed_mm_s: Some((min, max)), ..all };
    let heading = |from, to| Filter { heading_cdeg: Some((from, to)), ..all };
    let altitude = |min, max| Filter { altitude_mm: Some((min, max)), ..all };
    let age = |age_max_ms| Filter { age_max_ms: Some(age_max_ms), ..all };
    let cases: [(Filter, Vec<u64>); 17] = [
        (all, (0..10).collect()),
        (state(8, 8), vec![3]),
        (state(1, 0), vec![9]),
        (state(9, 1), vec![0, 1, 2, 4, 5, 6, 7, 8]),
        // A wanted bit outside the mask matches nothing.
        (state(1, 2), vec![]),
        (speed(200, 400), vec![2, 3, 4]),
        (speed(0, u32::MAX), with_attributes.clone()),
        (speed(400, 200), vec![]),
        (heading(8_000, 16_000), vec![2, 3, 4]),
        (heading(28_000, 4_000), vec![0, 1, 7, 8]),
        (heading(0, u16::MAX), with_attributes.clone()),
        (heading(4_000, 3_999), with_attributes.clone()),
        (altitude(-1_000, 1_000), vec![3, 4, 5]),
        (altitude(i32::MIN, i32::MAX), with_attributes),
        (altitude(1, -1), vec![]),
        (age(20), vec![7, 8, 9]),
        (Filter { speed_mm_s: Some((600, 700)), ..age(40) }, vec![6, 7]),
    ];
    for (filter, expected) in cases {
        for kind in [everything(), QueryKind::Get((0..10).collect())] {
            let answer = trial.answer(&Query { filter: filter.boxed(), ..query(kind) });
            assert_eq!(answer.objects, expected, "{filter:?}");
            assert_eq!(answer.total, expected.len() as u64);
        }
        // The k nearest are taken among those that pass.
        let nearest = QueryKind::nearest(100, 500, 3);
        let answer = trial.answer(&Query { filter: filter.boxed(), ..query(nearest) });
        assert_eq!(answer.objects, expected[..expected.len().min(3)], "{filter:?}");
    }
}

/// A nearest query returns nothing beyond its largest rank, whatever its k.
pub fn nearest_keeps_its_distance(make: Make) {
    let mut trial = crowd(make);
    let space = trial.space();
    let mut ask = |k: u32, rank_max: u64, filter: Filter| {
        let kind = QueryKind::Nearest { x: 100, y: 500, k, rank_max };
        let answer = trial.answer(&Query { filter: filter.boxed(), ..query(kind) });
        assert_eq!((answer.total, answer.truncated), (answer.objects.len() as u64, false));
        assert!(answer.ranks.iter().all(|rank| *rank <= rank_max));
        answer.objects
    };
    let all = Filter::default();
    for (distance_m, found) in [(0.0, 1), (9.0, 1), (10.0, 2), (39.4, 4), (40.0, 5), (1e9, 10)] {
        let expected: Vec<u64> = (0..found).collect();
        assert_eq!(ask(10, space.rank_within(distance_m), all), expected, "{distance_m} m");
    }
    assert_eq!(ask(2, space.rank_within(40.0), all), [0, 1]);
    assert_eq!(ask(0, space.rank_within(40.0), all), []);
    assert_eq!(ask(10, 99, all), [0]);
    assert_eq!(ask(10, 100, all), [0, 1]);
    assert_eq!(ask(10, u64::MAX - 1, all).len(), 10);
    let fast = Filter { speed_mm_s: Some((300, 1_000)), ..all };
    assert_eq!(ask(10, space.rank_within(40.0), fast), [3, 4]);
    assert_eq!(ask(1, space.rank_within(29.0), fast), []);
    // Thousands within the bound, and as many just beyond it.
    let rows: Vec<_> = (0..6_000).map(|id| fix(id, 1_000, 600 + (id % 2) as i32, 100)).collect();
    trial.send_one(fixes(&rows));
    let near = QueryKind::Nearest { x: 600, y: 100, k: 3, rank_max: 0 };
    assert_eq!(trial.ids(near), [0, 2, 4]);
    let near = QueryKind::Nearest { x: 600, y: 100, k: 4_096, rank_max: 0 };
    assert_eq!(trial.ids(near).len(), 3_000);
    let near = QueryKind::Nearest { x: 600, y: 100, k: 4_096, rank_max: 1 };
    assert_eq!(trial.ids(near).len(), 4_096);
}

/// A listing resumes after an object: answers and totals exclude ids up to it.
pub fn a_listing_resumes_after_an_object(make: Make) {
    let mut trial = crowd(make);
    let after = |object| Filter { object_after: Some(object), ..Filter::default() };
    for kind in [everything(), QueryKind::Get((0..20).collect())] {
        for projection in [Projection::Ids, Projection::Fixes, Projection::Count] {
            for (object, first) in [(0, 1), (4, 5), (8, 9), (9, 10), (u64::MAX, 10)] {
                let filter = after(object).boxed();
                let limit = Some(RowLimit::First(3));
                let limited = Query { filter, projection, limit, ..query(kind.clone()) };
                let answer = trial.answer(&limited);
                let expected: Vec<u64> = (first..10).collect();
                assert_eq!(answer.total, expected.len() as u64, "{limited:?}");
                let is_count = projection == Projection::Count;
                assert_eq!(answer.truncated, !is_count && expected.len() > 3);
                let returned = if is_count { 0 } else { expected.len().min(3) };
                assert_eq!(answer.objects, expected[..returned], "{limited:?}");
            }
        }
    }
    // Lists every object once, page by page, with a second condition in the filter.
    let (mut seen, mut last) = (Vec::<u64>::new(), None);
    loop {
        let filter = Filter { object_after: last, state_mask: 1, state_value: 1, ..after(0) };
        let (filter, limit) = (filter.boxed(), Some(RowLimit::First(2)));
        let limited = Query { filter, limit, ..query(everything()) };
        let page = trial.answer(&limited);
        seen.extend(&page.objects);
        last = page.objects.last().copied();
        if !page.truncated {
            break;
        }
    }
    assert_eq!(seen, (0..9).collect::<Vec<u64>>());
    // The nearest are taken among those after it.
    let filter = after(5).boxed();
    let answer = trial.answer(&Query { filter, ..query(QueryKind::nearest(100, 500, 2)) });
    assert_eq!(answer.objects, [6, 7]);
}

/// Many queries of one cycle are answered in their order and on one state.
pub fn answers_follow_the_order_of_the_queries(make: Make) {
    let mut trial = crowd(make);
    let mut queries = Vec::new();
    for at in 0..500_u64 {
        queries.push(match at % 3 {
            0 => query(QueryKind::Get(vec![at % 10])),
            1 => query(QueryKind::nearest((at % 1_000) as i32, 0, 2)),
            _ => Query { limit: Some(RowLimit::First(at % 12)), ..query(everything()) },
        });
    }
    let rows = [fix(50, 500, 1, 1), fix(3, 500, 900, 900)];
    trial.submit(vec![fixes(&rows)], queries);
    let output = trial.wait(0);
    assert_eq!(output.answers.len(), 500);
    assert_eq!(output.answers.get(9).objects, [9]);
    // Moves inside one cycle are seen whole or not at all.
    let after: Vec<u64> = (0..10).chain([50]).collect();
    assert_eq!(trial.ids(everything()), after);
    assert_eq!(trial.ids(QueryKind::nearest(900, 900, 1)), [3]);
}

/// Objects that were removed, moved or cleared are found nowhere else.
pub fn objects_are_in_one_place_only(make: Make) {
    let mut trial = crowd(make);
    for step in 1..200 {
        let (x, y) = ((step * 7_919) % 1_001, (step * 104_729) % 1_001);
        trial.send_one(fixes(&[fix(4, 100 + i64::from(step), x, y)]));
        assert_eq!(trial.ids(everything()).len(), 10, "step {step}");
    }
    trial.send_one(Request::Remove(vec![4]));
    assert_eq!(trial.ids(everything()), [0, 1, 2, 3, 5, 6, 7, 8, 9]);
    trial.send_one(Request::Clear);
    assert_eq!(trial.ids(everything()), []);
    assert_eq!(trial.ids(QueryKind::nearest(100, 500, 10)), []);
}
