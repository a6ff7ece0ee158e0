//! Reads durable cycles of the log, seals batches of them, merges runs and applies retention.
//!
//! While the history is not far behind, the thread uses a share of a core, and more of idle cores.
//! On a full disk it tries again. Any other error stops the history of the fleet, and the log then
//! keeps no cycles for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use shoal_history::limits::BATCH_ROWS_DEFAULT;
use shoal_history::{
    Batch, ErasedLog, Gap, HistoryError, HistoryOptions, HistoryWriter, Watermark, Work,
};
use shoal_position_log::{CycleSource as _, LogError, LogReader, Position, ReadMode};
use tokio::sync::mpsc;
use tracing::{error, warn};

use super::super::data_folder::FleetFolder;
use super::super::fleet_log::FleetLog;
use super::super::recovery::RecoveryTools;
use super::cycle_rows::CycleRows;
use super::fleet_history::Erasure;
use super::pace::Pace;
use super::{FleetHistory, HistoryKeep};
use crate::cycle::CurrentName;
use crate::error::ServiceError;
use crate::limits::{
    HISTORY_ERASURES_MAX, HISTORY_MERGE_ROWS, HISTORY_POLL_MS, HISTORY_READ_ROWS, HISTORY_RETRY_MS,
    HISTORY_UNMERGED_RUNS_MAX,
};
use crate::threads::LazyThread;

/// The thread that writes a history; it ends when this is dropped.
pub(crate) struct HistoryHandle {
    history: Arc<FleetHistory>,
    stop: Option<Sender<()>>,
    thread: LazyThread,
}

impl HistoryHandle {
    /// Opens the history of a fleet. `written` wakes the engine's thread.
    ///
    /// # Errors
    /// [`ServiceError::History`]; those of [`Self::start`].
    pub(crate) fn open(
        tools: &RecoveryTools<'_>,
        keep: HistoryKeep,
        log: &Arc<FleetLog>,
        written: Sender<()>,
    ) -> Result<Self, ServiceError> {
        let (folder, limits) = (tools.folder.clone(), tools.limits);
        let options = HistoryOptions {
            reserve_bytes: limits.log_reserve_bytes,
            device: tools.engines.history_device.clone(),
            pages: tools.engines.history_pages.clone(),
            ..HistoryOptions::new(folder.identity.id, tools.options.space.tag())
        };
        let writer = HistoryWriter::open(folder.storage.clone(), &folder.history(), &options)?;
        let (erasure_sender, erasures) = mpsc::channel(HISTORY_ERASURES_MAX);
        let history = FleetHistory::new(
            writer.history().clone(),
            limits.log_segment_bytes,
            limits.history_backlog_bytes,
            erasure_sender,
        );
        let history = Arc::new(history);
        log.feed(history.clone());
        let (stop, stopped) = bounded(0);
        let name = format!("history-{}", folder.name);
        let watermark = writer.watermark();
        let thread = HistoryThread {
            rows: CycleRows::new(tools.options.clock, watermark.clock_ms),
            read: watermark,
            folder,
            writer,
            history: history.clone(),
            log: log.clone(),
            keep,
            seal_time: Duration::from_millis(limits.history_seal_ms),
            share: limits.history_share as u32,
            written,
            stopped,
            batch: Batch::default(),
            missing: None,
            batch_began: None,
            work: None,
            may_merge: true,
            may_work: true,
            erasures,
            erased_epoch: log.reading().position.epoch,
        };
        let thread = LazyThread::new(name, move || thread.run());
        let mut handle = Self { history, stop: Some(stop), thread };
        // The log may have been repaired since, and old runs may have to be dropped.
        if watermark.position.epoch > 0 {
            handle.start()?;
        }
        Ok(handle)
    }

    /// Begins to write the history, unless that has begun.
    ///
    /// # Errors
    /// [`ServiceError::Io`].
    pub(crate) fn start(&mut self) -> Result<(), ServiceError> {
        self.thread.start()
    }

