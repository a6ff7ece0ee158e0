//! Monitoring: `/metrics` in the OpenMetrics text format, `/healthz`, and gRPC health, which
//! follows the engines of the fleets.
//!
//! HTTP has an address of its own, so that it answers while the service is busy. A connection
//! serves one request and is closed after a limited time, even if its peer stalls.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tracing::warn;

use crate::connections::ACCEPT_PAUSE;
use crate::fleet::{Fleet, FleetState, Registry};
use crate::limits::{HEADER_BYTES_MAX, METRICS_CONNECTION_MS_MAX, METRICS_CONNECTIONS_MAX};
use crate::metrics::{FleetReading, Metrics};
use crate::refusals::Refusals;

/// Names of the services with a health status; the empty name stands for the whole server.
pub(crate) const SERVICES: [&str; 6] = [
    "",
    "shoal.v1.FleetService",
    "shoal.v1.LogService",
    "shoal.v1.PositionService",
    "shoal.v1.QueryService",
    "shoal.v1.SubscriptionService",
];
/// Time between two checks of the engines.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Content type of the OpenMetrics text format.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answer to a connection beyond the limit.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
    Connection: close\r\n\r\ntoo many connections to the monitoring address\n";

/// The parts of the server that monitoring reads.
#[derive(Clone, Debug)]
pub(crate) struct Monitored {
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Monitored {
    pub(crate) fn is_serving(&self) -> bool {
        !*self.stopping.borrow() && self.registry.is_healthy()
    }
}

/// Serves `/metrics` and `/healthz` until the future is dropped.
pub(crate) async fn serve_http(listener: TcpListener, monitored: Monitored) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(monitored.clone());
    let (mut open, mut refusals) = (JoinSet::new(), Refusals::default());
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection to the monitoring address");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while open.try_join_next().is_some() {}
        if open.len() < METRICS_CONNECTIONS_MAX {
            open.spawn(answer(stream, router.clone()));
        } else {
            warn!(%peer, "refused a connection to the monitoring address beyond its limit");
            monitored.metrics.metrics_connections_refused.inc();
            refusals.refuse(stream, None, Bytes::from_static(BUSY));
        }
    }
}

/// Answers the request of a connection and closes the connection.
async fn answer(stream: TcpStream, router: Router) {
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEADER_BYTES_MAX as usize);
    let answered = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A peer that stalls, disconnects or does not send HTTP gets no answer.
    let _ = tokio::time::timeout(Duration::from_millis(METRICS_CONNECTION_MS_MAX), answered).await;
}

async fn metrics(State(monitored): State<Monitored>) -> impl IntoResponse {
    for fleet in monitored.registry.list() {
        monitored.metrics.show_fleet(fleet.current_name(), &reading(&fleet));
        if fleet.state() == FleetState::Deleted && fleet.has_ended() {
            // Its series may have been removed before they were shown.
            monitored.metrics.forget(fleet.current_name());
        }
    }
    let page_bytes = monitored.registry.history_pages().bytes() as i64;
    monitored.metrics.history_page_bytes.set(page_bytes);
    ([(header::CONTENT_TYPE, METRICS_TYPE)], monitored.metrics.text())
}

/// Reads the values of a fleet's gauges. They are 0 for a log, followers or a history that the
/// fleet does not have.
fn reading(fleet: &Fleet) -> FleetReading {
    // Read these first, because they may be older than the other values.
    let (staleness, view) = (fleet.staleness(), fleet.view());
    let (depth, subscriptions) = (fleet.depth(), fleet.subscriptions());
    let followers = fleet.log().map(|log| log.followers().connected()).unwrap_or_default();
    let slowest = followers.iter().map(|(_, epoch)| *epoch).min();
    let log = fleet.log().map(|log| log.depth()).unwrap_or_default();
    let history = fleet.history_reading().unwrap_or_default();
    FleetReading {
        objects: view.objects,
        epoch: view.epoch,
        clock_milliseconds: view.clock_ms.max(0) as u64,
        clock_rewinds: view.clock_rewinds,
        memory_bytes: view.memory_bytes,
        grid_cycles_applied: view.grid_updates.applied,
        grid_cycles_rebuilt: view.grid_updates.rebuilt,
        queue_rows: depth.rows,
        queue_messages: depth.messages,
        queue_queries: depth.queries,
        cycles_in_flight: view.cycles_in_flight,
        sessions: subscriptions.sessions,
        regions: subscriptions.regions,
        session_bytes: subscriptions.bytes,
        log_bytes: log.bytes,
        log_pending_bytes: log.pending_bytes,
        log_pending_cycles: log.pending_cycles,
        log_durable_epoch: log.durable_epoch,
        checkpoint_epoch: log.checkpoint_epoch,
        followers: followers.len() as u64,
        follower_lag_epochs: slowest.map_or(0, |epoch| log.durable_epoch.saturating_sub(epoch)),
        lag_epochs: staleness.map_or(0, |it| it.leader_epoch.saturating_sub(view.epoch)),
        stale_milliseconds: staleness.map_or(0, |it| it.stale_ms),
        history_epoch: history.watermark.position.epoch,
        history_clock_milliseconds: history.watermark.clock_ms.max(0) as u64,
        history_backlog_bytes: history.backlog_bytes,
        history_runs: history.runs,
        history_rows: history.rows,
        history_bytes: history.bytes,
        history_sealed_rows: history.sealed_rows,
        history_dropped_rows: history.dropped_rows,
        history_merges: history.merges,
        history_retries: history.retries,
        history_failed: u64::from(history.failed.is_some()),
    }
}

async fn healthz(State(monitored): State<Monitored>) -> impl IntoResponse {
    if monitored.is_serving() {
        (StatusCode::OK, "serving\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not serving\n")
    }
}

/// Updates the gRPC health status until the future is dropped.
pub(crate) async fn watch_health(health: HealthReporter, monitored: Monitored) {
    let mut was_serving = None;
    let mut stopping = monitored.stopping.clone();
    loop {
        let is_serving = monitored.is_serving();
        if was_serving != Some(is_serving) {
            set_health(&health, is_serving).await;
            // Do not warn at the start, when the server is not serving because fleets are being
            // recovered.
            if was_serving == Some(true) {
                warn!("not serving");
            }
            was_serving = Some(is_serving);
        }
        // Engines are polled, but a shutdown ends the wait at once. An error cannot occur: the
        // sender outlives this task.
        let _ = tokio::time::timeout(CHECK_INTERVAL, stopping.changed()).await;
    }
}

async fn set_health(health: &HealthReporter, is_serving: bool) {
    let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in SERVICES {
        health.set_service_status(service, status).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_sends_its_header_slowly_is_cut() {
        let (client, stream) = connected().await;
        let router = Router::new().route("/", get(async || "served"));
        let answered = tokio::spawn(answer(stream, router));
        let (mut reader, mut writer) = client.into_split();
        let sending = async {
            // A byte every second: the header never ends.
            writer.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
            while writer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let mut received = Vec::new();
        // A connection that is closed with unread bytes may be reset.
        let _ = tokio::join!(sending, reader.read_to_end(&mut received));
        answered.await.unwrap();
        assert_eq!(received, b"");
    }

    #[tokio::test]
    async fn a_connection_has_one_request() {
        let (mut client, stream) = connected().await;
        let router = Router::new().route("/", get(async || "served"));
        let answered = tokio::spawn(answer(stream, router));
        client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        assert!(received.starts_with("HTTP/1.1 200 OK\r\n"), "{received}");
        assert!(received.ends_with("\r\n\r\nserved"), "{received}");
        answered.await.unwrap();
    }
}
