//! Verification is exact with late, duplicate, invalid, removed and expiring rows, and detects rows
//! of a foreign writer.

use std::time::Duration;

use crate::in_process::{InProcess, assert_verified, verified_run};
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_proto::v1::report_once_request::Payload;
use shoal_proto::v1::{Fix, ReportOnceRequest, Rows};

const ALL_KINDS: &str = "--query-mix range:3,circle:2,polygon:2,nearest:2,get:1 --window 0.2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verification_passes_with_all_faults_at_once() {
    let server = InProcess::start().await;
    for encoding in ["rows", "block"] {
        for ttl in ["", "--ttl-ms 1500"] {
            let summary = server
                .run(&format!(
                    "--objects 400 --seconds 1 --rate 20000 --batch 150 --queries 600 --verify \
                     --late 0.1 --late-delay-ms 2500 --duplicate 0.1 --bad 0.05 --remove 0.02 \
                     --absence-ms 2000 --encoding {encoding} {ttl} {ALL_KINDS}"
                ))
                .await;
            assert_verified(&summary, 600);
            for (count, name) in [
                (summary.refused_rows, "refused"),
                (summary.late_rows, "late"),
                (summary.duplicate_rows + summary.superseded_rows, "duplicate or superseded"),
                (summary.removed_objects, "removed"),
            ] {
                assert!(count > 0, "{encoding} {ttl}: no row was {name}");
            }
        }
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verification_passes_at_full_speed() {
    let flags = "--objects 3000 --seconds 1 --batch 400 --connections 3 \
                 --late 0.2 --duplicate 0.2 --duplicate-delay-ms 1200 --bad 0.1";
    let summary = verified_run(&format!("{flags} {ALL_KINDS}"), 500).await;
    assert!(summary.refused_rows > 0 && summary.late_rows > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verification_passes_with_prepared_blocks_and_bad_rows() {
    let flags = "--objects 400 --seconds 1 --rate 20000 --encoding block \
                 --prepared --bad 0.05 --late 0.1 --late-delay-ms 1500";
    let summary = verified_run(&format!("{flags} {ALL_KINDS}"), 300).await;
    assert!(summary.refused_rows > 0 && summary.late_rows > 0);
}

/// Repeatedly moves an object of the run without the oracle's knowledge.
async fn meddle(url: String) {
    let mut client = PositionServiceClient::connect(url).await.unwrap();
    for beat in 0_i64.. {
        let fix = Fix {
            object: 17,
            // Far ahead of the run, so that the run's fixes of the object are late.
            time_ms: 1_700_000_000_000 + beat,
            x: 5.0,
            y: 5.0,
            ..Fix::default()
        };
        let request = ReportOnceRequest {
            fleet: "meddled".to_owned(),
            payload: Some(Payload::Rows(Rows { fixes: vec![fix] })),
            ..ReportOnceRequest::default()
        };
        // Fails until the fleet exists.
        drop(client.report_once(request).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_writer_is_detected() {
    let server = InProcess::start().await;
    let meddling = tokio::spawn(meddle(server.url()));
    let summary = server
        .run(
            "--objects 100 --seconds 1 --rate 5000 --queries 200 --verify --fleet meddled \
             --query-mix get:1 --get-objects 100",
        )
        .await;
    meddling.abort();
    assert!(summary.mismatches > 0, "no mismatch was detected");
    assert!(!summary.is_good());
    assert!(!summary.problems.is_empty());
    server.end().await;
}
