//! Streams broken inside a snapshot of any size resume at their token.
//!
//! A delivered snapshot remains in memory during its retention unless another answer needs the
//! memory. After its release only its region is sent again.

use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use shoal_service::ServerLimits;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::running::{
    self, Running, START_MS, fix, millis, rectangle, report, rows, sums, until, within, world,
};
use crate::subscriber::{start, subscribe, subscription};

/// Their records take 2.3 MB on the server, more than a session copies.
const MEMBERS: u64 = 40_000;
const WORLD: u64 = 1;
const HARBOUR: u64 = 2;
const ANSWER_BYTES: &str = "shoal_answer_bytes";

fn fixes(region_id: u64, region: v1::Region) -> v1::RegionSubscription {
    v1::RegionSubscription {
        projection: v1::Projection::Fixes.into(),
        ..subscription(region_id, region)
    }
}

fn harbour() -> v1::RegionSubscription {
    subscription(HARBOUR, rectangle(100.0, 10.0, 101.0, 11.0))
}

/// Reports objects along the equator, in messages of several thousand.
async fn fill(server: &Running, members: u64) {
    let messages = (0..members).step_by(20_000).map(|from| {
        let objects = from..members.min(from + 20_000);
        rows(objects.map(|id| fix(id, START_MS, id as f64 / 1e4, 0.0)).collect())
    });
    let acks = report(&mut server.positions().await, messages.collect()).await;
    assert_eq!(sums(&acks), (members, 0, 0));
}

/// Adds an object to the harbour; returns the epoch.
async fn arrive(server: &Running, object: u64) -> u64 {
    let message = rows(vec![fix(object, START_MS + 1, 100.5, 10.5)]);
    report(&mut server.positions().await, vec![message]).await[0].epoch
}

struct Reader {
    client: SubscriptionServiceClient<Channel>,
    stream: Streaming<v1::SubscribeResponse>,
}

impl Reader {
    /// Consumes the first message, `opened`.
    async fn open(server: &Running, request: v1::SubscribeRequest) -> Self {
        let mut client = server.subscriptions().await;
        let stream = within(client.subscribe(request)).await.unwrap().into_inner();
        let mut reader = Self { client, stream };
        assert!(matches!(reader.next().await.kind, Some(Kind::Opened(_))));
        reader
    }

    /// Cancels the stream and resumes it after a message.
    async fn resume(&mut self, after: &v1::SubscribeResponse) {
        let resume_token = after.resume_token.clone();
        let request = v1::SubscribeRequest { resume_token, ..Default::default() };
        self.stream = within(self.client.subscribe(request)).await.unwrap().into_inner();
        let Some(Kind::Opened(opened)) = self.next().await.kind else { panic!("not opened") };
        assert!(opened.resumed);
    }

    async fn next(&mut self) -> v1::SubscribeResponse {
        within(self.stream.message()).await.unwrap().expect("the stream ended")
    }

    /// The next message with a sequence number.
    async fn numbered(&mut self) -> v1::SubscribeResponse {
        loop {
            let message = self.next().await;
            assert!(!matches!(message.kind, Some(Kind::Gap(_))), "{message:?}");
            if message.first_sequence > 0 {
                return message;
            }
        }
    }

