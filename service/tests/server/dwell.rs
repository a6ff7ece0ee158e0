//! Dwell times, hysteresis and filters of subscriptions: resulting events and refused values.

use shoal_proto::v1;
use shoal_proto::v1::EventKind;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_service::ServerLimits;

use crate::running::{
    Running, START_MS, fix, millis, rectangle, refused, report, rows, violated_field, world,
};
use crate::subscriber::{Subscriber, start, subscribe, subscription};

/// Reports one fix of object 1 and returns the kinds of the resulting events.
async fn moved(server: &Running, subscriber: &mut Subscriber, fix: v1::Fix) -> Vec<EventKind> {
    let acks = report(&mut server.positions().await, vec![rows(vec![fix])]).await;
    let mut kinds = Vec::new();
    while subscriber.epoch < acks[0].epoch {
        if let Some(Kind::Events(batch)) = subscriber.next().await.unwrap() {
            kinds.extend(batch.regions.iter().flat_map(|of| of.kinds().collect::<Vec<_>>()));
        }
    }
    kinds
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_outside_its_region_moves_until_the_leave_dwell_ends() {
    let server = start(ServerLimits::default()).await;
    let region = v1::RegionSubscription {
        leave_dwell: Some(millis(5_000)),
        ..subscription(1, rectangle(0.0, 0.0, 1.0, 1.0))
    };
    let mut subscriber = server.subscriber(vec![region]).await;
    let at = |after_ms, x| fix(1, START_MS + after_ms, x, 0.5);
    assert_eq!(moved(&server, &mut subscriber, at(0, 0.5)).await, [EventKind::Enter]);
    assert_eq!(moved(&server, &mut subscriber, at(1_000, 2.0)).await, [EventKind::Move]);
    assert_eq!(moved(&server, &mut subscriber, at(4_000, 3.0)).await, [EventKind::Move]);
    // The dwell is measured on the fleet's clock from the first fix outside.
    assert_eq!(moved(&server, &mut subscriber, at(6_000, 3.0)).await, [EventKind::Left]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hysteresis_applies_to_the_position_and_not_to_the_filter() {
    let server = start(ServerLimits::default()).await;
    let slow = v1::Interval { min: 0.0, max: 5.0 };
    let region = v1::RegionSubscription {
        hysteresis_m: 10_000.0,
        filter: Some(v1::Filter { speed_mps: Some(slow), ..Default::default() }),
        ..subscription(1, rectangle(0.0, 0.0, 1.0, 1.0))
    };
    let mut subscriber = server.subscriber(vec![region]).await;
    let at = |after_ms, x, speed| v1::Fix {
        speed_mps: Some(speed),
        ..fix(1, START_MS + after_ms, x, 0.5)
    };
    assert_eq!(moved(&server, &mut subscriber, at(0, 0.99, 1.0)).await, [EventKind::Enter]);
    // 5 km outside, within the hysteresis of 10 km.
    assert_eq!(moved(&server, &mut subscriber, at(1, 1.04, 1.0)).await, [EventKind::Move]);
    // Same position, but above the speed limit of the filter.
    assert_eq!(moved(&server, &mut subscriber, at(2, 1.04, 9.0)).await, [EventKind::Left]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_names_a_region_twice_fails_without_effect() {
    let server = start(ServerLimits::default()).await;
    let regions = vec![subscription(1, world())];
    let mut subscriber = server.subscriber(regions).await;
    let both = v1::ModifyRequest {
        add: vec![subscription(2, world()), subscription(1, world())],
        remove: vec![1],
        ..Default::default()
    };
    let status = refused(subscriber.modify(both).await, "FIELD");
    assert_eq!(violated_field(&status), "remove[0]");
    // Region 1 still exists and region 2 does not.
    let request = v1::ModifyRequest { remove: vec![1, 2], ..Default::default() };
    let errors = subscriber.modify(request).await.unwrap().errors;
    assert_eq!(errors.iter().map(|error| error.region_id).collect::<Vec<_>>(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_durations_are_refused_with_their_field() {
    let server = start(ServerLimits::default()).await;
    let fraction = Some(prost_types::Duration { seconds: 1, nanos: 1 });
    let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let over_a_day = Some(millis(86_400_001));
    let good = || subscription(1, world());
    let cases = [
        (v1::RegionSubscription { move_interval: fraction, ..good() }, "move_interval"),
        (v1::RegionSubscription { enter_dwell: negative, ..good() }, "enter_dwell"),
        (v1::RegionSubscription { leave_dwell: over_a_day, ..good() }, "leave_dwell"),
    ];
    for (region, named) in cases {
        let opening = Subscriber::open(server.subscriptions().await, subscribe(vec![region]));
        let status = refused(opening.await, "FIELD");
        assert_eq!(violated_field(&status), format!("regions[0].{named}"));
    }
}