    /// Stops the history, because its thread cannot be started.
    pub(crate) fn fail(&mut self, error: &ServiceError) {
        self.thread.join();
        self.history.counts().failed = Some(error.to_string().into());
    }

    /// Whether reports wait until it has caught up.
    pub(crate) fn is_behind(&self, log: &FleetLog) -> bool {
        self.history.is_behind(log)
    }
}

impl Drop for HistoryHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.join();
    }
}

/// Why the thread ends.
enum End {
    Stopped,
    Failed(ServiceError),
}

impl<E: Into<ServiceError>> From<E> for End {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// See the file's head.
struct HistoryThread {
    folder: FleetFolder,
    writer: HistoryWriter,
    history: Arc<FleetHistory>,
    log: Arc<FleetLog>,
    keep: HistoryKeep,
    seal_time: Duration,
    /// The configured share of a core, in percent.
    share: u32,
    /// Wakes the engine's thread, which waits while the history is too far behind.
    written: Sender<()>,
    /// Closed at the end of the fleet.
    stopped: Receiver<()>,
    rows: CycleRows,
    /// The watermark at the last cycle that was read.
    read: Watermark,
    batch: Batch,
    /// Cycles after the watermark that the log no longer has; `None` once the cycle after them is
    /// read.
    missing: Option<Gap>,
    /// When the first cycle that is not sealed was read.
    batch_began: Option<Instant>,
    /// The background work in progress; it runs in steps.
    work: Option<Work>,
    /// Whether there may be runs to merge.
    may_merge: bool,
    /// Whether there may be background work of any kind.
    may_work: bool,
    erasures: mpsc::Receiver<Erasure>,
    /// Last cycle of the log that may contain erased objects.
    erased_epoch: u64,
}

impl HistoryThread {
    fn run(mut self) {
        let fleet = self.folder.name.clone();
        let ended = self.open_reader().and_then(|reader| self.write(reader));
        if let Err(End::Failed(error)) = ended {
            error!(%fleet, %error, "the history has stopped; the log is no longer kept for it");
            self.history.counts().failed = Some(error.to_string().into());
        }
        self.wake();
    }

    /// Opens the log after the watermark, or at its first cycle if earlier cycles are missing.
    fn open_reader(&mut self) -> Result<LogReader, End> {
        let fleet = self.folder.name.clone();
        let end = self.log.reading();
        if self.read.position.epoch > end.durable_epoch {
            warn!(%fleet, "the history has cycles that a repair cut off the log");
            let position = Position { epoch: end.durable_epoch, ..end.position };
            self.read = Watermark { term: end.term, position, ..self.read };
            self.seal()?;
        }
        let (epoch, mode) = (self.read.position.epoch, ReadMode::Through(0));
        let reader = match self.folder.read_log(epoch, mode) {
            Err(LogError::Gap { first, .. }) => self.open_behind_gap(first)?,
            opened => opened?,
        };
        self.history.counts().begin = reader.position();
        Ok(reader)
    }

    /// Opens the log at epoch `first`, and notes the missing cycles before it.
    fn open_behind_gap(&mut self, first: u64) -> Result<LogReader, LogError> {
        let (fleet, epoch) = (&self.folder.name, self.read.position.epoch);
        warn!(%fleet, first, "the history lacks cycles that the log no longer has");
        let from_ms = if epoch > 0 { self.read.clock_ms } else { i64::MIN };
        let (first_epoch, last_epoch) = (epoch + 1, first.saturating_sub(1));
        self.missing = Some(Gap { first_epoch, last_epoch, from_ms, to_ms: from_ms });
        self.folder.read_log(last_epoch, ReadMode::Through(0))
    }

