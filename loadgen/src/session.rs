//! What all tasks of a run share: the plan, the fleet, the counters, the link to the verifier, and
//! the signals to start and stop.

use std::future::Future;
use std::sync::Arc;

use shoal_client::Quantizer;
use shoal_engine::Space;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::error::LoadError;
use crate::measure::Counters;
use crate::plan::Plan;
use crate::subscription::EpochTimes;
use crate::verify::VerifierLink;

/// Shared by the tasks of one run.
#[derive(Debug)]
pub struct Session {
    /// The plan of the run.
    pub plan: Plan,
    /// Name of the fleet.
    pub fleet: String,
    /// Its space.
    pub space: Space,
    /// Rounds fixes as the fleet stores them.
    pub quantizer: Quantizer,
    /// Milliseconds added to every event time: a fleet that is used again has a clock already.
    pub shift_ms: i64,
    /// Progress.
    pub counters: Arc<Counters>,
    /// Where acks and answers are compared.
    pub verifier: Option<VerifierLink>,
    /// Where events find out how old they are, when there are subscribers.
    pub times: Option<Arc<EpochTimes>>,
    /// Told by each task when it is ready to start.
    pub ready: mpsc::UnboundedSender<()>,
    /// When the clock started.
    pub start: watch::Receiver<Option<Instant>>,
    /// True once the run should end early.
    pub stop: watch::Receiver<bool>,
}

impl Session {
    /// Reports that a task is ready and waits for the clock to start.
    ///
    /// # Errors
    /// The run ended before.
    pub async fn start(&self) -> Result<Instant, LoadError> {
        let ended = || LoadError::Task("the run ended before it started".to_owned());
        self.ready.send(()).map_err(|_| ended())?;
        let mut start = self.start.clone();
        let started = start.wait_for(Option::is_some).await.map_err(|_| ended())?;
        started.ok_or_else(ended)
    }

    /// Whether the run should end early.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits for `work`, or gives `None` once the run should end early.
    pub async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        if self.is_stopped() {
            return None;
        }
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            done = work => Some(done),
            _ = stop.wait_for(|stopped| *stopped) => None,
        }
    }
}
