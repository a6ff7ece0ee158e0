//! The OpenAPI document is true: each documented response of each call is produced, and each
//! response is documented and fits its schema.

use axum::body::Body;
use serde_json::{Value, json};
use shoal_service::ServerOptions;
use shoal_service::persistence::HistoryKeep;
use shoal_testkit::Random;

use crate::http_api::send;
use crate::http_client::{Answer, Http};
use crate::http_schema::faults;
use crate::running::{Running, START_MS, options};

/// A call that succeeds: its query string and its body.
fn valid(id: &str) -> (String, Option<Value>) {
    let window = format!("from_ms={START_MS}&to_ms={}", START_MS + 1_000);
    let polygon = json!({ "type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1]]] });
    let row = json!({ "object": 1, "time_ms": START_MS, "x": 0, "y": 0 });
    let (query, body) = match id {
        "listFleets" | "getFleet" | "deleteFleet" | "clearFleet" | "getObject" | "removeObject" => {
            ("", None)
        }
        "createFleet" => ("", Some(json!({ "name": "new" }))),
        "renameFleet" => ("", Some(json!({ "new_name": "default" }))),
        "report" => ("", Some(row)),
        "removeObjects" => ("", Some(json!({ "objects": [99] }))),
        "getObjects" => ("objects=1", None),
        "listNames" => ("name_pattern=*", None),
        "range" | "count" | "events" => ("circle=0,0,10", None),
        "rangeGeoJson" | "countGeoJson" => ("", Some(polygon)),
        "nearest" => ("x=0&y=0&k=1", None),
        "trajectory" => return (format!("objects=1&{window}"), None),
        "passed" => return (format!("circle=0,0,10&{window}&projection=fixes"), None),
        "passedGeoJson" => return (window, Some(polygon)),
        "asOf" => return (format!("time_ms={START_MS}"), None),
        "asOfGeoJson" => return (format!("time_ms={START_MS}"), Some(polygon)),
        "ownTracks" => {
            let tst = START_MS / 1_000;
            ("", Some(json!({ "_type": "location", "tid": "3", "lat": 0, "lon": 0, "tst": tst })))
        }
        "osmAnd" => ("id=3&lat=0&lon=0", None),
        "osmAndBody" => {
            let coords = json!({ "latitude": 0, "longitude": 0, "speed": -1 });
            let location = json!({ "timestamp": "2020-01-02T00:00:00Z", "coords": coords });
            ("", Some(json!({ "device_id": "3", "location": location })))
        }
        "replay" => return (window, None),
        "replayGeoJson" => return (window, Some(polygon)),
        "density" => return (format!("cell=0.5&{window}"), None),
        "densityGeoJson" => return (format!("cell=0.5&{window}"), Some(polygon)),
        "eventsOfRegions" => {
            ("", Some(json!({ "regions": [{ "region_id": 1, "circle": [0, 0, 5] }] })))
        }
        unknown => panic!("say how {unknown} is called"),
    };
    (query.to_owned(), body)
}

/// The call that gives a documented status; `Err` if this server cannot give it.
struct Case<'a> {
    operation: &'a Value,
    method: String,
    path: String,
    status: u16,
}

impl Case<'_> {
    fn id(&self) -> &str {
        self.operation["operationId"].as_str().unwrap()
    }

    async fn run(&self, http: &Http, with_history: bool) -> Option<Answer> {
        let (mut query, mut body) = valid(self.id());
        let (mut media_type, mut accept) = ("application/json", "*/*");
        let (mut fleet, mut object) = ("default", 1);
        match (self.status, self.id()) {
            (200, id) if is_past(id) && !with_history => return None,
            (409, id) if is_past(id) && with_history => return None,
            (409, "createFleet") => body = Some(json!({ "name": "default" })),
            (409, "renameFleet") => body = Some(json!({ "new_name": "trucks" })),
            (409, "report") => query = "producer=a&batch_seq=7".to_owned(),
            (200, "listNames") => fleet = "trucks",
            (409, _) | (200 | 201, _) => {}
            (204, "deleteFleet") => fleet = "doomed",
            (400, "ownTracks") => body = Some(json!({ "_type": "encrypted", "data": "" })),
            (400, "osmAnd" | "osmAndBody") => {
                (query, body) = ("lat=north".to_owned(), Some(json!({})));
            }
            (400, _) => query = "colour=red".to_owned(),
            (404, _) => (fleet, object) = ("no-such", 77),
            (406, _) => accept = "text/csv",
            (413, _) => body = Some(Value::String("x".repeat(9 << 20))),
            (415, _) => media_type = "text/plain",
            (431, _) => query = "x".repeat(60_000),
            (status, id) => panic!("say how {id} answers {status}"),
        }
        if self.id() == "createFleet" && self.status == 201 {
            let name = if with_history { "with-history" } else { "without" };
            body = Some(json!({ "name": name }));
        }
        let path = self.path.replace("{fleet}", fleet).replace("{object}", &object.to_string());
        let request = http.request(&self.method, &format!("{path}?{query}"));
        let request = request.header("content-type", media_type).header("accept", accept);
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = request.body(body).unwrap();
        if self.status == 200 && self.id().starts_with("events") {
            // The stream does not end; its data is tested elsewhere.
            let (parts, _) = http.open(request).await.into_parts();
            let (status, headers) = (parts.status, parts.headers);
            return Some(Answer { status, headers, body: "\"events\"".into() });
        }
        Some(http.send(request).await)
    }

    /// Confirms that a response is the documented one.
    fn check(&self, document: &Value, answer: &Answer) {
        let place = format!("{} {}: {answer:?}", self.id(), self.status);
        assert_eq!(answer.status.as_u16(), self.status, "{place}");
        let documented = &self.operation["responses"][self.status.to_string()];
        for name in documented["headers"].as_object().into_iter().flatten().map(|(name, _)| name) {
            assert!(answer.headers.contains_key(name), "no {name}: {place}");
        }
        let Some(content) = documented["content"].as_object() else {
            assert!(answer.body.is_empty(), "{place}");
            return;
        };
        let schema = &content[answer.header("content-type")]["schema"];
        assert!(schema.is_object(), "{place}");
        let found = faults(document, schema, &answer.json());
        assert!(found.is_empty(), "{found:#?} {place}");
    }
}

