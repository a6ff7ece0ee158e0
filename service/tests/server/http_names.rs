//! Hazard: a name that HTTP reads, writes or finds as another one.

use serde_json::{Value, json};
use shoal_service::ServerOptions;

use crate::history::{options as with_history, reaches};
use crate::http_api::{send, send_text};
use crate::names::named_options;
use crate::restart::on;
use crate::running::{Running, START_MS};

const OBJECTS: &str = "/v1/fleets/default/objects";
const NDJSON: &str = "application/x-ndjson";
/// Names, and how they stand in a path.
const NAMES: [(&str, &str); 6] = [
    ("truck-42", "truck-42"),
    ("007", "007"),
    ("../x", "..%2Fx"),
    ("Käthe & co?", "K%C3%A4the%20%26%20co%3F"),
    ("\u{202e}gnol", "%E2%80%AEgnol"),
    ("a,\"b\"", "a,%22b%22"),
];

fn row(name: &str, x: f64) -> Value {
    json!({ "object": name, "time_ms": START_MS, "x": x, "y": 30.25 })
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_reported_found_and_removed_by_name() {
    let server = Running::start_with(named_options()).await;
    let http = server.http1();
    for (at, (name, _)) in NAMES.iter().enumerate() {
        let reported = send(&http, "POST", OBJECTS, &row(name, at as f64)).await.json();
        assert_eq!(reported["rows"]["applied"], 1, "{name}");
    }
    for (at, (name, path)) in NAMES.iter().enumerate() {
        let feature = http.get(&format!("{OBJECTS}/{path}")).await.json();
        assert_eq!(feature["id"], *name);
        assert_eq!(feature["properties"]["object"], *name);
        assert_eq!(feature["geometry"]["coordinates"][0], at as f64);
    }
    let some = http.get(&format!("{OBJECTS}?objects=007,nobody,truck-42&format=ndjson")).await;
    let names: Vec<String> = String::from_utf8(some.body.to_vec())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["object"].as_str().unwrap().into())
        .collect();
    assert_eq!(names, ["truck-42", "007"]);
    let nobody = http.get(&format!("{OBJECTS}/nobody")).await;
    nobody.assert_problem(404, "OBJECT_UNKNOWN");

    // What a query answers can be reported again, in every form.
    let nearest = "/v1/fleets/default/nearest?x=0&y=30.25&k=9";
    let (features, lines) =
        (http.get(nearest).await.body, http.get(&format!("{nearest}&format=ndjson")).await.body);
    for (media_type, body) in [
        ("application/geo+json", features.clone()),
        ("application/json", features),
        (NDJSON, lines),
    ] {
        let again = send_text(&http, "POST", OBJECTS, media_type, body).await.json();
        assert_eq!(again["rows"]["duplicate"], NAMES.len(), "{media_type}: {again}");
    }
    assert_eq!(server.fleet("default").await.name_count, NAMES.len() as u64);

    let removed = http.call("DELETE", &format!("{OBJECTS}/..%2Fx")).await.json();
    assert_eq!(removed["removed"], 1);
    let removal = json!({ "objects": ["truck-42", "nobody", 7, "007"] });
    let removed = send(&http, "POST", "/v1/fleets/default/remove", &removal).await.json();
    assert_eq!((&removed["removed"], &removed["missing"]), (&json!(2), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_do_not_fit_their_fleet_are_refused() {
    let server = Running::start_with(named_options()).await;
    let http = server.http1();
    let new = json!({ "name": "plain", "kind": "numeric" });
    assert_eq!(send(&http, "POST", "/v1/fleets", &new).await.status, 201);
    let new = json!({ "name": "other", "kind": "named" });
    assert_eq!(send(&http, "POST", "/v1/fleets", &new).await.json()["kind"], "named");
    for (name, count) in [("", 1), ("a\nb", 1), (&"n".repeat(257), 1), ("good", 0)] {
        let reported = send(&http, "POST", OBJECTS, &row(name, 1.0)).await.json();
        assert_eq!(reported["rows"]["refused"], count, "{name:?}: {reported}");
    }
    let plain = "/v1/fleets/plain/objects";
    let wrong = [
        send(&http, "POST", plain, &json!([row("7", 1.0), row("truck", 1.0)])).await,
        http.get(&format!("{plain}?objects=7,truck")).await,
        http.get(&format!("{plain}/truck")).await,
        http.get(&format!("{OBJECTS}/{}", "n".repeat(257))).await,
        send(&http, "POST", "/v1/fleets/plain/remove", &json!({ "objects": [7, "truck"] })).await,
    ];
    let fields = ["[1].object", "objects", "object", "object", "objects[1]"];
    for (wrong, field) in wrong.iter().zip(fields) {
        assert_eq!(wrong.assert_problem(400, "FIELD")["field"], field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_has_names() {
    let options = with_history(4 << 30);
    let options = ServerOptions { default_kind: named_options().default_kind, ..options };
    let disk = shoal_position_log::SimulatedDisk::new(3);
    let server = Running::start_in(on(&disk), options).await;
    let http = server.http1();
    let rows: Vec<Value> =
        (0..).zip(NAMES).map(|(at, (name, _))| row(name, f64::from(at))).collect();
    assert_eq!(send(&http, "POST", OBJECTS, &json!(rows)).await.status, 200);
    reaches(&server, server.fleet("default").await.epoch).await;
    let window = format!("from_ms={START_MS}&to_ms={START_MS}");
    let history = "/v1/fleets/default/history";
    for (question, names) in [
        (format!("trajectory?objects=007,nobody,truck-42&{window}"), vec!["007", "truck-42"]),
        (format!("passed?rectangle=-1,0,1.5,90&{window}"), vec!["truck-42", "007"]),
        (format!("as-of?time_ms={START_MS}&objects=..%2Fx"), vec!["../x"]),
        (format!("as-of?time_ms={START_MS}&objects=nobody"), vec![]),
    ] {
        let answer = http.get(&format!("{history}/{question}")).await.json();
        let features = answer["features"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let found: Vec<_> =
            features.iter().map(|feature| feature["id"].as_str().unwrap()).collect();
        assert_eq!(found, names, "{question}");
    }
}
