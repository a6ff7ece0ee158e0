//! Events over HTTP: a stream that is resumed again and again loses and repeats nothing.

use std::collections::BTreeMap;

use axum::body::{Body, BodyDataStream};
use http::HeaderMap;
use serde_json::{Value, json};
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_testkit::Random;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tonic::Streaming;

use crate::http_api::send;
use crate::http_client::Http;
use crate::running::{Running, START_MS, rectangle, within};
use crate::subscriber::{subscribe, subscription};

pub(crate) const EVENTS: &str = "/v1/fleets/default/events";
pub(crate) const OBJECTS: &str = "/v1/fleets/default/objects";

/// One event of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

/// A stream of events.
pub(crate) trait Events {
    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Event>;
}

/// A client as browsers have it.
struct Stream {
    body: BodyDataStream,
    headers: HeaderMap,
    text: String,
}

impl Stream {
    async fn open(http: &Http, path: &str, last: Option<&str>) -> Self {
        let mut request = http.request("GET", path).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Self::of(http, request.body(Body::empty()).unwrap()).await
    }

    async fn of(http: &Http, request: http::Request<Body>) -> Self {
        let (parts, body) = http.open(request).await.into_parts();
        assert_eq!(parts.status, 200);
        Self { body: body.into_data_stream(), headers: parts.headers, text: String::new() }
    }
}

impl Events for Stream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = parse(block);
                self.text = rest.to_owned();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let bytes = within(self.body.next()).await?.unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

/// An event, unless the block has only comments or settings.
fn parse(block: &str) -> Option<Event> {
    let mut event = Event::default();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap();
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => event.name = value.to_owned(),
            "id" => event.id = Some(value.to_owned()),
            "data" => event.data = serde_json::from_str(value).unwrap(),
            "retry" | "" => {}
            other => panic!("field {other}"),
        }
    }
    (!event.name.is_empty()).then_some(event)
}

/// Epoch, kind, object and position of an event.
type Happened = (u64, String, u64, Value);

/// What a client holds that applies events to its snapshot.
#[derive(Default)]
struct Held {
    members: BTreeMap<u64, Value>,
    /// All events.
    log: Vec<Happened>,
    last_sequence: u64,
    epoch: u64,
}

fn position(row: &Value) -> (u64, Value) {
    (row["object"].as_str().unwrap().parse().unwrap(), json!([row["x"], row["y"]]))
}

impl Held {
    fn apply(&mut self, event: &Event) {
        let data = &event.data;
        match event.name.as_str() {
            "opened" => {}
            "progress" => self.epoch = data["epoch"].as_u64().unwrap(),
            "snapshot" => {
                self.number(data);
                for region in data["regions"].as_array().unwrap() {
                    if region["first"] == true {
                        self.members.clear();
                    }
                    self.members.extend(region["members"].as_array().unwrap().iter().map(position));
                }
            }
            "events" => {
                self.number(data);
                assert!(data.get("coalesced_from_epoch").is_none(), "{data}");
                for row in data["regions"][0]["events"].as_array().unwrap() {
                    let (object, place) = position(row);
                    let (epoch, kind) = (data["epoch"].as_u64().unwrap(), &row["event"]);
                    let kind = kind.as_str().unwrap();
                    self.log.push((epoch, kind.to_owned(), object, place.clone()));
                    match kind {
                        "enter" => assert!(self.members.insert(object, place).is_none()),
                        "move" => assert!(self.members.insert(object, place).is_some()),
                        _ => assert!(self.members.remove(&object).is_some()),
                    }
                }
            }
            other => panic!("{other}: {data}"),
        }
    }

    fn number(&mut self, data: &Value) {
        assert_eq!(data["first_sequence"].as_u64().unwrap(), self.last_sequence + 1, "{data}");
        self.last_sequence = data["last_sequence"].as_u64().unwrap();
    }
}

