//! Monitoring: `/metrics` in the OpenMetrics text format, `/healthz`, and gRPC health, which
//! follows the engines of the fleets.
//!
//! HTTP has an address of its own, so that it answers while the service is busy.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tracing::{error, warn};

use crate::fleet::{Fleet, Registry, Staleness};
use crate::metrics::{FleetReading, Metrics, ReplicationDepth};

/// Services with a health status; the empty name stands for all.
pub(crate) const SERVICES: [&str; 6] = [
    "",
    "shoal.v1.FleetService",
    "shoal.v1.LogService",
    "shoal.v1.PositionService",
    "shoal.v1.QueryService",
    "shoal.v1.SubscriptionService",
];
/// Between two checks of the engines.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Content type of the OpenMetrics text format.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The server as monitoring sees it.
#[derive(Clone, Debug)]
pub(crate) struct Monitored {
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Monitored {
    fn is_serving(&self) -> bool {
        !*self.stopping.borrow() && self.registry.is_healthy()
    }
}

/// Serves `/metrics` and `/healthz` until it is dropped.
pub(crate) async fn serve_http(listener: TcpListener, monitored: Monitored) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(monitored);
    if let Err(error) = axum::serve(listener, router).await {
        error!(%error, "serving metrics failed");
    }
}

async fn metrics(State(monitored): State<Monitored>) -> impl IntoResponse {
    for fleet in monitored.registry.list() {
        let (view, depth) = (fleet.view(), fleet.depth());
        let log = fleet.log().map(|log| log.depth()).unwrap_or_default();
        let replication = replication_depth(&fleet);
        let subscriptions = fleet.subscriptions();
        let history = fleet.history_reading().unwrap_or_default();
        let reading = FleetReading { view, depth, subscriptions, log, replication, history };
        monitored.metrics.show_fleet(fleet.name().as_str(), &reading);
    }
    ([(header::CONTENT_TYPE, METRICS_TYPE)], monitored.metrics.text())
}

fn replication_depth(fleet: &Fleet) -> ReplicationDepth {
    let mut depth = ReplicationDepth::default();
    if let Some(log) = fleet.log() {
        let followers = log.followers().connected();
        depth.followers = followers.len() as u64;
        let slowest = followers.iter().map(|(_, epoch)| *epoch).min();
        let durable = log.reading().durable_epoch;
        depth.follower_lag_epochs = slowest.map_or(0, |epoch| durable.saturating_sub(epoch));
    }
    if let Some(Staleness { leader_epoch, stale_ms }) = fleet.staleness() {
        depth.lag_epochs = leader_epoch.saturating_sub(fleet.view().epoch);
        depth.stale_ms = stale_ms;
    }
    depth
}

async fn healthz(State(monitored): State<Monitored>) -> impl IntoResponse {
    if monitored.is_serving() {
        (StatusCode::OK, "serving\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not serving\n")
    }
}

/// Updates gRPC health until it is dropped.
pub(crate) async fn watch_health(health: HealthReporter, monitored: Monitored) {
    let mut was_serving = None;
    let mut stopping = monitored.stopping.clone();
    loop {
        let is_serving = monitored.is_serving();
        if was_serving != Some(is_serving) {
            set_health(&health, is_serving).await;
            // At the start it waits for the fleets, which is no fault.
            if was_serving == Some(true) {
                warn!("not serving");
            }
            was_serving = Some(is_serving);
        }
        // Engines are polled; a shutdown is seen at once. Its sender outlives this task.
        let _ = tokio::time::timeout(CHECK_INTERVAL, stopping.changed()).await;
    }
}

async fn set_health(health: &HealthReporter, is_serving: bool) {
    let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in SERVICES {
        health.set_service_status(service, status).await;
    }
}
