//! A fleet's clock is monotonic, independent of steps of the server's clock or of event times.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use shoal_engine::Clock;
use shoal_proto::v1;
use shoal_service::ServerOptions;
use shoal_service::fleet::WallClock;
use shoal_service::server::Environment;

use crate::running::{
    ReportsOnce as _, Running, START_MS, environment, fix, objects_in, rows, until, whole, world,
};

/// An environment with a controllable wall clock.
fn at_time(now_ms: &Arc<AtomicI64>) -> Environment {
    let now_ms = now_ms.clone();
    let wall = WallClock::new(move || now_ms.load(Ordering::SeqCst));
    Environment { wall, ..environment() }
}

async fn clock_ms(server: &Running) -> i64 {
    let request = v1::RangeRequest { region: Some(world()), ..Default::default() };
    let answer = server.queries().await.range(request).await.unwrap().into_inner();
    whole(answer).await.unwrap().header.clock_ms
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_clock_ignores_backward_steps_of_the_system_clock() {
    let now_ms = Arc::new(AtomicI64::new(START_MS));
    let options = ServerOptions { default_clock: Clock::System, ..ServerOptions::default() };
    let server = Running::start_in(at_time(&now_ms), options).await;
    assert_eq!(clock_ms(&server).await, START_MS);
    now_ms.store(START_MS + 5000, Ordering::SeqCst);
    assert_eq!(clock_ms(&server).await, START_MS + 5000);
    now_ms.store(START_MS - 3_600_000, Ordering::SeqCst);
    assert_eq!(clock_ms(&server).await, START_MS + 5000);
    // Rows are validated against the current system clock plus 60 s.
    let mut client = server.positions().await;
    let late = rows(vec![fix(1, START_MS - 3_600_000 + 60_001, 0.0, 0.0)]);
    let ack = client.once(late).await.unwrap().into_inner();
    assert_eq!(ack.refused_rows[0].reason(), v1::RefusalReason::TimeTooLate);
    let good = rows(vec![fix(1, START_MS - 3_600_000 + 60_000, 0.0, 0.0)]);
    let ack = client.once(good).await.unwrap().into_inner();
    assert_eq!(ack.rows.unwrap().applied, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_clock_follows_the_newest_row() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    for (time_ms, expected_ms) in [(5000, 5000), (1000, 5000), (6000, 6000)] {
        let message = rows(vec![fix(1, START_MS + time_ms, 0.0, 0.0)]);
        client.once(message).await.unwrap();
        assert_eq!(clock_ms(&server).await, START_MS + expected_ms);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_expire_in_an_idle_fleet() {
    let now_ms = Arc::new(AtomicI64::new(START_MS));
    let options = ServerOptions {
        default_clock: Clock::System,
        default_ttl_ms: Some(1000),
        ..ServerOptions::default()
    };
    let server = Running::start_in(at_time(&now_ms), options).await;
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0), fix(2, START_MS + 500, 0.0, 0.0)]);
    let ack = server.positions().await.once(message).await.unwrap().into_inner();
    let mut queries = server.queries().await;
    assert_eq!(objects_in(&mut queries, world(), ack.token).await, [1, 2]);
    now_ms.store(START_MS + 1001, Ordering::SeqCst);
    // The idle engine runs a cycle without a request.
    until(async || server.fleet("").await.object_count == 1).await;
    now_ms.store(START_MS + 10_000, Ordering::SeqCst);
    until(async || server.fleet("").await.object_count == 0).await;
    let late = rows(vec![fix(3, START_MS + 8999, 0.0, 0.0), fix(4, START_MS + 9000, 0.0, 0.0)]);
    let ack = server.positions().await.once(late).await.unwrap().into_inner();
    let counts = ack.rows.unwrap();
    assert_eq!((counts.applied, counts.expired), (1, 1));
    assert_eq!(objects_in(&mut queries, world(), ack.token).await, [4]);
    let rows = server.fleet("").await.row_counts.unwrap();
    assert_eq!((rows.applied, rows.expired), (3, 1));
    let outcome = r#"shoal_rows_total{fleet="default",outcome="expired"}"#;
    assert_eq!(server.metric(outcome).await, 1.0);
    let expired = r#"shoal_objects_removed_total{fleet="default",reason="expired"}"#;
    assert_eq!(server.metric(expired).await, 3.0);
}
