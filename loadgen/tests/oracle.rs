//! Is the oracle right? It must agree with the engine's model in every count, record and answer,
//! cycle after cycle, on streams made to hurt: few objects, equal times, late rows, removals,
//! expiry.
//!
//! The model is the contract's own truth; were the oracle wrong in the same way as a server, nobody
//! would notice.
#![allow(clippy::unwrap_used, reason = "a test fails where a value is missing")]

use std::sync::Arc;

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::model::Model;
use shoal_engine::{
    Backend, CycleInput, EngineOptions, Filter, Projection, Query, QueryKind, Region, Request,
    RequestOutcome, Space,
};
use shoal_loadgen::question::chooser::Random;
use shoal_loadgen::verify::difference::difference;
use shoal_loadgen::verify::expected::expected;
use shoal_loadgen::verify::oracle::Change;
use shoal_loadgen::verify::{GotAnswer, Oracle, Outcome, SentRows};
use shoal_proto::v1::{RefusedCount, RefusedRow, ReportAck, RowCounts};

const START_MS: i64 = 1_600_000_000_000;
const OBJECTS: u64 = 40;

/// A message of rows around `now_ms`; one in ten is refused.
fn rows(random: &mut Random, space: &Space, now_ms: i64) -> FixColumns {
    let bounds = space.bounds();
    let mut columns = FixColumns::new();
    for _ in 0..random.below(30) {
        let time_ms = now_ms - random.below(300) as i64;
        let x = bounds.x_min + random.below(50) as i32;
        let y = bounds.y_min + random.below(50) as i32;
        let mut row = FixRow::new(random.below(OBJECTS), time_ms, x, y);
        if random.below(3) == 0 {
            row.speed_mm_s = random.below(5) as u32 * 1_000;
            row.heading_cdeg = random.below(36_000) as u16;
        }
        match random.below(30) {
            0 => row.object = u64::MAX,
            1 => row.x = i32::MIN,
            2 => row.time_ms = 0,
            _ => {}
        }
        columns.push_row(row);
    }
    columns
}

fn request(change: &Change) -> Request {
    match change {
        Change::Rows(messages) => Request::Fixes((*messages[0].1.columns).clone()),
        Change::Remove(objects) => Request::Remove(objects.clone()),
    }
}

/// What the model says, in the oracle's form.
fn right_outcome(number: u64, outcome: &RequestOutcome) -> Outcome {
    let mut right =
        Outcome { removed: outcome.removed, missing: outcome.missing, ..Outcome::default() };
    for (row, reason) in &outcome.refused {
        right.refuse(number, *row, *reason);
    }
    right.rows = RowCounts {
        applied: outcome.applied,
        duplicate: outcome.duplicate,
        superseded: outcome.superseded,
        late: outcome.late,
        refused: outcome.refused.len() as u64,
    };
    right
}

fn question(random: &mut Random, space: &Space) -> Query {
    let bounds = space.bounds();
    let (x, y) = space.to_api(bounds.x_min + 25, bounds.y_min + 25);
    let side = |random: &mut Random| space.quantum() * random.below(40) as f64;
    let west = x - space.quantum() * random.below(25) as f64;
    let kind = match random.below(5) {
        0 => QueryKind::Get((0..5).map(|_| random.below(2 * OBJECTS)).collect()),
        1 => QueryKind::Nearest {
            x: bounds.x_min + random.below(50) as i32,
            y: bounds.y_min,
            k: random.below(12) as u32,
            rank_max: if random.below(2) == 0 { u64::MAX } else { space.rank_within(side(random)) },
        },
        2 => QueryKind::Range(Region::circle(space, x, y, side(random)).unwrap()),
        3 => {
            let step = space.quantum() * 20.0;
            let ring = vec![(x, y), (x + step, y), (x, y + step), (x + step, y + step)];
            QueryKind::Range(Region::polygon(space, &[ring]).unwrap())
        }
        _ => {
            let (east, north) = (x + side(random), y + side(random));
            QueryKind::Range(Region::rectangle(space, west, y, east, north).unwrap())
        }
    };
    let mut filter = Filter::default();
    match random.below(4) {
        0 => filter.age_max_ms = Some(random.below(300) as i64),
        1 => filter.speed_mm_s = Some((1_000, 3_000)),
        2 => filter.object_after = Some(random.below(OBJECTS)),
        _ => {}
    }
    let projection = match random.below(3) {
        0 => Projection::Ids,
        1 => Projection::Fixes,
        _ => Projection::Count,
    };
    let limit = (random.below(3) == 0).then(|| random.below(4));
    Query { kind, filter: filter.boxed(), projection, limit }
}