    fn write(&mut self, mut reader: LogReader) -> Result<(), End> {
        let mut pace = Pace::new(self.share);
        loop {
            let started = Instant::now();
            // If there are too many runs, merge them first, even though the backlog grows and
            // reports wait.
            let is_merging = self.may_merge && self.has_many_runs();
            let has_read = !is_merging && self.read_cycles(&mut reader)?;
            self.erase()?;
            let is_due = self.batch_began.is_some_and(|began| began.elapsed() >= self.seal_time);
            if is_due || self.batch.len() >= BATCH_ROWS_DEFAULT {
                self.seal()?;
            }
            let has_worked = self.work()?;
            if has_read || has_worked {
                self.pause(&mut pace, started.elapsed())?;
            } else {
                self.sleep(Duration::from_millis(HISTORY_POLL_MS))?;
            }
        }
    }

    /// Adds durable cycles to the batch, until it has [`HISTORY_READ_ROWS`] more rows or is full.
    /// Returns false if no cycle was read.
    fn read_cycles(&mut self, reader: &mut LogReader) -> Result<bool, End> {
        let end = self.log.reading().position;
        reader.read_through(end);
        let until = (self.batch.len() + HISTORY_READ_ROWS).min(BATCH_ROWS_DEFAULT);
        let mut has_read = false;
        while self.batch.len() < until {
            let cycle = match reader.next_cycle() {
                // A repair truncated the log, which continues after a later checkpoint.
                Err(LogError::Gap { first, .. }) => {
                    *reader = self.open_behind_gap(first)?;
                    reader.read_through(end);
                    continue;
                }
                read => read?,
            };
            let Some(cycle) = cycle else { break };
            let (epoch, term) = (cycle.header.epoch, cycle.term);
            self.rows.add(&cycle, &mut self.batch).map_err(|reason| {
                let file = format!("the cycle of epoch {epoch}");
                LogError::Content { file, offset: 0, reason }
            })?;
            if let Some(missing) = self.missing.take() {
                self.writer.add_gap(Gap { to_ms: self.rows.clock_ms, ..missing });
            }
            let mut position = reader.position();
            position.epoch = epoch;
            self.read = Watermark { term, position, clock_ms: self.rows.clock_ms };
            self.batch_began.get_or_insert_with(Instant::now);
            has_read = true;
        }
        Ok(has_read)
    }

    /// Makes the batch part of the history.
    fn seal(&mut self) -> Result<(), End> {
        let mut retry = Retry::new(&self.folder.name);
        let kept_from_ms = self.history.history().version().kept_from_ms();
        loop {
            match self.writer.seal(&mut self.batch, self.read) {
                Ok(sealed) => {
                    let mut counts = self.history.counts();
                    counts.sealed_rows += sealed.rows;
                    counts.dropped_rows += sealed.dropped;
                    break;
                }
                Err(error) => self.wait_for_space(&mut retry, error)?,
            }
        }
        let limited_to_ms = self.history.history().version().kept_from_ms();
        if limited_to_ms != kept_from_ms {
            let fleet = &self.folder.name;
            warn!(%fleet, kept_from_ms = limited_to_ms, "too many runs: the oldest are dropped");
        }
        self.batch.clear();
        self.batch_began = None;
        (self.may_merge, self.may_work) = (true, true);
        let reached_ms = self.writer.reached_ms();
        let from_ms = reached_ms.zip(self.keep.age_ms).map(|(at, age)| at.saturating_sub(age));
        self.writer.retain(from_ms, self.keep.bytes_max)?;
        self.history.counts().retained = self.writer.watermark();
        self.wake();
        Ok(())
    }

    /// Begins the requested erasures, and has the log purged of the erased objects.
    fn erase(&mut self) -> Result<(), End> {
        while let Ok(Erasure { objects, begun }) = self.erasures.try_recv() {
            let result = self.writer.begin_erase(&objects);
            if result.is_ok() {
                self.stop_other_work();
                self.erased_epoch = self.log.reading().position.epoch;
            }
            // An error means that the client has left.
            let _ = begun.send(result);
        }
        if !self.writer.is_erasing() {
            return Ok(());
        }
        // Cycles that may contain erased objects are purged only after the history has read them.
        let is_read = self.read.position.epoch >= self.erased_epoch;
        if is_read && self.writer.watermark().position.epoch < self.erased_epoch {
            self.seal()?;
        }
        self.writer.set_erased_log(if !is_read {
            ErasedLog::Unread
        } else if self.log.purge().is_gone(self.erased_epoch) {
            ErasedLog::Gone
        } else {
            ErasedLog::Read
        });
        (self.may_merge, self.may_work) = (true, true);
        Ok(())
    }

