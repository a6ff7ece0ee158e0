//! Broken streams resume without loss or repetition, and gaps are reported.

use shoal_proto::v1;
use shoal_proto::v1::GapReason;
use shoal_service::ServerLimits;
use shoal_testkit::Random;
use tokio::sync::watch;
use tonic::Status;

use crate::running::{
    Running, START_MS, assert_refused, fix, millis, objects_in, refused, report, rows, until,
    within, world,
};
use crate::subscriber::{Subscriber, start, subscribe, subscription};

const SESSIONS: &str = r#"shoal_sessions{fleet="default"}"#;
const REGIONS: &str = r#"shoal_regions{fleet="default"}"#;

async fn of_world(server: &Running, retention: Option<prost_types::Duration>) -> Subscriber {
    let request = v1::SubscribeRequest { retention, ..subscribe(vec![subscription(1, world())]) };
    Subscriber::open(server.subscriptions().await, request).await.unwrap()
}

/// Reports one cycle in which objects enter, move and leave; returns its epoch and token.
async fn stir(server: &Running, random: &mut Random, round: i64) -> (u64, Vec<u8>) {
    let mut positions = server.positions().await;
    let fixes = (0..5).map(|_| fix(random.below(30), START_MS + round, round as f64 / 1e4, 0.0));
    let acks = report(&mut positions, vec![rows(fixes.collect())]).await;
    if round % 3 == 0 {
        let objects = vec![random.below(30)];
        let request = v1::RemoveRequest { objects, ..Default::default() };
        positions.remove(request).await.unwrap();
    }
    (acks[0].epoch, acks[0].token.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_streams_lose_and_repeat_nothing() {
    let server = start(ServerLimits::default()).await;
    let mut random = Random::new(7);
    let mut subscribers = Vec::new();
    for _ in 0..5 {
        subscribers.push(of_world(&server, None).await);
    }
    for round in 0..60 {
        stir(&server, &mut random, round).await;
        for subscriber in &mut subscribers {
            if random.below(3) == 0 {
                for _ in 0..random.below(4) {
                    subscriber.next().await.unwrap();
                }
                // `next` detects loss and repetition.
                subscriber.reopen(Vec::new()).await.unwrap();
                assert!(subscriber.opened.resumed);
            }
        }
    }
    let (epoch, token) = stir(&server, &mut random, 1_000).await;
    let expected = objects_in(&mut server.queries().await, world(), token).await;
    for mut subscriber in subscribers {
        subscriber.until(epoch).await;
        assert_eq!(subscriber.members(1), expected);
        assert_eq!((subscriber.snapshots, subscriber.lagged, subscriber.gaps.len()), (1, 0, 0));
    }
}

/// Reads and breaks the stream at random until the last epoch.
async fn restless(
    mut subscriber: Subscriber,
    mut last: watch::Receiver<u64>,
    mut random: Random,
) -> Subscriber {
    let mut broken = 0;
    loop {
        let end = *last.borrow_and_update();
        if end > 0 && subscriber.epoch >= end {
            assert!(broken > 0, "the stream was never broken");
            return subscriber;
        }
        subscriber.next().await.unwrap();
        if random.below(4) == 0 {
            subscriber.reopen(Vec::new()).await.unwrap();
            broken += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_broken_at_random_under_load_lose_and_repeat_nothing() {
    let server = start(ServerLimits::default()).await;
    let (progress, last) = watch::channel(0);
    let mut readers = Vec::new();
    for seed in 0..60 {
        // One connection each: HTTP/2 closes a connection with many reset streams.
        let subscriber = of_world(&server, None).await;
        readers.push(tokio::spawn(restless(subscriber, last.clone(), Random::new(seed))));
    }
    let mut random = Random::new(1);
    for round in 0..300 {
        stir(&server, &mut random, round).await;
    }
    let (epoch, token) = stir(&server, &mut random, 1_000).await;
    progress.send_replace(epoch);
    let expected = objects_in(&mut server.queries().await, world(), token).await;
    for reader in readers {
        let subscriber = within(reader).await.unwrap();
        assert_eq!(subscriber.members(1), expected);
        assert_eq!((subscriber.coalesced, subscriber.lagged), (0, 0));
        assert_eq!((subscriber.snapshots, subscriber.gaps.len()), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_stream_ends_the_first() {
    let server = start(ServerLimits::default()).await;
    let mut random = Random::new(3);
    let mut first = of_world(&server, None).await;
    let (epoch, _) = stir(&server, &mut random, 1).await;
    first.until(epoch).await;
    let request = v1::SubscribeRequest { resume_token: first.token.clone(), ..Default::default() };
    let client = server.subscriptions().await;
    let mut second = Subscriber::open(client, request).await.unwrap();
    second.last_sequence = first.last_sequence;
    assert_refused(&first.end().await.unwrap(), "SESSION_TAKEN_OVER");
    let (epoch, _) = stir(&server, &mut random, 2).await;
    second.until(epoch).await;
    assert!(second.events > 0 && second.snapshots == 0);
    assert_eq!(server.metric(SESSIONS).await, 1.0);
}

async fn refusal(server: &Running, resume_token: Vec<u8>) -> Status {
    let request = v1::SubscribeRequest { resume_token, ..Default::default() };
    Subscriber::open(server.subscriptions().await, request).await.err().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_tokens_are_refused_and_affect_no_session() {
    let server = start(ServerLimits::default()).await;
    let mut subscriber = of_world(&server, None).await;
    let token = subscriber.token.clone();
    let mut random = Random::new(9);
    for byte in 17..33 {
        let mut forged = token.clone();
        forged[byte] ^= 1 << random.below(8);
        let status = refusal(&server, forged.clone()).await;
        assert_refused(&status, "TOKEN");
        // Also with regions: a wrong secret is an error, not a gap.
        let request = v1::SubscribeRequest {
            resume_token: forged.clone(),
            ..subscribe(vec![subscription(1, world())])
        };
        refused(Subscriber::open(server.subscriptions().await, request).await, "TOKEN");
        let session = forged[..33].to_vec();
        let request = v1::ModifyRequest { session, close: true, ..Default::default() };
        refused(server.subscriptions().await.modify(request).await, "TOKEN");
    }
    let mut ahead = token.clone();
    ahead[33..].copy_from_slice(&u64::MAX.to_le_bytes());
    for bad in [ahead, token[..40].to_vec(), b"token".to_vec(), vec![1; 4096], vec![0; 41]] {
        assert_refused(&refusal(&server, bad).await, "TOKEN");
    }
    let (epoch, _) = stir(&server, &mut random, 1).await;
    subscriber.until(epoch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_another_term_open_a_new_session_or_are_refused() {
    let server = start(ServerLimits::default()).await;
    let fleets = async |is_drop: bool| {
        let name = "again".to_owned();
        let mut client = server.fleets().await;
        if is_drop {
            client.delete_fleet(v1::DeleteFleetRequest { name: name.clone() }).await.unwrap();
        }
        let request = v1::CreateFleetRequest { name, ..Default::default() };
        client.create_fleet(request).await.unwrap();
    };
    fleets(false).await;
    let regions = vec![subscription(4, world())];
    let request = v1::SubscribeRequest { fleet: "again".into(), ..subscribe(regions.clone()) };
    let mut subscriber = Subscriber::open(server.subscriptions().await, request).await.unwrap();
    subscriber.next().await.unwrap();
    let before = subscriber.opened.term;
    fleets(true).await;
    refused(subscriber.reopen(Vec::new()).await, "TOKEN_TERM");
    subscriber.reopen(regions).await.unwrap();
    assert!(!subscriber.opened.resumed && subscriber.opened.term != before);
    subscriber.next().await.unwrap();
    assert_eq!(subscriber.gaps, [GapReason::Term]);
    subscriber.next().await.unwrap();
    assert_eq!((subscriber.snapshots, subscriber.last_sequence), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_resume_receives_a_gap_and_a_snapshot() {
    let limits = ServerLimits { session_messages_max: 16, ..ServerLimits::default() };
    let server = start(limits).await;
    let mut random = Random::new(11);
    let mut subscriber = of_world(&server, None).await;
    subscriber.next().await.unwrap();
    let early = subscriber.token.clone();
    let mut last = (0, Vec::new());
    for round in 0..40 {
        last = stir(&server, &mut random, round).await;
        subscriber.until(last.0).await;
    }
    subscriber.token = early;
    subscriber.reopen(Vec::new()).await.unwrap();
    assert!(subscriber.opened.resumed);
    subscriber.next().await.unwrap();
    assert_eq!(subscriber.gaps, [GapReason::Retention]);
    subscriber.until(last.0).await;
    let expected = objects_in(&mut server.queries().await, world(), last.1).await;
    assert_eq!(subscriber.members(1), expected);
    assert_eq!(subscriber.snapshots, 2);
    let (epoch, _) = stir(&server, &mut random, 1_000).await;
    subscriber.until(epoch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_sessions_end_at_their_retention_or_memory_limit() {
    let limits = ServerLimits { session_messages_max: 16, ..ServerLimits::default() };
    let server = start(limits).await;
    let mut random = Random::new(5);
    // Memory limit: without a reader, events cannot be coalesced or dropped.
    let left = of_world(&server, None).await;
    let token = left.token.clone();
    drop(left);
    for round in 0..40 {
        stir(&server, &mut random, round).await;
    }
    until(async || server.metric(SESSIONS).await == 0.0).await;
    until(async || server.metric(REGIONS).await == 0.0).await;
    assert_refused(&refusal(&server, token.clone()).await, "SESSION_GONE");
    let request =
        v1::SubscribeRequest { resume_token: token, ..subscribe(vec![subscription(2, world())]) };
    let mut anew = Subscriber::open(server.subscriptions().await, request).await.unwrap();
    anew.next().await.unwrap();
    assert_eq!((anew.gaps[0], anew.opened.resumed), (GapReason::Session, false));
    anew.next().await.unwrap();
    assert_eq!(anew.snapshots, 1);
    drop(anew);
    // Retention.
    for retention_ms in [0, 1] {
        drop(of_world(&server, Some(millis(retention_ms))).await);
    }
    until(async || server.metric(SESSIONS).await == 1.0).await;
}
