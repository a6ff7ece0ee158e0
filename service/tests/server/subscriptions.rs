//! Applied events equal the result of a range query at the same epoch.

use shoal_proto::v1;
use shoal_proto::v1::EventKind;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_service::ServerLimits;
use shoal_testkit::Random;

use crate::gated_engine::{Gate, Shortage};
use crate::running::{
    ReportsOnce as _, Running, START_MS, assert_refused, detail, fix, options, path, reason,
    rectangle, refused, report, rows, until, whole, within, world,
};
use crate::subscriber::{Subscriber, start, subscribe, subscription};

fn circle(x: f64, y: f64, radius_m: f64) -> v1::Region {
    v1::Region { kind: Some(v1::region::Kind::Circle(v1::Circle { x, y, radius_m })) }
}

fn triangle(x: f64, y: f64, side: f64) -> v1::Region {
    let ring = v1::Ring { x: vec![x, x + side, x], y: vec![y, y, y + side] };
    v1::Region { kind: Some(v1::region::Kind::Polygon(v1::Polygon { rings: vec![ring] })) }
}

/// Members of a region by a range query, and its epoch.
async fn queried(server: &Running, region: v1::Region, token: Vec<u8>) -> (u64, Vec<u64>) {
    let options = Some(v1::QueryOptions { min_token: token, ..Default::default() });
    let request = v1::RangeRequest { options, region: Some(region) };
    let stream = server.queries().await.range(request).await.unwrap().into_inner();
    let answer = whole(stream).await.unwrap();
    (answer.header.epoch, answer.objects)
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_events_equal_a_query_at_every_epoch() {
    for seed in 1..=3 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let server = start(ServerLimits::default()).await;
        let mut positions = server.positions().await;
        let message = |random: &mut Random, round: i64| {
            let fixes = (0..60).map(|_| {
                let (x, y) = (random.real(0.0, 0.1), random.real(0.0, 0.1));
                fix(random.below(120), START_MS + round * 10, x, y)
            });
            rows(fixes.collect())
        };
        report(&mut positions, vec![message(&mut random, 0)]).await;
        let regions = [circle(0.05, 0.05, 3_000.0), triangle(0.02, 0.02, 0.07), world()];
        let added = (0..).zip(regions.clone()).map(|(id, region)| subscription(id, region));
        let mut subscriber = server.subscriber(added.collect()).await;
        assert!(subscriber.opened.epoch > 0 && !subscriber.opened.resumed);
        let mut answers = Vec::new();
        for round in 1..40 {
            if round % 7 == 0 {
                let objects = (0..10).map(|_| random.below(120)).collect();
                let request = v1::RemoveRequest { objects, ..Default::default() };
                positions.remove(request).await.unwrap();
            }
            let acks = report(&mut positions, vec![message(&mut random, round)]).await;
            for (id, region) in (0..).zip(&regions) {
                let token = acks[0].token.clone();
                answers.push((id, queried(&server, region.clone(), token).await));
            }
        }
        let compared: usize = answers.iter().map(|(_, (_, members))| members.len()).sum();
        assert!(compared > 3_000, "only {compared} members are compared");
        subscriber.until(answers.last().unwrap().1.0).await;
        for (id, (epoch, expected)) in answers {
            let held = subscriber.at(epoch).remove(&id).unwrap_or_default();
            assert_eq!(held.into_iter().collect::<Vec<_>>(), expected, "{id} at {epoch}");
        }
        assert_eq!((subscriber.lagged, subscriber.coalesced, subscriber.snapshots), (0, 0, 3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_records_and_the_requested_kinds() {
    let server = start(ServerLimits::default()).await;
    let mut positions = server.positions().await;
    report(&mut positions, vec![rows(vec![fix(1, START_MS, 1.0, 1.0)])]).await;
    let fixes = v1::RegionSubscription {
        projection: v1::Projection::Fixes.into(),
        ..subscription(0, circle(1.0, 1.0, 1_000.0))
    };
    let leaves = v1::RegionSubscription {
        events: vec![EventKind::Left.into(), EventKind::Removed.into()],
        snapshot: false,
        ..subscription(9, circle(1.0, 1.0, 1_000.0))
    };
    let slow = v1::RegionSubscription {
        filter: Some(v1::Filter {
            speed_mps: Some(v1::Interval { min: 0.0, max: 2.0 }),
            ..Default::default()
        }),
        ..subscription(5, world())
    };
    let mut subscriber = server.subscriber(vec![fixes, leaves, slow]).await;
    let Some(Kind::Snapshot(chunk)) = subscriber.next().await.unwrap() else { panic!() };
    assert_eq!(chunk.clock_ms, START_MS);
    let totals: Vec<_> = chunk.regions.iter().map(|of| (of.region_id, of.total)).collect();
    assert_eq!(totals, [(0, 1), (5, 0)]);
    assert_eq!((chunk.regions[0].fixes[0].x, chunk.regions[0].fixes[0].time_ms), (1.0, START_MS));
    let walk = v1::Fix { speed_mps: Some(1.0), ..fix(2, START_MS + 1, 1.001, 1.0) };
    report(&mut positions, vec![rows(vec![walk, fix(1, START_MS + 1, 1.002, 1.0)])]).await;
    let Some(Kind::Events(batch)) = subscriber.next().await.unwrap() else { panic!() };
    let kinds: Vec<(u64, Vec<EventKind>)> =
        batch.regions.iter().map(|of| (of.region_id, of.kinds().collect())).collect();
    let expected = [(0, vec![EventKind::Move, EventKind::Enter]), (5, vec![EventKind::Enter])];
    assert_eq!(kinds, expected);
    assert_eq!(batch.regions[0].fixes[1].speed_mps, Some(1.0));
    report(&mut positions, vec![rows(vec![fix(2, START_MS + 2, 9.0, 9.0)])]).await;
    let Some(Kind::Events(batch)) = subscriber.next().await.unwrap() else { panic!() };
    let kinds: Vec<(u64, Vec<EventKind>)> =
        batch.regions.iter().map(|of| (of.region_id, of.kinds().collect())).collect();
    let left = |id| (id, vec![EventKind::Left]);
    assert_eq!(kinds, [left(0), left(9), (5, vec![EventKind::Filtered])]);
    let clear = v1::ClearFleetRequest { name: "default".into() };
    server.fleets().await.clear_fleet(clear).await.unwrap();
    let Some(Kind::Events(batch)) = subscriber.next().await.unwrap() else { panic!() };
    assert_eq!(batch.regions[0].kinds().collect::<Vec<_>>(), [EventKind::Cleared]);
    assert_eq!(batch.regions.len(), 1);
    assert!(subscriber.held.values().all(|held| held.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_fleet_reports_progress() {
    let server = start(ServerLimits::default()).await;
    let message = rows(vec![fix(1, START_MS, 1.0, 1.0)]);
    let epoch = report(&mut server.positions().await, vec![message]).await[0].epoch;
    let mut subscriber =
        server.subscriber(vec![subscription(1, rectangle(5.0, 5.0, 6.0, 6.0))]).await;
    for _ in 0..2 {
        while !matches!(subscriber.next().await.unwrap(), Some(Kind::Progress(_))) {}
        assert!(subscriber.epoch > epoch);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn regions_are_added_changed_and_removed_in_one_epoch() {
    let server = start(ServerLimits::default()).await;
    let mut positions = server.positions().await;
    let fixes = (0..10).map(|object| fix(object, START_MS, object as f64, 0.0)).collect();
    report(&mut positions, vec![rows(fixes)]).await;
    let regions = vec![subscription(1, rectangle(0.0, -1.0, 3.5, 1.0)), subscription(2, world())];
    let mut subscriber = server.subscriber(regions).await;
    let moved = v1::RegionSubscription {
        snapshot: false,
        ..subscription(1, rectangle(2.0, -1.0, 5.5, 1.0))
    };
    let bad = subscription(8, circle(0.0, 0.0, -1.0));
    let request = v1::ModifyRequest {
        add: vec![subscription(3, rectangle(7.0, -1.0, 9.5, 1.0)), bad],
        change: vec![moved, subscription(77, world())],
        remove: vec![2, 78],
        ..Default::default()
    };
    let response = subscriber.modify(request).await.unwrap();
    let failed: Vec<_> = response
        .errors
        .iter()
        .map(|error| (error.region_id, reason(error.status.as_ref())))
        .collect();
    let field = |region_id| (region_id, "FIELD".to_owned());
    assert_eq!(failed, [field(8), field(77), field(78)]);
    let paths: Vec<_> = response.errors.iter().map(|error| path(error.status.as_ref())).collect();
    assert_eq!(paths, ["add[1].region.circle.radius_m", "change[1].region_id", "remove[1]"]);
    let text = detail(response.errors[0].status.as_ref());
    assert!(text.starts_with("add[1].region.circle.radius_m: "), "{text}");
    subscriber.until(response.epoch).await;
    let members = subscriber.at(response.epoch);
    assert_eq!(members[&1].iter().copied().collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(members[&3].iter().copied().collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!(subscriber.at(response.epoch - 1)[&1].len(), 4);
    assert_eq!(server.metric(r#"shoal_regions{fleet="default"}"#).await, 2.0);
    // Removed regions have no events: object 9 moves in region 3 only.
    let acks = report(&mut positions, vec![rows(vec![fix(9, START_MS + 1, 9.1, 0.0)])]).await;
    let before = subscriber.events;
    subscriber.until(acks[0].epoch).await;
    assert_eq!(subscriber.events, before + 1);
    let nothing = subscriber.modify(v1::ModifyRequest { remove: vec![2], ..Default::default() });
    let nothing = nothing.await.unwrap();
    assert_eq!((nothing.epoch, nothing.errors.len()), (0, 1));
    // The id can be reused.
    let again = v1::ModifyRequest { add: vec![subscription(2, world())], ..Default::default() };
    let again = subscriber.modify(again).await.unwrap();
    subscriber.until(again.epoch).await;
    assert_eq!(subscriber.held[&2].len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_ends_its_stream_and_frees_its_regions() {
    let server = start(ServerLimits::default()).await;
    let mut subscriber = server.subscriber(vec![subscription(1, world())]).await;
    let wrong = v1::ModifyRequest { close: true, remove: vec![1], ..Default::default() };
    refused(subscriber.modify(wrong).await, "FIELD");
    let close = v1::ModifyRequest { close: true, ..Default::default() };
    subscriber.modify(close.clone()).await.unwrap();
    assert!(subscriber.end().await.is_none());
    refused(subscriber.modify(close).await, "SESSION_GONE");
    for series in ["shoal_sessions", "shoal_regions", "shoal_session_bytes"] {
        assert_eq!(server.metric(&format!(r#"{series}{{fleet="default"}}"#)).await, 0.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_fleets_and_shutdown_end_streams_with_the_reason() {
    let mut server = start(ServerLimits::default()).await;
    let create = v1::CreateFleetRequest { name: "other".into(), ..Default::default() };
    server.fleets().await.create_fleet(create).await.unwrap();
    let request =
        v1::SubscribeRequest { fleet: "other".into(), ..subscribe(vec![subscription(1, world())]) };
    let mut of_other = Subscriber::open(server.subscriptions().await, request).await.unwrap();
    let mut of_default = server.subscriber(vec![subscription(1, world())]).await;
    let drop_fleet = v1::DeleteFleetRequest { name: "other".into() };
    within(server.fleets().await.delete_fleet(drop_fleet)).await.unwrap();
    assert_refused(&of_other.end().await.unwrap(), "FLEET_DELETED");
    refused(of_other.modify(v1::ModifyRequest::default()).await, "FLEET_UNKNOWN");
    until(async || server.metric("shoal_streams").await == 1.0).await;
    server.begin_stop();
    assert_refused(&of_default.end().await.unwrap(), "SHUTTING_DOWN");
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_cycle_changes_no_region() {
    let (gate, server) = Gate::start(options()).await;
    let mut subscriber =
        server.subscriber(vec![subscription(1, rectangle(0.0, 0.0, 2.0, 2.0))]).await;
    for shortage in [Shortage::Input, Shortage::Changes] {
        gate.set_shortage(shortage);
        let request = v1::ModifyRequest {
            add: vec![subscription(2, world())],
            change: vec![subscription(1, world())],
            ..Default::default()
        };
        refused(subscriber.modify(request.clone()).await, "ENGINE_MEMORY");
        let opening = Subscriber::open(server.subscriptions().await, subscribe(request.add));
        refused(opening.await, "ENGINE_MEMORY");
        gate.set_shortage(Shortage::Nothing);
        until(async || server.metric(r#"shoal_sessions{fleet="default"}"#).await == 1.0).await;
        assert_eq!(server.metric(r#"shoal_regions{fleet="default"}"#).await, 1.0);
    }
    let message = rows(vec![fix(1, START_MS, 1.0, 1.0), fix(2, START_MS, 9.0, 9.0)]);
    let epoch = report(&mut server.positions().await, vec![message]).await[0].epoch;
    subscriber.until(epoch).await;
    assert_eq!(subscriber.members(1), [1]);
    gate.fail();
    let message = rows(vec![fix(1, START_MS + 1, 1.0, 1.0)]);
    server.positions().await.once(message).await.unwrap_err();
    assert_refused(&subscriber.end().await.unwrap(), "FLEET_FAILED");
}
