//! Hands the settled cycles of a fleet to its log.
//!
//! A cycle is logged once the engine has settled it; a cycle that fails is not logged, and neither
//! is one that changes nothing. Logged cycles keep their epochs in a recovery.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use shoal_engine::{Clock, EngineError, ExportHeader, Request};
use shoal_position_log::ProducerState;
use tracing::error;

use super::checkpoint::CheckpointThread;
use super::data_folder::random;
use super::fleet_log::FleetLog;
use super::group_thread::{LogCycle, LogItem};
use super::history::HistoryHandle;
use crate::cycle::{CycleRecord, CycleSink, ExportRows, SettledCycle, SinkCapacity};
use crate::error::ServiceError;
use crate::limits::{THREAD_RETRY_MS, THREAD_STARTS_MAX};
use crate::names::{NameChanges, NameTable};
use crate::threads::LazyThread;

/// See the file's head.
pub(crate) struct LogSink {
    pub(super) log: Arc<FleetLog>,
    /// Names of the objects, if they have names.
    pub(super) names: Option<Arc<NameTable>>,
    /// The names of the objects with numbers up to this one are in the log.
    pub(super) last_number: u64,
    pub(super) clock: Clock,
    /// Cycles that are submitted and not settled, in order.
    pub(super) submitted: VecDeque<CycleRecord>,
    /// `None` once the log is closed.
    pub(super) items: Option<Sender<LogItem>>,
    /// Whether the fleet follows a leader; its log then has only cycles of the leader.
    pub(super) follows: bool,
    /// Receives a message after a write to the log.
    pub(super) written: Receiver<()>,
    pub(super) pending_bytes_max: u64,
    /// The last cycle that was handed to the log.
    pub(super) logged_epoch: u64,
    /// The clock after the last settled cycle.
    pub(super) clock_ms: i64,
    /// Bytes logged since the last checkpoint was begun.
    pub(super) bytes_since_checkpoint: u64,
    pub(super) checkpoint_bytes: u64,
    /// Rows logged since the last checkpoint was begun.
    pub(super) rows_since_checkpoint: u64,
    /// Greatest time that a recovery may take to replay the rows after a checkpoint.
    pub(super) recovery_max: Duration,
    pub(super) checkpoints: CheckpointThread,
    /// The threads that write the log: the disk thread, and the group thread, which waits for it.
    /// They start with the first cycle.
    pub(super) threads: [LazyThread; 2],
    /// The thread that writes the history, if the server keeps one.
    pub(super) history: Option<HistoryHandle>,
}

/// Starts a thread; tries again after a pause, a few times.
fn repeated(mut start: impl FnMut() -> Result<(), ServiceError>) -> Result<(), ServiceError> {
    for _ in 1..THREAD_STARTS_MAX {
        if start().is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(THREAD_RETRY_MS));
    }
    start()
}

/// Approximate bytes of a cycle or a request without its rows.
const OVERHEAD_BYTES: usize = 128;

/// Approximate bytes of a request in memory and in the log.
fn request_bytes(request: &Request) -> u64 {
    const ROW_BYTES: usize = 40;
    let rows = match request {
        Request::Fixes(columns) => columns.len() * ROW_BYTES,
        Request::Block(block) => block.bytes().len(),
        Request::Remove(objects) => size_of_val(&objects[..]),
        Request::Clear | Request::Rewind => 0,
    };
    (OVERHEAD_BYTES + rows) as u64
}

impl CycleSink for LogSink {
    fn submitted(&mut self, cycle: CycleRecord) -> SinkCapacity {
        self.submitted.push_back(cycle);
        let is_full = self.log.pending_bytes() >= self.pending_bytes_max
            || self.log.is_late()
            || self.history.as_ref().is_some_and(|history| history.is_behind(&self.log));
        if !is_full || self.log.has_failed() {
            return SinkCapacity::Available;
        }
        // `written` may still hold an earlier message: then one more cycle is taken before the next
        // wait.
        SinkCapacity::Full(self.written.clone())
    }

    fn settled(&mut self, outcome: Result<SettledCycle<'_>, &EngineError>) {
        let Some(mut cycle) = self.submitted.pop_front() else { return };
        let Ok(settled) = outcome else { return };
        self.clock_ms = settled.clock_ms;
        let is_logged = cycle.encoded.is_some();
        let has_names = self.names.as_ref().is_some_and(|names| names.has_changes());
        let is_blank =
            !is_logged && cycle.requests.is_empty() && settled.expired == 0 && !has_names;
        if is_blank && !self.is_wanted() {
            self.log.pass(settled.epoch, settled.clock_ms);
            return;
        }
        cycle.epoch = settled.epoch;
        if !is_logged {
            (cycle.clock_ms, cycle.refused) = (settled.clock_ms, settled.refused());
        }
        if !is_logged && self.clock == Clock::System {
            // The log must have the settled clock: cycles that were not logged may have advanced
            // it.
            cycle.system_ms = settled.clock_ms;
        }
        self.send_cycle(cycle);
    }

    fn begin_term(&mut self, term: u64, is_leader: bool) {
        if is_leader {
            self.reach_settled();
            self.follows = false;
        }
        self.log.add_pending(self.logged_epoch, self.clock_ms, 0);
        self.send(LogItem::Term(term));
    }

