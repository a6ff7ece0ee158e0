//! What do people and machines see who watch the server?
//!
//! `/metrics` in the text format of Prometheus and `/healthz`, on an address of their own so that
//! they answer while the service is busy, and gRPC health, which follows the fleets' engines.

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

use crate::fleet::Registry;
use crate::metrics::Metrics;

/// Services whose health is told; the empty name stands for all.
pub(crate) const SERVICES: [&str; 5] = [
    "",
    "shoal.v1.FleetService",
    "shoal.v1.PositionService",
    "shoal.v1.QueryService",
    "shoal.v1.SubscriptionService",
];
/// Between two looks at the engines.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Content type of the OpenMetrics text format.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Watched {
    fn is_serving(&self) -> bool {
        !*self.stopping.borrow() && self.registry.is_healthy()
    }
}

/// Serves `/metrics` and `/healthz` until it is dropped.
pub(crate) async fn serve_http(listener: TcpListener, watched: Watched) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(watched);
    if let Err(error) = axum::serve(listener, router).await {
        error!(%error, "serving metrics failed");
    }
}

async fn metrics(State(watched): State<Watched>) -> impl IntoResponse {
    for fleet in watched.registry.list() {
        let (name, view) = (fleet.name().as_str(), fleet.view());
        watched.metrics.show_fleet(name, &view, fleet.depth(), fleet.subscriptions());
    }
    ([(header::CONTENT_TYPE, METRICS_TYPE)], watched.metrics.text())
}

async fn healthz(State(watched): State<Watched>) -> impl IntoResponse {
    if watched.is_serving() {
        (StatusCode::OK, "serving\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not serving\n")
    }
}

/// Keeps gRPC health true until it is dropped.
pub(crate) async fn watch_health(health: HealthReporter, watched: Watched) {
    let mut was_serving = None;
    let mut stopping = watched.stopping.clone();
    loop {
        let is_serving = watched.is_serving();
        if was_serving != Some(is_serving) {
            set_health(&health, is_serving).await;
            if !is_serving {
                warn!("not serving");
            }
            was_serving = Some(is_serving);
        }
        // Engines are looked at now and then, a shutdown is seen at once. Its sender outlives this.
        let _ = tokio::time::timeout(LOOK_INTERVAL, stopping.changed()).await;
    }
}

async fn set_health(health: &HealthReporter, is_serving: bool) {
    let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in SERVICES {
        health.set_service_status(service, status).await;
    }
}
