//! No call is served without a token that allows it: every method of every service with every kind
//! of wrong token, other fleets, missing rights, withdrawal and quotas.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::{DescriptorProto, FileDescriptorSet};
use serde_json::json;
use shoal_client::{Client, ConnectOptions};
use shoal_proto::v1;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_service::ServerOptions;
use shoal_service::access::{METHODS, MethodRight, Needs};
use shoal_service::right::Right;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::raw_http::{call, endless, frame, status_of, whole_answer};
use crate::running::{Running, START_MS, fix, options, rows, until, within};
use crate::token_maker::{ALL, TokenMaker, entry, now_s};

/// The fleet of a request that the caller may use.
const MINE: &str = "mine-1";
/// A fleet that exists and belongs to others, and a fleet that does not exist.
const OTHERS: [&str; 2] = ["theirs", "absent"];

/// The request of a method, for a fleet.
fn request(path: &str, fleet: &str) -> Vec<u8> {
    let set = FileDescriptorSet::decode(shoal_proto::DESCRIPTORS).unwrap();
    let messages: HashMap<String, DescriptorProto> = set
        .file
        .iter()
        .flat_map(|file| {
            let package = file.package().to_owned();
            let named =
                move |of: &DescriptorProto| (format!(".{package}.{}", of.name()), of.clone());
            file.message_type.iter().map(named).collect::<Vec<_>>()
        })
        .collect();
    let (service, method) = path[1..].split_once('/').unwrap();
    let mut services = set.file.iter().flat_map(|file| &file.service);
    let Some(of) = services.find(|of| service == format!("shoal.v1.{}", of.name())) else {
        return Vec::new();
    };
    let method = of.method.iter().find(|it| it.name() == method).unwrap();
    let field = if of.name() == "FleetService" { "name" } else { "fleet" };
    let mut bytes = with_fleet(&messages, method.input_type(), field, fleet).unwrap_or_default();
    if method.name().starts_with("Report") {
        // No rows: the payload is required.
        let rows = messages[method.input_type()].field.iter().find(|it| it.name() == "rows");
        encode_key(rows.unwrap().number() as u32, WireType::LengthDelimited, &mut bytes);
        encode_varint(0, &mut bytes);
    }
    bytes
}

/// A message with the name of a fleet in its field, or in that of its options or its start.
fn with_fleet(
    messages: &HashMap<String, DescriptorProto>,
    message: &str,
    field: &str,
    fleet: &str,
) -> Option<Vec<u8>> {
    let fields = &messages.get(message)?.field;
    let (number, value) = match fields.iter().find(|it| it.name() == field) {
        Some(it) => (it.number(), fleet.as_bytes().to_vec()),
        None => {
            let it = fields.iter().find(|it| ["options", "start"].contains(&it.name()))?;
            (it.number(), with_fleet(messages, it.type_name(), field, fleet)?)
        }
    };
    let mut bytes = Vec::new();
    encode_key(number as u32, WireType::LengthDelimited, &mut bytes);
    encode_varint(value.len() as u64, &mut bytes);
    bytes.extend(value);
    Some(bytes)
}

/// A server whose tokens are those of a maker, with the fleets `mine-1` and `theirs`.
async fn guarded(tokens: &TokenMaker) -> Running {
    let server = Running::start_with(ServerOptions { access: tokens.options(), ..options() }).await;
    for fleet in [MINE, OTHERS[0]] {
        let path = "/shoal.v1.FleetService/CreateFleet";
        let status = ask(&server, path, Some("root"), fleet).await;
        assert_eq!(status.code(), Code::Ok, "{status:?}");
    }
    server
}

fn root() -> String {
    entry("root", &["*"], ALL, "")
}

