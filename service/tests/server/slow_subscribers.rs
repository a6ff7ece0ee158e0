//! Subscribers that read slowly or never use bounded memory and do not delay others.

use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use shoal_service::ServerLimits;
use tonic::transport::{Channel, Endpoint};

use crate::running::{Running, START_MS, fix, objects_in, report, rows, within, world};
use crate::subscriber::{Subscriber, start, subscribe, subscription};

/// Memory limit of a session in most of these tests, in bytes.
const SESSION_BYTES: usize = 256 << 10;

fn limits() -> ServerLimits {
    ServerLimits { session_bytes_max: SESSION_BYTES, ..ServerLimits::default() }
}

/// A client with small HTTP/2 windows, because bytes in transit count too.
async fn narrow(server: &Running) -> SubscriptionServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let endpoint =
        endpoint.initial_stream_window_size(64 << 10).initial_connection_window_size(64 << 10);
    SubscriptionServiceClient::new(endpoint.connect().await.unwrap())
}

/// Reports every object in one cycle; returns epoch and token. In odd rounds some objects are away.
async fn stir(server: &Running, objects: u64, round: i64) -> (u64, Vec<u8>) {
    let fixes = (0..objects).map(|object| {
        let is_away = round % 2 == 1 && object % 10 == 0;
        fix(object, START_MS + round, if is_away { 20.0 } else { 1.0 + round as f64 / 1e4 }, 0.0)
    });
    let message = rows(fixes.collect());
    let acks = within(report(&mut server.positions().await, vec![message])).await;
    (acks[0].epoch, acks[0].token.clone())
}

/// The half of the world that excludes objects that are away.
fn near() -> shoal_proto::v1::Region {
    crate::running::rectangle(-10.0, -10.0, 10.0, 10.0)
}

