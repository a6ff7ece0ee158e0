//! The seam through which the input of a fleet's engine leaves it: for a log, a follower or a
//! cluster.
//!
//! An engine is a state machine: the cycles that a sink receives, submitted to another backend in
//! the same order, yield the same outcomes and the same state. Sinks receive changes; queries and
//! subscriptions change no state.

use std::fmt;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use shoal_engine::{
    CycleInput, CycleOutput, EngineError, EngineOptions, Request, RequestOutcome, Snapshot,
};
use shoal_position_log::ProducerState;

use super::fleet_name::FleetName;
use super::producers::BatchId;
use crate::error::ServiceError;

/// The changes of one cycle, after the engine has taken them.
#[derive(Clone, Debug)]
pub struct CycleRecord {
    /// Epoch of the cycle unless an earlier cycle that is still in flight fails.
    /// [`CycleSink::settled`] reports the final one.
    pub epoch: u64,
    /// As in [`CycleInput`].
    pub system_ms: i64,
    /// As in [`CycleInput`].
    pub time_max_ms: i64,
    /// As in [`CycleInput`], shared with the engine.
    pub requests: Arc<Vec<Request>>,
    /// For each request the number that its producer gave it, if any.
    pub batches: Vec<Option<BatchId>>,
}

impl CycleRecord {
    /// The input that repeats this cycle on another engine.
    #[must_use]
    pub fn input(&self) -> CycleInput {
        CycleInput {
            system_ms: self.system_ms,
            time_max_ms: self.time_max_ms,
            requests: self.requests.clone(),
            ..CycleInput::default()
        }
    }
}

/// What a cycle did.
#[derive(Clone, Copy, Debug)]
pub struct SettledCycle<'a> {
    /// Its epoch.
    pub epoch: u64,
    /// The fleet's clock after it.
    pub clock_ms: i64,
    /// One outcome per request, in order, without the rows that were refused on receipt.
    pub outcomes: &'a [RequestOutcome],
    /// Objects that it removed by age.
    pub expired: u64,
}

impl<'a> SettledCycle<'a> {
    pub(super) fn new(output: &'a CycleOutput) -> Self {
        let CycleOutput { epoch, clock_ms, expired, .. } = *output;
        Self { epoch, clock_ms, outcomes: &output.requests, expired }
    }
}

/// Whether a sink accepts another cycle.
#[derive(Debug)]
pub enum SinkCapacity {
    /// It does.
    Available,
    /// Not before this channel delivers a message or is closed. Until then the engine submits
    /// nothing: its queues fill, and senders are throttled.
    Full(Receiver<()>),
}

/// Receives every cycle of one fleet on its engine's thread, in order; neither call may block.
///
/// A cycle that the engine refuses when it is submitted is not reported at all.
pub trait CycleSink: Send {
    /// The engine has taken a cycle. One cycle may follow before this one is settled.
    fn submitted(&mut self, cycle: CycleRecord) -> SinkCapacity;

    /// The oldest cycle that is not settled was applied; or failed, and changed nothing: then the
    /// next cycle takes its epoch.
    fn settled(&mut self, outcome: Result<SettledCycle<'_>, &EngineError>);

    /// Whether [`CycleSink::checkpoint`] is to be called as soon as no cycle is in flight.
    fn wants_checkpoint(&self) -> bool {
        false
    }

    /// The state after the last settled cycle, and the producers that reported until then, the
    /// least recent first.
    fn checkpoint(&mut self, _state: Snapshot, _producers: Vec<ProducerState>) {}
}

/// Opens the sinks of a server's fleets.
#[derive(Clone)]
pub struct SinkFactory(Arc<OpenSink>);

/// See [`SinkFactory::new`].
type OpenSink =
    dyn Fn(&FleetName, &EngineOptions) -> Result<Box<dyn CycleSink>, ServiceError> + Send + Sync;

impl SinkFactory {
    /// Opens sinks by a function, which runs on the thread of the fleet's engine.
    #[must_use]
    pub fn new(
        open: impl Fn(&FleetName, &EngineOptions) -> Result<Box<dyn CycleSink>, ServiceError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }

    pub(super) fn open(
        &self,
        fleet: &FleetName,
        options: &EngineOptions,
    ) -> Result<Box<dyn CycleSink>, ServiceError> {
        (self.0)(fleet, options)
    }
}

impl fmt::Debug for SinkFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SinkFactory")
    }
}