/// Moves objects until it is stopped; returns the last epoch.
async fn travel(http: Http, stop: watch::Receiver<bool>) -> u64 {
    let (mut random, mut epoch, mut time_ms) = (Random::new(11), 0, START_MS);
    while !*stop.borrow() {
        time_ms += 1;
        let rows: Vec<_> = (0..5)
            .map(|_| {
                let (x, y) = (random.real(-2.0, 2.0), random.real(-2.0, 2.0));
                json!({ "object": random.below(50), "time_ms": time_ms, "x": x, "y": y })
            })
            .collect();
        epoch = send(&http, "POST", OBJECTS, &json!(rows)).await.json()["epoch"].as_u64().unwrap();
    }
    epoch
}

/// Reads the events of the same region over gRPC, without a break, up to an epoch.
async fn follow(
    mut messages: Streaming<v1::SubscribeResponse>,
    mut until: watch::Receiver<u64>,
) -> Vec<Happened> {
    let mut log = Vec::new();
    loop {
        let message = within(messages.message()).await.unwrap().unwrap();
        let epoch = match message.kind.unwrap() {
            Kind::Events(batch) => {
                let region = &batch.regions[0];
                let rows = region.kinds().zip(&region.objects).zip(&region.fixes);
                log.extend(rows.map(|((kind, object), fix)| {
                    let kind = kind.as_str_name().trim_start_matches("EVENT_KIND_").to_lowercase();
                    (batch.epoch, kind, *object, json!([fix.x, fix.y]))
                }));
                batch.epoch * u64::from(message.epoch_done)
            }
            Kind::Progress(progress) => progress.epoch,
            _ => 0,
        };
        if epoch >= *until.borrow_and_update() {
            return log;
        }
    }
}