fn is_past(id: &str) -> bool {
    let kind = id.trim_end_matches("GeoJson");
    ["trajectory", "passed", "asOf", "replay", "density"].contains(&kind)
}

/// Errors that every call may have: they have tests of their own.
const USUAL: [u16; 5] = [401, 403, 429, 503, 504];

/// All documented responses but `default` and the [`USUAL`] ones.
fn cases(document: &Value) -> Vec<Case<'_>> {
    let mut cases = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for status in operation["responses"].as_object().unwrap().keys() {
                let status = status.parse().ok().filter(|status| !USUAL.contains(status));
                if let Some(status) = status {
                    let (method, path) = (method.to_uppercase(), path.clone());
                    cases.push(Case { operation, method, path, status });
                }
            }
        }
    }
    cases
}

#[tokio::test(flavor = "multi_thread")]
async fn each_documented_response_is_produced_and_fits_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let history = Some(HistoryKeep::default());
    let data = Some(folder.path().to_owned());
    let with_history = ServerOptions { data, history, ..options() };
    let servers = [Running::start().await, Running::start_with(with_history).await];
    let document = servers[0].http1().get("/openapi.json").await;
    assert_eq!(document.header("content-type"), "application/json");
    let document = document.json();
    assert_eq!(document["openapi"], "3.1.0");
    let cases = cases(&document);
    let mut produced = vec![false; cases.len()];
    for (server, has_history) in servers.iter().zip([false, true]) {
        let http = server.http1();
        send(&http, "POST", "/v1/fleets", &json!({ "name": "doomed" })).await;
        let named = json!({ "name": "trucks", "kind": "named" });
        send(&http, "POST", "/v1/fleets", &named).await;
        let row = json!({ "object": "truck-42", "time_ms": START_MS, "x": 0, "y": 0 });
        send(&http, "POST", "/v1/fleets/trucks/objects", &row).await;
        let row = json!({ "object": 1, "time_ms": START_MS, "x": 0, "y": 0, "speed_mps": 1.5 });
        for (case, produced) in cases.iter().zip(&mut produced) {
            send(&http, "POST", "/v1/fleets/default/objects", &row).await;
            if let Some(answer) = case.run(&http, has_history).await {
                case.check(&document, &answer);
                *produced = true;
            }
        }
    }
    for (case, produced) in cases.iter().zip(produced) {
        assert!(produced, "{} never answers {}", case.id(), case.status);
    }
    assert!(cases.len() > 80, "{}", cases.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_documented_body_that_is_changed_at_random_gets_no_other_answer() {
    let server = Running::start().await;
    let http = server.http2();
    let document = server.http1().get("/openapi.json").await.json();
    let mut random = Random::new(0x6f61);
    let posts: Vec<_> = cases(&document)
        .into_iter()
        .filter(|case| case.method == "POST" && case.status == 200)
        .collect();
    for _ in 0..300 {
        let case = &posts[random.below(posts.len() as u64) as usize];
        let (query, Some(body)) = valid(case.id()) else { continue };
        let mut bytes = body.to_string().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, b"09-.eE,[]{}\":"[random.below(13) as usize]),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let path = case.path.replace("{fleet}", "default");
        let request = http.request("POST", &format!("{path}?{query}"));
        let request = request.header("content-type", "application/json");
        let response = http.open(request.body(Body::from(bytes)).unwrap()).await;
        let status = response.status().as_u16();
        let is_known = [200, 400, 409].contains(&status);
        assert!(is_known, "{status}: {} {text}", case.id());
    }
}
