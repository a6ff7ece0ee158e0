//! Queries with a work limit: each is answered completely or reported as unfinished.

use super::*;
use crate::backend::Backend;

/// A square of objects on the plane, one for each quantum, in an engine whose answers show them.
fn engine_with_objects(make: Make, side: i32) -> Box<dyn Backend> {
    let mut backend = make(EngineOptions::new(plane()));
    let rows: Vec<_> =
        (0..side * side).map(|place| fix(place as u64, 0, place % side, place / side)).collect();
    run(&mut *backend, vec![fixes(&rows)], Vec::new(), None, Vec::new());
    // The next cycle answers on the state with the rows, whatever the lag.
    run(&mut *backend, Vec::new(), Vec::new(), None, Vec::new());
    backend
}

fn run(
    backend: &mut dyn Backend,
    requests: Vec<Request>,
    queries: Vec<Query>,
    query_work_max: Option<u64>,
    query_groups: Vec<u32>,
) -> CycleOutput {
    let (requests, time_max_ms) = (requests.into(), i64::MAX);
    let input = CycleInput {
        time_max_ms,
        requests,
        queries,
        query_work_max,
        query_groups,
        ..CycleInput::default()
    };
    backend.run(input).expect("the cycle runs")
}

/// Queries of every kind and projection. Some are small, others visit nearly all objects.
fn queries(side: i32) -> Vec<Query> {
    let far = f64::from(side);
    let mut queries = Vec::new();
    for at in 0..40_i32 {
        let low = f64::from(at * 7 % side);
        let ring = [(low, 1.0), (low + 9.0, 3.0), (low + 4.0, 20.0)];
        let projection = [Projection::Ids, Projection::Fixes, Projection::Count][at as usize % 3];
        let kinds = [
            QueryKind::nearest(at * 7 % side, at, 9),
            QueryKind::Get((0..at as u64).collect()),
            QueryKind::Range(rectangle(low, 0.0, low + 9.0, 9.0)),
            QueryKind::Range(circle(low, 9.0, 5.0)),
            QueryKind::Range(polygon(&ring)),
        ];
        queries.extend(kinds.map(|kind| Query { projection, ..query(kind) }));
    }
    let wide = [QueryKind::Range(circle(0.0, 0.0, far)), QueryKind::nearest(0, 0, 500)];
    for (kind, state_value) in wide.into_iter().zip([0, 7]) {
        // No object passes the filter of the last one, so it looks at all of them.
        let filter = Filter { state_mask: state_value, state_value, ..Filter::default() };
        queries.push(Query { filter: Some(Box::new(filter)), ..query(kind) });
    }
    queries
}

/// With any work limit an answer is complete or empty; a higher limit leaves fewer unfinished.
pub fn answers_are_whole_or_left(make: Make) {
    for side in [60, 300] {
        let mut backend = engine_with_objects(make, side);
        let queries = queries(side);
        let number = queries.len() as u32;
        let all = run(&mut *backend, Vec::new(), queries.clone(), None, Vec::new());
        assert_eq!((all.unfinished, all.query_work), (Vec::new(), Vec::new()));
        for groups in [Vec::new(), vec![1, number / 2, number]] {
            let mut left = Vec::new();
            for work_max in [0, 20, 500, 20_000, 1 << 40] {
                let bound = Some(work_max);
                let some = run(&mut *backend, Vec::new(), queries.clone(), bound, groups.clone());
                assert!(some.unfinished.is_sorted_by(|a, b| a < b) && some.unanswered.is_none());
                // The model ignores the work limit.
                let is_bounded = !some.query_work.is_empty();
                assert!(!is_bounded || some.query_work.len() == queries.len());
                for query in 0..queries.len() {
                    let answer = some.answers.get(query);
                    if some.unfinished.contains(&(query as u32)) {
                        let rows = answer.objects.len() + answer.fixes.len() + answer.ranks.len();
                        assert_eq!((answer.total, rows), (0, 0), "{query} of {work_max}");
                    } else {
                        assert_eq!(answer, all.answers.get(query), "{query} of {work_max}");
                    }
                }
                left.extend(is_bounded.then_some(some.unfinished.len()));
            }
            if let [first, .., before, last] = left[..] {
                assert!(left.is_sorted_by(|a, b| a >= b) && last == 0, "{left:?}");
                assert!(first > queries.len() / 2 && first > before, "{left:?}");
            }
        }
    }
}

/// Queries that exceed their group's work remain unfinished and use no work of another group.
pub fn a_group_takes_nothing_from_another(make: Make) {
    let mut backend = engine_with_objects(make, 300);
    let mut asked: Vec<Query> = Vec::new();
    for _ in 0..1_300 {
        let kind = QueryKind::Range(circle(0.0, 0.0, 400.0));
        asked.push(Query { projection: Projection::Count, ..query(kind) });
    }
    let first = asked.len();
    asked.extend(queries(100).into_iter().filter(|query| query.filter.is_none()));
    let number = asked.len() as u32;
    let all = run(&mut *backend, Vec::new(), asked[first..].to_vec(), None, Vec::new());
    let groups = vec![first as u32, number];
    let some = run(&mut *backend, Vec::new(), asked, Some(1 << 20), groups);
    let is_bounded = !some.query_work.is_empty();
    assert!(!is_bounded || some.unfinished.len() > 1_000, "{} are left", some.unfinished.len());
    assert!(some.unfinished.iter().all(|query| (*query as usize) < first));
    for (query, place) in (first..number as usize).zip(0..) {
        assert_eq!(some.answers.get(query), all.answers.get(place));
    }
    // The work charged to all queries, unfinished ones included, is at most about twice the limit.
    assert!(some.query_work.iter().sum::<u64>() <= 2 * (1 << 20) + u64::from(number));
}

/// Counts of rectangles add whole cells, and the cells at the border one by one.
pub fn counts_of_rectangles_are_exact(make: Make) {
    let side = 200;
    let mut trial = Trial::planar(make);
    let rows: Vec<_> =
        (0..side * side).map(|place| fix(place as u64, 0, place % side, place / side)).collect();
    trial.send_one(fixes(&rows));
    for low in [0.0, 1.0, 17.5, 99.0] {
        for length in [0.0, 1.0, 3.0, 40.0, 150.0, 800.0] {
            let region = rectangle(low, low / 2.0, low + length, low / 2.0 + length);
            let projection = Projection::Count;
            let query = Query { projection, ..query(QueryKind::Range(region.clone())) };
            let inside = rows.iter().filter(|row| region.contains(row.x, row.y)).count();
            assert_eq!(trial.answer(&query).total, inside as u64, "{length} from {low}");
        }
    }
}
