//! Over HTTP the caller and its rights are checked before a body is read, answers take from the
//! quota of their token, and they end with it.

use axum::body::Body;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use shoal_service::ServerOptions;

use crate::http_client::{Answer, Http};
use crate::raw_http::endless;
use crate::running::{Running, START_MS, options, until, within};
use crate::token_maker::{ALL, TokenMaker, entry};

const OBJECTS: &str = "/v1/fleets/default/objects";

async fn sent(http: &Http, token: &str, method: &str, path: &str, body: Body) -> Answer {
    let request = http.request(method, path).header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer {token}"));
    http.send(request.body(body).unwrap()).await
}

fn assert_instance(problem: &Value, path: &str) {
    assert_eq!(problem["instance"], path, "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_is_read_without_the_right() {
    let reader = entry("reader", &["default"], &["query"], "");
    let tokens = TokenMaker::new(&(reader + &entry("other", &["other"], &["report"], "")));
    let server = Running::start_with(ServerOptions { access: tokens.options(), ..options() }).await;
    let http = server.http2();
    for (token, method, path, status, reason) in [
        ("wrong", "POST", OBJECTS, 401, "UNAUTHENTICATED"),
        ("reader", "POST", OBJECTS, 403, "PERMISSION_DENIED"),
        ("reader", "POST", "/v1/fleets/default/remove", 403, "PERMISSION_DENIED"),
        ("reader", "POST", "/v1/fleets/default/events", 403, "PERMISSION_DENIED"),
        ("reader", "POST", "/v1/fleets", 403, "PERMISSION_DENIED"),
        ("reader", "POST", "/v1/fleets/default/history/passed", 403, "PERMISSION_DENIED"),
        ("other", "POST", OBJECTS, 404, "FLEET_UNKNOWN"),
        ("other", "POST", "/v1/fleets/default/range", 403, "PERMISSION_DENIED"),
        ("reader", "POST", "/v1/fleets/%FF/objects", 403, "PERMISSION_DENIED"),
    ] {
        // A body without an end: an answer shows that the server did not wait for it.
        let answer = sent(&http, token, method, path, endless(b"[[[[".to_vec())).await;
        assert_instance(&answer.assert_problem(status, reason), path);
    }
    let row = json!({ "object": 1, "time_ms": START_MS, "x": 0, "y": 0 }).to_string();
    sent(&http, "reader", "POST", OBJECTS, row.into())
        .await
        .assert_problem(403, "PERMISSION_DENIED");
    assert_eq!(sent(&http, "reader", "GET", OBJECTS, Body::empty()).await.status, 400);
    let objects = format!("{OBJECTS}?objects=1");
    assert_eq!(sent(&http, "reader", "GET", &objects, Body::empty()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_takes_from_the_quota_and_ends_with_the_token() {
    let quota = "[token.quotas]\nanswer_bytes_per_second = 100\n";
    let limited = |name: &str| entry(name, &["default"], ALL, quota);
    let root = entry("root", &["*"], ALL, "");
    let tokens = TokenMaker::new(&[root.clone(), limited("one"), limited("two")].concat());
    let server = Running::start_with(ServerOptions { access: tokens.options(), ..options() }).await;
    let http = server.http1();
    let row = |object| json!({ "object": object, "time_ms": START_MS, "x": 1, "y": 1 });
    let rows = Value::from_iter((1..=20_000).map(row)).to_string();
    assert_eq!(sent(&http, "root", "POST", OBJECTS, rows.into()).await.status, 200);
    let get = async |token, path| sent(&http, token, "GET", path, Body::empty()).await;
    let world = "/v1/fleets/default/range?rectangle=-180,-90,180,90";
    let count = "/v1/fleets/default/count?rectangle=-180,-90,180,90";
    // Texts of some hundred bytes are more than the quota of a second.
    for path in [count, "/v1/fleets/default/objects/7"] {
        until(async || get("one", path).await.status == 200).await;
        get("one", path).await.assert_problem(429, "QUOTA");
    }
    let request = http.request("GET", world).header("authorization", "Bearer two");
    let mut answer = http.open(request.body(Body::empty()).unwrap()).await.into_body();
    let mut bytes = within(answer.frame()).await.unwrap().unwrap().into_data().unwrap().len();
    get("two", count).await.assert_problem(429, "QUOTA");
    // The rest of the answer would take hours.
    tokens.set_tokens(&root);
    let end = loop {
        match within(answer.frame()).await {
            Some(Ok(frame)) => bytes += frame.into_data().unwrap().len(),
            end => break end,
        }
    };
    assert!(end.is_some_and(|end| end.is_err()), "the answer looks complete");
    assert!(bytes < get("root", world).await.body.len() / 2, "{bytes}");
}
