//! The JSON API: what it answers is what gRPC answers, and hostile requests get clear errors.

use axum::body::Body;
use serde_json::{Value, json};
use shoal_proto::v1;
use shoal_testkit::Random;

use crate::gated_engine::Gate;
use crate::http_client::{Answer, Http};
use crate::raw_http::endless;
use crate::running::{Running, START_MS, fix, objects_in, options, rectangle, report, rows};

/// A request with a JSON document.
pub(crate) async fn send(http: &Http, method: &str, path: &str, body: &Value) -> Answer {
    send_text(http, method, path, "application/json", body.to_string()).await
}

pub(crate) async fn send_text(
    http: &Http,
    method: &str,
    path: &str,
    media_type: &str,
    text: impl Into<Body>,
) -> Answer {
    let request = http.request(method, path).header("content-type", media_type);
    http.send(request.body(text.into()).unwrap()).await
}

/// The ids of the features of an answer.
fn ids(answer: &Answer) -> Vec<u64> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = answer.json();
    let features = document["features"].as_array().unwrap().iter();
    features.map(|feature| feature["id"].as_str().unwrap().parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_grpc() {
    let server = Running::start().await;
    let mut random = Random::new(0x4854_5450);
    let fixes = (0..500).map(|object| {
        let (x, y) = (random.real(-20.0, 20.0), random.real(-20.0, 20.0));
        fix(object, START_MS + object as i64, x, y)
    });
    report(&mut server.positions().await, vec![rows(fixes.collect())]).await;
    let (http, mut queries) = (server.http1(), server.queries().await);
    for _ in 0..20 {
        let (w, s) = (random.real(-20.0, 10.0), random.real(-20.0, 10.0));
        let (e, n) = (w + random.real(0.0, 10.0), s + random.real(0.0, 10.0));
        let expected = objects_in(&mut queries, rectangle(w, s, e, n), Vec::new()).await;
        let path = format!("/v1/fleets/default/range?rectangle={w},{s},{e},{n}");
        assert_eq!(ids(&http.get(&path).await), expected, "{path}");
        let ring = [[w, s], [e, s], [e, n], [w, n], [w, s]];
        let polygon = json!({ "type": "Polygon", "coordinates": [ring] });
        let feature = json!({ "type": "Feature", "properties": null, "geometry": polygon });
        let collection = json!({ "type": "FeatureCollection", "features": [feature] });
        let multi = json!({ "type": "MultiPolygon", "coordinates": [[ring]] });
        for document in [&polygon, &feature, &collection, &multi] {
            let answer = send(&http, "POST", "/v1/fleets/default/range", document).await;
            assert_eq!(ids(&answer), expected, "{document}");
        }
        let lines = http.get(&format!("{path}&format=ndjson&projection=ids")).await;
        assert_eq!(lines.header("content-type"), "application/x-ndjson");
        let text = String::from_utf8(lines.body.to_vec()).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let objects: Vec<u64> =
            rows.map(|row| row["object"].as_str().unwrap().parse().unwrap()).collect();
        assert_eq!(objects, expected);
    }
    let near = http.get("/v1/fleets/default/nearest?x=1&y=2&k=7").await;
    let request = v1::NearestRequest { x: 1.0, y: 2.0, k: 7, ..v1::NearestRequest::default() };
    let expected = crate::running::whole(queries.nearest(request).await.unwrap().into_inner());
    let expected = expected.await.unwrap();
    assert_eq!(ids(&near), expected.objects);
    let distance = &near.json()["features"][6]["properties"]["distance_m"];
    assert_eq!(distance.as_f64().unwrap(), expected.distance_m[6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_lives_from_creation_to_deletion() {
    let server = Running::start().await;
    for (http, name) in [(server.http1(), "one"), (server.http2(), "two")] {
        let new =
            json!({ "name": name, "space": "planar:100x50", "clock": "event", "ttl_ms": 5000 });
        let created = send(&http, "POST", "/v1/fleets", &new).await;
        assert_eq!(
            (created.status.as_u16(), created.header("location")),
            (201, &*format!("/v1/fleets/{name}"))
        );
        let again = send(&http, "POST", "/v1/fleets", &new).await;
        again.assert_problem(409, "FLEET_EXISTS");
        let fleet = http.get(&format!("/v1/fleets/{name}")).await.json();
        assert_eq!(fleet["space"], "planar:100x50");
        assert_eq!((&fleet["clock"], &fleet["ttl_ms"]), (&json!("event"), &json!(5000)));
        let listed = http.get("/v1/fleets?page_size=1").await.json();
        assert_eq!(listed["fleets"][0]["name"], "default");
        let token = listed["next_page_token"].as_str().unwrap();
        let next = http.get(&format!("/v1/fleets?page_token={token}")).await.json();
        assert_eq!(next["fleets"][0]["name"], name);
        assert!(next.get("next_page_token").is_none());

        let objects = format!("/v1/fleets/{name}/objects");
        let row = json!([{ "object": 3, "time_ms": START_MS, "x": 7, "y": 8 },
            { "object": "4", "time_ms": START_MS, "x": 70, "y": 80 }]);
        let reported = send(&http, "POST", &objects, &row).await;
        let outcome = reported.json();
        assert_eq!(outcome["rows"]["applied"], 1);
        let refused = json!([{ "row": 1, "field": "y", "reason": "OUTSIDE_SPACE" }]);
        assert_eq!(outcome["refused_rows"], refused);
        assert_eq!(reported.header("shoal-token"), outcome["token"]);
        let token = outcome["token"].as_str().unwrap();
        let seen = http.get(&format!("{objects}/3?min_token={token}")).await;
        assert_eq!(seen.json()["geometry"]["coordinates"], json!([7.0, 8.0]));
        let epoch: u64 = seen.header("shoal-epoch").parse().unwrap();
        assert!(epoch >= outcome["epoch"].as_u64().unwrap());
        assert_eq!(seen.header("shoal-term"), outcome["term"]);
        http.get(&format!("{objects}/4")).await.assert_problem(404, "OBJECT_UNKNOWN");

        let remove = format!("/v1/fleets/{name}/remove");
        let removed = send(&http, "POST", &remove, &json!({ "objects": ["3", 4] })).await.json();
        assert_eq!((&removed["removed"], &removed["missing"]), (&json!(1), &json!(1)));
        send(&http, "POST", &objects, &row).await;
        let removed = http.call("DELETE", &format!("{objects}/3")).await.json();
        assert_eq!(removed["removed"], 1);
        send(&http, "POST", &objects, &row).await;
        let cleared = http.call("POST", &format!("/v1/fleets/{name}/clear")).await.json();
        assert_eq!(cleared["removed"], 1);
        let gone = http.call("DELETE", &format!("/v1/fleets/{name}")).await;
        assert_eq!((gone.status.as_u16(), gone.body.len()), (204, 0));
        let missing = http.get(&format!("/v1/fleets/{name}")).await;
        assert_eq!(missing.assert_problem(404, "FLEET_UNKNOWN")["metadata"]["fleet"], name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_reach_the_services() {
    let server = Running::start().await;
    let http = server.http1();
    let rows: Vec<_> = (0..10)
        .map(|object| {
            json!({ "object": object, "time_ms": START_MS + object * 1_000, "x": object, "y": 1,
                "speed_mps": object, "state": object % 2 })
        })
        .collect();
    send(&http, "POST", "/v1/fleets/default/objects", &json!(rows)).await;
    let range = "/v1/fleets/default/range?rectangle=0,0,20,20";
    for (options, expected) in [
        ("speed_mps=7,", vec![7, 8, 9]),
        ("speed_mps=,1.5", vec![0, 1]),
        ("state_mask=1&state_value=1&limit=2", vec![1, 3]),
        ("state_mask=1&state_value=1&after_object=5", vec![7, 9]),
        ("age_max_ms=2000", vec![7, 8, 9]),
        ("projection=count", vec![]),
    ] {
        assert_eq!(ids(&http.get(&format!("{range}&{options}")).await), expected, "{options}");
    }
    let count = http.get(&format!("{range}&projection=count")).await;
    assert_eq!((count.header("shoal-total"), &count.json()["shoal"]["total"]), ("10", &json!(10)));
    let cut = http.get(&format!("{range}&limit=1")).await;
    assert_eq!((cut.header("shoal-truncated"), cut.header("shoal-fleet")), ("true", "default"));
    let objects = http.get("/v1/fleets/default/objects?objects=3,77,5").await;
    assert_eq!(ids(&objects), [3, 5]);
    let bare = http.get("/v1/fleets/default/objects?objects=3&projection=ids").await.json();
    assert_eq!(bare["features"][0]["geometry"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_named_as_the_client_wrote_them() {
    let server = Running::start().await;
    let http = server.http1();
    let range = "/v1/fleets/default/range";
    let past = "/v1/fleets/default/history/trajectory?objects=1";
    for (path, field) in [
        (format!("{range}?circle=1,2,-3"), "circle"),
        (format!("{range}?circle=1,200,3"), "circle"),
        (format!("{range}?rectangle=1,2,3,0"), "rectangle"),
        (format!("{range}?rectangle=1,2,3,4&circle=1,2,3"), "rectangle"),
        (range.to_owned(), "circle"),
        (format!("{range}?circle=1,2,3&speed_mps=5,4"), "speed_mps"),
        (format!("{range}?circle=1,2,3&state_value=1"), "state_value"),
        (format!("{range}?circle=1,2,1e400"), "circle"),
        (format!("{range}?circle=1,2,3&limit=9223372036854775808"), "limit"),
        (format!("{range}?circle=1,2,3&colour=red"), "colour"),
        ("/v1/fleets/default/nearest?x=1&y=NaN&k=1".to_owned(), "y"),
        ("/v1/fleets/default/nearest?x=1&y=2".to_owned(), "k"),
        ("/v1/fleets/default/objects/-1".to_owned(), "object"),
        ("/v1/fleets/default/objects".to_owned(), "objects"),
        ("/v1/fleets/default/events".to_owned(), "circle"),
        ("/v1/fleets/default/events?circle=1,2,-3".to_owned(), "circle"),
        ("/v1/fleets/default/history/trajectory?objects=1&from_ms=1".to_owned(), "to_ms"),
        (format!("{past}&from_ms=1&from=now&to=now"), "from"),
        (format!("{past}&from=yesterday&to=now"), "from"),
        (format!("{past}&from=now&to=2020-01-01T00:00:00Z"), "to"),
        (format!("{past}&from_ms=2&to_ms=1"), "to_ms"),
        ("/v1/fleets/default/history/as-of".to_owned(), "time_ms"),
    ] {
        let problem = http.get(&path).await.assert_problem(400, "FIELD");
        assert_eq!(problem["field"], field, "{path}");
    }
    let answer = http.get(&format!("{range}?circle=1,2,3&min_token=AAAA")).await;
    assert_eq!(answer.assert_problem(400, "TOKEN")["field"], "min_token");
    let answer = http.get("/v1/fleets/default/events?last_event_id=AAAA").await;
    assert_eq!(answer.assert_problem(400, "TOKEN")["field"], "last_event_id");
    for path in ["/v1/fleets/%FF", "/v1/fleets/default/objects/%FF"] {
        let problem = http.get(path).await.assert_problem(400, "FIELD");
        assert_eq!(problem["field"], "path");
    }
    let name = http.get("/v1/fleets/%C3%84").await.assert_problem(400, "FLEET_NAME");
    assert_eq!(name["field"], "fleet");
    let token = http.get(&format!("{range}?circle=1,2,3&min_token=AAAA")).await;
    token.assert_problem(400, "TOKEN");
    for (text, reason, field) in [
        (r#"{"type":"Polygon","coordinates":[[[0,0],[1,0]]]}"#, "FIELD", Some("coordinates[0]")),
        (r#"{"type":"Polygon","coordinates":[[[0],[1,0]]]}"#, "FIELD", Some("coordinates[0][0]")),
        (r#"{"type":"Polygon","coordinates":[[["0",0]]]}"#, "FIELD", Some("coordinates[0][0][0]")),
        (r#"{"type":"Polygon","coordinates":[]}"#, "FIELD", None),
        (r#"{"type":"Point","coordinates":[0,0]}"#, "FIELD", Some("type")),
        (r#"{"type":"FeatureCollection","features":[]}"#, "FIELD", Some("features")),
        (r#"{"type":"Feature","geometry":null}"#, "FIELD", Some("geometry.body")),
        (
            r#"{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[0,0],[1,0]]]}}"#,
            "FIELD",
            Some("geometry.coordinates[0]"),
        ),
        ("{}", "FIELD", Some("type")),
        ("[]", "FIELD", Some("body")),
        ("{", "MALFORMED", None),
        ("", "MALFORMED", None),
        ("\u{0}", "MALFORMED", None),
    ] {
        let answer = send_text(&http, "POST", range, "application/geo+json", text.to_owned()).await;
        let problem = answer.assert_problem(400, reason);
        assert!(!problem["detail"].as_str().unwrap().contains("struct"), "{problem}");
        if let Some(field) = field {
            assert_eq!(problem["field"], field, "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_have_the_form_of_their_schemas() {
    let server = Running::start().await;
    let http = server.http1();
    let fleet = "/v1/fleets/default";
    let region = |member: &str| format!("{{\"regions\":[{{\"region_id\":1,{member}}}]}}");
    for (path, text, field) in [
        ("/rename", r#"["b"]"#.to_owned(), "body"),
        ("/rename", r#"{"new_name":null}"#.to_owned(), "new_name"),
        ("/rename", "{}".to_owned(), "new_name"),
        ("/remove", "[[1,2]]".to_owned(), "body"),
        ("/remove", format!("{{\"objects\":[{}0]}}", "1,".repeat(65_536)), "objects"),
        ("/objects", "[[7,null,1,2,null,null,5]]".to_owned(), "[0]"),
        ("/objects", "5".to_owned(), "body"),
        ("/objects", r#"{"object":1,"time_ms":5,"x":0,"y":0,"state":-1}"#.to_owned(), "state"),
        ("/events", region(r#""circle":[1,2]"#), "regions[0].circle"),
        ("/events", region(r#""circle":[1,2,-3]"#), "regions[0].circle"),
        (
            "/events",
            region(r#""circle":[1,2,3],"events":[{"enter":null}]"#),
            "regions[0].events[0]",
        ),
        ("/events", region(r#""circle":[1,2,3],"enter_dwell_ms":-1"#), "regions[0].enter_dwell_ms"),
        (
            "/events",
            region(r#""circle":[1,2,3],"enter_dwell_ms":99999999999"#),
            "regions[0].enter_dwell_ms",
        ),
        (
            "/events",
            region(r#""geometry":{"type":"Polygon","coordinates":[[[0,0],[1]]]}"#),
            "regions[0].geometry.coordinates[0][1]",
        ),
        (
            "/events",
            region(r#""geometry":{"type":"Polygon","coordinates":[[[0,0],[1,0]]]}"#),
            "regions[0].geometry.coordinates[0]",
        ),
    ] {
        let path = format!("{fleet}{path}");
        let answer = send_text(&http, "POST", &path, "application/json", text.clone()).await;
        let problem = answer.assert_problem(400, "FIELD");
        assert_eq!(problem["field"], field, "{text:.99}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        let is_plain = ["struct", "u32", "enum", "at line", "sequence"];
        assert!(is_plain.iter().all(|word| !detail.contains(word)), "{detail}");
        assert!(detail.starts_with(field), "{detail}");
    }
    let lines = "{\"object\":1,\"time_ms\":5,\"x\":0,\"y\":0}\n{\"object\":1,\"time_ms\":\"5\"}";
    let objects = format!("{fleet}/objects");
    for (line, detail) in [
        ("{\"object\":1,\"x\":\"5\"}", "line 2: x: string \"5\", expected a number"),
        ("{\"object\":1,", "line 2: not JSON: EOF while parsing a value at column 12"),
    ] {
        let text = lines.replace(lines.split_once('\n').unwrap().1, line);
        let answer = send_text(&http, "POST", &objects, "application/x-ndjson", text).await;
        assert_eq!(answer.json()["detail"], detail);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn media_types_methods_and_forms_are_answered_by_the_book() {
    let server = Running::start().await;
    let http = server.http1();
    let objects = "/v1/fleets/default/objects";
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"] {
        let answer = send_text(&http, "POST", objects, media_type, "[]").await;
        answer.assert_problem(415, "CONTENT_TYPE");
    }
    let without = http.call("POST", objects).await;
    without.assert_problem(415, "CONTENT_TYPE");
    for media_type in ["application/json; charset=utf-8", "Application/JSON"] {
        assert_eq!(send_text(&http, "POST", objects, media_type, "[]").await.status, 200);
    }
    let put = http.call("PUT", objects).await;
    put.assert_problem(405, "METHOD_NOT_ALLOWED");
    assert_eq!(put.header("allow"), "POST,GET,HEAD");
    let head = http.call("HEAD", "/v1/fleets/default/range?circle=0,0,1").await;
    assert_eq!((head.status.as_u16(), head.header("shoal-total"), head.body.len()), (200, "0", 0));
    let accepting = async |accept: &str| {
        let request = http.request("GET", "/v1/fleets/default/range?circle=0,0,1");
        http.send(request.header("accept", accept).body(Body::empty()).unwrap()).await
    };
    accepting("text/csv").await.assert_problem(406, "NOT_ACCEPTABLE");
    assert_eq!(accepting("application/x-ndjson").await.body.len(), 0);
    assert_eq!(accepting("*/*").await.json()["features"], json!([]));
    http.get("/v1/nothing").await.assert_problem(404, "METHOD_UNKNOWN");
    http.get("/v1/fleets/").await.assert_problem(404, "METHOD_UNKNOWN");
    // The form is refused before anything else is done.
    let request = http.request("POST", "/v1/fleets/default/range").header("accept", "text/csv");
    http.send(request.body("no region".into()).unwrap())
        .await
        .assert_problem(406, "NOT_ACCEPTABLE");
    // The head of a stream of events opens no session.
    let head = http.call("HEAD", "/v1/fleets/default/events?circle=0,0,1").await;
    assert_eq!((head.status.as_u16(), head.header("content-type")), (200, "text/event-stream"));
    let wrong = http.call("HEAD", "/v1/fleets/default/events?colour=red").await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_at_its_deadline() {
    let (gate, server) = Gate::start(options()).await;
    gate.shut();
    let path = "/v1/fleets/default/range?circle=0,0,1&timeout_ms=50";
    server.http1().get(path).await.assert_problem(504, "DEADLINE");
    gate.open();
    let slow = endless(b"[[".to_vec());
    let path = "/v1/fleets/default/objects?timeout_ms=50";
    let answer = send_text(&server.http1(), "POST", path, "application/json", slow).await;
    answer.assert_problem(504, "DEADLINE");
}