/// The status of a call with a token. For a stream whose answers have a status, the status of its
/// only answer.
async fn ask(server: &Running, path: &str, token: Option<&str>, fleet: &str) -> Status {
    let authorization = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> =
        authorization.iter().map(|value| ("authorization", value.as_str())).collect();
    let body = frame(&request(path, fleet));
    let streamed = match path {
        "/shoal.v1.PositionService/Report" => {
            let (answer, status) = whole_answer(server, path, &headers, body).await;
            let ack = answer.map(|answer| v1::ReportResponse::decode(answer).unwrap().ack.unwrap());
            (ack.and_then(|ack| ack.failed.into_iter().next()?.status), status)
        }
        "/shoal.v1.QueryService/Batch" => {
            let (answer, status) = whole_answer(server, path, &headers, body).await;
            let answer = answer.map(|answer| v1::BatchResponse::decode(answer).unwrap());
            (answer.and_then(|answer| answer.error), status)
        }
        // These calls do not end before their client disconnects.
        "/shoal.v1.SubscriptionService/Subscribe" | "/grpc.health.v1.Health/Watch" => {
            let response = call(server, path, &headers, body).await;
            let status = Status::from_header_map(response.headers());
            return status.unwrap_or_else(|| Status::ok(""));
        }
        _ => return within(status_of(server, path, &headers, body)).await,
    };
    match streamed {
        (Some(status), _) => {
            // The details of a status are the encoded google.rpc.Status itself.
            let code = Code::from_i32(status.code);
            Status::with_details(code, status.message.clone(), status.encode_to_vec().into())
        }
        (None, status) => status,
    }
}

fn reason_of(status: &Status) -> String {
    status.get_error_details().error_info().map_or_else(String::new, |info| info.reason.clone())
}

fn problem_of(status: &Status) -> String {
    let details = status.get_error_details();
    details.error_info().unwrap().metadata["problem"].clone()
}

