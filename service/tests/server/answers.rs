//! Answers contain the reported attributes and respect filters, projections and limits.

use shoal_proto::v1;

use crate::running::{ReportsOnce as _, Running, START_MS, fix, millis, rows, whole, world};

fn full(object: u64) -> v1::Fix {
    v1::Fix {
        speed_mps: Some(12.5),
        heading_deg: Some(271.25),
        altitude_m: Some(-3.125),
        valid_s: Some(86_400.001),
        state: 0b101,
        ..fix(object, START_MS, 13.404_954, 52.520_008)
    }
}

async fn range_query(server: &Running, options: v1::QueryOptions) -> crate::running::Whole {
    let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
    whole(server.queries().await.range(request).await.unwrap().into_inner()).await.unwrap()
}

fn fixes() -> v1::QueryOptions {
    let projection = v1::Projection::Fixes.into();
    v1::QueryOptions { projection, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_returned_as_reported() {
    let server = Running::start().await;
    let message = rows(vec![full(1), fix(2, START_MS + 1, -0.000_000_1, 90.0)]);
    server.positions().await.once(message).await.unwrap();
    let answer = range_query(&server, fixes()).await;
    assert_eq!(answer.objects, [1, 2]);
    let expected = v1::FixRecord {
        time_ms: START_MS,
        x: 13.404_954,
        y: 52.520_008,
        speed_mps: Some(12.5),
        heading_deg: Some(271.25),
        altitude_m: Some(-3.125),
        valid_s: Some(86_400.001),
        state: 0b101,
    };
    assert_eq!(answer.fixes[0], expected);
    let bare =
        v1::FixRecord { time_ms: START_MS + 1, x: -0.000_000_1, y: 90.0, ..Default::default() };
    assert_eq!(answer.fixes[1], bare);
    // A fix replaces the whole record: attributes that it lacks become unknown.
    let message = rows(vec![fix(1, START_MS + 1, 1.0, 1.0)]);
    server.positions().await.once(message).await.unwrap();
    let record = range_query(&server, fixes()).await.fixes[0];
    assert_eq!((record.speed_mps, record.state), (None, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn projections_and_limits_select_fields_and_rows() {
    let server = Running::start().await;
    let message = rows((1..=10).map(full).collect());
    server.positions().await.once(message).await.unwrap();
    let ids = range_query(&server, v1::QueryOptions::default()).await;
    assert_eq!((ids.objects.len(), ids.fixes.len(), ids.header.total), (10, 0, 10));
    let projection = v1::Projection::Count.into();
    let count = range_query(&server, v1::QueryOptions { projection, ..Default::default() }).await;
    assert_eq!((count.objects.len(), count.fixes.len(), count.header.total), (0, 0, 10));
    let cut = range_query(&server, v1::QueryOptions { limit: 3, ..fixes() }).await;
    assert_eq!((cut.objects, cut.fixes.len()), (vec![1, 2, 3], 3));
    assert_eq!((cut.header.total, cut.header.truncated), (10, true));
    let whole = range_query(&server, v1::QueryOptions { limit: 10, ..fixes() }).await;
    assert_eq!((whole.objects.len(), whole.header.truncated), (10, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_select_records_by_attribute() {
    let server = Running::start().await;
    let slow = v1::Fix { speed_mps: Some(0.5), state: 0b001, ..full(2) };
    let north = v1::Fix { heading_deg: Some(0.0), time_ms: START_MS + 1000, ..full(3) };
    let bare = fix(4, START_MS, 0.0, 0.0);
    server.positions().await.once(rows(vec![full(1), slow, north, bare])).await.unwrap();
    let interval = |min, max| Some(v1::Interval { min, max });
    let cases = [
        (v1::Filter::default(), vec![1, 2, 3, 4]),
        (v1::Filter { speed_mps: interval(0.0, 12.5), ..Default::default() }, vec![1, 2, 3]),
        (v1::Filter { speed_mps: interval(0.5, 0.5), ..Default::default() }, vec![2]),
        (v1::Filter { heading_deg: interval(350.0, 10.0), ..Default::default() }, vec![3]),
        (v1::Filter { heading_deg: interval(270.0, 360.0), ..Default::default() }, vec![1, 2, 3]),
        (v1::Filter { altitude_m: interval(-4.0, 0.0), ..Default::default() }, vec![1, 2, 3]),
        (v1::Filter { state_mask: 0b100, state_value: 0b100, ..Default::default() }, vec![1, 3]),
        (v1::Filter { state_mask: 0b100, state_value: 0, ..Default::default() }, vec![2, 4]),
        (v1::Filter { age_max: Some(millis(999)), ..Default::default() }, vec![3]),
    ];
    for (filter, expected) in cases {
        let options = v1::QueryOptions { filter: Some(filter.clone()), ..Default::default() };
        assert_eq!(range_query(&server, options).await.objects, expected, "{filter:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_returns_each_existing_object_once() {
    let server = Running::start().await;
    server.positions().await.once(rows((1..=3).map(full).collect())).await.unwrap();
    let request = v1::GetRequest { objects: vec![3, 9, 1, 3], ..Default::default() };
    let answer = server.queries().await.get(request).await.unwrap().into_inner();
    let answer = whole(answer).await.unwrap();
    assert_eq!((answer.objects, answer.header.total), (vec![1, 3], 2));
}