async fn session_bytes(server: &Running) -> f64 {
    server.metric(r#"shoal_session_bytes{fleet="default"}"#).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_receives_coalesced_events_and_others_every_event() {
    // Outcomes take a sixtieth of this.
    const BYTES: usize = 1 << 20;
    let server = start(ServerLimits { session_bytes_max: BYTES, ..limits() }).await;
    let request = subscribe(vec![subscription(1, near())]);
    let mut slow = Subscriber::open(narrow(&server).await, request.clone()).await.unwrap();
    let mut fast = Subscriber::open(server.subscriptions().await, request).await.unwrap();
    let coalesced = r#"shoal_events_total{fleet="default",outcome="coalesced"}"#;
    let mut round = 0;
    let mut last = (0, Vec::new());
    while round < 50 || server.metric(coalesced).await == 0.0 {
        last = stir(&server, 2_000, round).await;
        fast.until(last.0).await;
        assert!(session_bytes(&server).await <= (2 * BYTES) as f64);
        round += 1;
    }
    assert_eq!((fast.coalesced, fast.lagged, fast.snapshots), (0, 0, 1));
    slow.until(last.0).await;
    assert!(slow.coalesced > 0 && slow.events < fast.events);
    assert_eq!((slow.lagged, slow.snapshots), (0, 1));
    let expected = objects_in(&mut server.queries().await, near(), last.1).await;
    for held in [&slow.held, &fast.held] {
        assert_eq!(held[&1].iter().copied().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_too_slow_for_coalesced_events_lags_and_receives_a_snapshot() {
    let server = start(limits()).await;
    let request = subscribe(vec![subscription(1, near()), subscription(2, near())]);
    let mut slow = Subscriber::open(narrow(&server).await, request).await.unwrap();
    let lagged = r#"shoal_sessions_lagged_total{fleet="default"}"#;
    let mut round = 0;
    let mut last = (0, Vec::new());
    while server.metric(lagged).await == 0.0 {
        last = stir(&server, 20_000, round).await;
        assert!(session_bytes(&server).await <= SESSION_BYTES as f64);
        round += 1;
    }
    // A lagging session receives and holds no events.
    for _ in 0..3 {
        last = stir(&server, 20_000, round).await;
        round += 1;
    }
    assert!(session_bytes(&server).await <= SESSION_BYTES as f64);
    slow.until(last.0).await;
    assert!(slow.lagged > 0 && slow.snapshots > 2);
    let expected = objects_in(&mut server.queries().await, near(), last.1).await;
    for region in [1, 2] {
        assert_eq!(slow.members(region), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_that_never_read_use_at_most_their_limit() {
    let server = start(limits()).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        let request = subscribe(vec![subscription(1, world())]);
        silent.push(Subscriber::open(narrow(&server).await, request).await.unwrap());
    }
    for round in 0..60 {
        stir(&server, 2_000, round).await;
        assert!(session_bytes(&server).await <= (8 * SESSION_BYTES) as f64);
    }
    assert_eq!(server.metric(r#"shoal_sessions{fleet="default"}"#).await, 8.0);
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_silent_subscribers_share_a_lower_limit() {
    let limits = ServerLimits { subscription_bytes_max: 0, ..limits() };
    let server = start(limits).await;
    let request = subscribe(vec![subscription(1, world())]);
    let silent = Subscriber::open(narrow(&server).await, request).await.unwrap();
    for round in 0..60 {
        stir(&server, 2_000, round).await;
        assert!(session_bytes(&server).await <= (SESSION_BYTES / 16 + 1024) as f64);
    }
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_beyond_its_events_of_a_cycle_lags_and_others_receive_every_event() {
    const REGIONS: u64 = 300;
    let limits = ServerLimits { session_events_max: 10_000, ..ServerLimits::default() };
    let server = start(limits).await;
    // The lower ids are those of the session that takes too much.
    let wide = (1..=REGIONS).map(|id| subscription(id, near())).collect();
    let mut wide = server.subscriber(wide).await;
    let mut narrow = server.subscriber(vec![subscription(1, near())]).await;
    let lagged = r#"shoal_sessions_lagged_total{fleet="default"}"#;
    // Every object enters 300 regions in one cycle.
    let (epoch, _) = stir(&server, 200, 0).await;
    narrow.until(epoch).await;
    assert_eq!(server.metric(lagged).await, 1.0);
    let mut events = 200;
    for round in 1..10 {
        let (epoch, _) = stir(&server, 200, round).await;
        narrow.until(epoch).await;
        events += 200;
    }
    assert_eq!((narrow.events, narrow.lagged, narrow.coalesced), (events, 0, 0));
    // Once few objects move, the snapshots arrive and the events after them.
    let mut last = (0, Vec::new());
    for round in 10..30 {
        last = stir(&server, 20, 2 * round).await;
        narrow.until(last.0).await;
    }
    let expected = objects_in(&mut server.queries().await, near(), last.1).await;
    while wide.lagged == 0 || !wide.uncertain.is_empty() {
        wide.next().await.unwrap();
    }
    wide.until(last.0).await;
    for region in 1..=REGIONS {
        assert_eq!(wide.members(region), expected, "region {region}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_beyond_the_event_limit_lags_its_last_regions() {
    let limits = ServerLimits { cycle_events_max: 1_000, ..ServerLimits::default() };
    let server = start(limits).await;
    let regions = (1..=3).map(|id| subscription(id, near())).collect();
    let mut subscriber = server.subscriber(regions).await;
    stir(&server, 400, 0).await;
    let (_, token) = stir(&server, 10, 2).await;
    let expected = objects_in(&mut server.queries().await, near(), token).await;
    while subscriber.lagged == 0 || !subscriber.uncertain.is_empty() {
        subscriber.next().await.unwrap();
    }
    let (epoch, _) = stir(&server, 10, 4).await;
    subscriber.until(epoch).await;
    for region in 1..=3 {
        assert_eq!(subscriber.members(region), expected);
    }
}
