//! Calls end when their token or their right does, also those of clients that read nothing, and a
//! wrong file keeps no token alive.

use std::fs;
use std::time::Duration;

use http::HeaderMap;
use shoal_client::{Client, ConnectOptions};
use shoal_codec::{BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::Space;
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use shoal_service::ServerOptions;
use shoal_service::access::{Access, Peer};
use tonic::transport::Endpoint;

use crate::follower::on;
use crate::history;
use crate::running::{Running, START_MS, assert_refused, options, until, within};
use crate::token_maker::{ALL, TokenMaker, entry};

async fn client(server: &Running, token: &str, window_bytes: Option<u32>) -> Client {
    let token = Some(token.parse().unwrap());
    let stream_window_bytes = window_bytes;
    let options = ConnectOptions { token, stream_window_bytes, ..ConnectOptions::default() };
    Client::connect(&server.address.to_string(), options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_is_not_read_ends_with_its_token() {
    let root = entry("root", &["*"], ALL, "");
    let tokens = TokenMaker::new(&(root.clone() + &entry("guest", &["*"], ALL, "")));
    let server = Running::start_with(ServerOptions { access: tokens.options(), ..options() }).await;
    // Not one byte of an answer may be sent.
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let channel = endpoint.initial_stream_window_size(0).connect().await.unwrap();
    let mut streams = Vec::new();
    for token in ["guest", "root"] {
        let mut request = tonic::Request::new(v1::SubscribeRequest::default());
        let authorization = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", authorization);
        let mut service = SubscriptionServiceClient::new(channel.clone());
        streams.push(within(service.subscribe(request)).await.unwrap());
    }
    assert_eq!(server.metric("shoal_streams").await, 2.0);
    tokens.set_tokens(&root);
    until(async || server.metric("shoal_streams").await == 1.0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.metric("shoal_streams").await, 1.0, "the other one continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_history_ends_when_its_fleet_is_renamed_out_of_the_grants() {
    let mine = entry("mine", &["mine-*"], ALL, "");
    let tokens = TokenMaker::new(&(entry("root", &["*"], ALL, "") + &mine));
    let disk = SimulatedDisk::new(1);
    let options = ServerOptions { access: tokens.options(), ..history::options(4 << 30) };
    let server = Running::start_in(on(&disk), options).await;
    let root = client(&server, "root", None).await;
    until(async || root.get_fleet("").await.is_ok()).await;
    let create = v1::CreateFleetRequest { name: "mine-1".into(), ..Default::default() };
    root.create_fleet(create).await.unwrap();
    // More than the buffers between the server and a client with a small window.
    const ROWS: i64 = 250_000;
    let mut columns = FixColumns::new();
    (0..ROWS).for_each(|row| columns.push_row(FixRow::new(1, START_MS + row, row as i32, 5)));
    let mut bytes = Vec::new();
    CpuCodec.encode(&columns, &Space::geographic().tag(), 1, &mut bytes).unwrap();
    let payload = Some(v1::report_once_request::Payload::Block(bytes.into()));
    let report = v1::ReportOnceRequest { fleet: "mine-1".into(), payload, ..Default::default() };
    let epoch = root.report_once(report).await.unwrap().epoch;
    until(async || {
        let history = root.get_fleet("mine-1").await.unwrap().history.unwrap();
        history.watermark_epoch >= epoch
    })
    .await;
    let mine = client(&server, "mine", Some(1 << 10)).await;
    let request = v1::TrajectoryRequest {
        fleet: "mine-1".into(),
        objects: vec![1],
        window: Some(v1::TimeWindow { from_ms: i64::MIN, to_ms: i64::MAX }),
        ..v1::TrajectoryRequest::default()
    };
    let mut service = mine.history_service();
    let whole = within(service.trajectory(request.clone())).await.unwrap().into_inner();
    let mut answer = within(service.trajectory(request)).await.unwrap().into_inner();
    within(answer.message()).await.unwrap().unwrap();
    root.rename_fleet("mine-1", "hidden").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for mut stream in [whole, answer] {
        let ended = loop {
            match within(stream.message()).await {
                Ok(Some(part)) => {
                    let name = part.header.map_or_else(|| "mine-1".into(), |header| header.fleet);
                    assert_eq!(name, "mine-1");
                }
                Ok(None) => panic!("the answer is complete"),
                Err(status) => break status,
            }
        };
        assert_refused(&ended, "FLEET_UNKNOWN");
        assert!(!format!("{ended:?}").contains("hidden"), "{ended:?}");
    }
}

#[test]
fn a_wrong_file_of_keys_keeps_no_listed_token() {
    let guest = entry("guest", &["*"], ALL, "");
    let tokens = TokenMaker::new(&guest);
    let access = Access::open(tokens.options()).unwrap();
    let signed = tokens.signed(&TokenMaker::claims(&["*"], ALL));
    let is_admitted = |token: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        access.admit("/shoal.v1.FleetService/ListFleets", &headers, &Peer::default()).is_ok()
    };
    assert!(is_admitted("guest") && is_admitted(&signed));
    fs::write(tokens.path("keys.toml"), "audience = ''").unwrap();
    tokens.set_tokens("");
    let error = access.reload().unwrap_err();
    assert!(error.to_string().contains("keys.toml"), "{error}");
    assert!(!is_admitted("guest") && is_admitted(&signed));
    // And a wrong file of tokens keeps no key.
    tokens.set_tokens(&guest);
    tokens.set_keys("");
    access.reload().unwrap();
    assert!(is_admitted("guest") && is_admitted(&signed));
    tokens.set_tokens("token = 5");
    tokens.rename_key("ed");
    let error = access.reload().unwrap_err();
    assert!(error.to_string().contains("tokens.toml"), "{error}");
    assert!(is_admitted("guest") && !is_admitted(&signed));
}
