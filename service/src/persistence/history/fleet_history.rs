//! The state of a fleet's history for callers: its versions, its progress, and which cycles the log
//! must keep for it.
//!
//! The history's thread writes the state; nothing here blocks a task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_history::limits::ERASING_MAX;
use shoal_history::{Gap, History, HistoryError, Version, Watermark};
use shoal_position_log::Position;
use shoal_position_log::limits::SEGMENT_BYTES_FIRST;
use tokio::sync::{mpsc, oneshot};

use super::super::fleet_log::FleetLog;

/// How much of the past is kept; by default all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryKeep {
    /// Partitions are dropped that ended more than this many milliseconds before the event time
    /// that the history has reached.
    pub age_ms: Option<i64>,
    /// While the runs and states together have more than this many bytes, the oldest partition is
    /// dropped. The newest, and those that contain or follow the clock of the watermark, are kept.
    pub bytes_max: Option<u64>,
}

/// The state of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryReading {
    /// The last cycle that the history contains.
    pub watermark: Watermark,
    /// Bytes of the log after the watermark; all segments but the last count in full.
    pub backlog_bytes: u64,
    /// Number of runs.
    pub runs: u64,
    /// Number of rows in these runs.
    pub rows: u64,
    /// Bytes of the runs and states.
    pub bytes: u64,
    /// Rows that became part of runs since the start.
    pub sealed_rows: u64,
    /// Rows that were older than what is kept when they arrived, since the start.
    pub dropped_rows: u64,
    /// Nothing before this time is kept, Unix milliseconds.
    pub kept_from_ms: Option<i64>,
    /// Cycles that are missing.
    pub gaps: Vec<Gap>,
    /// Merges since the start.
    pub merges: u64,
    /// Attempts that failed for lack of space since the start.
    pub retries: u64,
    /// Objects that are being erased.
    pub erasing: u64,
    /// Why the history has stopped, if it has. The log then keeps no cycles for it.
    pub failed: Option<Arc<str>>,
}

/// A version of a history, and its progress relative to the log.
#[derive(Clone, Debug)]
pub(crate) struct PastVersion {
    pub(crate) version: Arc<Version>,
    /// The last cycle that the version contains.
    pub(crate) watermark: Watermark,
    /// Bytes of the log after the watermark.
    pub(crate) backlog_bytes: u64,
}

/// A request to begin an erasure.
#[derive(Debug)]
pub(super) struct Erasure {
    pub(super) objects: Vec<u64>,
    /// Receives the result once it is durable that no later answer contains the objects.
    pub(super) begun: oneshot::Sender<Result<(), HistoryError>>,
}

/// What the history's thread counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// The position at which the log begins. Used while the history has no watermark.
    pub(super) begin: Position,
    /// The watermark up to which retention has been applied.
    pub(super) retained: Watermark,
    pub(super) sealed_rows: u64,
    pub(super) dropped_rows: u64,
    pub(super) merges: u64,
    pub(super) retries: u64,
    pub(super) failed: Option<Arc<str>>,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct FleetHistory {
    history: History,
    /// Bytes of a segment of the log.
    segment_bytes: u64,
    backlog_bytes_max: u64,
    counts: Mutex<Counts>,
    erasures: mpsc::Sender<Erasure>,
    /// Number of objects in erasures that have not begun.
    reserved: Mutex<usize>,
}

/// Room for the objects of one erasure; returned when this is dropped.
#[derive(Debug)]
pub(crate) struct ErasureRoom {
    history: Arc<FleetHistory>,
    objects: usize,
}

impl ErasureRoom {
    /// Begins to erase objects whose removal from the fleet is durable in its log. Once this
    /// returns, no new answer contains them; their bytes are removed in the background.
    ///
    /// # Errors
    /// [`HistoryError::Stopped`].
    pub(crate) async fn erase(self, objects: Vec<u64>) -> Result<(), HistoryError> {
        let (sender, begun) = oneshot::channel();
        let history = &self.history;
        let sent = history.erasures.send(Erasure { objects, begun: sender }).await;
        sent.map_err(|_| history.stopped())?;
        begun.await.unwrap_or_else(|_| Err(history.stopped()))
    }
}

impl Drop for ErasureRoom {
    fn drop(&mut self) {
        *self.history.reserved() -= self.objects;
    }
}

impl FleetHistory {
    pub(super) fn new(
        history: History,
        segment_bytes: u64,
        backlog_bytes_max: u64,
        erasures: mpsc::Sender<Erasure>,
    ) -> Self {
        let retained = history.version().watermark();
        let counts = Mutex::new(Counts { retained, ..Counts::default() });
        let reserved = Mutex::default();
        Self { history, segment_bytes, backlog_bytes_max, counts, erasures, reserved }
    }