fn run(seed: u64, space: Space, ttl_ms: Option<i64>) {
    let options = EngineOptions { ttl_ms, ..EngineOptions::new(space) };
    let mut model = Model::new(options);
    let time_max_ms = START_MS + 10_000_000;
    let mut oracle = Oracle::new(space, ttl_ms, 0, time_max_ms);
    let mut random = Random::new(seed, 0);
    for cycle in 0..300_u64 {
        let now_ms = START_MS + cycle as i64 * 100;
        let changes: Vec<Change> = (0..1 + random.below(4))
            .map(|number| match random.below(4) {
                0 => Change::Remove((0..3).map(|_| random.below(OBJECTS)).collect()),
                _ => {
                    let columns = Arc::new(rows(&mut random, &space, now_ms));
                    Change::Rows(vec![(number, SentRows { columns, shift_ms: 0 })])
                }
            })
            .collect();
        let input = CycleInput {
            time_max_ms,
            requests: Arc::new(changes.iter().map(request).collect()),
            ..CycleInput::default()
        };
        let output = model.run(input).unwrap();
        let right = (0..).zip(&output.requests);
        let right: Vec<_> = right.map(|(number, outcome)| right_outcome(number, outcome)).collect();
        assert_eq!(oracle.apply(&changes), right, "seed {seed} cycle {cycle}");
        assert_eq!(oracle.clock_ms(), model.clock_ms(), "seed {seed} cycle {cycle}");
        let mut rows: Vec<FixRow> = oracle.rows().copied().collect();
        rows.sort_by_key(|row| row.object);
        let right: Vec<FixRow> = model.records().values().copied().collect();
        assert_eq!(rows, right, "seed {seed} cycle {cycle}");
        let queries: Vec<Query> = (0..8).map(|_| question(&mut random, &space)).collect();
        let answers = expected(&oracle, &queries.iter().collect::<Vec<_>>());
        for (query, answer) in queries.iter().zip(answers) {
            let right = model.answer(query, model.clock_ms());
            let objects: Vec<u64> = answer.rows.iter().map(|row| row.object).collect();
            assert_eq!(
                (answer.total, answer.truncated, objects, &answer.ranks),
                (right.total, right.truncated, right.objects, &right.ranks),
                "seed {seed} cycle {cycle} {query:?}"
            );
        }
    }
}

#[test]
fn it_agrees_with_the_model() {
    for seed in 0..6 {
        println!("seed {seed}");
        let planar = Space::planar(1_000.0, 1_000.0, 0.01).unwrap();
        for space in [planar, Space::geographic()] {
            run(seed, space, None);
            run(seed, space, Some(250));
        }
    }
}

#[test]
fn it_notices_an_ack_that_counts_wrong() {
    let space = Space::planar(1_000.0, 1_000.0, 0.01).unwrap();
    let mut columns = FixColumns::new();
    columns.push_row(FixRow::new(1, START_MS, 5, 5));
    columns.push_row(FixRow::new(2, START_MS, 5, -5));
    let right = ReportAck {
        first_message: 1,
        last_message: 1,
        rows: Some(RowCounts { applied: 1, refused: 1, ..RowCounts::default() }),
        refused_by_reason: vec![RefusedCount { reason: 3, rows: 1 }],
        refused_rows: vec![RefusedRow { message: 1, row: 1, field: String::new(), reason: 3 }],
        first_epoch: 1,
        epoch: 1,
        ..ReportAck::default()
    };
    let differences = |change: fn(&mut ReportAck)| {
        let mut ack = right.clone();
        change(&mut ack);
        let message = SentRows { columns: Arc::new(columns.clone()), shift_ms: 0 };
        let mut oracle = Oracle::new(space, None, 0, START_MS);
        let outcome = oracle.apply(&[Change::Rows(vec![(1, message)])]).remove(0);
        usize::from(outcome.ack_difference(&ack, false).is_some())
    };
    assert_eq!(differences(|_| {}), 0);
    assert_eq!(differences(|ack| ack.rows = None), 1);
    assert_eq!(differences(|ack| ack.refused_by_reason[0].reason = 2), 1);
    assert_eq!(differences(|ack| ack.refused_rows[0].row = 0), 1);
    assert_eq!(differences(|ack| ack.refused_rows.clear()), 1);
}

#[test]
fn it_notices_every_kind_of_wrong_answer() {
    let space = Space::planar(1_000.0, 1_000.0, 0.01).unwrap();
    let mut oracle = Oracle::new(space, None, 0, i64::MAX);
    let mut columns = FixColumns::new();
    (0..10).for_each(|id| columns.push_row(FixRow::new(id, START_MS, id as i32, 7)));
    let message = SentRows { columns: Arc::new(columns), shift_ms: 0 };
    oracle.apply(&[Change::Rows(vec![(1, message)])]);
    let nearest = QueryKind::nearest(0, 0, 4);
    let query =
        Query { kind: nearest, filter: None, projection: Projection::Fixes, limit: Some(3) };
    let right = expected(&oracle, &[&query]).remove(0);
    let record = |row: &FixRow| {
        let (x, y) = space.to_api(row.x, row.y);
        shoal_proto::v1::FixRecord { time_ms: row.time_ms, x, y, ..Default::default() }
    };
    let answer = GotAnswer {
        total: 4,
        truncated: true,
        objects: vec![0, 1, 2],
        fixes: right.rows.iter().map(record).collect(),
        distance_m: right.ranks.iter().map(|rank| space.distance_m(*rank)).collect(),
        failed: None,
    };
    let told = |change: fn(&mut GotAnswer)| {
        let mut answer = answer.clone();
        change(&mut answer);
        difference(&space, &query, &right, &answer)
    };
    assert_eq!(told(|_| {}), None);
    type Spoil = fn(&mut GotAnswer);
    let wrong: [(Spoil, &str); 9] = [
        (|answer| answer.total = 5, "total is 5, expected 4"),
        (|answer| answer.truncated = false, "truncated is false"),
        (|answer| answer.objects[1] = 9, "at place 1 stands object 9, expected object 1"),
        (|answer| answer.objects.swap(0, 2), "at place 0 stands object 2"),
        (|answer| answer.objects.truncate(2), "at place 2 stands the end, expected object 2"),
        (|answer| answer.fixes[2].x += 0.01, "record of object 2"),
        (|answer| answer.fixes[0].speed_mps = Some(0.0), "record of object 0"),
        (|answer| answer.distance_m[0] = -answer.distance_m[0], "distances"),
        (|answer| answer.failed = Some("too large".to_owned()), "too large"),
    ];
    for (change, words) in wrong {
        let text = told(change).expect(words);
        assert!(text.contains(words), "{text}");
    }
}
