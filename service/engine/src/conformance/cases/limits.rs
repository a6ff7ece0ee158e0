//! Limits of a cycle: each at 0, 1, the limit and one more.
//!
//! A cycle over a limit is refused with the value and the limit, and no change is applied.

use super::*;

/// Asserts that the cycle is refused for one more than `expected`.
fn over(trial: &mut Trial, requests: Vec<Request>, queries: Vec<Query>, expected: usize) {
    match trial.refused(requests, queries) {
        EngineError::Limit { value, limit, what } => {
            assert_eq!((value, limit), (expected as u64 + 1, expected as u64), "{what}");
        }
        other => panic!("expected a limit, got {other}"),
    }
}

/// Ids of one get.
pub fn objects_of_a_get(make: Make) {
    let mut trial = Trial::planar(make);
    trial.send_one(fixes(&[fix(3, 0, 1, 1)]));
    let get = |objects: usize| query(QueryKind::Get((0..objects as u64).collect()));
    for objects in [0, 1, GET_OBJECTS_MAX] {
        assert_eq!(trial.answer(&get(objects)).total, u64::from(objects > 3));
    }
    over(&mut trial, Vec::new(), vec![get(GET_OBJECTS_MAX + 1)], GET_OBJECTS_MAX);
}

/// Ids of one removal.
pub fn objects_of_a_removal(make: Make) {
    let mut trial = Trial::planar(make);
    let remove = |objects: usize| Request::Remove((0..objects as u64).collect());
    for objects in [0, 1, GET_OBJECTS_MAX] {
        assert_eq!(trial.send_one(remove(objects)).missing, objects as u64);
    }
    trial.send_one(fixes(&[fix(0, 0, 1, 1)]));
    over(&mut trial, vec![remove(GET_OBJECTS_MAX + 1)], Vec::new(), GET_OBJECTS_MAX);
    assert_eq!(trial.ids(QueryKind::Get(vec![0])), [0]);
}

/// Neighbours of one query.
pub fn neighbours_of_a_query(make: Make) {
    let mut trial = Trial::planar(make);
    let rows: Vec<_> = (0..5_000).map(|id| fix(id, 0, (id % 997) as i32, 3)).collect();
    trial.send_one(fixes(&rows));
    for k in [0, 1, NEAREST_MAX] {
        let nearest = QueryKind::nearest(5, 900, k as u32);
        assert_eq!(trial.ids(nearest).len(), k);
    }
    let nearest = QueryKind::nearest(5, 900, NEAREST_MAX as u32 + 1);
    over(&mut trial, Vec::new(), vec![query(nearest)], NEAREST_MAX);
}

/// Queries of one cycle.
pub fn queries_of_a_cycle(make: Make) {
    let mut trial = Trial::planar(make);
    trial.send_one(fixes(&[fix(3, 0, 1, 1)]));
    let count = Query { projection: Projection::Count, ..query(QueryKind::Get(vec![3])) };
    trial.submit(Vec::new(), vec![count.clone(); CYCLE_QUERIES_MAX]);
    assert_eq!(trial.wait(0).answers.len(), CYCLE_QUERIES_MAX);
    over(&mut trial, Vec::new(), vec![count; CYCLE_QUERIES_MAX + 1], CYCLE_QUERIES_MAX);
}

/// Requests of one cycle.
pub fn requests_of_a_cycle(make: Make) {
    let mut trial = Trial::planar(make);
    let requests = |requests: usize| -> Vec<Request> {
        let request = |at: usize| fixes(&[fix(at as u64, 0, at as i32 % 1_000, 1)]);
        (0..requests).map(request).collect()
    };
    assert_eq!(trial.send(requests(1)).len(), 1);
    let outcomes = trial.send(requests(CYCLE_REQUESTS_MAX));
    assert_eq!(outcomes.iter().map(|outcome| outcome.applied).sum::<u64>(), 65_535);
    over(&mut trial, requests(CYCLE_REQUESTS_MAX + 1), Vec::new(), CYCLE_REQUESTS_MAX);
}

/// Rows and removals of one cycle share one counter.
pub fn rows_of_a_cycle(make: Make) {
    let mut trial = Trial::planar(make);
    let mut rows = FixColumns::with_capacity(CYCLE_FIXES_MAX);
    for at in 0..CYCLE_FIXES_MAX - 10 {
        let id = (at as u64 * 2_654_435_761) % 30_000;
        rows.push_row(fix(id, (at % 7) as i64, (at % 1_001) as i32, (at % 997) as i32));
    }
    let most = |removals: u64| {
        vec![Request::Fixes(rows.clone()), Request::Remove((0..removals).collect())]
    };
    over(&mut trial, most(11), Vec::new(), CYCLE_FIXES_MAX);
    let outcomes = trial.send(most(10));
    assert_eq!(outcomes[1].removed, 10);
    assert_eq!(outcomes[0].applied, 30_000 - 10);
    trial.export();
}