    fn takes_checkpoint(&mut self) -> bool {
        let (bytes, due_bytes) = (self.bytes_since_checkpoint, self.checkpoint_bytes);
        let replay = self.log.tail().replay_time(self.rows_since_checkpoint);
        // An urgent checkpoint ignores the pause. A checkpoint begins at half the recovery time
        // limit, because rows are logged while it is written.
        let is_urgent = bytes >= due_bytes.saturating_mul(2) || replay >= self.recovery_max;
        let is_full = bytes >= due_bytes || replay * 2 >= self.recovery_max;
        let purged = self.log.purge().checkpoint_after(|| self.log.reading());
        let is_wanted = purged.is_some_and(|epoch| self.logged_epoch > epoch);
        let is_due = (is_wanted || is_full) && self.checkpoints.is_idle(is_urgent);
        if is_due {
            (self.bytes_since_checkpoint, self.rows_since_checkpoint) = (0, 0);
        }
        is_due
    }

    fn begin_checkpoint(
        &mut self,
        state: ExportHeader,
        producers: Vec<ProducerState>,
    ) -> Option<ExportRows> {
        self.log.tail().begin_checkpoint(state.epoch);
        let begun = self.checkpoints.begin(state, producers, self.last_number);
        if begun.is_none() {
            self.bytes_since_checkpoint = self.checkpoint_bytes;
        }
        begun
    }
}

impl LogSink {
    /// Whether a cycle that changes nothing must be logged, because a purge needs a checkpoint
    /// after a new epoch.
    fn is_wanted(&self) -> bool {
        let purged = self.log.purge().checkpoint_after(|| self.log.reading());
        !self.follows && purged.is_some_and(|epoch| self.logged_epoch <= epoch)
    }

    fn send_cycle(&mut self, mut cycle: CycleRecord) {
        if self.log.has_failed() {
            return;
        }
        if let Some(names) = self.names.as_ref().filter(|_| !self.follows) {
            cycle.names = names.take_changes();
        }
        // A checkpoint must contain exactly the numbers that the log has named before it.
        let last_new = cycle.names.as_ref().and_then(NameChanges::last_new);
        self.last_number = last_new.unwrap_or(self.last_number);
        let requests: u64 = cycle.requests.iter().map(request_bytes).sum();
        let names = cycle.names.as_ref().map_or(0, NameChanges::bytes);
        let refused = size_of_val(&cycle.refused[..]) as u64;
        let bytes = OVERHEAD_BYTES as u64 + names + refused + requests;
        self.bytes_since_checkpoint += bytes;
        let rows = cycle.requests.iter().map(Request::rows).sum::<usize>() as u64;
        self.rows_since_checkpoint += rows;
        self.log.tail().add(rows);
        self.logged_epoch = cycle.epoch;
        self.log.add_pending(cycle.epoch, self.clock_ms, bytes);
        self.send(LogItem::Cycle(LogCycle { cycle, bytes }));
    }

    /// Starts the threads of the log and of the history, unless they run. The system may be short of
    /// threads for a moment, so a failure is repeated.
    pub(super) fn start_threads(&mut self) {
        if let Err(error) = repeated(|| self.threads.iter_mut().try_for_each(LazyThread::start)) {
            self.log.fail(&error.to_string());
        }
        if let Some(history) = &mut self.history
            && let Err(error) = repeated(|| history.start())
        {
            history.fail(&error);
        }
    }

    fn send(&mut self, item: LogItem) {
        self.start_threads();
        if self.log.has_failed() {
            return;
        }
        if let Some(items) = &self.items {
            // An error means that the thread ended by a failure, which the log reports.
            let _ = items.send(item);
        }
    }

    /// Begins a term if clients may have seen names that the log lacks: the next start then skips
    /// their numbers.
    fn end_names(&mut self) {
        if !self.names.as_ref().is_some_and(|names| names.close()) {
            return;
        }
        match random() {
            Ok(term) => self.begin_term(term, true),
            Err(error) => error!(%error, "numbers of names may be used again"),
        }
    }

    /// Logs an empty cycle at the last settled epoch if the log ends earlier. Cycles that changed
    /// nothing are not logged, but clients have seen their epochs, so the log must reach them.
    fn reach_settled(&mut self) {
        let epoch = self.log.settled_epoch();
        if epoch > self.logged_epoch {
            self.send_cycle(CycleRecord {
                epoch,
                system_ms: self.clock_ms,
                time_max_ms: self.clock_ms,
                event_clock_max_ms: None,
                requests: Arc::default(),
                batches: Vec::new(),
                clock_ms: self.clock_ms,
                refused: Vec::new(),
                names: None,
                encoded: None,
            });
        }
    }
}

impl Drop for LogSink {
    /// Closes the log in order, so that every settled cycle becomes durable.
    fn drop(&mut self) {
        self.log.end();
        if !self.follows {
            self.reach_settled();
            self.end_names();
        }
        // The threads close the log, also one without cycles.
        if !self.log.has_failed() {
            self.start_threads();
        }
        drop(self.items.take());
        self.threads.iter_mut().rev().for_each(LazyThread::join);
        // The history reads the rest of the log after the next start.
        drop(self.history.take());
        self.checkpoints.end();
    }
}