/// Resumes a stream a thousand times while objects move; nothing is lost or repeated beside a
/// subscription over gRPC. `open` begins a stream after the event with an id.
pub(crate) async fn resume_often<E: Events>(
    server: &Running,
    open: impl AsyncFn(usize, Option<&str>) -> E,
) {
    let region = v1::RegionSubscription {
        projection: v1::Projection::Fixes.into(),
        ..subscription(1, rectangle(-1.0, -1.0, 1.0, 1.0))
    };
    let mut beside = server.subscriptions().await;
    let beside = within(beside.subscribe(subscribe(vec![region]))).await.unwrap().into_inner();
    let (mut held, mut stream) = (Held::default(), open(0, None).await);
    let mut last = stream.next().await.unwrap().id;
    let (end, until) = watch::channel(u64::MAX);
    let beside = tokio::spawn(follow(beside, until));
    let (stop, stopped) = watch::channel(false);
    let traveller = tokio::spawn(travel(server.http1(), stopped));
    let mut random = Random::new(12);
    for turn in 1..=1_000 {
        stream = open(turn, last.as_deref()).await;
        let opened = stream.next().await.unwrap();
        assert_eq!((opened.name.as_str(), &opened.data["resumed"]), ("opened", &json!(true)));
        for _ in 0..random.below(4) {
            let event = stream.next().await.unwrap();
            held.apply(&event);
            last = event.id;
        }
    }
    stop.send_replace(true);
    let epoch = within(traveller).await.unwrap();
    end.send_replace(epoch);
    stream = open(0, last.as_deref()).await;
    while held.epoch < epoch {
        held.apply(&stream.next().await.unwrap());
    }
    assert!(held.last_sequence > 1_000);
    held.log.retain(|(of_epoch, ..)| *of_epoch <= epoch);
    assert_eq!(held.log, within(beside).await.unwrap());
    let path = "/v1/fleets/default/range?rectangle=-1,-1,1,1&format=ndjson";
    let text = server.http1().get(path).await.body;
    let lines = std::str::from_utf8(&text).unwrap().lines();
    let expected = lines.map(|line| position(&serde_json::from_str(line).unwrap()));
    assert_eq!(held.members, expected.collect::<BTreeMap<_, _>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_resumed_a_thousand_times_loses_and_repeats_nothing() {
    let server = Running::start().await;
    let clients = [server.http1(), server.http2()];
    let path = format!("{EVENTS}?rectangle=-1,-1,1,1");
    let open =
        async |turn: usize, last: Option<&str>| Stream::open(&clients[turn % 2], &path, last).await;
    resume_often(&server, open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_regions_are_followed_by_a_document() {
    let server = Running::start().await;
    let http = server.http2();
    let square = json!({ "type": "Polygon", "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 9]]] });
    let document = json!({ "retention_ms": 0, "regions": [
        { "region_id": "18446744073709551615", "geometry": square, "projection": "ids" },
        { "region_id": 2, "circle": [20, 0, 1000], "events": ["enter"], "snapshot": false,
          "filter": { "speed_mps": [3, null] } },
    ] });
    let request = http.request("POST", EVENTS).header("content-type", "application/json");
    let request = request.body(Body::from(document.to_string())).unwrap();
    let mut stream = Stream::of(&http, request).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(stream.headers["cache-control"], "no-store");
    let opened = stream.next().await.unwrap();
    assert_eq!(opened.data["retention_ms"], 0);
    let snapshot = stream.next().await.unwrap();
    assert_eq!(snapshot.data["regions"][0]["region_id"], "18446744073709551615");
    let row = |object: u64, x: f64, speed: f64| {
        let time_ms = START_MS;
        json!({ "object": object, "time_ms": time_ms, "x": x, "y": 0, "speed_mps": speed })
    };
    let rows = json!([row(1, 5.0, 0.0), row(2, 20.0, 2.0), row(3, 20.0, 4.0)]);
    send(&http, "POST", OBJECTS, &rows).await;
    let mut entered = Vec::new();
    while entered.len() < 2 {
        let event = stream.next().await.unwrap();
        if event.name == "events" {
            for region in event.data["regions"].as_array().unwrap() {
                for row in region["events"].as_array().unwrap() {
                    assert_eq!(row["event"], "enter");
                    let object = row["object"].as_str().unwrap().to_owned();
                    entered.push((region["region_id"].clone(), object, row["x"].clone()));
                }
            }
        }
    }
    entered.sort_by_key(|(_, object, _)| object.clone());
    let expected = [
        (json!("18446744073709551615"), "1".to_owned(), Value::Null),
        (json!("2"), "3".to_owned(), json!(20.0)),
    ];
    assert_eq!(entered, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_reason() {
    let mut server = Running::start().await;
    let http = server.http1();
    send(&http, "POST", "/v1/fleets", &json!({ "name": "short" })).await;
    let path = "/v1/fleets/short/events?circle=0,0,5";
    let mut stream = Stream::open(&http, path, None).await;
    assert_eq!(stream.next().await.unwrap().name, "opened");
    assert_eq!(http.call("DELETE", "/v1/fleets/short").await.status, 204);
    let mut last = Event::default();
    while let Some(event) = stream.next().await {
        last = event;
    }
    assert_eq!((last.name.as_str(), &last.data["reason"]), ("error", &json!("FLEET_DELETED")));
    let mut stream = Stream::open(&http, &format!("{EVENTS}?circle=0,0,5"), None).await;
    assert_eq!(stream.next().await.unwrap().name, "opened");
    server.begin_stop();
    while let Some(event) = stream.next().await {
        last = event;
    }
    assert_eq!((last.name.as_str(), &last.data["reason"]), ("error", &json!("SHUTTING_DOWN")));
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_resume_nothing_are_refused_or_explained() {
    let server = Running::start().await;
    let http = server.http1();
    for (last, status, reason) in
        [("nonsense!", 400, "FIELD"), ("AAAA", 400, "TOKEN"), ("\u{e9}", 400, "FIELD")]
    {
        let request = http.request("GET", &format!("{EVENTS}?circle=0,0,5"));
        let last = http::HeaderValue::from_bytes(last.as_bytes()).unwrap();
        let request = request.header("last-event-id", last).body(Body::empty()).unwrap();
        http.send(request).await.assert_problem(status, reason);
    }
    let path = format!("{EVENTS}?circle=0,0,5&retention_ms=0");
    let mut stream = Stream::open(&http, &path, None).await;
    let opened = stream.next().await.unwrap();
    drop(stream);
    // The session ends with its stream; regions open a new one, which says what is missing.
    crate::running::until(async || {
        let mut stream = Stream::open(&http, &path, opened.id.as_deref()).await;
        assert_eq!(stream.next().await.unwrap().name, "opened");
        let second = stream.next().await.unwrap();
        second.name == "gap" && second.data["reason"] == "session"
    })
    .await;
}