    /// Runs one step of a merge or of other background work; false if there is none.
    fn work(&mut self) -> Result<bool, End> {
        if !self.may_work {
            return Ok(false);
        }
        match self.work_step() {
            Ok(has_more) => {
                self.may_work = has_more;
                Ok(has_more)
            }
            Err(error) if is_full(&error) => {
                // The next sealed batch begins another attempt.
                self.work = None;
                (self.may_merge, self.may_work) = (false, false);
                self.history.counts().retries += 1;
                let fleet = &self.folder.name;
                warn!(%fleet, %error, "runs of the history are not merged");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn work_step(&mut self) -> Result<bool, HistoryError> {
        if self.may_merge && self.has_many_runs() {
            self.stop_other_work();
        }
        let work = match self.work.take() {
            Some(work) => Some(work),
            None => self.writer.next_work()?,
        };
        // `next_work` returns other work only if there is nothing to merge.
        self.may_merge = work.as_ref().is_some_and(Work::is_merge);
        let Some(mut work) = work else { return Ok(false) };
        match work.step(HISTORY_MERGE_ROWS) {
            Ok(false) => self.work = Some(work),
            Ok(true) => {
                if self.writer.finish(work)? && self.may_merge {
                    self.history.counts().merges += 1;
                }
            }
            Err(error) if !is_full(&error) && self.writer.give_up(&work) => {
                let fleet = &self.folder.name;
                warn!(%fleet, %error, "a state of the history is not written");
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// True if there are too many runs, so that merges go before the reading of cycles.
    fn has_many_runs(&self) -> bool {
        self.history.history().version().runs() > HISTORY_UNMERGED_RUNS_MAX
    }

    /// Drops work in progress that is not a merge. It is begun again later.
    fn stop_other_work(&mut self) {
        self.work.take_if(|work| !work.is_merge());
    }

    /// Waits before the next attempt if the disk has no space.
    fn wait_for_space(&self, retry: &mut Retry<'_>, error: HistoryError) -> Result<(), End> {
        if !is_full(&error) {
            return Err(error.into());
        }
        self.history.counts().retries += 1;
        self.sleep(retry.next(&error))
    }

    /// Rests after work, unless the history is far behind.
    fn pause(&self, pace: &mut Pace, worked: Duration) -> Result<(), End> {
        let is_urgent = self.history.is_urgent(self.log.reading().position);
        let rest = pace.rest(worked);
        self.sleep(if is_urgent { Duration::ZERO } else { rest })
    }

    /// Sleeps unless the fleet ends.
    fn sleep(&self, time: Duration) -> Result<(), End> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(End::Stopped),
        }
    }

    fn wake(&self) {
        // An error means that a message is there already.
        let _ = self.written.try_send(());
    }
}

/// Whether the disk has no space.
fn is_full(error: &HistoryError) -> bool {
    matches!(error, HistoryError::File(error) if error.is_full())
}

/// Delays between attempts on a full disk.
struct Retry<'a> {
    fleet: &'a CurrentName,
    delay: Duration,
}

impl<'a> Retry<'a> {
    fn new(fleet: &'a CurrentName) -> Self {
        Self { fleet, delay: Duration::from_millis(HISTORY_RETRY_MS.0) }
    }

    fn next(&mut self, error: &HistoryError) -> Duration {
        warn!(fleet = %self.fleet, %error, "the history has no space; it tries again");
        let delay = self.delay;
        self.delay = (delay * 2).min(Duration::from_millis(HISTORY_RETRY_MS.1));
        delay
    }
}