/// Methods that need a right.
fn guarded_methods() -> impl Iterator<Item = (MethodRight, Right)> {
    METHODS.into_iter().filter_map(|row| Some((row, row.needs.right()?)))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_refuses_every_wrong_token() {
    let past = "expires = 2020-01-01T00:00:00Z";
    let future = "not_before = 2200-01-01T00:00:00Z";
    let tokens = TokenMaker::new(
        &(root() + &entry("t0ken-1", &["*"], ALL, past) + &entry("t0ken-2", &["*"], ALL, future)),
    );
    tokens.set_keys("withdrawn_ids = ['gone']\nwithdrawn_subjects = ['nobody']");
    let server = guarded(&tokens).await;
    let claims = TokenMaker::claims(&["*"], ALL);
    let with = |name: &str, value: serde_json::Value| {
        let mut claims = claims.clone();
        claims[name] = value;
        tokens.signed(&claims)
    };
    let without = |name: &str| {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().remove(name);
        tokens.signed(&claims)
    };
    let header = |header| tokens.signed_with(&header, &claims);
    let cases = [
        (None, "MISSING"),
        (Some("t0ken 3".to_owned()), "MALFORMED"),
        (Some("t0ken-4".to_owned()), "UNKNOWN"),
        (Some("t0ken-1".to_owned()), "EXPIRED"),
        (Some("t0ken-2".to_owned()), "NOT_YET_VALID"),
        (Some("a.b.c".to_owned()), "MALFORMED"),
        (Some(with("exp", json!(now_s() - 60))), "EXPIRED"),
        (Some(with("nbf", json!(now_s() + 60))), "NOT_YET_VALID"),
        (Some(with("aud", json!("other"))), "AUDIENCE"),
        (Some(with("sub", json!("nobody"))), "WITHDRAWN"),
        (Some(with("jti", json!("gone"))), "WITHDRAWN"),
        (Some(with("exp", json!("soon"))), "CLAIMS"),
        (Some(with("shoal", json!({ "grants": [] }))), "CLAIMS"),
        (Some(without("exp")), "CLAIMS"),
        (Some(without("nbf")), "CLAIMS"),
        (Some(without("aud")), "CLAIMS"),
        (Some(without("sub")), "CLAIMS"),
        (Some(without("shoal")), "CLAIMS"),
        (Some(header(json!({ "alg": "EdDSA", "kid": "none" }))), "UNKNOWN"),
        (Some(header(json!({ "alg": "EdDSA" }))), "UNKNOWN"),
        (Some(header(json!({ "alg": "ES256", "kid": "ed" }))), "ALGORITHM"),
        (Some(header(json!({ "alg": "EdDSA", "kid": "ec" }))), "ALGORITHM"),
        (Some(header(json!({ "alg": "EdDSA", "kid": "ed", "crit": ["x"] }))), "MALFORMED"),
        (Some(tokens.forged(&claims)), "SIGNATURE"),
        (Some(TokenMaker::unsigned(&claims)), "MALFORMED"),
        (Some(tokens.confused(&claims)), "ALGORITHM"),
    ];
    for row in METHODS {
        for (token, problem) in &cases {
            let status = ask(&server, row.path, token.as_deref(), MINE).await;
            let of = format!("{} {token:?}: {status:?}", row.path);
            assert_eq!(status.code(), Code::Unauthenticated, "{of}");
            assert_eq!(
                (reason_of(&status).as_str(), problem_of(&status).as_str()),
                ("UNAUTHENTICATED", *problem),
                "{of}"
            );
            let text = format!("{status:?}");
            assert!(token.as_ref().is_none_or(|token| !text.contains(token.as_str())), "{of}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_serves_the_right_tokens() {
    let tokens = TokenMaker::new(&root());
    let server = guarded(&tokens).await;
    let mut several = TokenMaker::claims(&["mine-*"], ALL);
    several["aud"] = json!(["other", "shoal"]);
    let right = [
        "root".to_owned(),
        tokens.signed(&TokenMaker::claims(&["*"], ALL)),
        tokens.signed_ec(&TokenMaker::claims(&["*"], ALL)),
        tokens.signed(&several),
    ];
    let refused = [Code::Unauthenticated, Code::PermissionDenied, Code::NotFound];
    for row in METHODS {
        // Last, since the fleet is gone then.
        if row.path.ends_with("DeleteFleet") {
            continue;
        }
        for (index, token) in right.iter().enumerate() {
            let status = ask(&server, row.path, Some(token), MINE).await;
            let is_server_wide = index == 3 && matches!(row.needs, Needs::Server(_));
            let is_refused = refused.contains(&status.code());
            let is_health = row.path.starts_with("/grpc.");
            assert!(is_refused == is_server_wide || is_health, "{} {index}: {status:?}", row.path);
        }
    }
    let status = ask(&server, "/shoal.v1.FleetService/DeleteFleet", Some(&right[3]), MINE).await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_refuses_a_token_without_its_right() {
    let mut entries = root();
    for right in Right::ALL {
        let others: Vec<&str> = ALL.iter().copied().filter(|it| *it != right.name()).collect();
        entries += &entry(&format!("no-{right}"), &["*"], &others, "");
        // It has the right, but on another fleet.
        let other = format!("[[token.grants]]\nfleets = ['mine-2']\nrights = ['{right}']\n");
        entries += &(entry(&format!("other-{right}"), &["*"], &others, "") + &other);
    }
    let tokens = TokenMaker::new(&entries);
    let server = guarded(&tokens).await;
    for (row, right) in guarded_methods() {
        for token in [format!("no-{right}"), format!("other-{right}")] {
            let status = ask(&server, row.path, Some(&token), MINE).await;
            assert_eq!(status.code(), Code::PermissionDenied, "{} {token}: {status:?}", row.path);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!(info.metadata["right"], right.name(), "{}", row.path);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fleets_of_others_are_as_if_they_did_not_exist() {
    let tokens = TokenMaker::new(&(root() + &entry("mine", &["mine-*"], ALL, "")));
    let server = guarded(&tokens).await;
    for row in METHODS {
        let mut texts = Vec::new();
        for fleet in OTHERS {
            let status = ask(&server, row.path, Some("mine"), fleet).await;
            let creates = row.path.ends_with("CreateFleet");
            match row.needs {
                Needs::Server(_) => assert_eq!(status.code(), Code::PermissionDenied),
                Needs::Fleet(_) if creates => assert_eq!(status.code(), Code::PermissionDenied),
                _ if row.path.ends_with("ListFleets") || row.path.starts_with("/grpc.") => continue,
                Needs::Fleet(_) | Needs::Token => {
                    assert_eq!(reason_of(&status), "FLEET_UNKNOWN", "{}: {status:?}", row.path);
                }
            }
            let details = status.get_error_details();
            texts.push(format!("{} {details:?}", status.message()).replace(fleet, "FLEET"));
        }
        assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "{}: {texts:?}", row.path);
    }
    let authorization = [("authorization", "Bearer mine")];
    for other in OTHERS {
        let rename = v1::RenameFleetRequest { name: MINE.into(), new_name: other.into() };
        let path = "/shoal.v1.FleetService/RenameFleet";
        let body = frame(&rename.encode_to_vec());
        let (_, status) = whole_answer(&server, path, &authorization, body).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{other}: {status:?}");
    }
    let (answer, status) =
        whole_answer(&server, "/shoal.v1.FleetService/ListFleets", &authorization, frame(&[]))
            .await;
    assert_eq!(status.code(), Code::Ok);
    let listed = v1::ListFleetsResponse::decode(answer.unwrap()).unwrap();
    let names: Vec<_> = listed.fleets.iter().map(|fleet| fleet.name.as_str()).collect();
    assert_eq!((names, listed.next_page_token.as_str()), (vec![MINE], ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_ends_when_its_token_is_withdrawn() {
    let tokens = TokenMaker::new(&(root() + &entry("guest", &["*"], ALL, "")));
    let server = Arc::new(guarded(&tokens).await);
    let claims = TokenMaker::claims(&["*"], ALL);
    let signed = [tokens.signed(&claims), tokens.signed_ec(&claims)];
    let (mut stay, mut end) = (Vec::new(), Vec::new());
    for row in METHODS {
        let tokens = [("root", true), ("guest", false), (&signed[0], false), (&signed[1], true)];
        for (token, stays) in tokens {
            let (server, authorization) = (server.clone(), format!("Bearer {token}"));
            let asked = tokio::spawn(async move {
                let headers = [("authorization", authorization.as_str())];
                // The request does not end, so no call does.
                status_of(&server, row.path, &headers, endless(Vec::new())).await
            });
            if stays { &mut stay } else { &mut end }.push((row.path, asked));
        }
    }
    let calls = (stay.len() + end.len()) as f64;
    until(async || server.metric("shoal_connections").await >= calls).await;
    // A connection is counted shortly before its call is admitted.
    tokio::time::sleep(Duration::from_secs(2)).await;
    tokens.set_tokens(&root());
    tokens.rename_key("ed");
    for (path, asked) in end {
        let status = within(asked).await.unwrap();
        assert_eq!(status.code(), Code::Unauthenticated, "{path}: {status:?}");
        assert_eq!(problem_of(&status), "WITHDRAWN", "{path}");
    }
    for (path, asked) in stay {
        assert!(!asked.is_finished(), "{path}");
        asked.abort();
        let _ = asked.await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_counts_the_connections_of_a_token() {
    let none = entry("none", &["*"], ALL, "[token.quotas]\nconnections = 0\n");
    // The table of quotas ends with the grants.
    let tokens = TokenMaker::new(&(root() + &none));
    let server = guarded(&tokens).await;
    for row in METHODS {
        let status = ask(&server, row.path, Some("none"), MINE).await;
        assert_eq!(reason_of(&status), "QUOTA", "{}: {status:?}", row.path);
        let details = status.get_error_details();
        assert!(details.retry_info().unwrap().retry_delay.is_some(), "{}", row.path);
        assert_eq!(details.error_info().unwrap().metadata["quota"], "connections");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_an_independent_library_are_accepted() {
    let tokens = TokenMaker::new(&root());
    tokens.set_keys("issuer = 'https://issuer.example'");
    let server = guarded(&tokens).await;
    for name in ["eddsa", "es256", "rs256"] {
        let folder =
            std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/server/signed");
        let token = std::fs::read_to_string(folder.join(format!("{name}.jwt"))).unwrap();
        let token = token.trim();
        let status = ask(&server, "/shoal.v1.FleetService/GetFleet", Some(token), MINE).await;
        assert_eq!(status.code(), Code::Ok, "{name}: {status:?}");
        let status = ask(&server, "/shoal.v1.FleetService/ClearFleet", Some(token), MINE).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{name}: {status:?}");
        // One character of the signature, not the last: its bits may not all count.
        let at = token.len() - 9;
        let other = if &token[at..=at] == "A" { "B" } else { "A" };
        let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
        let status = ask(&server, "/shoal.v1.FleetService/GetFleet", Some(&changed), MINE).await;
        assert_eq!(problem_of(&status), "SIGNATURE", "{name}");
    }
    // Its issuer is that of the file now, which these claims do not name.
    let own = tokens.signed(&TokenMaker::claims(&["*"], ALL));
    let status = ask(&server, "/shoal.v1.FleetService/GetFleet", Some(&own), MINE).await;
    assert_eq!(problem_of(&status), "CLAIMS");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_acknowledgements_are_not_read_ends_with_its_token() {
    let tokens = TokenMaker::new(&(root() + &entry("guest", &["*"], ALL, "")));
    let server = guarded(&tokens).await;
    // Not one byte of an acknowledgement may be sent.
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let channel = endpoint.initial_stream_window_size(0).connect().await.unwrap();
    let (sender, receiver) = mpsc::channel(1);
    let mut request = tonic::Request::new(ReceiverStream::new(receiver));
    request.metadata_mut().insert("authorization", "Bearer guest".parse().unwrap());
    let _acks = PositionServiceClient::new(channel).report(request).await.unwrap();
    let token = Some("root".parse().unwrap());
    let options = ConnectOptions { token, ..ConnectOptions::default() };
    let root_client = Client::connect(&server.address.to_string(), options).await.unwrap();
    let objects = async || root_client.get_fleet("").await.unwrap().object_count;
    let mut numbers = 1..;
    let mut send = async || {
        for object in numbers.by_ref().take(20) {
            let report = rows(vec![fix(object, START_MS, 1.0, 1.0)]);
            let _ = tokio::time::timeout(Duration::from_millis(10), sender.send(report)).await;
        }
    };
    send().await;
    until(async || objects().await >= 20).await;
    tokens.set_tokens(&root());
    until(async || {
        let before = objects().await;
        send().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        objects().await == before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_ends_when_its_fleet_is_renamed_out_of_the_grants() {
    let tokens = TokenMaker::new(&(root() + &entry("mine", &["mine-*"], ALL, "")));
    let server = guarded(&tokens).await;
    let client = async |token: &str| {
        let token = Some(token.parse().unwrap());
        let options = ConnectOptions { token, ..ConnectOptions::default() };
        Client::connect(&server.address.to_string(), options).await.unwrap()
    };
    let (root, mine) = (client("root").await, client("mine").await);
    let request = v1::SubscribeRequest { fleet: MINE.into(), ..Default::default() };
    let mut service = mine.subscription_service();
    let mut stream = within(service.subscribe(request)).await.unwrap().into_inner();
    within(stream.message()).await.unwrap().unwrap();
    let (sender, receiver) = mpsc::channel(1);
    let stream_of_reports = ReceiverStream::new(receiver);
    let mut acks = mine.position_service().report(stream_of_reports).await.unwrap().into_inner();
    let report = rows(vec![fix(1, START_MS, 1.0, 1.0)]);
    sender.send(v1::ReportRequest { fleet: MINE.into(), ..report }).await.unwrap();
    within(acks.message()).await.unwrap().unwrap();
    // It continues under a name on which the client has the right.
    root.rename_fleet(MINE, "mine-2").await.unwrap();
    within(stream.message()).await.unwrap().unwrap();
    root.rename_fleet("mine-2", "hidden").await.unwrap();
    let ended = loop {
        match within(stream.message()).await {
            Ok(message) => drop(message.unwrap()),
            Err(status) => break status,
        }
    };
    assert_eq!(reason_of(&ended), "FLEET_UNKNOWN");
    assert!(ended.message().contains("mine-2") && !format!("{ended:?}").contains("hidden"));
    // Neither does the end of a fleet that the client has reported to tell its new name.
    root.delete_fleet("hidden").await.unwrap();
    let ended = within(acks.message()).await.unwrap_err();
    assert_eq!(reason_of(&ended), "FLEET_DELETED");
    assert!(ended.message().contains(MINE) && !format!("{ended:?}").contains("hidden"));
}
