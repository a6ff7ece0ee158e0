//! Overload fills bounded queues and throttles senders; nothing is lost.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use shoal_proto::v1;
use shoal_service::{ServerLimits, ServerOptions};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::gated_engine::Gate;
use crate::raw_http::{frame, status_of};
use crate::running::{
    ReportsOnce as _, Running, START_MS, collect, fix, objects_in, options, refused, report, rows,
    sums, until, within, world,
};

const QUEUE_ROWS: usize = 1000;
const QUEUE_MESSAGES: usize = 50;

fn small_queues() -> ServerOptions {
    let limits = ServerLimits {
        queue_rows_max: QUEUE_ROWS,
        queue_messages_max: QUEUE_MESSAGES,
        queue_queries_max: 4096,
        cycle_rows_max: 400,
        ..ServerLimits::default()
    };
    ServerOptions { limits, ..options() }
}

async fn depth(server: &Running, what: &str) -> f64 {
    server.metric(&format!("shoal_queue_{what}{{fleet=\"default\"}}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_stay_within_their_limits_and_everything_is_acknowledged() {
    let (gate, server) = Gate::start(small_queues()).await;
    gate.shut();
    // 8 streams offer 8 * 200 * 10 rows, 16 times the capacity of the queue.
    let mut tasks = Vec::new();
    for stream in 0..8_u64 {
        let mut client = server.positions().await;
        tasks.push(tokio::spawn(async move {
            let message = |message: u64| {
                let first = (stream * 200 + message) * 10;
                rows((first..first + 10).map(|object| fix(object, START_MS, 0.0, 0.0)).collect())
            };
            report(&mut client, (0..200).map(message).collect()).await
        }));
    }
    // Messages of 10 rows fill the queue of messages first. They fill eight ninths of it, because
    // each of eight connections may have as many messages there as there are free places.
    until(async || depth(&server, "messages").await >= 40.0).await;
    for _ in 0..20 {
        assert!(depth(&server, "messages").await <= QUEUE_MESSAGES as f64);
        assert!(depth(&server, "rows").await <= QUEUE_ROWS as f64);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gate.open();
    let mut applied = 0;
    for task in tasks {
        let acks = within(task).await.unwrap();
        assert_eq!(acks.last().unwrap().last_message, 200);
        applied += sums(&acks).0;
    }
    assert_eq!(applied, 16_000);
    let objects = objects_in(&mut server.queries().await, world(), Vec::new()).await;
    assert_eq!(objects.len(), 16_000);
    assert_eq!(depth(&server, "messages").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_single_rows_waits_for_a_blocked_engine() {
    const MESSAGES: u64 = 100_000;
    let (gate, server) = Gate::start(options()).await;
    gate.shut();
    let message = |object| {
        let message = rows(vec![fix(1 + object, START_MS, 1.0, 1.0)]).encode_to_vec();
        Ok::<_, Status>(Bytes::from(frame(&message)))
    };
    // Each message in a separate frame, as clients in other languages send them.
    let body = axum::body::Body::from_stream(tokio_stream::iter((0..MESSAGES).map(message)));
    let path = "/shoal.v1.PositionService/Report";
    let calling = async {
        let status = status_of(&server, path, &[], body).await;
        assert_eq!(status.code(), Code::Ok, "{status:?}");
    };
    let opening = async {
        let mut before = -1.0;
        // Until the server reads no more: the queue is full, then the stream's window.
        until(async || {
            let now = depth(&server, "messages").await;
            let is_still = now > 500.0 && now == before;
            before = now;
            is_still
        })
        .await;
        gate.open();
    };
    tokio::join!(calling, opening);
    let objects = objects_in(&mut server.queries().await, world(), Vec::new()).await;
    assert_eq!(objects.len() as u64, MESSAGES);
}

#[tokio::test(flavor = "multi_thread")]
async fn single_calls_are_refused_with_a_retry_delay() {
    let (gate, server) = Gate::start(small_queues()).await;
    gate.shut();
    let mut client = server.positions().await;
    let large = rows((0..950).map(|object| fix(object, START_MS, 0.0, 0.0)).collect());
    let first = tokio::spawn({
        let mut client = client.clone();
        async move { client.once(large).await }
    });
    until(async || depth(&server, "rows").await == 375.0).await;
    let message = rows((0..200).map(|object| fix(object, START_MS, 0.0, 0.0)).collect());
    let status = refused(client.once(message.clone()).await, "BUSY");
    let retry = status.get_error_details().retry_info().unwrap().retry_delay.unwrap();
    assert!(retry > Duration::ZERO && retry < Duration::from_secs(10));
    let request = v1::RemoveRequest { objects: (1..=200).collect(), ..Default::default() };
    refused(client.remove(request).await, "BUSY");
    assert_eq!(server.metric("shoal_busy_total").await, 2.0);
    gate.open();
    assert_eq!(within(first).await.unwrap().unwrap().into_inner().rows.unwrap().applied, 950);
    until(async || client.once(message.clone()).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_have_a_separate_queue() {
    let (gate, server) = Gate::start(small_queues()).await;
    gate.shut();
    let get = v1::batch_query::Kind::Get(v1::GetQuery { objects: vec![1], ..Default::default() });
    let queries = vec![v1::BatchQuery { kind: Some(get) }; 4096];
    let batch = v1::BatchRequest { queries, ..Default::default() };
    // Each message counts as three eighths of the queue: together they leave less than each of
    // their connections has.
    let (mut client, mut other) = (server.queries().await, server.queries().await);
    let stream = client.batch(tokio_stream::once(batch.clone())).await.unwrap().into_inner();
    let second = other.batch(tokio_stream::once(batch)).await.unwrap().into_inner();
    until(async || depth(&server, "queries").await == 3072.0).await;
    let request = v1::GetRequest { objects: vec![1], ..Default::default() };
    refused(client.get(request.clone()).await, "BUSY");
    // Reports do not wait for queries.
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0)]);
    let mut positions = server.positions().await;
    let ack = tokio::spawn(async move { positions.once(message).await });
    gate.open();
    within(ack).await.unwrap().unwrap();
    for stream in [stream, second] {
        let chunks = within(collect(stream)).await.unwrap();
        let results: usize = chunks.iter().map(|chunk| chunk.results.len()).sum();
        assert_eq!(results, 4096);
    }
    until(async || client.get(request.clone()).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_disconnected_clients_do_not_run() {
    let (gate, server) = Gate::start(small_queues()).await;
    gate.shut();
    // The engine accepts this query and blocks.
    let mut client = server.queries().await;
    let request = v1::GetRequest { objects: vec![1], ..Default::default() };
    let blocked = tokio::spawn({
        let (mut client, request) = (client.clone(), request.clone());
        async move { client.get(request).await }
    });
    until(async || gate.is_stopping_one()).await;
    for _ in 0..20 {
        let mut request = tonic::Request::new(request.clone());
        request.set_timeout(Duration::from_millis(50));
        client.get(request).await.unwrap_err();
    }
    gate.open();
    within(blocked).await.unwrap().unwrap();
    until(async || depth(&server, "queries").await == 0.0).await;
    let answered = server.metric(r#"shoal_queries_total{fleet="default",kind="get"}"#).await;
    assert_eq!(answered, 1.0, "some were answered though their clients had left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_light_client_has_a_cycle_before_others() {
    const ROWS: u64 = 20_000;
    let (gate, server) = Gate::start(options()).await;
    let heavy = || {
        let fixes = (1..=ROWS).map(|object| fix(object, START_MS, 0.0, 0.0));
        rows(fixes.collect())
    };
    let (mut flooding, mut light) = (server.positions().await, server.positions().await);
    let (mut asking, mut removing) = (server.queries().await, server.positions().await);
    flooding.once(heavy()).await.unwrap();
    gate.shut();
    // Five calls on one connection: a stream would acknowledge several messages at once.
    let flood: Vec<_> = std::iter::repeat_with(|| {
        let (mut flooding, message) = (flooding.clone(), heavy());
        tokio::spawn(async move { flooding.once(message).await })
    })
    .take(5)
    .collect();
    // One message is in the cycle at the gate; four wait.
    until(async || gate.is_stopping_one()).await;
    until(async || depth(&server, "rows").await == 5.0 * ROWS as f64).await;
    let first = tokio::spawn(async move {
        let row = rows(vec![fix(ROWS + 1, START_MS, 0.0, 0.0)]);
        light.once(row).await
    });
    let second = tokio::spawn(async move {
        let request = v1::RemoveRequest { objects: vec![ROWS + 2], ..Default::default() };
        removing.remove(request).await
    });
    let answer = tokio::spawn(async move {
        asking.get(v1::GetRequest { objects: vec![ROWS + 1], ..Default::default() }).await
    });
    until(async || depth(&server, "messages").await == 7.0).await;
    until(async || depth(&server, "queries").await == 1.0).await;
    gate.open();
    let first = within(first).await.unwrap().unwrap().into_inner();
    let second = within(second).await.unwrap().unwrap().into_inner();
    let answer = within(collect(within(answer).await.unwrap().unwrap().into_inner()));
    let answer = answer.await.unwrap();
    let header = answer.iter().find_map(|message| message.header.clone()).unwrap();
    assert_eq!((second.epoch, header.epoch), (first.epoch, first.epoch));
    // The cycle at the gate, that of the light clients, then the others.
    let mut epochs = Vec::new();
    for call in flood {
        let ack = within(call).await.unwrap().unwrap().into_inner();
        epochs.extend([ack.first_epoch, ack.epoch]);
    }
    assert!(epochs.contains(&(first.epoch - 1)) && !epochs.contains(&first.epoch), "{epochs:?}");
    assert!(epochs.contains(&(first.epoch + 1)), "{epochs:?}");
}
