//! Every answer is correct on every workload, in both encodings of rows.
//!
//! Small verified runs of all query kinds against a server in this process, bounded by rows and
//! queries rather than time.

use crate::in_process::{InProcess, assert_verified, verified_run};

/// All query kinds, with windows large enough to contain objects.
const ALL_KINDS: &str = "--query-mix range:3,circle:2,polygon:2,nearest:2,get:1 --window 0.1";
const ENCODINGS: [&str; 4] = [
    "--encoding rows",
    "--encoding block",
    "--encoding block --block-plan planned",
    "--encoding block --block-plan planned --prepared",
];

async fn check(workload: &str, more: &str) {
    let server = InProcess::start().await;
    for encoding in ENCODINGS {
        let summary = server
            .run(&format!(
                "--workload {workload} --objects 500 --seconds 1 --rate 20000 --queries 800 \
                 --verify --seed 3 {ALL_KINDS} {encoding} {more}"
            ))
            .await;
        assert_verified(&summary, 800);
        assert!(summary.applied_rows > 0);
        assert_eq!(summary.prepared, encoding.ends_with("prepared"));
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uniform() {
    check("uniform", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_correct_at_full_speed() {
    let flags = "--objects 2000 --seconds 1 --batch 500 --update-query 10:1";
    verified_run(&format!("{flags} {ALL_KINDS}"), 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gauss() {
    check("gauss", "--hotspots 5 --windows-follow").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn network() {
    check("network", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hub() {
    check("hub", "--destinations 5 --update-interval-ms 60000").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_correct_on_a_replay() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample/bus_austin.csv.gz");
    let server = InProcess::start().await;
    let mut bytes_per_update = Vec::new();
    for encoding in ENCODINGS {
        let summary = server
            .run(&format!(
                "--workload replay:{sample} --verify --queries 1000 --update-query 100:3 \
                 --connections 3 --batch 700 {ALL_KINDS} {encoding}"
            ))
            .await;
        assert_verified(&summary, 1_000);
        assert!(summary.sent_rows > 30_000, "the whole day");
        bytes_per_update.push(summary.bytes_per_update);
    }
    let [rows, raw, planned, prepared] = bytes_per_update[..] else { panic!("four encodings") };
    assert!(rows > raw && raw > 2.0 * planned, "{bytes_per_update:?}");
    assert!((planned - prepared).abs() < 0.01 * planned, "{bytes_per_update:?}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_share_an_epoch() {
    let flags = "--objects 300 --connections 7 --batch 20 --rate 30000 --seconds 1 \
                 --update-query 100:10";
    verified_run(&format!("{flags} {ALL_KINDS}"), 500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_calls_are_verified() {
    let flags = "--objects 500 --rate 5000 --seconds 1 --ask single";
    let summary = verified_run(&format!("{flags} {ALL_KINDS}"), 300).await;
    assert_eq!(summary.query_ms.max > 0.0, summary.queries > 0);
}
