//! The state shared by all tasks of a run: plan, fleet, counters, link to the verifier, and start
//! and stop signals.

use std::future::Future;
use std::sync::Arc;

use shoal_client::Quantizer;
use shoal_engine::Space;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::error::LoadError;
use crate::measure::Counters;
use crate::names::Names;
use crate::plan::RunPlan;
use crate::query::SeenObjects;
use crate::report::MessageFleet;
use crate::subscription::EpochTimes;
use crate::verify::VerifierLink;

/// The shared state of one run.
#[derive(Debug)]
pub struct Session {
    /// The plan of the run.
    pub plan: RunPlan,
    /// Name of the fleet.
    pub fleet: String,
    /// The fleet's space.
    pub space: Space,
    /// Rounds fixes to the fleet's stored precision.
    pub quantizer: Quantizer,
    /// Time shift of every event time, milliseconds; not 0 for a reused fleet.
    pub shift_ms: i64,
    /// Objects that the first connection has sent lately.
    pub seen: Arc<SeenObjects>,
    /// Names and numbers of the objects, in a named fleet.
    pub names: Option<Arc<Names>>,
    /// Progress counters.
    pub counters: Arc<Counters>,
    /// Link to the verifier, which compares acks and answers.
    pub verifier: Option<VerifierLink>,
    /// Send times of epochs for event latencies, if there are subscribers.
    pub times: Option<Arc<EpochTimes>>,
    /// Receives a notification from each ready task.
    pub ready: mpsc::UnboundedSender<()>,
    /// The start of the clock.
    pub start: watch::Receiver<Option<Instant>>,
    /// True when the run should end early.
    pub stop: watch::Receiver<bool>,
}

impl Session {
    /// The fleet as the messages of reports need it.
    #[must_use]
    pub fn message_fleet(&self) -> MessageFleet {
        let (name, is_named) = (self.fleet.clone(), self.names.is_some());
        MessageFleet { name, quantizer: self.quantizer, is_named }
    }

    /// Whether the numbers of names are learned when rows are acknowledged: the verifier needs
    /// them. Queries then concern names with a known number, since a name that is reported for the
    /// first time during a query may be missing from its answer.
    #[must_use]
    pub fn learns_numbers(&self) -> bool {
        self.names.is_some() && self.verifier.is_some()
    }

    /// The first event time of a generated workload, Unix milliseconds.
    #[must_use]
    pub fn first_ms(&self) -> Option<i64> {
        let is_replay = self.plan.flags.workload.starts_with("replay:");
        (!is_replay).then(|| shoal_workload::START_MS.saturating_add(self.shift_ms))
    }

    /// Reports that a task is ready and waits for the clock to start.
    ///
    /// # Errors
    /// The run ended before its start.
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

    /// Waits for `work`; returns `None` when the run should end early.
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
