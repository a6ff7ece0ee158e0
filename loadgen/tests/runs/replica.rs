//! Hazard: an answer of a follower differs from its leader's state at the same epoch.
//!
//! Reports go to the leader, queries to the follower. The model defines the leader's state at the
//! epoch of each answer.

use std::path::Path;

use crate::in_process::{InProcess, assert_verified};
use shoal_service::follower::LeaderLink;
use shoal_service::{ServerLimits, ServerOptions};
use tempfile::TempDir;

/// A server with a data folder, and its leader if it follows one.
pub(crate) async fn start(data: &Path, follow: Option<String>) -> InProcess {
    let limits = ServerLimits {
        log_segment_bytes: 1 << 20,
        // Small, so that checkpoints and the retirement of segments happen while the follower
        // copies.
        checkpoint_log_bytes: 1 << 20,
        log_reserve_bytes: 0,
        ..ServerLimits::default()
    };
    let replication_secret = Some("sixteen-or-more-characters".parse().unwrap());
    let leader_link = LeaderLink { replication_secret, ..LeaderLink::default() };
    let data = Some(data.to_owned());
    let options = ServerOptions { data, follow, limits, leader_link, ..Default::default() };
    InProcess::start_as(options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_gives_the_same_answers_at_the_same_epoch() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let leader = start(first.path(), None).await;
    let follower = start(second.path(), Some(leader.address.to_string())).await;
    let at = follower.address;
    for flags in [
        "--encoding block --late 0.02 --duplicate 0.02 --remove 0.01 --bad 0.01 --ttl-ms 4000",
        "--encoding rows --preload --durability applied",
        "--encoding block --ask single --query-mix range:2,circle:1,polygon:1,nearest:2,get:2",
    ] {
        let flags = format!(
            "--verify --follower {at} --objects 500 --seconds 0.7 --step-ms 200 --window 0.2 \
             --rate 40000 --queries 300 {flags}"
        );
        let summary = leader.run(&flags).await;
        assert_verified(&summary, 300);
        assert_eq!(summary.unverifiable_queries, 0);
    }
    follower.end().await;
    leader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_no_follower_is_refused() {
    let server = InProcess::start().await;
    let flags = format!("--follower {} --objects 10 --seconds 0.1", server.address);
    let error = server.try_run(&flags).await.unwrap_err();
    assert!(error.to_string().contains("is no follower"), "{error}");
    assert_eq!(server.fleets().await.len(), 1, "the fresh fleet is deleted");
    server.end().await;
}
