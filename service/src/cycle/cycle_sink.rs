//! The interface that receives every cycle of a fleet's engine, for example for the fleet's log.
//!
//! An engine is a state machine. If the cycles that a sink receives are submitted to another
//! backend in the same order, they yield the same outcomes and the same state. Sinks receive only
//! changes, because queries and subscriptions change no state.

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
    /// For each request, its producer and batch number; `None` for a request without a producer.
    pub batches: Vec<Option<BatchId>>,
    /// The fleet's clock after the cycle; set once the cycle has settled.
    pub clock_ms: i64,
    /// Rows that the engine refused, ascending; set once the cycle has settled.
    pub refused: Vec<RefusedRow>,
    /// Name changes that no earlier record contains, including all new names in this cycle's rows;
    /// set once the cycle has settled.
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

/// The effects of an applied cycle.
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
    /// It accepts another cycle.
    Available,
    /// It accepts none until this channel delivers a message or is closed. Until then the engine
    /// submits nothing: its queues fill, and senders are throttled.
    Full(Receiver<()>),
}

/// Receives every cycle of one fleet on its engine's thread, in order. No call may block.
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

    /// Whether a checkpoint is due. Returns true once per checkpoint, so that an attempt that fails
    /// is not repeated at once.
    fn takes_checkpoint(&mut self) -> bool {
        false
    }

    /// Begins a checkpoint of the state after the last settled cycle. The checkpoint also stores
    /// the producers known then, the least recent first. Returns the channel that receives its
    /// rows.
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
    /// It accepts at least one slice.
    Available,
    /// It accepts no rows until [`ExportRows::taken`] has a message or is closed.
    Full,
    /// It accepts no more rows: the receiver has abandoned the export.
    Closed,
}

impl ExportRows {
    /// `rows` is a bounded channel. `taken` delivers a message whenever the receiver has removed
    /// rows from it, and is closed when the receiver stops.
    #[must_use]
    pub fn new(rows: Sender<FixColumns>, taken: Receiver<()>) -> Self {
        Self { rows, taken }
    }

    /// Whether it accepts rows; consumes the message in `taken`.
    pub(crate) fn capacity(&self) -> ExportCapacity {
        match self.taken.try_recv() {
            Err(TryRecvError::Disconnected) => ExportCapacity::Closed,
            // Only this side sends, so a channel that is not full accepts the next rows.
            _ if self.rows.is_full() => ExportCapacity::Full,
            _ => ExportCapacity::Available,
        }
    }

    /// See [`ExportCapacity::Full`].
    pub(crate) fn taken(&self) -> &Receiver<()> {
        &self.taken
    }

    /// Sends rows; call it only while there is capacity. If the receiver is gone, the rows are
    /// dropped, and [`Self::capacity`] then returns [`ExportCapacity::Closed`].
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
