//! What does every call share?
//!
//! Fleets, limits, counters, the budget of answers, and whether the server is going down.
//! Long-lived streams are counted here, so that their number is bounded.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::answer_budget::AnswerBudget;
use crate::error::ServiceError;
use crate::fleet::Registry;
use crate::limits::{BUSY_RETRY_MS, ServerLimits};
use crate::metrics::Metrics;

/// See the file's head.
#[derive(Debug)]
pub struct Door {
    pub(super) registry: Arc<Registry>,
    pub(super) limits: ServerLimits,
    pub(super) answers: Arc<AnswerBudget>,
    metrics: Arc<Metrics>,
    streams: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

/// A long-lived stream that counts.
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

impl Door {
    /// A door to these fleets; `stopping` turns true when the server goes down.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        limits: ServerLimits,
        metrics: Arc<Metrics>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let answers = registry.answers();
        let streams = Arc::new(Semaphore::new(limits.streams_max));
        Self { registry, limits, answers, metrics, streams, stopping }
    }

    /// Counts a long-lived stream until it is dropped.
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

    /// Completes when the server goes down.
    pub(super) async fn stopped(&self) {
        // The sender lives as long as the server; without it, it is down.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// Counts a call that was refused because something was full.
    pub(super) fn count(&self, error: ServiceError) -> ServiceError {
        if matches!(error, ServiceError::Busy { .. }) {
            self.metrics.busy.inc();
        }
        error
    }
}
