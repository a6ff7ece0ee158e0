//! Runs keep the requested rates, ratios and minimum counts.
//!
//! Tests compare counts, never times, so that they pass on a slow machine. Runs without updates or
//! without queries are valid.

use crate::in_process::InProcess;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_queries_measures_none() {
    let server = InProcess::start().await;
    let summary = server.run("--objects 1000 --seconds 0.3 --update-query 1:0").await;
    assert!(summary.is_good() && summary.applied_rows > 0);
    assert_eq!((summary.queries, summary.query_ms.max), (0, 0.0));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_updates_places_objects_first() {
    let server = InProcess::start().await;
    let summary = server
        .run(
            "--objects 1000 --update-query 0:1 --rate 500 --seconds 0.2 --queries 120 --ask single \
             --want count --window 1",
        )
        .await;
    assert!(summary.is_good());
    assert_eq!((summary.sent_rows, summary.preloaded_rows), (0, 1_000));
    assert!(summary.queries >= 120, "{}", summary.queries);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_continue_after_the_last_row() {
    let server = InProcess::start().await;
    for rate in ["", "--rate 500000"] {
        let flags =
            format!("--objects 100 --seconds 0.1 --update-query 1000:1 --queries 700 {rate}");
        let summary = server.run(&flags).await;
        assert!(summary.is_good());
        assert!(summary.queries >= 700, "{}", summary.queries);
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ratio_holds_at_full_speed() {
    let server = InProcess::start().await;
    let summary =
        server.run("--objects 5000 --seconds 0.5 --update-query 100:7 --batch 1000").await;
    let due = summary.sent_rows * 7 / 100;
    // Each of the two connections rounds its share of the queries down.
    assert!(summary.queries <= due && summary.queries + 2 >= due, "{} of {due}", summary.queries);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_is_an_upper_limit() {
    let server = InProcess::start().await;
    let summary = server.run("--objects 100 --seconds 0.5 --rate 4000 --update-query 100:10").await;
    assert!(summary.sent_rows + summary.behind_rows >= 1_900, "{summary:?}");
    assert!(summary.sent_rows <= 2_100, "{}", summary.sent_rows);
    assert!(summary.queries <= 220, "{}", summary.queries);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preloaded_rows_do_not_count_as_sent() {
    let server = InProcess::start().await;
    let summary = server
        .run(
            "--objects 5000 --preload --seconds 0.2 --rate 1000 --verify --queries 50 --window 0.1",
        )
        .await;
    assert!(summary.is_good());
    assert_eq!(summary.preloaded_rows, 5_000);
    assert!(summary.sent_rows <= 300, "{}", summary.sent_rows);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_written_as_json() {
    let server = InProcess::start().await;
    let file = std::env::temp_dir().join(format!("shoal-loadgen-{}.json", std::process::id()));
    let flags = format!("--objects 100 --seconds 0.1 --rate 1000 --json {}", file.display());
    server.run(&flags).await;
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(json["updates_per_s"].as_f64().unwrap() > 0.0);
    assert!(json["ack_ms"]["p999"].is_number());
    server.end().await;
}
