//! Subscribers receive every event once and in order, and injected faults are detected.
//!
//! The runs are against a server in this process: fixed, churning and moving circles, broken and
//! resumed streams, silent sessions. A recorded stream with injected faults follows.

use crate::in_process::InProcess;
use shoal_loadgen::Summary;
use shoal_loadgen::subscription::Follower;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_proto::v1::report_once_request::Payload;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use shoal_proto::v1::{
    self as proto, EventKind, Fix, Rectangle, RegionSubscription, ReportOnceRequest, Rows,
    SubscribeRequest, SubscribeResponse, region,
};
use shoal_service::ServerLimits;

/// A few fast objects, and circles that contain many of them.
const SMALL: &str = "--objects 400 --batch 80 --speed-range 100-2000 --subscriptions 60 \
                     --radius 6000 --session-regions 16 --update-query 100:1";
/// Rows per second.
const RATE: &str = "--rate 8000";

/// Fails unless every event was delivered and at least `regions` regions were compared.
fn assert_followed(summary: &Summary, regions: u64) {
    let followed = &summary.followed;
    let faults = (followed.lost, followed.repeated, followed.misordered);
    assert_eq!(faults, (0, 0, 0), "{:?}", summary.problems);
    assert!(summary.is_good(), "{:?}", summary.problems);
    assert_eq!((followed.subscriptions, followed.gaps), (60, 0));
    assert!(followed.events > 0 && followed.timed_events > 0 && followed.event_ms.max > 0.0);
    assert!(followed.compared_regions >= regions, "{} compared", followed.compared_regions);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixed_circles_are_followed_on_every_workload() {
    let server = InProcess::start().await;
    for workload in ["uniform", "gauss", "network", "hub --update-interval-ms 60000"] {
        let flags = format!("{SMALL} {RATE} --workload {workload}");
        let summary = server.run(&format!("{flags} --seconds 1")).await;
        assert_followed(&summary, 60);
        let verified = server.run(&format!("{flags} --verify --seconds 1.5")).await;
        assert_followed(&verified, 61);
        assert_eq!(verified.mismatches, 0);
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churning_and_moving_circles_are_followed() {
    let server = InProcess::start().await;
    for flags in [
        "--churn 0.5 --delivered-events with-move",
        "--move",
        "--move --churn 0.3 --remove 0.02 --absence-ms 500 --late 0.1 --duplicate 0.1",
        "--delivered-events with-move --ttl-ms 1500 --encoding block --remove 0.02",
    ] {
        let summary = server.run(&format!("{SMALL} {RATE} --seconds 1.5 --verify {flags}")).await;
        assert_followed(&summary, 61);
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_streams_resume_without_loss() {
    let server = InProcess::start().await;
    let summary = server
        .run(&format!(
            "{SMALL} {RATE} --seconds 2 --verify --kill-subscribers 30 --churn 0.2 \
             --delivered-events with-move"
        ))
        .await;
    assert_followed(&summary, 60);
    let killed = summary.followed.killed_streams;
    assert!((1..=30).contains(&killed), "{killed} of 30: a disconnected stream cannot be broken");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_sessions_delay_no_other_and_catch_up() {
    let server = InProcess::start().await;
    let summary = server
        .run(&format!(
            "{SMALL} {RATE} --seconds 1.5 --silent-subscribers 3 --delivered-events with-move"
        ))
        .await;
    assert_followed(&summary, 60 + 3 * 15);
    assert_eq!(summary.followed.silent_sessions, 3);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_session_is_informed_of_loss_and_receives_snapshots() {
    // The minimum session memory, too small for a second of events.
    let limits = ServerLimits { session_bytes_max: 16 << 10, ..ServerLimits::default() };
    let server = InProcess::start_with(limits).await;
    let summary = server
        .run(&format!(
            "{SMALL} --rate 40000 --seconds 1.5 --silent-subscribers 4 --delivered-events with-move"
        ))
        .await;
    let followed = &summary.followed;
    assert!(summary.is_good(), "{:?}", summary.problems);
    assert!(followed.coalesced_batches + followed.lagged > 0, "nothing was dropped: {followed:?}");
    assert!(followed.compared_regions >= 60 + 4 * 15, "{} compared", followed.compared_regions);
    server.end().await;
}

/// The messages of one session while objects cross a square, for `epochs` epochs with events.
async fn recorded(server: &InProcess, epochs: usize) -> Vec<SubscribeResponse> {
    let mut positions = PositionServiceClient::connect(server.url()).await.unwrap();
    let mut client = SubscriptionServiceClient::connect(server.url()).await.unwrap();
    let square = Rectangle { west: 0.0, south: 0.0, east: 10.0, north: 10.0 };
    let region = RegionSubscription {
        region_id: 4,
        region: Some(proto::Region { kind: Some(region::Kind::Rectangle(square)) }),
        snapshot: true,
        ..RegionSubscription::default()
    };
    let request = SubscribeRequest { regions: vec![region], ..SubscribeRequest::default() };
    let mut stream = client.subscribe(request).await.unwrap().into_inner();
    let mut messages = Vec::new();
    for step in 0..epochs as i64 {
        // Objects enter and leave with different periods, so that every epoch has events.
        let fix = |object: i64| Fix {
            object: object as u64,
            time_ms: 1_600_000_000_000 + step,
            x: if (step + object) % 2 == 0 { 5.0 } else { -5.0 },
            y: 5.0,
            ..Fix::default()
        };
        let rows = Rows { fixes: (0..6).map(fix).collect() };
        let payload = Some(Payload::Rows(rows));
        positions.report_once(ReportOnceRequest { payload, ..Default::default() }).await.unwrap();
        loop {
            let message = stream.message().await.unwrap().unwrap();
            let is_events = matches!(message.kind, Some(Kind::Events(_)));
            messages.push(message);
            if is_events {
                break;
            }
        }
    }
    messages
}

fn follow(messages: &[SubscribeResponse]) -> Follower {
    let mut follower = Follower::default();
    follower.add(4);
    messages.iter().for_each(|message| follower.take(message.clone()));
    follower
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_in_a_recorded_stream_are_detected() {
    let server = InProcess::start().await;
    let messages = recorded(&server, 12).await;
    server.end().await;
    let follower = follow(&messages);
    assert!(follower.counts.is_clean(), "{:?}", follower.counts);
    assert_eq!(follower.members(4).map(|members| members.len()), Some(3));

    let is_batch = |place: &usize| matches!(messages[*place].kind, Some(Kind::Events(_)));
    let batches: Vec<usize> = (0..messages.len()).filter(is_batch).collect();
    assert_eq!(batches.len(), 12);
    for pair in batches.windows(2) {
        let mut lost = messages.clone();
        lost.remove(pair[0]);
        assert!(follow(&lost).counts.lost > 0, "{pair:?}");

        let mut repeated = messages.clone();
        repeated.insert(pair[1], messages[pair[0]].clone());
        assert!(follow(&repeated).counts.repeated > 0, "{pair:?}");

        let mut misordered = messages.clone();
        misordered.swap(pair[0], pair[1]);
        assert!(follow(&misordered).counts.misordered > 0, "{pair:?}");

        let mut event = messages.clone();
        let Some(Kind::Events(batch)) = &mut event[pair[0]].kind else { panic!("{pair:?}") };
        assert!(batch.regions[0].kinds.contains(&EventKind::Enter.into()));
        let object = batch.regions[0].objects.remove(0);
        batch.regions[0].kinds.remove(0);
        let counts = follow(&event).counts;
        assert!(!counts.is_clean(), "object {object} was left out: {counts:?}");
    }
}
