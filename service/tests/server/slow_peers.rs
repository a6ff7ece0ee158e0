//! Peers that stop, stall or vanish use bounded resources and do not affect others.

use bytes::Bytes;
use prost::Message as _;
use shoal_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::raw_http::{call, frame, frame_head};
use crate::running::{
    ReportsOnce as _, Running, START_MS, collect, fix, objects_in, rows, sums, until, whole,
    within, world,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_after_all_writes_receives_every_acknowledgement() {
    let server = Running::start().await;
    const MESSAGES: u64 = 20_000;
    let (sender, receiver) = mpsc::channel(16);
    let mut client = server.positions().await;
    let acks = client.report(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    // The client reads only after its last message: acknowledgements must not block.
    for message in 0..MESSAGES {
        let bad = fix(message, START_MS, f64::NAN, 0.0);
        within(sender.send(rows(vec![fix(message, START_MS, 0.0, 0.0), bad]))).await.unwrap();
    }
    drop(sender);
    let responses = within(collect(acks)).await.unwrap();
    let acks: Vec<_> = responses.into_iter().filter_map(|response| response.ack).collect();
    assert_eq!(sums(&acks), (MESSAGES, MESSAGES, 0));
    assert_eq!(acks.last().unwrap().last_message, MESSAGES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_reader_of_a_large_answer_does_not_block_others() {
    let server = Running::start().await;
    let fixes = (0..200_000).map(|object| fix(object, START_MS, 0.0, 0.0)).collect();
    server.positions().await.once(rows(fixes)).await.unwrap();
    let projection = v1::Projection::Fixes.into();
    let options = Some(v1::QueryOptions { projection, ..Default::default() });
    let region = Some(world());
    let request = v1::RangeRequest { options, region };
    // These clients send queries and never read.
    let mut stopped = Vec::new();
    for _ in 0..4 {
        let mut client = server.queries().await;
        stopped.push(client.range(request.clone()).await.unwrap().into_inner());
    }
    let held = server.metric("shoal_answer_bytes").await;
    assert!(held > 0.0 && held < f64::from(1 << 30));
    let mut queries = server.queries().await;
    for object in 0..50 {
        let message = rows(vec![fix(object, START_MS + 1, 0.0, 0.0)]);
        within(server.positions().await.once(message)).await.unwrap();
        let get = v1::GetRequest { objects: vec![object], ..Default::default() };
        let answer = within(queries.get(get)).await.unwrap().into_inner();
        assert_eq!(whole(answer).await.unwrap().objects, [object]);
    }
    // Only the memory of answers that were read is released.
    until(async || server.metric("shoal_answer_bytes").await == held).await;
    drop(stopped);
    until(async || server.metric("shoal_answer_bytes").await == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_dropped_inside_a_message_leak_nothing() {
    let server = Running::start().await;
    let whole = frame(&rows(vec![fix(1, START_MS, 0.0, 0.0)]).encode_to_vec());
    let large = rows(vec![fix(2, START_MS, 0.0, 0.0); 20_000]).encode_to_vec();
    let begun = [&whole[..], &frame_head(0, large.len()), &large[..large.len() / 2]].concat();
    let path = "/shoal.v1.PositionService/Report";
    for _ in 0..20 {
        let (sender, receiver) = mpsc::channel::<Result<Bytes, Status>>(1);
        sender.send(Ok(begun.clone().into())).await.unwrap();
        let body = axum::body::Body::from_stream(ReceiverStream::new(receiver));
        let _stream = call(&server, path, &[], body).await;
        // Half of the message arrives: its memory is reserved.
        until(async || server.metric("shoal_message_bytes").await > 0.0).await;
        // An error of the body resets the stream.
        sender.send(Err(Status::cancelled("cut"))).await.unwrap();
        until(async || server.metric("shoal_message_bytes").await == 0.0).await;
        until(async || server.metric("shoal_streams").await == 0.0).await;
    }
    until(async || server.metric(r#"shoal_queue_rows{fleet="default"}"#).await == 0.0).await;
    let objects = objects_in(&mut server.queries().await, world(), Vec::new()).await;
    assert_eq!(objects, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_closed_inside_a_frame_is_released() {
    let server = Running::start().await;
    // The client of `start` may still be disconnecting.
    until(async || server.metric("shoal_connections").await == 0.0).await;
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0", b"\xff"]
    {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        // The server closes or resets the connection.
        let _ = within(stream.read_to_end(&mut Vec::new())).await;
        until(async || server.metric("shoal_connections").await == 0.0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_connections_do_not_block_others() {
    let server = Running::start().await;
    until(async || server.metric("shoal_connections").await == 0.0).await;
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    until(async || server.metric("shoal_connections").await == 1000.0).await;
    let mut client = server.positions().await;
    for object in 0..20 {
        let message = rows(vec![fix(object, START_MS, 0.0, 0.0)]);
        let ack = within(client.once(message)).await.unwrap().into_inner();
        assert_eq!(ack.rows.unwrap().applied, 1);
    }
    drop(idle);
    until(async || server.metric("shoal_connections").await == 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_are_closed() {
    let limits = shoal_service::ServerLimits { connections_max: 3, ..Default::default() };
    let options = shoal_service::ServerOptions { limits, ..crate::running::options() };
    let server = Running::start_with(options).await;
    // The client of `start` may still be disconnecting.
    until(async || server.metric("shoal_connections").await == 0.0).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(TcpStream::connect(server.address).await.unwrap());
    }
    until(async || server.metric("shoal_connections").await == 3.0).await;
    let refused = TcpStream::connect(server.address).await.unwrap();
    let mut byte = [0];
    // Closed without a response.
    let read = within(async {
        refused.readable().await.unwrap();
        refused.try_read(&mut byte)
    });
    assert!(matches!(read.await, Ok(0) | Err(_)));
    drop(open);
    until(async || server.metric("shoal_connections").await == 0.0).await;
    server.channel().await;
}