    /// Messages through a sequence number.
    async fn up_to(&mut self, sequence: u64) -> Vec<v1::SubscribeResponse> {
        let mut messages = Vec::new();
        loop {
            let message = self.numbered().await;
            let is_last = message.last_sequence >= sequence;
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }

    /// Messages through the end of a region's snapshot.
    async fn snapshot(&mut self, region_id: u64) -> Vec<v1::SubscribeResponse> {
        let mut messages = Vec::new();
        loop {
            let message = self.numbered().await;
            let is_last = pieces(&message).any(|piece| piece.region_id == region_id && piece.last);
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }
}

fn pieces(message: &v1::SubscribeResponse) -> impl Iterator<Item = &v1::RegionMembers> {
    let chunk = match &message.kind {
        Some(Kind::Snapshot(chunk)) => Some(chunk),
        _ => None,
    };
    chunk.into_iter().flat_map(|chunk| &chunk.regions)
}

/// The members in the messages of a snapshot.
fn members(messages: &[v1::SubscribeResponse], region_id: u64) -> Vec<u64> {
    let pieces = messages.iter().flat_map(pieces).filter(|piece| piece.region_id == region_id);
    pieces.flat_map(|piece| piece.objects.iter().copied()).collect()
}

/// Objects that entered a region.
fn entered(messages: &[v1::SubscribeResponse], region_id: u64) -> Vec<u64> {
    let batches = messages.iter().filter_map(|message| match &message.kind {
        Some(Kind::Events(batch)) => Some(batch),
        _ => None,
    });
    let regions = batches.flat_map(|batch| &batch.regions).filter(|of| of.region_id == region_id);
    regions.flat_map(|of| of.objects.iter().copied()).collect()
}

fn assert_no_holes(messages: &[v1::SubscribeResponse]) {
    for pair in messages.windows(2) {
        assert_eq!(pair[0].last_sequence + 1, pair[1].first_sequence);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_resumes_after_every_message() {
    // Once copied into the session, once held in the engine's buffer.
    for count in [20_000, MEMBERS] {
        let server = start(ServerLimits::default()).await;
        fill(&server, count).await;
        let request = subscribe(vec![fixes(WORLD, world()), harbour()]);
        let mut reader = Reader::open(&server, request).await;
        let first = reader.numbered().await;
        reader.resume(&first).await;
        let mut whole = vec![first];
        whole.extend(reader.snapshot(WORLD).await);
        if whole.iter().flat_map(pieces).all(|piece| piece.region_id != HARBOUR) {
            whole.push(reader.numbered().await);
        }
        assert!(whole.len() > 2, "the snapshot is one message");
        assert!(members(&whole, WORLD).into_iter().eq(0..count));
        assert_no_holes(&whole);
        let last = whole.last().unwrap().last_sequence;
        for (index, after) in whole.iter().enumerate() {
            reader.resume(after).await;
            if index + 1 < whole.len() {
                assert_eq!(reader.up_to(last).await, whole[index + 1..], "after {index}");
            }
        }
        // The stream continues after it.
        arrive(&server, count + 1).await;
        let event = reader.numbered().await;
        assert_eq!(event.first_sequence, last + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_beyond_the_session_limit_interleaves_with_other_events() {
    const MANY: u64 = 300_000;
    let limits = ServerLimits { session_bytes_max: 1 << 20, ..ServerLimits::default() };
    let server = start(limits).await;
    fill(&server, MANY).await;
    let request = subscribe(vec![fixes(WORLD, rectangle(-1.0, -1.0, 50.0, 1.0)), harbour()]);
    let mut reader = Reader::open(&server, request).await;
    let mut whole = vec![reader.numbered().await];
    for round in 0..10 {
        arrive(&server, MANY + round).await;
        whole.push(reader.numbered().await);
        reader.resume(whole.last().unwrap()).await;
    }
    whole.extend(reader.snapshot(WORLD).await);
    // Also after the last piece is delivered.
    let middle = whole.len() / 2;
    reader.resume(&whole[middle]).await;
    let again = reader.up_to(whole.last().unwrap().last_sequence).await;
    assert_eq!(again, whole[middle + 1..]);
    while entered(&whole, HARBOUR).len() < 10 {
        whole.push(reader.numbered().await);
    }
    assert_no_holes(&whole);
    assert!(members(&whole, WORLD).into_iter().eq(0..MANY));
    assert!(entered(&whole, HARBOUR).into_iter().eq(MANY..MANY + 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_snapshot_is_evicted_for_answers_and_only_its_region_is_repeated() {
    // Memory for the snapshot or for a query, not both.
    const MANY: u64 = 100_000;
    let limits = ServerLimits { answer_bytes_max: 8 << 20, ..ServerLimits::default() };
    let server = start(limits).await;
    fill(&server, MANY).await;
    let request = subscribe(vec![fixes(WORLD, rectangle(-1.0, -1.0, 50.0, 1.0)), harbour()]);
    let mut reader = Reader::open(&server, request).await;
    let whole = reader.snapshot(WORLD).await;
    assert!(server.metric(ANSWER_BYTES).await > 0.0, "the snapshot was released already");
    for round in 0..3 {
        arrive(&server, MANY + round).await;
    }
    let options =
        v1::QueryOptions { projection: v1::Projection::Fixes.into(), ..Default::default() };
    let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
    let answer = server.queries().await.range(request).await.unwrap().into_inner();
    assert_eq!(running::whole(answer).await.unwrap().fixes.len() as u64, MANY + 3);
    until(async || server.metric(ANSWER_BYTES).await == 0.0).await;
    reader.resume(&whole[0]).await;
    let mut again = vec![whole[0].clone(), reader.numbered().await];
    let Some(Kind::Lagged(lagged)) = &again[1].kind else { panic!("{:?}", again[1]) };
    assert_eq!(lagged.region_ids, [WORLD]);
    let last = whole.last().unwrap().last_sequence;
    assert_eq!(again[1].last_sequence, last);
    again.extend(reader.snapshot(WORLD).await);
    assert_no_holes(&again);
    assert!(members(&again[2..], WORLD).into_iter().eq(0..MANY));
    assert!(members(&again, HARBOUR).is_empty(), "the harbour was never uncertain");
    assert!(entered(&again, HARBOUR).into_iter().eq(MANY..MANY + 3));
    // A second resume with the old token returns the same messages.
    reader.resume(&whole[0]).await;
    let next = again.last().unwrap().last_sequence;
    assert_eq!(reader.up_to(next).await, again[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_snapshot_is_released_after_the_retention() {
    let server = start(ServerLimits::default()).await;
    fill(&server, MEMBERS).await;
    let request = subscribe(vec![fixes(WORLD, world())]);
    let request = v1::SubscribeRequest { retention: Some(millis(500)), ..request };
    let mut reader = Reader::open(&server, request).await;
    let whole = reader.snapshot(WORLD).await;
    until(async || server.metric(ANSWER_BYTES).await == 0.0).await;
    // Stream and session continue.
    reader.resume(&whole[0]).await;
    let Some(Kind::Lagged(_)) = reader.numbered().await.kind else { panic!("it is held") };
    let again = reader.snapshot(WORLD).await;
    assert_eq!(members(&again, WORLD).len() as u64, MEMBERS);
    drop(reader);
    until(async || server.metric(ANSWER_BYTES).await == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_beyond_the_answer_memory_lags_until_it_fits() {
    const MANY: u64 = 200_000;
    let limits = ServerLimits { answer_bytes_max: 8 << 20, ..ServerLimits::default() };
    let server = start(limits).await;
    fill(&server, MANY).await;
    let mut subscriber = server.subscriber(vec![fixes(WORLD, world()), harbour()]).await;
    let Some(Kind::Lagged(lagged)) = subscriber.next().await.unwrap() else { panic!() };
    assert_eq!(lagged.region_ids, [WORLD]);
    let clear = v1::ClearFleetRequest { name: "default".into() };
    server.fleets().await.clear_fleet(clear).await.unwrap();
    fill(&server, 100).await;
    while subscriber.held.get(&WORLD).is_none_or(|held| held.len() < 100) {
        subscriber.next().await.unwrap().unwrap();
    }
    assert_eq!(subscriber.lagged, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_snapshots_above_the_session_limit_do_not_lag() {
    const MANY: u64 = 20_000;
    let limits = ServerLimits { session_bytes_max: 1 << 20, ..ServerLimits::default() };
    let server = start(limits).await;
    fill(&server, MANY).await;
    // Each is copied; their sum is three times the session limit.
    let regions = (1..=20).map(|region_id| subscription(region_id, world())).collect();
    let mut subscriber = server.subscriber(regions).await;
    subscriber.until(subscriber.opened.epoch).await;
    assert_eq!((subscriber.snapshots, subscriber.lagged), (20, 0));
    assert!(subscriber.held.values().all(|held| held.len() as u64 == MANY));
}
