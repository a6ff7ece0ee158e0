//! Every error status of every layer carries `ErrorInfo`, which client programs act on.

use std::collections::HashMap;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use shoal_codec::{BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::Space;
use shoal_proto::v1;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::gated_engine::Gate;
use crate::raw_client::report_raw;
use crate::raw_http::{endless, frame, frame_head, status_of};
use crate::running::{
    ReportsOnce as _, Running, START_MS, assert_refused, block, fix, options, reason, refused,
    rows, until, violated_field, whole, within, world,
};

/// Invalid in every message type: field 1 with the undefined wire type 7.
const UNDECODABLE: &[u8] = b"\x0f";
const RANGE: &str = "/shoal.v1.QueryService/Range";
const BATCH: &str = "/shoal.v1.QueryService/Batch";
const GET_FLEET: &str = "/shoal.v1.FleetService/GetFleet";
const REPORT: &str = "/shoal.v1.PositionService/Report";
const REPORT_ONCE: &str = "/shoal.v1.PositionService/ReportOnce";

/// The paths of all methods of the published services.
fn paths() -> Vec<String> {
    let files = FileDescriptorSet::decode(shoal_proto::DESCRIPTORS).unwrap().file;
    let mut paths = Vec::new();
    for file in &files {
        for service in &file.service {
            let methods = service.method.iter();
            let path = |name: &str| format!("/{}.{}/{name}", file.package(), service.name());
            paths.extend(methods.map(|method| path(method.name())));
        }
    }
    assert!(paths.len() >= 14, "{paths:?}");
    paths
}

fn metadata(status: &Status) -> HashMap<String, String> {
    status.get_error_details().error_info().unwrap().metadata.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_message_of_any_method_is_malformed() {
    let server = Running::start().await;
    let health = "/grpc.health.v1.Health/Check".to_owned();
    for path in paths().into_iter().chain([health]) {
        if path == REPORT {
            let messages = vec![UNDECODABLE.into()];
            let acks = report_raw(server.channel().await, messages).await.unwrap();
            let failed = &acks[0].failed[0];
            assert_eq!(failed.status.as_ref().unwrap().code, Code::InvalidArgument as i32);
            assert_eq!(reason(failed.status.as_ref()), "MALFORMED");
            continue;
        }
        let status = status_of(&server, &path, &[], frame(UNDECODABLE)).await;
        assert_refused(&status, "MALFORMED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_field_is_named() {
    let server = Running::start().await;
    let status = status_of(&server, GET_FLEET, &[], frame(b"\x0a\x02\xff\xfe")).await;
    assert_refused(&status, "MALFORMED");
    assert!(status.message().contains("GetFleetRequest.name"), "{status:?}");
    assert_eq!(metadata(&status)["method"], GET_FLEET);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_message_states_its_size_and_the_limit() {
    let server = Running::start().await;
    let (small, large) = (8 << 20, 64 << 20);
    let cases = [
        (RANGE, small),
        (BATCH, small),
        (GET_FLEET, small),
        ("/shoal.v1.SubscriptionService/Modify", small),
        (REPORT, large),
        (REPORT_ONCE, large),
    ];
    for (path, limit) in cases {
        let status = status_of(&server, path, &[], frame_head(0, limit + 1)).await;
        assert_refused(&status, "MESSAGE_TOO_LARGE");
        let metadata = metadata(&status);
        assert_eq!(metadata["bytes"], (limit + 1).to_string(), "{path}");
        assert_eq!(metadata["limit"], limit.to_string(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_method_or_service_is_named() {
    let server = Running::start().await;
    for path in [
        "/shoal.v1.QueryService/None",
        "/shoal.v1.PositionService/None",
        "/shoal.v1.SubscriptionService/None",
        "/shoal.v2.QueryService/Range",
        "/grpc.health.v1.Health/None",
        "/",
    ] {
        let status = status_of(&server, path, &[], frame(b"")).await;
        assert_refused(&status, "METHOD_UNKNOWN");
        assert_eq!(metadata(&status)["path"], path);
        assert!(status.message().contains(path), "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_path_does_not_make_a_long_status() {
    let server = Running::start().await;
    let path = format!("/shoal.v1.QueryService/{}", "x".repeat(8000));
    let status = status_of(&server, &path, &[], frame(b"")).await;
    assert_refused(&status, "METHOD_UNKNOWN");
    assert!(path.starts_with(&metadata(&status)["path"]));
    assert!(status.message().len() + status.details().len() < 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_message_is_refused_with_the_accepted_encodings() {
    let server = Running::start().await;
    for path in [RANGE, BATCH, GET_FLEET, REPORT, REPORT_ONCE] {
        let headers = [("grpc-encoding", "gzip")];
        let status = status_of(&server, path, &headers, frame_head(1, 0)).await;
        assert_refused(&status, "COMPRESSION_UNSUPPORTED");
        assert_eq!(metadata(&status)["encoding"], "gzip");
        assert_eq!(status.metadata().get("grpc-accept-encoding").unwrap(), "identity");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_frame_is_a_framing_error() {
    let server = Running::start().await;
    let unfinished = || [frame_head(0, 9), vec![7]].concat();
    for path in [RANGE, GET_FLEET, REPORT_ONCE] {
        // gRPC prescribes the status code.
        for body in [Vec::new(), vec![0, 0], unfinished(), frame_head(1, 0), frame_head(7, 0)] {
            let status = status_of(&server, path, &[], body.clone()).await;
            assert_refused(&status, "FRAMING");
            assert!(!status.message().is_empty(), "{path} {body:?}");
        }
    }
    // On streams the status is in the trailers.
    for path in [BATCH, REPORT] {
        for body in [vec![0, 0], unfinished(), frame_head(1, 0), frame_head(7, 0)] {
            let status = status_of(&server, path, &[], body).await;
            assert_refused(&status, "FRAMING");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_passes_while_a_message_is_awaited() {
    let server = Running::start().await;
    for path in [RANGE, GET_FLEET, REPORT_ONCE, "/grpc.health.v1.Health/Check"] {
        let headers = [("grpc-timeout", "100m")];
        let status = status_of(&server, path, &headers, endless(vec![0, 0])).await;
        assert_refused(&status, "DEADLINE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_passes_while_a_fleet_is_dropped() {
    let (gate, server) = Gate::start(options()).await;
    gate.shut();
    let mut positions = server.positions().await;
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0)]);
    let report = tokio::spawn(async move { positions.once(message).await });
    until(async || gate.is_stopping_one()).await;
    let mut request = Request::new(v1::DeleteFleetRequest { name: "default".into() });
    // The header alone: the tonic client would enforce the deadline locally.
    request.metadata_mut().insert("grpc-timeout", "100m".parse().unwrap());
    refused(within(server.fleets().await.delete_fleet(request)).await, "DEADLINE");
    gate.open();
    let _ = within(report).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_errors_have_details() {
    let server = Running::start().await;
    let mut health = HealthClient::new(server.channel().await);
    let request = || HealthCheckRequest { service: "shoal.v1.None".into() };
    refused(health.check(request()).await, "SERVICE_UNKNOWN");
    refused(health.watch(request()).await, "SERVICE_UNKNOWN");
    // Field 4 requests a symbol by name; an empty message requests nothing.
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let status = status_of(&server, &path, &[], frame(b"\x22\x04none")).await;
        assert_refused(&status, "DESCRIPTOR_UNKNOWN");
        let status = status_of(&server, &path, &[], frame(b"")).await;
        assert_refused(&status, "FIELD");
        assert_eq!(violated_field(&status), "message_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_fleet_name_is_reported_with_its_field() {
    let server = Running::start().await;
    let bad = || "No Fleet".to_owned();
    let (mut fleets, mut queries) = (server.fleets().await, server.queries().await);
    let options = Some(v1::QueryOptions { fleet: bad(), ..Default::default() });
    let by_name = [
        fleets
            .create_fleet(v1::CreateFleetRequest { name: bad(), ..Default::default() })
            .await
            .err(),
        fleets.get_fleet(v1::GetFleetRequest { name: bad() }).await.err(),
        fleets.clear_fleet(v1::ClearFleetRequest { name: bad() }).await.err(),
        fleets.delete_fleet(v1::DeleteFleetRequest { name: bad() }).await.err(),
    ];
    let range = v1::RangeRequest { options, region: Some(world()) };
    let by_options = [queries.range(range).await.err()];
    let (mut positions, mut subscriptions) =
        (server.positions().await, server.subscriptions().await);
    let report = v1::ReportRequest { fleet: bad(), ..rows(Vec::new()) };
    let by_fleet = [
        positions.once(report).await.err(),
        positions.remove(v1::RemoveRequest { fleet: bad(), ..Default::default() }).await.err(),
        subscriptions
            .subscribe(v1::SubscribeRequest { fleet: bad(), ..Default::default() })
            .await
            .err(),
        subscriptions.modify(v1::ModifyRequest { fleet: bad(), ..Default::default() }).await.err(),
    ];
    let cases =
        [("name", &by_name[..]), ("options.fleet", &by_options[..]), ("fleet", &by_fleet[..])];
    for (field, refused) in cases {
        for status in refused {
            let status = status.as_ref().unwrap();
            assert_refused(status, "FLEET_NAME");
            assert_eq!(violated_field(status), field, "{status:?}");
            assert!(status.message().contains("\"No Fleet\""), "{status:?}");
        }
    }
}

/// A valid block of three objects.
fn encoded(space: &Space) -> Vec<u8> {
    let mut columns = FixColumns::new();
    for object in 0..3 {
        columns.push_row(FixRow::new(object, START_MS, object as i32, 5));
    }
    let mut bytes = Vec::new();
    CpuCodec.encode(&columns, &space.tag(), 1, &mut bytes).unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_block_reports_the_error_offset() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let good = encoded(&Space::geographic());
    let cut = good[..50].to_vec();
    let status = refused(client.once(block(cut)).await, "BLOCK");
    assert_eq!(violated_field(&status), "block");
    assert_eq!(metadata(&status)["offset"], "0");
    // A row count that contradicts the directory, with a valid checksum.
    let mut corrupt = good;
    corrupt[80..84].copy_from_slice(&4_u32.to_le_bytes());
    let crc = crc32c::crc32c(&corrupt[..124]);
    corrupt[124..128].copy_from_slice(&crc.to_le_bytes());
    let status = refused(client.once(block(corrupt)).await, "BLOCK");
    assert_eq!(violated_field(&status), "block");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_of_another_space_names_both_spaces() {
    let server = Running::start().await;
    let planar = Space::planar(1000.0, 1000.0, 0.01).unwrap();
    let bytes = block(encoded(&planar));
    let status = refused(server.positions().await.once(bytes).await, "SPACE_MISMATCH");
    assert_eq!(violated_field(&status), "block");
    for space in
        ["geographic, quantum 1e-7 degrees, origin (0, 0)", "planar, quantum 0.01 m, origin (0, 0)"]
    {
        assert!(status.message().contains(space), "{status:?}");
    }
    assert!(!status.message().contains("SpaceTag"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_answers_print_terms_alike() {
    let server = Running::start().await;
    let fleet = server.fleet("").await;
    let min_token = shoal_service::fleet::Token::new(!fleet.term, 0).to_bytes();
    let options = Some(v1::QueryOptions { min_token, ..Default::default() });
    let range = v1::RangeRequest { options, region: Some(world()) };
    let status = refused(server.queries().await.range(range).await, "TOKEN_TERM");
    assert_eq!(metadata(&status)["term"], fleet.term.to_string());
    assert!(status.message().contains(&fleet.term.to_string()), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_fleet_is_not_reported_as_ended() {
    let server = Running::start().await;
    let mut fleets = server.fleets().await;
    for name in ["a", "b"] {
        let request = v1::CreateFleetRequest { name: name.into(), ..Default::default() };
        fleets.create_fleet(request).await.unwrap();
    }
    let mut client = server.subscriptions().await;
    let request = v1::SubscribeRequest { fleet: "a".into(), ..Default::default() };
    let mut stream = client.subscribe(request).await.unwrap().into_inner();
    let first = within(stream.message()).await.unwrap().unwrap();
    let Some(v1::subscribe_response::Kind::Opened(opened)) = first.kind else {
        panic!("{first:?}");
    };
    let modify = |fleet: &str| v1::ModifyRequest {
        fleet: fleet.into(),
        session: opened.session.clone(),
        ..Default::default()
    };
    let status = refused(client.modify(modify("b")).await, "SESSION_OTHER_FLEET");
    let named = metadata(&status);
    assert_eq!((named["fleet"].as_str(), named["session_fleet"].as_str()), ("b", "a"));
    assert!(status.message().contains("\"a\"") && status.message().contains("\"b\""));
    let circle = v1::Circle { x: 0.0, y: 0.0, radius_m: 9.0 };
    let region = Some(v1::Region { kind: Some(v1::region::Kind::Circle(circle)) });
    let regions = vec![v1::RegionSubscription { region_id: 1, region, ..Default::default() }];
    // Opening a new session would hide the error.
    for regions in [Vec::new(), regions] {
        let resume_token = first.resume_token.clone();
        let fleet = "b".to_owned();
        let request = v1::SubscribeRequest { fleet, resume_token, regions, ..Default::default() };
        refused(client.subscribe(request).await, "SESSION_OTHER_FLEET");
    }
    client.modify(modify("a")).await.unwrap();
    // The session ended with the engine of its term.
    fleets.delete_fleet(v1::DeleteFleetRequest { name: "a".into() }).await.unwrap();
    for fleet in ["b", "default"] {
        refused(client.modify(modify(fleet)).await, "SESSION_GONE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_succeeds_has_no_details() {
    let server = Running::start().await;
    let request = v1::RangeRequest { region: Some(world()), ..Default::default() };
    let status = status_of(&server, RANGE, &[], frame(&request.encode_to_vec())).await;
    assert_eq!((status.code(), status.details()), (Code::Ok, &[][..]));
    let stream = server.queries().await.range(request).await.unwrap().into_inner();
    assert_eq!(whole(stream).await.unwrap().header.total, 0);
}
