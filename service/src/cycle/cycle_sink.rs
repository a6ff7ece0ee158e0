//! The seam through which the input of a fleet's engine leaves it: for a log, a follower or a
//! cluster.
//!
//! An engine is a state machine: the cycles that a sink receives, submitted to another backend in
//! the same order, yield the same outcomes and the same state. Sinks receive changes; queries and
//! subscriptions change no state.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use shoal_codec::FixColumns;
use shoal_engine::{
    CycleInput, CycleOutput, EngineError, EngineOptions, ExportHeader, Request, RequestOutcome,
};
use shoal_position_log::{EVERY_ROW, ProducerState, RefusedRow};

use super::fleet_name::FleetName;
use super::producers::BatchId;
use crate::error::ServiceError;
use crate::names::NameChanges;

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
    /// As in [`CycleInput`]. Once the cycle has settled, `clock_ms` can replace it.
    pub event_clock_max_ms: Option<i64>,
    /// As in [`CycleInput`], shared with the engine.
    pub requests: Arc<Vec<Request>>,
    /// For each request the number that its producer gave it, if any.
    pub batches: Vec<Option<BatchId>>,
    /// The fleet's clock after it, once it has settled.
    pub clock_ms: i64,
    /// Rows that the engine refused, once it has settled; ascending.
    pub refused: Vec<RefusedRow>,
    /// Names that its rows may use and that no earlier cycle has, once it has settled.
    pub names: Option<NameChanges>,
    /// On a follower: the record of the cycle in the log of its leader.
    pub encoded: Option<Bytes>,
}

impl CycleRecord {
    /// The input that repeats this cycle on another engine.
    #[must_use]
    pub fn input(&self) -> CycleInput {
        CycleInput {
            system_ms: self.system_ms,
            time_max_ms: self.time_max_ms,
            event_clock_max_ms: self.event_clock_max_ms,
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
    pub(crate) fn new(output: &'a CycleOutput) -> Self {
        let CycleOutput { epoch, clock_ms, expired, .. } = *output;
        Self { epoch, clock_ms, outcomes: &output.requests, expired }
    }

    /// The rows that the engine refused, ascending; allocates nothing without one.
    pub(crate) fn refused(&self) -> Vec<RefusedRow> {
        let mut all = Vec::new();
        for (request, outcome) in (0..).zip(self.outcomes) {
            if outcome.block_error.is_some() {
                all.push((request, EVERY_ROW));
            } else {
                all.extend(outcome.refused.iter().map(|(row, _)| (request, *row)));
            }
        }
        all
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

    /// The oldest unsettled cycle was applied, or it failed and changed nothing. The next cycle
    /// takes the epoch of a failed one.
    fn settled(&mut self, outcome: Result<SettledCycle<'_>, &EngineError>);

    /// A term begins after the last settled cycle. If `is_leader` is set, the follower becomes the
    /// leader; otherwise the term is its leader's.
    fn begin_term(&mut self, _term: u64, _is_leader: bool) {}

    /// Whether a checkpoint is due. True once for each: an attempt that fails is not repeated at
    /// once.
    fn takes_checkpoint(&mut self) -> bool {
        false
    }

    /// Begins a checkpoint of the state after the last settled cycle. It has the producers that
    /// reported until then, the least recent first. Returns the channel of its rows.
    fn begin_checkpoint(
        &mut self,
        _state: ExportHeader,
        _producers: Vec<ProducerState>,
    ) -> Option<ExportRows> {
        None
    }
}

/// Sends the rows of an export to the thread that writes or searches them. Dropping it before the
/// last row abandons the checkpoint or search.
#[derive(Debug)]
pub struct ExportRows {
    rows: Sender<FixColumns>,
    taken: Receiver<()>,
}

/// Whether an export accepts rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportCapacity {
    /// At least one slice.
    Available,
    /// Not before [`ExportRows::taken`] has a message or is closed.
    Full,
    /// Never again: it is abandoned.
    Closed,
}

impl ExportRows {
    /// A bounded channel of rows, and one that receives a message whenever rows were taken out of
    /// it, and is closed when no more are.
    #[must_use]
    pub fn new(rows: Sender<FixColumns>, taken: Receiver<()>) -> Self {
        Self { rows, taken }
    }

    /// Whether it accepts rows; consumes the message that some were taken.
    pub(crate) fn capacity(&self) -> ExportCapacity {
        match self.taken.try_recv() {
            Err(TryRecvError::Disconnected) => ExportCapacity::Closed,
            // Only this side sends, so that what has space now accepts the next rows.
            _ if self.rows.is_full() => ExportCapacity::Full,
            _ => ExportCapacity::Available,
        }
    }

    /// See [`ExportCapacity::Full`].
    pub(crate) fn taken(&self) -> &Receiver<()> {
        &self.taken
    }

    /// Sends rows while there is capacity. An error is seen as [`ExportCapacity::Closed`].
    pub(crate) fn send(&self, rows: FixColumns) {
        let _ = self.rows.send(rows);
    }
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

    pub(crate) fn open(
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
