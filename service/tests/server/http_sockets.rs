//! Events over a WebSocket: resumed, changed, refused, and ended by both sides.

use futures_util::SinkExt as _;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use shoal_service::ServerOptions;
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::http_api::send;
use crate::http_events::{EVENTS, Event, Events, OBJECTS, resume_often};
use crate::running::{Running, START_MS, options, within};
use crate::token_maker::{TokenMaker, entry};

/// A client as pages have it.
struct Socket {
    stream: WebSocketStream<TcpStream>,
    protocol: Option<HeaderValue>,
    /// Code of the close frame of the server.
    closed: Option<CloseCode>,
    /// The member `request_id` of the last message.
    request_id: Option<String>,
}

impl Socket {
    /// Connects; `Err` with the response of a refusal.
    async fn connect(
        server: &Running,
        path: &str,
        protocols: &str,
    ) -> Result<Self, http::Response<Option<Vec<u8>>>> {
        let address = server.http_address;
        let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
        if !protocols.is_empty() {
            let protocols = HeaderValue::try_from(protocols).unwrap();
            request.headers_mut().insert("sec-websocket-protocol", protocols);
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match within(client_async(request, stream)).await {
            Ok((stream, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol").cloned();
                Ok(Self { stream, protocol, closed: None, request_id: None })
            }
            Err(tungstenite::Error::Http(response)) => Err(*response),
            Err(other) => panic!("{other}"),
        }
    }

    async fn open(server: &Running, path: &str) -> Self {
        Self::connect(server, path, "").await.unwrap_or_else(|refused| panic!("{refused:?}"))
    }

    async fn send(&mut self, text: &Value) {
        let message = Message::text(text.to_string());
        within(self.stream.send(message)).await.unwrap();
    }

    /// The next event with a name.
    async fn named(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await.unwrap();
            if event.name == name {
                return event;
            }
        }
    }
}

impl Events for Socket {
    async fn next(&mut self) -> Option<Event> {
        loop {
            match within(self.stream.next()).await {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    let text = |name: &str| Some(message[name].as_str()?.to_owned());
                    let (name, id) = (text("event").unwrap(), text("id"));
                    self.request_id = text("request_id");
                    return Some(Event { name, id, data: message["data"].clone() });
                }
                Some(Ok(Message::Close(frame))) => self.closed = frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_opened_again_a_thousand_times_loses_and_repeats_nothing() {
    let server = Running::start().await;
    let path = format!("{EVENTS}?rectangle=-1,-1,1,1");
    let open = async |_, last: Option<&str>| match last {
        Some(last) => Socket::open(&server, &format!("{path}&last_event_id={last}")).await,
        None => Socket::open(&server, &path).await,
    };
    resume_often(&server, open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn regions_are_changed_while_events_arrive() {
    let server = Running::start().await;
    let http = server.http1();
    let row =
        |object: u64, x: f64| json!({ "object": object, "time_ms": START_MS, "x": x, "y": 0 });
    send(&http, "POST", OBJECTS, &json!([row(1, 1.0), row(2, 20.0)])).await;
    let mut socket = Socket::open(&server, EVENTS).await;
    socket.send(&json!({ "regions": [{ "region_id": 1, "circle": [1, 0, 1000] }] })).await;
    assert_eq!(socket.next().await.unwrap().name, "opened");
    let snapshot = socket.named("snapshot").await;
    assert_eq!(snapshot.data["regions"][0]["members"][0]["object"], "1");
    socket.send(&json!({ "add": [{ "region_id": "2", "rectangle": [19, -1, 21, 1] }] })).await;
    assert_eq!(socket.named("changed").await.data["errors"], json!([]));
    let snapshot = socket.named("snapshot").await;
    assert_eq!(snapshot.data["regions"][0]["region_id"], "2");
    assert_eq!(snapshot.data["regions"][0]["members"][0]["object"], "2");
    let moved = json!({ "change": [{ "region_id": 1, "circle": [1, 2, 10] }], "remove": [2, 7] });
    socket.send(&moved).await;
    let changed = socket.named("changed").await.data;
    assert_eq!(changed["errors"][0]["region_id"], "7", "{changed}");
    assert_eq!(changed["errors"].as_array().unwrap().len(), 1);
    // What is wrong is named, and the session continues.
    for (text, field) in [
        (json!({ "add": [{ "region_id": 3 }] }), "add[0].circle"),
        (json!({ "remove": ["two"] }), "remove[0]"),
        (json!({ "colour": "red" }), "colour"),
        (json!({ "add": [{ "region_id": 3, "circle": [1, 2, -3] }] }), ""),
    ] {
        socket.send(&text).await;
        let (name, data) = match field {
            "" => ("changed", socket.named("changed").await.data["errors"][0]["problem"].clone()),
            _ => ("refused", socket.named("refused").await.data),
        };
        assert_eq!(data["reason"], "FIELD", "{name}: {data}");
        if !field.is_empty() {
            assert_eq!(data["field"], field);
        }
    }
    for (id, circle, answer) in [("a", json!([1, 2, 3]), "changed"), ("b", json!([1]), "refused")] {
        let text = json!({ "add": [{ "region_id": 4, "circle": circle }], "request_id": id });
        socket.send(&text).await;
        socket.named(answer).await;
        assert_eq!(socket.request_id.as_deref(), Some(id), "{answer}");
    }
    let back = json!({ "object": 1, "time_ms": START_MS + 1, "x": 1, "y": 2 });
    send(&http, "POST", OBJECTS, &back).await;
    let events = socket.named("events").await;
    assert_eq!(events.data["regions"][0]["events"][0]["event"], "enter");
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_end_with_a_code_and_a_reason() {
    let mut server = Running::start().await;
    let http = server.http1();
    send(&http, "POST", "/v1/fleets", &json!({ "name": "short" })).await;
    let mut deleted = Socket::open(&server, "/v1/fleets/short/events?circle=0,0,5").await;
    assert_eq!(deleted.next().await.unwrap().name, "opened");
    http.call("DELETE", "/v1/fleets/short").await;
    assert_eq!(deleted.named("error").await.data["reason"], "FLEET_DELETED");
    assert!(deleted.next().await.is_none());
    assert_eq!(deleted.closed, Some(CloseCode::Policy));

    let mut wrong = Socket::open(&server, EVENTS).await;
    wrong.send(&json!({ "regions": [{ "region_id": 1, "circle": [0, 0, -5] }] })).await;
    assert_eq!(wrong.named("error").await.data["reason"], "FIELD");
    assert!(wrong.next().await.is_none());
    assert_eq!(wrong.closed, Some(CloseCode::Policy));

    let mut bytes = Socket::open(&server, &format!("{EVENTS}?circle=0,0,5")).await;
    within(bytes.stream.send(Message::binary(vec![1, 2]))).await.unwrap();
    while bytes.next().await.is_some() {}
    assert_eq!(bytes.closed, Some(CloseCode::Unsupported));

    let mut long = Socket::open(&server, EVENTS).await;
    within(long.stream.send(Message::text(" ".repeat(70 << 10)))).await.unwrap();
    assert!(long.next().await.is_none());
    assert_eq!(long.closed, Some(CloseCode::Size));

    let refused = Socket::connect(&server, &format!("{EVENTS}?circle=0,0,-5"), "").await;
    let refused = refused.err().unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let request =
        http.request("GET", &format!("{EVENTS}?circle=0,0,5")).header("upgrade", "websocket");
    http.send(request.body("".into()).unwrap()).await.assert_problem(400, "WEB_SOCKET");

    let mut open = Socket::open(&server, &format!("{EVENTS}?circle=0,0,5")).await;
    assert_eq!(open.next().await.unwrap().name, "opened");
    server.begin_stop();
    assert_eq!(open.named("error").await.data["reason"], "SHUTTING_DOWN");
    drop((open, http));
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_sends_its_token_as_a_protocol() {
    let tokens = TokenMaker::new(&entry("listed", &["default"], &["subscribe"], ""));
    let server = Running::start_with(ServerOptions { access: tokens.options(), ..options() }).await;
    let path = format!("{EVENTS}?circle=0,0,5");
    for protocols in ["", "shoal.events.v1", "shoal.token.other"] {
        let refused = Socket::connect(&server, &path, protocols).await.err().unwrap();
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{protocols}");
    }
    let protocols = "shoal.events.v1, shoal.token.listed";
    let mut socket = Socket::connect(&server, &path, protocols).await.ok().unwrap();
    assert_eq!(socket.protocol.as_ref().unwrap(), "shoal.events.v1");
    assert_eq!(socket.next().await.unwrap().name, "opened");
    tokens.set_tokens("");
    assert_eq!(socket.named("error").await.data["reason"], "UNAUTHENTICATED");
}
