//! Bodies of reports over HTTP: forms, lengths, cuts, and numbers beyond their range.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use serde_json::{Value, json};
use shoal_testkit::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::http_api::{send, send_text};
use crate::running::{Running, START_MS, until, within};

const OBJECTS: &str = "/v1/fleets/default/objects";
const NDJSON: &str = "application/x-ndjson";

fn line(object: u64) -> String {
    let time_ms = START_MS + object as i64;
    format!("{{\"object\":\"{object}\",\"time_ms\":{time_ms},\"x\":1.5,\"y\":2}}\n")
}

/// 10,000 lines, of which every 3,000th has `wrong` in place of its `y`.
fn lines_with_wrong(wrong: &str) -> String {
    let wrong = |object: u64| line(object).replace("\"y\":2", wrong);
    (0..10_000).map(|it| if it % 3_000 == 2_999 { wrong(it) } else { line(it) }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_query_answers_can_be_reported_again() {
    let server = Running::start().await;
    let http = server.http1();
    let row = json!({ "object": 1, "time_ms": START_MS, "x": -97.7, "y": 30.25, "speed_mps": 4.5,
        "heading_deg": 90, "altitude_m": -3.25, "state": 7 });
    assert_eq!(send(&http, "POST", OBJECTS, &row).await.json()["rows"]["applied"], 1);
    let range = "/v1/fleets/default/nearest?x=-97.7&y=30.25&k=9";
    let features = http.get(range).await.body;
    let feature = http.get(&format!("{OBJECTS}/1")).await.body;
    let lines = http.get(&format!("{range}&format=ndjson")).await.body;
    for (media_type, body) in [
        ("application/geo+json", features.clone()),
        ("application/json", features),
        ("application/geo+json", feature.clone()),
        (NDJSON, feature),
        (NDJSON, lines),
    ] {
        let again = send_text(&http, "POST", OBJECTS, media_type, body.clone()).await;
        assert_eq!(again.status, 200, "{again:?} {body:?}");
        assert_eq!(again.json()["rows"]["duplicate"], 1, "{media_type}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_arrive_whole_in_pieces_of_any_size() {
    let server = Running::start().await;
    let (http, mut random) = (server.http2(), Random::new(7));
    let text: String = (0..20_000).map(line).collect();
    let text = text.replace("}\n", "}\r\n").replacen("}\r\n", "}\n\n \n", 5);
    let (sender, receiver) = mpsc::channel(4);
    let sending = tokio::spawn(async move {
        let mut rest = Bytes::from(text);
        while !rest.is_empty() {
            let part = rest.len().min(1 + random.below(100_000) as usize);
            if sender.send(Ok::<_, std::io::Error>(rest.split_to(part))).await.is_err() {
                return;
            }
        }
    });
    let body = Body::from_stream(ReceiverStream::new(receiver));
    let answer = send_text(&http, "POST", OBJECTS, NDJSON, body).await;
    sending.await.unwrap();
    assert_eq!(answer.json()["rows"]["applied"], 20_000, "{answer:?}");
    let path = "/v1/fleets/default/range?rectangle=0,0,9,9&projection=count&min_token=";
    let count = http.get(&format!("{path}{}", answer.header("shoal-token"))).await;
    assert_eq!(count.header("shoal-total"), "20000");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_applied_while_the_body_continues() {
    let server = Running::start().await;
    let http = server.http1();
    let (sender, receiver) = mpsc::channel(4);
    let body = Body::from_stream(ReceiverStream::new(receiver));
    let reporting = tokio::spawn({
        let http = http.clone();
        async move { send_text(&http, "POST", OBJECTS, NDJSON, body).await }
    });
    let path = "/v1/fleets/default/range?rectangle=0,0,9,9&projection=count";
    for number in 0..3 {
        let part = line(number) + "{\"object\":";
        sender.send(Ok::<_, std::io::Error>(Bytes::from(part))).await.unwrap();
        let expected = (number + 1).to_string();
        until(async || http.get(path).await.header("shoal-total") == expected).await;
        let rest = line(number)["{\"object\":".len()..].to_owned();
        sender.send(Ok(Bytes::from(rest))).await.unwrap();
    }
    drop(sender);
    let outcome = within(reporting).await.unwrap().json();
    assert_eq!(
        outcome["rows"],
        json!({ "applied": 3, "duplicate": 3, "expired": 0, "superseded": 0, "late": 0,
        "refused": 0 })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_applied_while_others_follow_without_a_pause() {
    let server = Running::start().await;
    let http = server.http1();
    let (sender, receiver) = mpsc::channel(1);
    let body = Body::from_stream(ReceiverStream::new(receiver));
    let reporting = tokio::spawn({
        let http = http.clone();
        async move { send_text(&http, "POST", OBJECTS, NDJSON, body).await }
    });
    // Fewer lines than make a message, and never a pause in which it would be sent.
    let (enough, mut is_enough) = watch::channel(false);
    let sending = tokio::spawn(async move {
        for number in 0..4_000 {
            let part = Bytes::from(line(number));
            sender.send(Ok::<_, std::io::Error>(part)).await.unwrap();
            let pause = Duration::from_millis(5);
            if tokio::time::timeout(pause, is_enough.wait_for(|it| *it)).await.is_ok() {
                return number + 1;
            }
        }
        panic!("no line was applied before the last");
    });
    let path = "/v1/fleets/default/range?rectangle=0,0,9,9&projection=count";
    until(async || http.get(path).await.header("shoal-total") != "0").await;
    enough.send_replace(true);
    let sent = within(sending).await.unwrap();
    let outcome = within(reporting).await.unwrap().json();
    assert_eq!(outcome["rows"]["applied"], sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_line_is_named_and_what_came_before_is_told() {
    let server = Running::start().await;
    let http = server.http1();
    for (wrong, reason, field) in [
        ("{\"object\":1}", "FIELD", Some("x")),
        ("{\"object\":1,\"time_ms\":1e999,\"x\":1,\"y\":1}", "MALFORMED", None),
        ("nonsense", "MALFORMED", None),
        ("\u{feff}[]", "MALFORMED", None),
    ] {
        let text = format!("{}{}{wrong}\n{}", line(1), line(2), line(3));
        let answer = send_text(&http, "POST", OBJECTS, NDJSON, text).await;
        let problem = answer.assert_problem(400, reason);
        assert!(problem["detail"].as_str().unwrap().starts_with("line 3: "), "{problem}");
        assert_eq!(problem["line"], 3);
        if let Some(field) = field {
            assert_eq!(problem["field"], field);
        }
        let rows = &problem["report"]["rows"];
        let sum = rows["applied"].as_u64().unwrap() + rows["duplicate"].as_u64().unwrap();
        assert_eq!(sum, 2, "{problem}");
    }
    let long = format!("{}{}", line(1), "x".repeat(70_000));
    let answer = send_text(&http, "POST", OBJECTS, NDJSON, long).await;
    let problem = answer.assert_problem(400, "FIELD");
    assert_eq!((&problem["line"], &problem["field"]), (&json!(2), &json!("line")));
    assert_eq!(problem["report"]["rows"]["duplicate"], 1);
    let numbered = format!("{OBJECTS}?producer=a&batch_seq=1");
    send_text(&http, "POST", &numbered, NDJSON, line(1)).await.assert_problem(400, "FIELD");
    let unknown = send_text(&http, "POST", "/v1/fleets/no/objects", NDJSON, line(1)).await;
    unknown.assert_problem(404, "FLEET_UNKNOWN");
    let empty = send_text(&http, "POST", OBJECTS, NDJSON, "").await;
    let (empty, header) = (empty.json(), empty.headers.get("shoal-token").cloned());
    assert_eq!((&empty["rows"]["applied"], header), (&json!(0), None));
    assert!(["term", "epoch", "token", "durability"].iter().all(|it| empty.get(it).is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_rows_are_counted_over_the_whole_body() {
    let server = Running::start().await;
    let http = server.http1();
    let text = lines_with_wrong("\"y\":91");
    let outcome = send_text(&http, "POST", OBJECTS, NDJSON, text).await.json();
    let refused: Vec<_> =
        outcome["refused_rows"].as_array().unwrap().iter().map(|row| row["row"].clone()).collect();
    assert_eq!(refused, [json!(2_999), json!(5_999), json!(8_999)]);
    assert_eq!(outcome["rows"]["refused"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_measures_are_counted_over_the_whole_body() {
    let server = Running::start().await;
    let http = server.http1();
    let text = lines_with_wrong("\"y\":2,\"heading_deg\":-1");
    let path = format!("{OBJECTS}?drop_invalid_measures=true");
    let outcome = send_text(&http, "POST", &path, NDJSON, text).await.json();
    assert_eq!(
        (&outcome["rows"]["applied"], &outcome["rows"]["refused"]),
        (&json!(10_000), &json!(0))
    );
    assert_eq!(
        outcome["dropped"],
        json!({ "speed": 0, "heading": 3, "altitude": 0, "validity": 0 })
    );
    let listed = [2_999, 5_999, 8_999].map(|row| json!({ "row": row, "field": "heading_deg" }));
    assert_eq!(outcome["dropped_measures"], json!(listed));

    let row = json!({ "object": "70000", "time_ms": START_MS, "x": 1, "y": 2, "speed_mps": -4 });
    for (path, applied) in [(path.as_str(), 1), (OBJECTS, 0)] {
        let outcome = send(&http, "POST", path, &row).await.json();
        assert_eq!(outcome["rows"]["applied"], applied, "{outcome}");
        assert_eq!(outcome["dropped"]["speed"], applied, "{outcome}");
        assert_eq!(outcome["rows"]["refused"], 1 - applied, "{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_beyond_their_range_are_refused_and_named() {
    let server = Running::start().await;
    let http = server.http1();
    let row = |member: &str, value: &str| {
        let mut row = json!({ "object": 1, "time_ms": START_MS, "x": 1, "y": 2 });
        row[member] = Value::Null;
        let text = row.to_string();
        text.replace(&format!("\"{member}\":null"), &format!("\"{member}\":{value}"))
    };
    for (member, value, field) in [
        ("object", "18446744073709551616", "object"),
        ("object", "\"abc\"", "object"),
        ("object", "\"\u{1f69a}\"", "object"),
        ("object", "null", "object"),
        ("time_ms", "9223372036854775808", "time_ms"),
        ("time_ms", "1.5", "time_ms"),
        ("state", "4294967296", "state"),
        ("state", "-1", "state"),
        ("x", "\"1\"", "x"),
        ("x", "null", "x"),
    ] {
        let answer =
            send_text(&http, "POST", OBJECTS, "application/json", row(member, value)).await;
        let problem = answer.assert_problem(400, "FIELD");
        assert_eq!(problem["field"], field, "{member} {value}");
    }
    for value in ["NaN", "Infinity", "1e999", "0x10", "01", "+1", ""] {
        let answer = send_text(&http, "POST", OBJECTS, "application/json", row("x", value)).await;
        answer.assert_problem(400, "MALFORMED");
    }
    // In the range of JSON, but not of a fix: the row is refused, and the request is well.
    for (member, value, reason) in [
        ("x", "1e300", "OUTSIDE_SPACE"),
        ("speed_mps", "1e300", "SPEED"),
        ("speed_mps", "-1", "SPEED"),
        ("heading_deg", "360.5", "HEADING"),
        ("altitude_m", "-1e308", "ALTITUDE"),
        ("time_ms", "-9223372036854775808", "TIME_TOO_EARLY"),
        ("object", "18446744073709551615", "OBJECT"),
    ] {
        let answer =
            send_text(&http, "POST", OBJECTS, "application/json", row(member, value)).await;
        assert_eq!(answer.json()["refused_rows"][0]["reason"], reason, "{member} {value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbered_reports_are_applied_once() {
    let server = Running::start().await;
    let http = server.http1();
    let path = |number: u64| format!("{OBJECTS}?producer=bus-7&batch_seq={number}");
    let row = json!({ "object": 1, "time_ms": START_MS, "x": 1, "y": 2 });
    for duplicate in [false, true] {
        let outcome = send(&http, "POST", &path(1), &row).await.json();
        assert_eq!(outcome["duplicate"], duplicate);
    }
    let skipped = send(&http, "POST", &path(3), &row).await.assert_problem(409, "OUT_OF_ORDER");
    assert_eq!(skipped["metadata"]["expected"], "2");
    let alone = format!("{OBJECTS}?producer=bus-7");
    send(&http, "POST", &alone, &row).await.assert_problem(400, "FIELD");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_its_limit_is_refused_before_it_is_read() {
    let server = Running::start().await;
    let mut stream = TcpStream::connect(server.http_address).await.unwrap();
    let head = format!(
        "POST {OBJECTS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: 9000000\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // Without a length it is read up to the limit.
    let http = server.http2();
    let parts = (0..9).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20])));
    let body = Body::from_stream(tokio_stream::iter(parts));
    let answer = send_text(&http, "POST", OBJECTS, "application/json", body).await;
    answer.assert_problem(413, "MESSAGE_TOO_LARGE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_cut_changes_nothing_and_frees_its_place() {
    let server = Running::start().await;
    let body = format!("[{}", line(1).trim());
    for media_type in ["application/json", NDJSON] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(server.http_address).await.unwrap();
            let head = format!(
                "POST {OBJECTS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n\
                 Content-Length: 8000000\r\n\r\n{body}"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
        }
    }
    let http = server.http1();
    until(async || server.metric("shoal_http_connections").await == 0.0).await;
    let row = json!({ "object": 9, "time_ms": START_MS, "x": 1, "y": 2 });
    assert_eq!(send(&http, "POST", OBJECTS, &row).await.json()["rows"]["applied"], 1);
    let all = http.get("/v1/fleets/default/range?rectangle=0,0,9,9").await;
    assert_eq!(all.header("shoal-total"), "1");
}
