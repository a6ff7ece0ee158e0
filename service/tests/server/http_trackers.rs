//! Phones report in the forms of their programs: bodies and addresses as the programs send them.

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shoal_service::ServerOptions;

use crate::http_api::send;
use crate::http_client::{Answer, Http};
use crate::running::{Running, START_MS, options};
use crate::token_maker::{TokenMaker, entry};

const TRACKS: &str = "/v1/fleets/phones/owntracks";
const OSMAND: &str = "/v1/fleets/phones/osmand";
const SECONDS: i64 = START_MS / 1_000;

async fn phones(server: &Running) -> Http {
    let http = server.http1();
    let fleet = json!({ "name": "phones", "kind": "named" });
    assert_eq!(send(&http, "POST", "/v1/fleets", &fleet).await.status, 201);
    http
}

/// Sends a request with these headers.
async fn sent(
    http: &Http,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Answer {
    let mut request = http.request(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    http.send(request.body(body.into()).unwrap()).await
}

/// The properties and the position of an object, whose name is encoded for a path.
async fn object(http: &Http, name: &str) -> (Value, Value) {
    let object = http.get(&format!("/v1/fleets/phones/objects/{name}")).await.json();
    (object["properties"].clone(), object["geometry"]["coordinates"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn owntracks_reports_a_phone_by_user_and_device() {
    let server = Running::start().await;
    let http = phones(&server).await;
    // As Android sends it.
    let location = |tst: i64| {
        json!({ "_type": "location", "topic": "owntracks/jane/phone", "qos": 1, "_id": "5f3a9c01",
            "created_at": tst + 5, "source": "fused", "t": "u", "batt": 83, "bs": 1, "acc": 12,
            "vac": 3, "lat": 48.856826, "lon": 2.292713, "alt": 85, "vel": 36, "cog": 271,
            "tst": tst, "m": 1, "conn": "m", "inregions": ["Home"], "tid": "JJ" })
    };
    let json_type = ("content-type", "application/json; charset=utf-8");
    let named = [json_type, ("x-limit-u", "jane"), ("x-limit-d", "phone")];
    let answer = sent(&http, "POST", TRACKS, &named, location(SECONDS).to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!([])));
    assert!(answer.headers.contains_key("shoal-token"));
    let (properties, place) = object(&http, "jane%2Fphone").await;
    assert_eq!(place, json!([2.292713, 48.856826]));
    assert_eq!(properties["speed_mps"], 10.0);
    assert_eq!(properties["heading_deg"], 271.0);
    assert_eq!(
        (&properties["altitude_m"], &properties["time_ms"]),
        (&json!(85.0), &json!(START_MS))
    );

    for (path, headers, name) in [
        (format!("{TRACKS}?u=joe&d=tablet"), &named[..1], "joe%2Ftablet"),
        (format!("{TRACKS}?u=joe&d=tablet"), &named[..], "jane%2Fphone"),
        (format!("{TRACKS}?d=watch"), &named[..1], "watch"),
        (TRACKS.to_owned(), &named[..1], "jane%2Fphone"),
    ] {
        let text = location(SECONDS + 1).to_string();
        assert_eq!(sent(&http, "POST", &path, headers, text).await.status, 200);
        assert_eq!(object(&http, name).await.0["time_ms"], START_MS + 1_000, "{path}");
    }
    // Other messages, and none, are taken; a phone would send them for ever.
    for text in [
        "",
        r#"{"_type":"transition","event":"enter","lat":1,"lon":2,"tst":5}"#,
        r#"{"_type":"lwt","tst":5}"#,
        r#"{"_type":"waypoints","waypoints":[]}"#,
    ] {
        let answer = sent(&http, "POST", TRACKS, &named, text).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, json!([])), "{text}");
    }
    // A row that the server refuses is taken, and named.
    let mut ahead = location(SECONDS + 9);
    ahead["lat"] = json!(91);
    let answer = sent(&http, "POST", TRACKS, &named, ahead.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.header("shoal-refused")), (200, "y OUTSIDE_SPACE"));
    ahead["lat"] = json!("north");
    for (text, field) in [
        (ahead.to_string(), "lat"),
        (r#"{"_type":"location","tid":"x","lat":1,"tst":5}"#.to_owned(), "lon"),
        (r#"{"_type":"encrypted","data":"x"}"#.to_owned(), "_type"),
    ] {
        let answer = sent(&http, "POST", TRACKS, &named, text).await;
        assert_eq!(answer.assert_problem(400, "FIELD")["field"], field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn osmand_and_traccar_report_in_address_form_and_json() {
    let server = Running::start().await;
    let http = phones(&server).await;
    let form = ("content-type", "application/x-www-form-urlencoded");
    // Traccar's clients: Android up to 8 (knots, in the address of a POST), 10 (a form), 9 (JSON).
    let android = format!(
        "{OSMAND}?id=48241179&timestamp={SECONDS}&lat=37.5&lon=-122.25&speed=10.0\
        &bearing=90.5&altitude=5.0&accuracy=0.0&batt=97.0&charge=true"
    );
    let empty = sent(&http, "POST", &android, &[], "").await;
    assert_eq!((empty.status.as_u16(), empty.body.len()), (200, 0));
    let (properties, place) = object(&http, "48241179").await;
    assert_eq!(place, json!([-122.25, 37.5]));
    let speed = properties["speed_mps"].as_f64().unwrap();
    assert!((speed - 5.144).abs() < 0.01, "{speed}");
    assert_eq!(
        (&properties["heading_deg"], &properties["altitude_m"]),
        (&json!(90.5), &json!(5.0))
    );
    let body = format!("id=form&lat=1&lon=2&timestamp={SECONDS}&speed=-1&alarm=sos");
    let sent_form = sent(&http, "POST", &format!("{OSMAND}?speed_unit=kmh"), &[form], body).await;
    assert_eq!(sent_form.status, 200);
    let (properties, place) = object(&http, "form").await;
    assert_eq!((place, &properties["speed_mps"]), (json!([2.0, 1.0]), &Value::Null));
    let report = json!({ "location": { "timestamp": "2020-01-02T00:00:02.862Z", "coords": {
        "latitude": 37.25, "longitude": -122, "accuracy": 5, "speed": 3, "heading": -1,
        "altitude": 5 }, "is_moving": false, "event": "motionchange",
        "battery": { "level": 1, "is_charging": false }, "extras": {} }, "device_id": "json" });
    let json_type = ("content-type", "application/json");
    let answer = sent(&http, "POST", OSMAND, &[json_type], report.to_string()).await;
    assert!(answer.status == 200 && !answer.headers.contains_key("shoal-refused"), "{answer:?}");
    let (properties, place) = object(&http, "json").await;
    assert_eq!((place, &properties["speed_mps"]), (json!([-122.0, 37.25]), &json!(3.0)));
    assert_eq!(properties["heading_deg"], Value::Null);
    // OsmAnd: milliseconds, metres per second, a template with a blank.
    let osmand = format!(
        "{OSMAND}?deviceid=osm&lat=1.5&lon=2.5&timestamp={START_MS}&hdop=4.0\
        &altitude=7&speed=3.5&%20bearing=12&speed_unit=mps"
    );
    assert_eq!(http.get(&osmand).await.status, 200);
    let (properties, _) = object(&http, "osm").await;
    assert_eq!((&properties["speed_mps"], &properties["heading_deg"]), (&json!(3.5), &json!(12.0)));
    assert_eq!(properties["time_ms"], START_MS);

    for (query, status, field) in [
        ("id=a&location=1.5,2.5", 200, ""),
        ("id=a&valid=false&lat=1&lon=2", 200, ""),
        ("id=a&batt=5", 200, ""),
        ("id=a&lat=91&lon=2", 200, ""),
        ("id=a&lat=1&lon=2&speed=NaN&bearing=&altitude=high", 200, ""),
        ("lat=1&lon=2", 400, "id"),
        ("id=a&lat=1", 400, "lon"),
        ("id=a&lat=x&lon=2", 400, "lat"),
        ("id=a&lat=1&lon=2&timestamp=soon", 400, "timestamp"),
        ("id=a&lat=1&lon=2&timestamp=-9223372036854775808", 200, ""),
        ("id=a&lat=1&lon=2&speed_unit=mph", 400, "speed_unit"),
        ("id=%FF&lat=1&lon=2", 400, "id"),
        ("id=a&location=1", 400, "location"),
    ] {
        let answer = http.get(&format!("{OSMAND}?{query}")).await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        if status == 400 {
            assert_eq!(answer.assert_problem(400, "FIELD")["field"], field, "{query}");
        }
    }
    // A picture on a page of another site is no report.
    let place = format!("{OSMAND}?id=evil&lat=1&lon=2");
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200)] {
        let answer = sent(&http, "GET", &place, &[("sec-fetch-site", site)], "").await;
        assert_eq!(answer.status, status, "{site}");
    }
    assert_eq!(http.call("HEAD", &place).await.status, 405);
    let numeric = http.get("/v1/fleets/default/osmand?id=phone&lat=1&lon=2").await;
    let problem = numeric.assert_problem(400, "FIELD");
    assert!(problem["detail"].as_str().unwrap().contains("named"), "{problem}");
    assert_eq!(http.get("/v1/fleets/default/osmand?id=12&lat=1&lon=2").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tracker_sends_its_token_as_password_or_parameter() {
    let tokens = TokenMaker::new(&entry("secret", &["default"], &["report"], ""));
    let server = Running::start_with(ServerOptions { access: tokens.options(), ..options() }).await;
    let http = server.http1();
    let body = r#"{"_type":"location","tid":"5","lat":1,"lon":2,"tst":5}"#;
    let path = "/v1/fleets/default/owntracks";
    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("jane:{password}")));
    for (authorization, path, status) in [
        (Some(basic("secret")), path.to_owned(), 200),
        (Some(basic("wrong")), path.to_owned(), 401),
        (Some("Bearer secret".to_owned()), path.to_owned(), 200),
        (None, path.to_owned(), 401),
        (None, format!("{path}?token=secret"), 200),
        (None, format!("{path}?token=wrong"), 401),
    ] {
        let authorization = authorization.unwrap_or_default();
        let headers: &[_] =
            if authorization.is_empty() { &[] } else { &[("authorization", &*authorization)] };
        let answer = sent(&http, "POST", &path, headers, body).await;
        assert_eq!(answer.status, status, "{authorization} {path}");
    }
    let osmand = "/v1/fleets/default/osmand?id=5&lat=1&lon=2&token=secret";
    assert_eq!(http.get(osmand).await.status, 200);
    let range = http.get("/v1/fleets/default/range?circle=0,0,1&token=secret").await;
    range.assert_problem(401, "UNAUTHENTICATED");
}
