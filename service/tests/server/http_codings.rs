//! Compressed bodies, and reports in CSV.

use std::io::{Read as _, Write as _};

use axum::body::Body;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::http_api::{send, send_text};
use crate::http_client::{Answer, Http};
use crate::running::{Running, START_MS, until, within};

const OBJECTS: &str = "/v1/fleets/default/objects";
const CSV: &str = "text/csv";

/// Rows of CSV with a header.
fn csv(rows: u64) -> String {
    let row = |object| format!("{object},{},1.5,2,36\n", START_MS + object as i64);
    "id,t_ms,lon,lat,speed_kmh\n".to_owned() + &(0..rows).map(row).collect::<String>()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

async fn coded(http: &Http, media_type: &str, coding: &str, body: Vec<u8>) -> Answer {
    let request = http.request("POST", OBJECTS).header("content-type", media_type);
    http.send(request.header("content-encoding", coding).body(Body::from(body)).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_is_read_as_from_a_file() {
    let server = Running::start().await;
    let http = server.http1();
    let answer = send_text(&http, "POST", OBJECTS, CSV, csv(20_000)).await;
    assert_eq!(answer.json()["rows"]["applied"], 20_000, "{answer:?}");
    let object = http.get(&format!("{OBJECTS}/19999")).await.json();
    assert_eq!(object["geometry"]["coordinates"], json!([1.5, 2.0]));
    assert_eq!(object["properties"]["speed_mps"], 10.0);
    send(&http, "POST", "/v1/fleets", &json!({ "name": "trucks", "kind": "named" })).await;
    let text = format!("time,vehicle_id,y,x\n{START_MS},\"truck, 42\",3,4");
    let named = send_text(&http, "POST", "/v1/fleets/trucks/objects", CSV, text).await;
    assert_eq!(named.json()["rows"]["applied"], 1, "{named:?}");
    let object = http.get("/v1/fleets/trucks/objects/truck,%2042").await.json();
    assert_eq!(object["id"], "truck, 42");

    let european = "id,time,lon,lat\n30000,31/01/2026 13:00,7,8\n";
    let path = format!("{OBJECTS}?time_format=%25d/%25m/%25Y%20%25H:%25M");
    let formed = send_text(&http, "POST", &path, CSV, european).await;
    assert_eq!(formed.json()["rows"]["applied"], 1, "{formed:?}");
    let problem = send_text(&http, "POST", OBJECTS, CSV, european).await;
    let detail = problem.assert_problem(400, "FIELD")["detail"].to_string();
    assert!(detail.contains("time_format"), "{detail}");
    for form in ["", "%25!"] {
        let path = format!("{OBJECTS}?time_format={form}");
        let problem = send_text(&http, "POST", &path, CSV, european).await;
        assert_eq!(problem.assert_problem(400, "FIELD")["field"], "time_format", "{form}");
    }
    // Without the unit it would be found from the number.
    let millis = format!("{OBJECTS}?time_unit=ms");
    let seconds = format!("id,time,lon,lat\n30000,{},7,8\n", START_MS / 1000);
    let sent = send_text(&http, "POST", &millis, CSV, seconds).await.json();
    assert_eq!(sent["refused_rows"][0]["reason"], "TIME_TOO_EARLY", "{sent}");
    let problem = send_text(&http, "POST", &millis, "application/json", "[]").await;
    assert_eq!(problem.assert_problem(400, "FIELD")["field"], "time_unit");

    let wrong = csv(9_000) + "9000,soon,1,2,3\n" + &csv(1);
    let problem = send_text(&http, "POST", OBJECTS, CSV, wrong).await.assert_problem(400, "FIELD");
    assert_eq!((&problem["line"], &problem["field"]), (&json!(9002), &json!("t_ms")));
    assert_eq!(problem["report"]["rows"]["duplicate"], 9_000, "{problem}");
    for text in ["", "id,lon\n1,2\n"] {
        let problem = send_text(&http, "POST", OBJECTS, CSV, text).await;
        let problem = problem.assert_problem(400, "FIELD");
        assert_eq!((&problem["line"], &problem["field"]), (&json!(1), &json!("header")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_csv_are_applied_while_the_sender_pauses() {
    let server = Running::start().await;
    let http = server.http1();
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    let reporting = tokio::spawn({
        let http = http.clone();
        async move { send_text(&http, "POST", OBJECTS, CSV, body).await }
    });
    let path = "/v1/fleets/default/count?rectangle=0,0,9,9";
    sender.send(Ok::<_, std::io::Error>(csv(1) + "1,17")).await.unwrap();
    until(async || http.get(path).await.json()["count"] == 1).await;
    sender.send(Ok(format!("{},1.5,2,3\n2,", 0))).await.unwrap();
    drop(sender);
    let problem = within(reporting).await.unwrap().assert_problem(400, "FIELD");
    assert_eq!((&problem["line"], &problem["field"]), (&json!(4), &json!("line")));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_may_be_compressed() {
    let server = Running::start().await;
    let (http, text) = (server.http1(), csv(5_000));
    let answer = coded(&http, CSV, "gzip", gzip(text.as_bytes())).await;
    assert_eq!(answer.json()["rows"]["applied"], 5_000, "{answer:?}");
    let row = json!({ "object": 7, "time_ms": START_MS + 9_000, "x": 0, "y": 0 }).to_string();
    let answer = coded(&http, "application/json", "GZIP", gzip(row.as_bytes())).await;
    assert_eq!(answer.json()["rows"]["applied"], 1);
    // The limit of a document is that of its plain text.
    let bomb = gzip(&vec![b' '; 9 << 20]);
    coded(&http, "application/json", "gzip", bomb).await.assert_problem(413, "MESSAGE_TOO_LARGE");
    coded(&http, CSV, "gzip", vec![0x1f, 0x8b, 9]).await.assert_problem(400, "MALFORMED");
    coded(&http, CSV, "gzip", text.clone().into()).await.assert_problem(400, "MALFORMED");
    for coding in ["br", "zstd", "gzip, gzip"] {
        let refused = coded(&http, CSV, coding, text.clone().into()).await;
        refused.assert_problem(415, "CONTENT_ENCODING");
    }

    let range = "/v1/fleets/default/range?rectangle=0,0,9,9";
    let plain = http.get(range).await;
    assert!(!plain.headers.contains_key("content-encoding"));
    let request = http.request("GET", range).header("accept-encoding", "br, gzip;q=0.5");
    let answer = http.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    let vary = answer.headers.get_all("vary").iter().any(|vary| vary == "accept-encoding");
    assert!(vary && answer.body.len() * 4 < plain.body.len(), "{:?}", answer.headers);
    let mut decoded = Vec::new();
    GzDecoder::new(&answer.body[..]).read_to_end(&mut decoded).unwrap();
    let features = |text: &[u8]| {
        let answer: serde_json::Value = serde_json::from_slice(text).unwrap();
        answer["features"].as_array().unwrap().len()
    };
    assert_eq!(features(&decoded), features(&plain.body));
    let request = http.request("GET", "/v1/fleets/default/events?circle=0,0,1");
    let request = request.header("accept-encoding", "gzip").body(Body::empty()).unwrap();
    assert!(!http.open(request).await.headers().contains_key("content-encoding"));
}
