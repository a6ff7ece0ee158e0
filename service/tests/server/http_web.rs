//! The HTTP listener: gRPC-Web, pages of other origins, foreign names, methods, limits.

use axum::body::Body;
use bytes::Bytes;
use prost::Message;
use shoal_proto::v1;
use shoal_service::{ServerLimits, ServerOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http_client::{Answer, Http};
use crate::raw_http::frame;
use crate::running::{Running, START_MS, fix, millis, options, rectangle, rows, until, within};
use crate::subscriber::{subscribe, subscription};

/// A frame with this flag has the trailers.
const TRAILERS: u8 = 0x80;
const WEB: &str = "application/grpc-web+proto";

/// Frames of a response: flag and payload.
fn frames(body: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut rest, mut frames) = (body, Vec::new());
    while let [flag, a, b, c, d, tail @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        frames.push((*flag, tail[..length].to_vec()));
        rest = &tail[length..];
    }
    assert!(rest.is_empty(), "{body:?}");
    frames
}

async fn web(http: &Http, path: &str, message: &impl Message) -> Answer {
    let body = Body::from(frame(&message.encode_to_vec()));
    let request = http.request("POST", path).header("content-type", WEB).header("x-grpc-web", "1");
    http.send(request.body(body).unwrap()).await
}

