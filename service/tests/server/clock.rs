//! A fleet's clock does not follow small steps back of the server's clock, nor event times.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use shoal_engine::Clock;
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_service::ServerOptions;
use shoal_service::cycle::WallClock;
use shoal_service::server::Environment;

use crate::restart;
use crate::running::{
    ReportsOnce as _, Running, START_MS, environment, fix, objects_in, rows, until, whole, world,
};

/// An environment with a controllable wall clock.
pub(crate) fn at_time(now_ms: &Arc<AtomicI64>) -> Environment {
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
async fn the_fleet_clock_waits_for_small_steps_back_and_follows_large_ones() {
    let now_ms = Arc::new(AtomicI64::new(START_MS));
    let options = ServerOptions { default_clock: Clock::System, ..ServerOptions::default() };
    let server = Running::start_in(at_time(&now_ms), options).await;
    assert_eq!(clock_ms(&server).await, START_MS);
    now_ms.store(START_MS + 5000, Ordering::SeqCst);
    assert_eq!(clock_ms(&server).await, START_MS + 5000);
    now_ms.store(START_MS, Ordering::SeqCst);
    assert_eq!(clock_ms(&server).await, START_MS + 5000);
    now_ms.store(START_MS - 3_600_000, Ordering::SeqCst);
    assert_eq!(clock_ms(&server).await, START_MS - 3_600_000);
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

/// The machine's clock is three days ahead, and is corrected while the server runs or before it
/// starts again: reports are visible, and what the log has is recovered.
#[tokio::test(flavor = "multi_thread")]
async fn a_corrected_clock_of_the_machine_is_followed() {
    const AHEAD_MS: i64 = 3 * 86_400_000;
    for clock in [Clock::System, Clock::Event] {
        let now_ms = Arc::new(AtomicI64::new(START_MS + AHEAD_MS));
        let disk = SimulatedDisk::new(5);
        let place = || Environment { wall: at_time(&now_ms).wall, ..restart::on(&disk) };
        let options = || ServerOptions {
            default_clock: clock,
            default_ttl_ms: Some(600_000),
            ..ServerOptions::default()
        };
        let report = async |server: &Running, object, time_ms| {
            let message = rows(vec![fix(object, time_ms, 0.0, 0.0)]);
            let ack = server.positions().await.once(message).await.unwrap().into_inner();
            assert_eq!(ack.rows.unwrap().applied, 1);
            let mut queries = server.queries().await;
            objects_in(&mut queries, world(), ack.token).await
        };
        let server = Running::start_in(place(), options()).await;
        assert_eq!(report(&server, 1, START_MS + AHEAD_MS).await, [1]);
        now_ms.store(START_MS, Ordering::SeqCst);
        // The first cycle after the correction sets the clock back.
        assert_eq!(report(&server, 2, START_MS).await, [1, 2]);
        assert_eq!(server.fleet("").await.clock_set_back_count, 1);
        assert_eq!(clock_ms(&server).await, START_MS);
        server.stop().await;

        now_ms.store(START_MS + 1_000, Ordering::SeqCst);
        let server = Running::start_in(place(), options()).await;
        assert_eq!(report(&server, 3, START_MS + 1_000).await, [1, 2, 3]);
        assert_eq!(server.fleet("").await.clock_set_back_count, 0, "the log has it");
        // The machine's clock is ahead again, and is corrected while the server is down.
        now_ms.store(START_MS + AHEAD_MS, Ordering::SeqCst);
        // A single row does not move an event clock that far. The system clock expires 2 and 3.
        let is_system = clock == Clock::System;
        let left: &[u64] = if is_system { &[1, 4] } else { &[1, 2, 3, 4] };
        assert_eq!(report(&server, 4, START_MS + AHEAD_MS).await, left);
        server.stop().await;
        now_ms.store(START_MS + 2_000, Ordering::SeqCst);
        let server = Running::start_in(place(), options()).await;
        assert_eq!(report(&server, 5, START_MS + 2_000).await, [left, &[5]].concat());
        assert_eq!(server.fleet("").await.clock_set_back_count, u64::from(is_system));
        server.stop().await;
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
