//! Invalid and excessive subscriptions are refused; churn of sessions and regions leaks nothing.

use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_service::ServerLimits;
use tonic::{Code, Status};

use crate::running::{
    ReportsOnce as _, Running, START_MS, assert_refused, fix, millis, reason, rectangle, report,
    rows, until, violated_field as field, within, world,
};
use crate::subscriber::{Subscriber, start, subscribe, subscription};

const REGIONS: &str = r#"shoal_regions{fleet="default"}"#;

/// A star with `vertices` vertices.
fn star(vertices: usize) -> v1::Region {
    let angle = |vertex| vertex as f64 * std::f64::consts::TAU / vertices as f64;
    let radius = |vertex| if vertex % 2 == 0 { 5.0 } else { 4.0 };
    let ring = v1::Ring {
        x: (0..vertices).map(|vertex| radius(vertex) * angle(vertex).cos()).collect(),
        y: (0..vertices).map(|vertex| radius(vertex) * angle(vertex).sin()).collect(),
    };
    v1::Region { kind: Some(v1::region::Kind::Polygon(v1::Polygon { rings: vec![ring] })) }
}

async fn refusal(server: &Running, regions: Vec<v1::RegionSubscription>) -> Status {
    Subscriber::open(server.subscriptions().await, subscribe(regions)).await.err().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_subscriptions_are_refused_with_their_field_and_open_no_session() {
    let server = start(ServerLimits::default()).await;
    let good = || subscription(1, world());
    let million = refusal(&server, vec![subscription(1, star(1_000_000))]).await;
    assert_eq!(million.code(), Code::OutOfRange, "{million:?}");
    let cases = [
        (vec![good(), subscription(2, star(5_000))], "regions[1].region.polygon.rings[0]"),
        (vec![v1::RegionSubscription { region: None, ..good() }], "regions[0].region"),
        (
            vec![good(), v1::RegionSubscription { evaluation: 9, ..subscription(2, world()) }],
            "regions[1].evaluation",
        ),
        (vec![good(), good()], "regions[1].region_id"),
        (vec![subscription(1, rectangle(0.0, 5.0, 1.0, 4.0))], "regions[0].region.rectangle.south"),
    ];
    for (regions, named) in cases {
        let status = refusal(&server, regions).await;
        assert_refused(&status, "FIELD");
        assert_eq!(field(&status), named);
    }
    let filter =
        v1::Filter { speed_mps: Some(v1::Interval { min: 2.0, max: 1.0 }), ..Default::default() };
    let status =
        refusal(&server, vec![v1::RegionSubscription { filter: Some(filter), ..good() }]).await;
    assert_eq!(field(&status), "regions[0].filter.speed_mps");
    let many = (0..16_385).map(|id| subscription(id, world())).collect();
    assert_eq!(field(&refusal(&server, many).await), "regions");
    until(async || server.metric(r#"shoal_sessions{fleet="default"}"#).await == 0.0).await;
    assert_eq!(server.metric(REGIONS).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_regions_and_vertices_are_limited() {
    let limits = ServerLimits {
        sessions_max: 2,
        session_regions_max: 3,
        fleet_regions_max: 4,
        fleet_polygon_vertices_max: 100,
        ..ServerLimits::default()
    };
    let server = start(limits).await;
    let some = |count| (0..count).map(|id| subscription(id, world())).collect::<Vec<_>>();
    let status = refusal(&server, some(4)).await;
    assert_refused(&status, "LIMIT");
    assert!(status.message().contains("session's regions is 4, the limit is 3"), "{status:?}");
    let status = refusal(&server, vec![subscription(1, star(200))]).await;
    let text = "polygon vertices of the fleet's regions is 200, the limit is 100";
    assert!(status.message().contains(text), "{status:?}");
    let mut first = server.subscriber(some(3)).await;
    let status = refusal(&server, some(2)).await;
    assert!(status.message().contains("fleet's regions is 5, the limit is 4"), "{status:?}");
    let _second = server.subscriber(some(1)).await;
    let status = refusal(&server, Vec::new()).await;
    assert!(status.message().contains("sessions is 3, the limit is 2"), "{status:?}");
    // Removed regions free their slots.
    let remove = v1::ModifyRequest { remove: vec![0], ..Default::default() };
    assert_eq!(first.modify(remove).await.unwrap().errors, []);
    let add = v1::ModifyRequest { add: vec![subscription(9, star(12))], ..Default::default() };
    assert_eq!(first.modify(add.clone()).await.unwrap().errors, []);
    let failed = first.modify(add).await.unwrap().errors;
    assert_eq!((failed[0].region_id, reason(failed[0].status.as_ref())), (9, "FIELD".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn regions_around_the_same_place_are_limited() {
    let limits = ServerLimits { place_regions_max: 3, ..ServerLimits::default() };
    let server = start(limits).await;
    let here = |id| subscription(id, rectangle(8.0, 47.0, 8.1, 47.1));
    let there = |id| subscription(id, rectangle(-60.0, 9.0, -59.9, 9.1));
    let mut first = server.subscriber(vec![here(1), here(2)]).await;
    let mut second = server.subscriber(vec![subscription(1, world()), there(2)]).await;
    // Whichever is the larger one.
    for (regions, count) in [(vec![here(1)], 4), (vec![there(1), subscription(2, world())], 4)] {
        let status = refusal(&server, regions).await;
        assert_refused(&status, "LIMIT");
        let text = format!("regions around the same place is {count}, the limit is 3");
        assert!(status.message().contains(&text), "{status:?}");
    }
    let add = |regions| v1::ModifyRequest { add: regions, ..Default::default() };
    assert_eq!(second.modify(add(vec![there(3)])).await.unwrap().errors, []);
    // Changed and removed regions free their places.
    let change = v1::ModifyRequest {
        change: vec![v1::RegionSubscription {
            snapshot: true,
            ..subscription(1, there(1).region.unwrap())
        }],
        ..Default::default()
    };
    assert_eq!(second.modify(change).await.unwrap().errors, []);
    assert_eq!(first.modify(add(vec![here(3)])).await.unwrap().errors, []);
    let failed = second.modify(add(vec![there(4)])).await.unwrap().errors;
    assert_eq!(reason(failed[0].status.as_ref()), "LIMIT");
    let remove = v1::ModifyRequest { remove: vec![3], ..Default::default() };
    assert_eq!(second.modify(remove).await.unwrap().errors, []);
    assert_eq!(second.modify(add(vec![there(4)])).await.unwrap().errors, []);
    drop((first, second));
}

#[tokio::test(flavor = "multi_thread")]
async fn session_churn_leaks_nothing() {
    let server = start(ServerLimits::default()).await;
    let mut positions = server.positions().await;
    let client = server.subscriptions().await;
    let mut lasting =
        Subscriber::open(client.clone(), subscribe(vec![subscription(1, world())])).await.unwrap();
    for round in 0..200 {
        let request = v1::SubscribeRequest {
            retention: Some(millis(0)),
            ..subscribe(vec![subscription(1, world()), subscription(2, star(50))])
        };
        let subscriber = Subscriber::open(client.clone(), request.clone()).await.unwrap();
        // Some clients disconnect before the first message.
        let mut hasty = client.clone();
        drop(tokio::time::timeout(std::time::Duration::ZERO, hasty.subscribe(request)).await);
        let message = rows(vec![fix(round, START_MS + round as i64, 1.0, 1.0)]);
        let acks = within(report(&mut positions, vec![message])).await;
        assert_eq!(acks[0].rows.unwrap().applied, 1);
        drop(subscriber);
    }
    until(async || server.metric(REGIONS).await == 1.0).await;
    until(async || server.metric(r#"shoal_sessions{fleet="default"}"#).await == 1.0).await;
    let message = rows(vec![fix(1_000, START_MS, 1.0, 1.0)]);
    let epoch = report(&mut positions, vec![message]).await[0].epoch;
    lasting.until(epoch).await;
    assert_eq!(lasting.held[&1].len(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_all_objects_is_chunked_and_frees_its_memory() {
    const OBJECTS: u64 = 300_000;
    let limits = ServerLimits { message_rows_max: OBJECTS as usize, ..ServerLimits::default() };
    let server = start(limits).await;
    let fixes = (0..OBJECTS).map(|object| fix(object, START_MS, 1.0, 1.0)).collect();
    let mut positions = server.positions().await;
    positions.once(rows(fixes)).await.unwrap();
    let request =
        subscribe(vec![subscription(1, world()), subscription(2, rectangle(3.0, 3.0, 4.0, 4.0))]);
    // Without retention its memory is released on delivery.
    let request = v1::SubscribeRequest { retention: Some(millis(0)), ..request };
    let mut subscriber = Subscriber::open(server.subscriptions().await, request).await.unwrap();
    let mut chunks = 0;
    while subscriber.snapshots < 2 || subscriber.held[&1].len() < OBJECTS as usize {
        let Some(Kind::Snapshot(chunk)) = subscriber.next().await.unwrap() else { continue };
        let bytes = prost::Message::encoded_len(&chunk);
        assert!(bytes <= 1 << 20, "{bytes} bytes");
        chunks += 1;
    }
    assert!(chunks > 2);
    until(async || server.metric("shoal_answer_bytes").await == 0.0).await;
    // Later snapshots fit again.
    let message = rows(vec![fix(7, START_MS + 1, 2.0, 2.0), fix(OBJECTS, START_MS, 3.5, 3.5)]);
    let epoch = report(&mut positions, vec![message]).await[0].epoch;
    subscriber.until(epoch).await;
    assert_eq!((subscriber.events, subscriber.held[&2].len()), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_snapshot_is_dropped_for_a_waiting_snapshot() {
    // Memory for one snapshot, at 9 bytes per member.
    let limits = ServerLimits {
        answer_bytes_max: 8 << 20,
        message_rows_max: 600_000,
        ..ServerLimits::default()
    };
    let server = start(limits).await;
    let fixes = (0..600_000).map(|object| fix(object, START_MS, 1.0, 1.0)).collect();
    server.positions().await.once(rows(fixes)).await.unwrap();
    let open = async || {
        let request = v1::SubscribeRequest {
            retention: Some(millis(0)),
            ..subscribe(vec![subscription(1, world())])
        };
        Subscriber::open(server.subscriptions().await, request).await.unwrap()
    };
    let unread = open().await;
    until(async || server.metric("shoal_answer_bytes").await > 0.0).await;
    let mut waiting = open().await;
    drop(unread);
    // The server recomputes it without a client request.
    while waiting.snapshots == 0 || waiting.held[&1].len() < 600_000 {
        waiting.next().await.unwrap();
    }
}
