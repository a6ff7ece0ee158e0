//! A run deletes its fresh fleet, also after an error or a signal.
//!
//! A named fleet is created if absent, kept, and reused; invalid combinations are refused before
//! any row is sent.

use std::time::Duration;

use crate::in_process::{InProcess, assert_verified};
use shoal_loadgen::{LoadError, RunPlan, Summary};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Starts a run and waits until its fleet has 100 objects.
async fn started(
    server: &InProcess,
    plan: RunPlan,
    stopped: watch::Receiver<bool>,
) -> JoinHandle<Result<Summary, LoadError>> {
    let running = tokio::spawn(shoal_loadgen::run(plan, stopped));
    while server.fleets().await.iter().all(|fleet| fleet.object_count < 100) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_fleet_is_deleted() {
    let server = InProcess::start().await;
    server.run("--objects 100 --seconds 0.2 --rate 2000").await;
    let names: Vec<_> = server.fleets().await.into_iter().map(|fleet| fleet.name).collect();
    assert_eq!(names, ["default"]);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_stops_the_run_and_deletes_its_fleet() {
    let server = InProcess::start().await;
    let (stop, stopped) = watch::channel(false);
    let plan = server.plan("--objects 100 --seconds 1000 --rate 2000 --verify").unwrap();
    let running = started(&server, plan, stopped).await;
    stop.send_replace(true);
    let summary = running.await.unwrap().unwrap();
    assert!(summary.interrupted && !summary.is_good());
    assert_eq!(summary.mismatches, 0);
    assert_eq!(server.fleets().await.len(), 1);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_fleet_is_kept_and_reused() {
    let server = InProcess::start().await;
    let flags = "--objects 200 --seconds 0.3 --rate 5000 --fleet mine";
    let first = server.run(&format!("{flags} --verify --queries 200")).await;
    assert_verified(&first, 200);
    let second = server.run(flags).await;
    assert_eq!(second.late_rows, 0, "times continue after those of the first run");
    assert!(second.applied_rows > 0);
    let fleets = server.fleets().await;
    let mine = fleets.iter().find(|fleet| fleet.name == "mine").unwrap();
    assert_eq!(mine.object_count, 200);

    let refused = server.try_run(&format!("{flags} --verify")).await.unwrap_err();
    assert!(
        matches!(&refused, LoadError::Usage(text) if text.contains("200 objects")),
        "{refused}"
    );
    let refused = server.try_run(&format!("{flags} --workload hub")).await.unwrap_err();
    assert!(matches!(&refused, LoadError::Usage(text) if text.contains("space")), "{refused}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_name_the_cause_or_a_remedy() {
    let server = InProcess::start().await;
    let unknown = server.try_run("--workload circus").await.unwrap_err();
    assert!(matches!(&unknown, LoadError::Usage(text) if text.contains("uniform")), "{unknown}");
    let missing = server.try_run("--workload replay:/nowhere.csv").await.unwrap_err();
    assert!(missing.to_string().contains("/nowhere.csv"), "{missing}");
    let url = server.url();
    server.end().await;
    let plan = {
        let stopped = InProcess::start().await;
        let plan = stopped.plan("--objects 10").unwrap();
        stopped.end().await;
        plan
    };
    let (_stop, stopped) = watch::channel(false);
    let refused = shoal_loadgen::run(plan, stopped).await.unwrap_err();
    assert!(matches!(refused, LoadError::Connect { .. }), "{refused}");
    assert!(refused.to_string().contains("shoal serve"), "{refused} instead of {url}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_server_is_an_error() {
    let server = InProcess::start().await;
    let plan = server.plan("--objects 100 --seconds 1000 --rate 2000").unwrap();
    let (_stop, stopped) = watch::channel(false);
    let running = started(&server, plan, stopped).await;
    server.end().await;
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, LoadError::Call { .. }), "{error}");
}