    fn reserved(&self) -> MutexGuard<'_, usize> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves room for an erasure of `objects` objects. Call it before any object is removed.
    ///
    /// # Errors
    /// [`HistoryError::Erasing`] if too many objects are being erased, [`HistoryError::Stopped`].
    pub(crate) fn reserve_erasure(
        self: &Arc<Self>,
        objects: usize,
    ) -> Result<ErasureRoom, HistoryError> {
        if self.counts().failed.is_some() {
            return Err(self.stopped());
        }
        let mut reserved = self.reserved();
        // An erasure that has just begun may be counted twice: in `erasing` and in `reserved`.
        if self.history.version().erasing() + *reserved + objects > ERASING_MAX {
            return Err(HistoryError::Erasing { limit: ERASING_MAX as u64 });
        }
        *reserved += objects;
        Ok(ErasureRoom { history: self.clone(), objects })
    }

    fn stopped(&self) -> HistoryError {
        let reason = self.counts().failed.as_deref().unwrap_or("the fleet ends").to_owned();
        HistoryError::Stopped { reason }
    }

    /// The history with its versions.
    #[must_use]
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// The current version. Its watermark includes later cycles that are not in the log, because
    /// they changed nothing.
    pub(crate) fn past(&self, log: &FleetLog) -> PastVersion {
        // Read the version first, so that the state of the log is at least as new.
        let version = self.history.version();
        let (mut watermark, log) = (version.watermark(), log.reading());
        let backlog_bytes = self.backlog_bytes(log.position);
        // Compare epochs, not positions: a group has several cycles at one position.
        let is_whole = watermark.position.epoch >= log.position.epoch;
        if is_whole && log.durable_epoch > watermark.position.epoch {
            watermark.term = log.term;
            watermark.position.epoch = log.durable_epoch;
            watermark.clock_ms = log.clock_ms.unwrap_or(watermark.clock_ms);
        }
        PastVersion { version, watermark, backlog_bytes }
    }

    /// What the history's thread counts.
    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its state, with its progress relative to the durable end of `log`.
    #[must_use]
    pub(crate) fn reading(&self, log: &FleetLog) -> HistoryReading {
        // Read the counts first, so that the version reflects retention at this watermark.
        let Counts { retained, sealed_rows, dropped_rows, merges, retries, failed, .. } =
            self.counts().clone();
        let PastVersion { version, watermark, backlog_bytes } = self.past(log);
        let is_retained = version.watermark().position.epoch <= retained.position.epoch;
        let watermark = if is_retained { watermark } else { retained };
        HistoryReading {
            watermark,
            backlog_bytes,
            runs: version.runs() as u64,
            rows: version.rows(),
            bytes: version.bytes(),
            sealed_rows,
            dropped_rows,
            kept_from_ms: version.kept_from_ms(),
            gaps: version.gaps().to_vec(),
            merges,
            retries,
            erasing: version.erasing() as u64,
            failed,
        }
    }

    /// The epoch after which the log must keep its cycles; `None` once the history has failed.
    pub(crate) fn held_epoch(&self) -> Option<u64> {
        let has_failed = self.counts().failed.is_some();
        (!has_failed).then(|| self.history.version().watermark().position.epoch)
    }

    /// Whether the history is so far behind that reports must wait.
    pub(crate) fn is_behind(&self, log: &FleetLog) -> bool {
        self.counts().failed.is_none()
            && self.backlog_bytes(log.reading().position) > self.backlog_bytes_max
    }

    /// Whether the history is so far behind that its thread must work without pauses.
    pub(super) fn is_urgent(&self, end: Position) -> bool {
        self.backlog_bytes(end) > self.backlog_bytes_max / 2
    }

    fn backlog_bytes(&self, end: Position) -> u64 {
        let watermark = self.history.version().watermark().position;
        let start = if watermark.segment > 0 { watermark } else { self.counts().begin };
        if start.segment == 0 {
            // The log is about to be opened.
            return 0;
        }
        // An estimate: the first segments of a log grow, and a large group makes one longer.
        let bytes = |number: u64| {
            let doublings = number.saturating_sub(1).min(32);
            (SEGMENT_BYTES_FIRST << doublings).min(self.segment_bytes)
        };
        let growing = (start.segment..end.segment).take(32).map(bytes).sum::<u64>();
        let others = end.segment.saturating_sub(start.segment).saturating_sub(32);
        let segments = growing.saturating_add(others.saturating_mul(self.segment_bytes));
        (segments + end.offset).saturating_sub(start.offset)
    }
}
