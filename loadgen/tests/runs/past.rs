//! Answers to questions about the past equal those of the oracle, and wrong answers are detected.

use crate::in_process::InProcess;
use shoal_service::{ServerLimits, ServerOptions};

/// A server with a history of short runs, which it merges during the test.
pub(crate) async fn with_history(folder: &tempfile::TempDir) -> InProcess {
    let limits = ServerLimits { history_seal_ms: 30, history_share: 100, ..Default::default() };
    let data = Some(folder.path().to_owned());
    let history = Some(Default::default());
    let options = ServerOptions { data, history, limits, ..Default::default() };
    InProcess::start_as(options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_equals_that_of_the_oracle() {
    let folder = tempfile::tempdir().unwrap();
    let server = with_history(&folder).await;
    for (seed, flags) in [
        "--workload uniform",
        "--workload network --late 0.1 --remove 0.02 --absence-ms 2000",
        "--workload gauss --ttl-ms 9000 --late 0.05 --duplicate 0.05 --bad 0.02 --remove 0.01",
        "--workload hub --encoding block --late 0.1",
    ]
    .into_iter()
    .enumerate()
    {
        let summary = server
            .run(&format!(
                "--verify --history-queries 400 --objects 300 --seconds 2 --rate 20000 --window \
                 0.2 --seed {seed} {flags}"
            ))
            .await;
        assert!(summary.is_good(), "{flags}: {:?}", summary.problems);
        let (asked, verified) = (summary.past.past_queries, summary.past.verified_past_queries);
        assert!(asked >= 2_000 && verified > asked / 2, "{flags}: {verified} of {asked} verified");
        assert!(summary.past.past_rows > 2_000, "{flags}: {} rows", summary.past.past_rows);
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_past_is_reported() {
    let server = InProcess::start().await;
    let flags = "--history-queries 2 --objects 100 --seconds 0.2 --rate 1000";
    let summary = server.run(flags).await;
    assert!(summary.past.failed_past_queries >= 10 && !summary.is_good());
    assert!(summary.problems.iter().any(|it| it.contains("history")), "{:?}", summary.problems);
    server.end().await;
}
