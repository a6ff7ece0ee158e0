//! What all calls share: fleets, limits, metrics, the answer budget and the shutdown signal.
//!
//! Implements the gRPC services. Counts long-lived streams, so that their number is bounded.

use std::num::NonZero;
use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::answer_budget::AnswerBudget;
use crate::error::ServiceError;
use crate::fleet::Registry;
use crate::follower::Replication;
use crate::limits::{BUSY_RETRY_MS, ServerLimits};
use crate::metrics::Metrics;

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct ServiceContext {
    pub(super) registry: Arc<Registry>,
    pub(super) replication: Arc<Replication>,
    pub(super) limits: ServerLimits,
    pub(super) answers: Arc<AnswerBudget>,
    metrics: Arc<Metrics>,
    streams: Arc<Semaphore>,
    /// Steps of queries of the history that run at once.
    pub(super) history_steps: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

/// The place of a long-lived stream among those that may be open.
#[derive(Debug)]
pub(super) struct OpenStream {
    _permit: OwnedSemaphorePermit,
    gauge: Gauge,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl ServiceContext {
    /// The context of these fleets; `stopping` becomes true when the server shuts down.
    #[must_use]
    pub(crate) fn new(
        registry: Arc<Registry>,
        replication: Arc<Replication>,
        limits: ServerLimits,
        metrics: Arc<Metrics>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let answers = registry.answers();
        let streams = Arc::new(Semaphore::new(limits.streams_max));
        // Live traffic keeps the other half.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let history_steps = Arc::new(Semaphore::new((cores / 2).max(1)));
        Self { registry, replication, limits, answers, metrics, streams, history_steps, stopping }
    }

    /// Counts a long-lived stream until the result is dropped.
    ///
    /// # Errors
    /// [`ServiceError::Busy`]; [`ServiceError::ShuttingDown`].
    pub(super) fn open_stream(&self) -> Result<OpenStream, ServiceError> {
        if *self.stopping.borrow() {
            return Err(ServiceError::ShuttingDown);
        }
        let permit = self.streams.clone().try_acquire_owned();
        let _permit = permit.map_err(|_| ServiceError::Busy {
            what: "the number of open streams",
            limit: self.limits.streams_max as u64,
            retry_ms: BUSY_RETRY_MS,
        })?;
        self.metrics.streams.inc();
        Ok(OpenStream { _permit, gauge: self.metrics.streams.clone() })
    }

    /// Completes when the server shuts down.
    pub(super) async fn stopped(&self) {
        // The sender lives as long as the server.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// Counts a call that fails because a queue or budget is full.
    pub(super) fn count(&self, error: ServiceError) -> ServiceError {
        if matches!(error, ServiceError::Busy { .. }) {
            self.metrics.busy.inc();
        }
        error
    }
}