/// The messages of a response that ends well.
fn messages<M: Message + Default>(answer: &Answer) -> Vec<M> {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), WEB);
    let mut frames = frames(&answer.body);
    let (flag, trailers) = frames.pop().unwrap();
    assert_eq!(flag, TRAILERS);
    assert_eq!(String::from_utf8(trailers).unwrap().trim(), "grpc-status:0");
    frames.iter().map(|(_, message)| M::decode(message.as_slice()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn services_answer_over_grpc_web() {
    let server = Running::start().await;
    for http in [server.http1(), server.http2()] {
        let report = rows(vec![fix(7, START_MS, 1.0, 2.0), fix(9, START_MS, 50.0, 2.0)]);
        let reported = web(&http, "/shoal.v1.PositionService/ReportOnce", &report).await;
        let acks: Vec<v1::ReportOnceResponse> = messages(&reported);
        assert_eq!(acks.len(), 1);
        assert!(!acks[0].ack.as_ref().unwrap().token.is_empty());
        let region = Some(rectangle(0.0, 0.0, 10.0, 10.0));
        let range = v1::RangeRequest { region, options: None };
        let answer = web(&http, "/shoal.v1.QueryService/Range", &range).await;
        let parts: Vec<v1::RangeResponse> = messages(&answer);
        assert_eq!(parts[0].header.as_ref().unwrap().total, 1);
        assert_eq!(parts[0].objects, [7]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_over_grpc_web_have_their_details() {
    let server = Running::start().await;
    let http = server.http1();
    let unknown = v1::GetFleetRequest { name: "no-such".to_owned() };
    let answer = web(&http, "/shoal.v1.FleetService/GetFleet", &unknown).await;
    assert_eq!(answer.header("grpc-status"), "5");
    assert!(answer.headers.contains_key("grpc-status-details-bin"));
    // A service that does not exist, and a path of none.
    for path in ["/shoal.v1.NoService/Call", "/nowhere"] {
        let answer = web(&http, path, &unknown).await;
        assert_eq!(answer.header("grpc-status"), "12", "{path}");
    }
    let cut = Body::from(frame(&[1, 2, 3])[..6].to_vec());
    let request = http.request("POST", "/shoal.v1.FleetService/GetFleet");
    let answer = http.send(request.header("content-type", WEB).body(cut).unwrap()).await;
    let status = answer.headers.get("grpc-status").cloned();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(status.is_some_and(|code| code != "0") || text.contains("grpc-status:13"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_streams_over_grpc_web_and_ends_with_the_server() {
    let mut server = Running::start().await;
    let http = server.http2();
    let mut all = subscription(1, rectangle(0.0, 0.0, 10.0, 10.0));
    all.snapshot = true;
    let mut request = subscribe(vec![all]);
    request.retention = Some(millis(0));
    let body = Body::from(frame(&request.encode_to_vec()));
    let path = "/shoal.v1.SubscriptionService/Subscribe";
    let request = http.request("POST", path).header("content-type", WEB).body(body).unwrap();
    let mut stream = http.open(request).await.into_body().into_data_stream();
    let mut received = Vec::new();
    let mut next = async || -> Option<Bytes> {
        use tokio_stream::StreamExt as _;
        within(stream.next()).await.transpose().unwrap()
    };
    received.extend(next().await.unwrap());
    server.begin_stop();
    while let Some(bytes) = next().await {
        received.extend(bytes);
    }
    let frames = frames(&received);
    let opened = v1::SubscribeResponse::decode(frames[0].1.as_slice()).unwrap();
    assert!(matches!(opened.kind, Some(v1::subscribe_response::Kind::Opened(_))));
    let (flag, trailers) = frames.last().unwrap();
    assert_eq!(*flag, TRAILERS);
    assert!(String::from_utf8_lossy(trailers).contains("grpc-status:14"));
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_are_refused_unless_allowed() {
    let origin = "https://map.example";
    let allowed = ServerOptions { http_allow_origin: vec![origin.parse().unwrap()], ..options() };
    let (closed, open) = (Running::start().await, Running::start_with(allowed).await);
    let preflight = async |http: &Http, origin: &str| {
        let request = http.request("OPTIONS", "/shoal.v1.QueryService/Get");
        let request = request.header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        http.send(request.body(Body::empty()).unwrap()).await
    };
    let refused = preflight(&closed.http1(), origin).await;
    refused.assert_problem(403, "ORIGIN");
    assert!(!refused.headers.contains_key("access-control-allow-origin"));
    preflight(&open.http1(), "https://other.example").await.assert_problem(403, "ORIGIN");
    let permitted = preflight(&open.http1(), origin).await;
    assert_eq!(permitted.status, 204);
    assert_eq!(permitted.header("access-control-allow-origin"), origin);
    assert!(permitted.header("access-control-allow-headers").contains("x-grpc-web"));
    let health = open.http1().request("GET", "/healthz").header("origin", origin);
    let health = open.http1().send(health.body(Body::empty()).unwrap()).await;
    assert_eq!(health.header("access-control-allow-origin"), origin);
    assert!(health.header("access-control-expose-headers").contains("grpc-status"));
    let ours = format!("http://{}", open.http_address);
    assert_eq!(preflight(&open.http1(), &ours).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_name_of_this_machine_is_refused() {
    let server = Running::start().await;
    let http = server.http1();
    let request = http.request("GET", "/healthz").header("host", "evil.example");
    http.send(request.body(Body::empty()).unwrap()).await.assert_problem(421, "HOST");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_methods_are_answered_by_the_book() {
    let server = Running::start().await;
    for http in [server.http1(), server.http2()] {
        let page = http.get("/").await;
        assert_eq!(
            (page.status.as_u16(), page.header("content-type")),
            (200, "text/html; charset=utf-8")
        );
        assert!(page.headers.contains_key("content-security-policy"));
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        let etag = page.header("etag");
        let again = http.request("GET", "/").header("if-none-match", etag);
        assert_eq!(http.send(again.body(Body::empty()).unwrap()).await.status, 304);
        let head = http.call("HEAD", "/").await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        assert_eq!(http.get("/healthz").await.body, "serving\n");
        http.get("/nowhere").await.assert_problem(404, "METHOD_UNKNOWN");
        http.get("/%ff/../%C3%A9%00").await.assert_problem(404, "METHOD_UNKNOWN");
        let refused = http.call("DELETE", "/healthz").await;
        refused.assert_problem(405, "METHOD_NOT_ALLOWED");
        assert_eq!(refused.header("allow"), "GET,HEAD");
        let asked = http.call("OPTIONS", "/healthz").await;
        assert_eq!((asked.status.as_u16(), asked.header("allow")), (204, "GET,HEAD"));
    }
    let of = |route: &str, status: u16| {
        format!("shoal_http_requests_total{{route=\"{route}\",status=\"{status}\"}}")
    };
    assert_eq!(server.metric(&of("/", 304)).await, 2.0);
    assert_eq!(server.metric(&of("/healthz", 405)).await, 2.0);
    assert_eq!(server.metric(&of("unknown", 404)).await, 4.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_calls_beyond_their_limits_are_told() {
    let limits =
        ServerLimits { http_connections_max: 2, http_calls_max: 1, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..options() }).await;
    let http = server.http2();
    let request = subscribe(vec![subscription(1, rectangle(0.0, 0.0, 1.0, 1.0))]);
    let body = Body::from(frame(&request.encode_to_vec()));
    let path = "/shoal.v1.SubscriptionService/Subscribe";
    let request = http.request("POST", path).header("content-type", WEB).body(body).unwrap();
    let open = http.open(request).await;
    assert_eq!(http.get("/healthz").await.status, 200);
    let busy = http.get("/v1/fleets").await;
    let problem = busy.assert_problem(429, "BUSY");
    assert!(problem["retry_after_ms"].as_u64().unwrap() > 0);
    assert_eq!(busy.header("retry-after"), "1");
    drop(open);
    until(async || http.get("/v1/fleets").await.status == 200).await;
    let mut idle = TcpStream::connect(server.http_address).await.unwrap();
    idle.write_all(b"GET").await.unwrap();
    until(async || server.metric("shoal_http_connections").await == 2.0).await;
    let mut beyond = TcpStream::connect(server.http_address).await.unwrap();
    let mut text = String::new();
    within(beyond.read_to_string(&mut text)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{text}");
    assert_eq!(server.metric("shoal_http_connections_refused_total").await, 1.0);
}
