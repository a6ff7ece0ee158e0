//! Peers that stop, stall or vanish use bounded resources and do not affect others.

use bytes::Bytes;
use prost::Message as _;
use shoal_client::{BlockEncoder, EncodedBlock};
use shoal_codec::PlanChoice;
use shoal_proto::v1;
use shoal_service::ServerLimits;
use shoal_service::limits::{
    BUDGETED_MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX, MESSAGE_CHARGE_BYTES_MIN,
    METRICS_CONNECTIONS_MAX,
};
use shoal_testkit::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::gated_engine::Gate;
use crate::raw_http::{call, endless, frame, frame_head, status_of};
use crate::running::{
    ReportsOnce as _, Running, START_MS, assert_refused, collect, fix, objects_in, rows, sums,
    until, whole, within, world,
};

/// The first bytes of a client: the preface of HTTP/2 and an empty SETTINGS frame.
const CLIENT_START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

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
async fn messages_that_declare_much_and_send_little_do_not_block_others() {
    let server = Running::start().await;
    let mut begun = frame_head(0, MESSAGE_BYTES_MAX);
    begun.resize(100, 0);
    let path = "/shoal.v1.PositionService/Report";
    let mut stalled = Vec::new();
    for _ in 0..8 {
        stalled.push(call(&server, path, &[], endless(begun.clone())).await);
    }
    until(async || server.metric("shoal_message_bytes").await > 0.0).await;
    let large = rows((0..6000).map(|object| fix(object, START_MS, 0.0, 0.0)).collect());
    assert!(large.encoded_len() > BUDGETED_MESSAGE_BYTES_MIN);
    let ack = within(server.positions().await.once(large)).await.unwrap().into_inner();
    assert_eq!(ack.rows.unwrap().applied, 6000);
    let held = server.metric("shoal_message_bytes").await;
    assert!(held <= (8 * MESSAGE_CHARGE_BYTES_MIN) as f64, "{held}");
    drop(stalled);
    until(async || server.metric("shoal_message_bytes").await == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_is_charged_until_it_is_applied() {
    let (gate, server) = Gate::start(crate::running::options()).await;
    gate.shut();
    let path = "/shoal.v1.PositionService/Report";
    // Random positions, so that the block is large.
    let mut random = Random::new(7);
    let fixes = (0..40_000).map(|object| {
        let (x, y) = (random.real(-180.0, 180.0), random.real(-90.0, 90.0));
        fix(object, START_MS, x, y)
    });
    let fixes = fixes.collect::<Vec<_>>();
    let mut encoder = BlockEncoder::new(None, PlanChoice::Fixes);
    let [EncodedBlock { block, .. }] = encoder.encode(&fixes).unwrap().try_into().unwrap();
    let block = crate::running::block(block.to_vec());
    let bytes = block.encoded_len();
    assert!(bytes > BUDGETED_MESSAGE_BYTES_MIN);
    let _stream = call(&server, path, &[], endless(frame(&block.encode_to_vec()))).await;
    until(async || server.metric(r#"shoal_queue_messages{fleet="default"}"#).await == 1.0).await;
    assert_eq!(server.metric("shoal_message_bytes").await, bytes as f64);
    gate.open();
    // The stream stays open.
    until(async || server.metric("shoal_message_bytes").await == 0.0).await;
    assert_eq!(server.metric("shoal_streams").await, 1.0);
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

/// Takes as many connections as a server with these limits holds, confirms that one more receives
/// the reason, and that a connection that ends frees its place.
async fn assert_connections(limits: ServerLimits, held: usize, text: &str, metric: &str) {
    let options = shoal_service::ServerOptions { limits, ..crate::running::options() };
    let server = Running::start_with(options).await;
    // The client of `start` may still be disconnecting.
    until(async || server.metric("shoal_connections").await == 0.0).await;
    let mut open = Vec::new();
    for _ in 0..held {
        open.push(TcpStream::connect(server.address).await.unwrap());
    }
    until(async || server.metric("shoal_connections").await == held as f64).await;
    let mut refused = TcpStream::connect(server.address).await.unwrap();
    // What a client sends before it reads does not cost it the reason.
    refused.write_all(CLIENT_START).await.unwrap();
    let mut received = Vec::new();
    within(refused.read_to_end(&mut received)).await.unwrap();
    // An empty SETTINGS frame; GOAWAY of 8 bytes and the text, last stream 0, ENHANCE_YOUR_CALM.
    let (settings, goaway) = received.split_at(9);
    assert_eq!(settings, [0, 0, 0, 4, 0, 0, 0, 0, 0]);
    let length = u8::try_from(text.len() + 8).unwrap();
    assert_eq!(&goaway[..17], [0, 0, length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]);
    assert_eq!(str::from_utf8(&goaway[17..]).unwrap(), text);
    // The text reaches a call, unless the connection ends before the call begins.
    assert!(within(server.queries().await.get(v1::GetRequest::default())).await.is_err());
    assert!(server.metric(metric).await >= 2.0);
    open.pop();
    until(async || server.metric("shoal_connections").await == (held - 1) as f64).await;
    let get = v1::GetRequest { objects: vec![1], ..Default::default() };
    let answer = within(server.queries().await.get(get)).await.unwrap().into_inner();
    assert_eq!(whole(answer).await.unwrap().objects.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_beyond_the_limit_receives_the_reason() {
    let limits = ServerLimits { connections_max: 3, ..Default::default() };
    let text = "the server holds its limit of 3 connections";
    assert_connections(limits, 3, text, "shoal_connections_refused_total").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_beyond_the_limit_of_its_address_receives_the_reason() {
    let limits =
        ServerLimits { connections_max: 9, address_connections_max: 2, ..Default::default() };
    let text = "the server holds its limit of 2 connections of one address";
    assert_connections(limits, 2, text, "shoal_address_connections_refused_total").await;
}

/// Opens a connection; returns it with the window of a stream and the largest frame that the server
/// sets.
async fn connect_raw(server: &Running) -> (TcpStream, [u32; 2]) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(CLIENT_START).await.unwrap();
    let mut head = [0; 9];
    within(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(head[3], 4, "SETTINGS come first");
    let mut settings = vec![0; usize::from(head[2])];
    within(stream.read_exact(&mut settings)).await.unwrap();
    // RFC 9113, section 6.5.2: SETTINGS_INITIAL_WINDOW_SIZE and SETTINGS_MAX_FRAME_SIZE.
    let sizes = [4, 5].map(|number| {
        let is_it = |setting: &&[u8]| setting[..2] == [0, number];
        let setting = settings.chunks_exact(6).find(is_it).expect("is set");
        u32::from_be_bytes(*setting.last_chunk().unwrap())
    });
    (stream, sizes)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_account_of_windows_have_small_ones() {
    // Two connections; one address has at most half.
    let limits = ServerLimits { window_bytes_max: 21 << 20, ..Default::default() };
    let options = shoal_service::ServerOptions { limits, ..crate::running::options() };
    let server = Running::start_with(options).await;
    until(async || server.metric("shoal_connections").await == 0.0).await;
    let (large, small) = ([1 << 20, 256 << 10], [64 << 10, 16 << 10]);
    let (first, sizes) = connect_raw(&server).await;
    assert_eq!(sizes, large);
    let (second, sizes) = connect_raw(&server).await;
    assert_eq!(sizes, small);
    assert_eq!(server.metric("shoal_large_window_connections").await, 1.0);
    // Messages larger than the small windows pass through them.
    let fixes = (0..100_000).map(|object| fix(object, START_MS, 0.0, 0.0)).collect();
    let ack = within(server.positions().await.once(rows(fixes))).await.unwrap().into_inner();
    let seen = objects_in(&mut server.queries().await, world(), ack.token).await;
    assert_eq!(seen.len(), 100_000);
    drop(first);
    until(async || server.metric("shoal_large_window_connections").await == 0.0).await;
    let (third, sizes) = connect_raw(&server).await;
    assert_eq!(sizes, large);
    drop((second, third));
    within(server.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_without_a_message_share_the_limit_of_the_server() {
    let limits = ServerLimits { calls_max: 16, ..Default::default() };
    let options = shoal_service::ServerOptions { limits, ..crate::running::options() };
    let server = Running::start_with(options).await;
    let (report, once) =
        ("/shoal.v1.PositionService/Report", "/shoal.v1.PositionService/ReportOnce");
    let mut open = Vec::new();
    while open.len() < 16 {
        // The call ends with its sender.
        let (sender, receiver) = mpsc::channel::<Result<Bytes, Status>>(1);
        let body = axum::body::Body::from_stream(ReceiverStream::new(receiver));
        let response = call(&server, report, &[], body).await;
        let Some(status) = Status::from_header_map(response.headers()) else {
            open.push((sender, response));
            continue;
        };
        assert_refused(&status, "BUSY");
        break;
    }
    // Some places are left to clients that hold none until the others hold nearly all.
    assert!((12..16).contains(&open.len()), "{}", open.len());
    let status = status_of(&server, once, &[], endless(Vec::new())).await;
    assert_refused(&status, "BUSY");
    assert!(status.message().contains("the number of calls in progress"), "{status}");
    assert!(server.metric("shoal_busy_total").await >= 2.0);
    drop(open);
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0)]);
    until(async || server.positions().await.once(message.clone()).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_of_the_monitoring_address_are_refused() {
    let server = Running::start().await;
    let mut idle = Vec::new();
    for _ in 0..METRICS_CONNECTIONS_MAX {
        idle.push(TcpStream::connect(server.metrics_address).await.unwrap());
    }
    let (status, text) = within(server.http("/healthz")).await;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(text, "too many connections to the monitoring address\n");
    drop(idle);
    until(async || server.http("/metrics").await.0 == "HTTP/1.1 200 OK").await;
    assert!(server.metric("shoal_metrics_connections_refused_total").await >= 1.0);
}
