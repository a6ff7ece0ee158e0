//! The audit log has what was allowed and everything that was refused for a token, a right or a
//! quota, and no call twice.

use std::fs;
use std::path::Path;

use prost::Message as _;
use serde_json::Value;
use shoal_proto::v1;
use shoal_service::ServerOptions;
use shoal_service::access::AccessOptions;
use tonic::Code;

use crate::raw_http::{call, frame, status_of};
use crate::running::{Running, options, until, within};
use crate::token_maker::{ALL, TokenMaker, entry};

const CREATE: &str = "/shoal.v1.FleetService/CreateFleet";
const RENAME: &str = "/shoal.v1.FleetService/RenameFleet";
const PROMOTE: &str = "/shoal.v1.LogService/Promote";
const DESCRIBE_LOGS: &str = "/shoal.v1.LogService/DescribeLogs";

const SUBSCRIBE: &str = "/shoal.v1.SubscriptionService/Subscribe";
const UNKNOWN: &str = "/shoal.v1.FleetService/Unknown";

/// Caller, fleet and `allowed` or the reason, for each record of an action.
fn records(audit: &Path, action: &str) -> Vec<(String, String, String)> {
    let text = fs::read_to_string(audit).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let of_action = lines.filter(|line| line["action"] == action);
    of_action
        .map(|line| {
            let result =
                if line["allowed"] == true { "allowed".into() } else { text(&line["reason"]) };
            (text(&line["caller"]), text(&line["fleet"]), result)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_decision_has_one_record() {
    let quotas = "[token.quotas]\nfleets = 1\nstreams = 0\nqueries_per_second = 0\n";
    let root = entry("root", &["*"], ALL, "");
    let tokens = TokenMaker::new(&(root.clone() + &entry("tenant", &["tenant-*"], ALL, quotas)));
    let audit = tokens.path("audit.jsonl");
    let access = AccessOptions { audit_log: Some(audit.clone()), ..tokens.options() };
    let server = Running::start_with(ServerOptions { access, ..options() }).await;
    let create = |name: &str, like: &str| v1::CreateFleetRequest {
        name: name.into(),
        settings_of: like.into(),
        ..Default::default()
    };
    let rename = |name: &str, new_name: &str| v1::RenameFleetRequest {
        name: name.into(),
        new_name: new_name.into(),
    };
    let asked = [
        ("tenant", CREATE, create("tenant-1", "").encode_to_vec(), Code::Ok),
        ("tenant", CREATE, create("tenant-2", "").encode_to_vec(), Code::ResourceExhausted),
        ("root", CREATE, create("other", "tenant-1").encode_to_vec(), Code::Ok),
        ("tenant", RENAME, rename("tenant-1", "other-1").encode_to_vec(), Code::PermissionDenied),
        ("root", RENAME, rename("tenant-1", "tenant-3").encode_to_vec(), Code::Ok),
        ("tenant", SUBSCRIBE, Vec::new(), Code::ResourceExhausted),
        ("root", UNKNOWN, Vec::new(), Code::Unimplemented),
    ];
    for (token, path, message, code) in asked {
        let headers = [("authorization", &*format!("Bearer {token}"))];
        let status = within(status_of(&server, path, &headers, frame(&message))).await;
        assert_eq!(status.code(), code, "{path}: {status:?}");
    }

    // A wrong secret of replication, with every right.
    for path in [PROMOTE, DESCRIBE_LOGS] {
        let headers =
            [("authorization", "Bearer root"), ("shoal-replication-secret", "wrong-and-hidden")];
        let status = within(status_of(&server, path, &headers, frame(&[]))).await;
        assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    }
    let headers = [("authorization", "Bearer root")];
    within(status_of(&server, PROMOTE, &headers, frame(&[]))).await;
    // A stream that ends with its token.
    let stream = call(&server, SUBSCRIBE, &headers, frame(&[])).await;
    tokens.set_tokens(&entry("next", &["*"], ALL, ""));
    until(async || records(&audit, SUBSCRIBE).len() == 2).await;
    drop(stream);

    let allowed = |caller: &str, fleet: &str| (caller.into(), fleet.into(), "allowed".into());
    let refused =
        |caller: &str, fleet: &str, reason: &str| (caller.into(), fleet.into(), reason.into());
    let over = "quota fleets of the token is 1: retry in";
    let created = records(&audit, CREATE);
    assert_eq!(created.len(), 3, "{created:?}");
    assert_eq!(created[0], allowed("tenant", "tenant-1"));
    assert!(created[1].1 == "tenant-2" && created[1].2.starts_with(over), "{created:?}");
    assert_eq!(created[2], allowed("root", "other"));
    let denied = "the token has no right `admin` here";
    assert_eq!(
        records(&audit, RENAME),
        [
            refused("tenant", "other-1", denied),
            allowed("root", "tenant-1"),
            allowed("root", "tenant-3")
        ]
    );
    let promoted = records(&audit, PROMOTE);
    assert!(promoted.len() == 2 && promoted[0].2.contains("secret"), "{promoted:?}");
    assert_eq!(promoted[1], allowed("root", "-"));
    let described = records(&audit, DESCRIBE_LOGS);
    assert!(described.len() == 1 && described[0].2.contains("secret"), "{described:?}");

    let subscribed = records(&audit, SUBSCRIBE);
    assert!(subscribed[0].2.starts_with("quota streams of the token is 0"), "{subscribed:?}");
    assert!(subscribed[1].0 == "root" && subscribed[1].2.contains("withdrawn"), "{subscribed:?}");
    assert_eq!(records(&audit, UNKNOWN).len(), 1);
    assert!(!fs::read_to_string(&audit).unwrap().contains("hidden"));
}
