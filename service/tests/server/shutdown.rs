//! Shutdown acknowledges accepted messages, ends streams with the reason, and waits for no peer.

use std::time::Duration;

use shoal_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::gated_engine::Gate;
use crate::running::{
    ReportsOnce as _, Running, START_MS, assert_refused, fix, options, refused, rows, sums, until,
    within, world,
};

#[tokio::test(flavor = "multi_thread")]
async fn accepted_messages_are_acknowledged_and_the_stream_ends_unavailable() {
    let (gate, mut server) = Gate::start(options()).await;
    gate.shut();
    let (sender, receiver) = mpsc::channel(100);
    let mut client = server.positions().await;
    let mut acks = client.report(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    for object in 0..50 {
        sender.send(rows(vec![fix(object, START_MS, 0.0, 0.0)])).await.unwrap();
    }
    until(async || server.metric(r#"shoal_queue_messages{fleet="default"}"#).await == 50.0).await;
    server.begin_stop();
    until(async || server.http("/healthz").await.0.contains("503")).await;
    gate.open();
    let mut applied = Vec::new();
    let status = loop {
        match within(acks.message()).await {
            Ok(Some(response)) => applied.push(response.ack.unwrap()),
            Ok(None) => panic!("the stream ended well"),
            Err(status) => break status,
        }
    };
    assert_refused(&status, "SHUTTING_DOWN");
    assert_eq!(sums(&applied), (50, 0, 0));
    drop(sender);
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_never_read_are_disconnected() {
    let mut server = Running::start().await;
    let fixes = (0..200_000).map(|object| fix(object, START_MS, 0.0, 0.0)).collect();
    server.positions().await.once(rows(fixes)).await.unwrap();
    let projection = v1::Projection::Fixes.into();
    let options = Some(v1::QueryOptions { projection, ..Default::default() });
    let request = v1::RangeRequest { options, region: Some(world()) };
    let mut client = server.queries().await;
    let unread = client.range(request).await.unwrap().into_inner();
    server.begin_stop();
    // `stopped` fails the test if this hangs; constants define the limit of 10 s.
    server.stopped().await;
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_streams_and_connections_end_at_once() {
    let mut server = Running::start().await;
    let (sender, receiver) = mpsc::channel::<v1::ReportRequest>(1);
    let mut client = server.positions().await;
    let mut acks = client.report(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let (batches, receiver) = mpsc::channel::<v1::BatchRequest>(1);
    let mut queries = server.queries().await;
    let mut answers = queries.batch(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    server.begin_stop();
    refused(within(acks.message()).await, "SHUTTING_DOWN");
    refused(within(answers.message()).await, "SHUTTING_DOWN");
    drop((sender, batches));
    tokio::time::timeout(Duration::from_secs(60), server.stopped()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_engine_does_not_delay_shutdown() {
    let (gate, mut server) = Gate::start(options()).await;
    gate.shut();
    let (sender, receiver) = mpsc::channel(1);
    let mut client = server.positions().await;
    let acks = client.report(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    sender.send(rows(vec![fix(1, START_MS, 0.0, 0.0)])).await.unwrap();
    until(async || server.metric(r#"shoal_queue_messages{fleet="default"}"#).await == 1.0).await;
    server.begin_stop();
    server.stopped().await;
    drop(acks);
    gate.open();
}
