//! Over HTTP the caller and its rights are checked before a body is read.

use axum::body::Body;
use serde_json::{Value, json};
use shoal_service::ServerOptions;

use crate::http_client::{Answer, Http};
use crate::raw_http::endless;
use crate::running::{Running, START_MS, options};
use crate::token_maker::{TokenMaker, entry};

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
