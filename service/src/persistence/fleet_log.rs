//! The state of a fleet's log for callers: what is durable, and whether the log accepts reports.
//!
//! The engine thread and the threads of the log change the state. Nothing here blocks a task: only
//! the checkpoint thread calls `wait_durable`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use shoal_position_log::Position;
use tokio::sync::watch;

use super::follower_table::FollowerTable;
use super::history::FleetHistory;
use super::log_purge::LogPurge;
use super::log_tail::LogTail;
use super::sync_times::SyncTimes;
use crate::cycle::CurrentName;
use crate::error::ServiceError;
use crate::limits::{LOG_LATE_BYTES_MIN, LOG_PENDING_MS, LOG_SPACE_WAIT_MS};

/// Whether a log accepts cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogCondition {
    /// The log accepts cycles.
    #[default]
    Running,
    /// The disk is full; the text has the free and the needed bytes. Writing is tried again.
    NoSpace(Arc<str>),
    /// The log has failed; the text is the error.
    Failed(Arc<str>),
}

/// The state of a log after its last write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReading {
    /// Every cycle up to this one is durable.
    pub durable_epoch: u64,
    /// The fleet's clock at that epoch; `None` if it is that of the last cycle in the log.
    pub clock_ms: Option<i64>,
    /// The term in which the log ends.
    pub term: u64,
    /// The end of what is durable in the log.
    pub position: Position,
    /// Epoch of the newest checkpoint, 0 without one.
    pub checkpoint_epoch: u64,
    /// Epoch of the older checkpoint. The checkpoints need the cycles after it.
    pub needed_epoch: u64,
    /// Bytes of the segments.
    pub bytes: u64,
    /// Whether it accepts cycles.
    pub condition: LogCondition,
    /// Duration of the fleet's recovery.
    pub recovery: Duration,
    /// When the newest checkpoint of this run was complete, Unix milliseconds; 0 without one.
    pub checkpoint_ms: i64,
    /// How long that checkpoint took.
    pub checkpoint_time: Duration,
}

/// Times to write and sync a group since the start, to one percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncReading {
    /// Number of groups.
    pub groups: u64,
    /// The median time; `None` without groups.
    pub p50: Option<Duration>,
    /// The 99th percentile; `None` without groups.
    pub p99: Option<Duration>,
}

impl LogReading {
    /// Sets the durable epoch and the clock at it, unless `epoch` is earlier.
    fn reach(&mut self, epoch: u64, clock_ms: Option<i64>) {
        if epoch >= self.durable_epoch {
            (self.durable_epoch, self.clock_ms) = (epoch, clock_ms);
        }
    }
}

/// The numbers of a log for gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogDepth {
    /// See [`LogReading::bytes`].
    pub bytes: u64,
    /// See [`FleetLog::pending_bytes`].
    pub pending_bytes: u64,
    /// See [`FleetLog::pending_cycles`].
    pub pending_cycles: u64,
    /// See [`LogReading::durable_epoch`].
    pub durable_epoch: u64,
    /// See [`LogReading::checkpoint_epoch`].
    pub checkpoint_epoch: u64,
}

/// The last cycle that the engine has settled, and the cycles that are not durable.
#[derive(Clone, Debug)]
struct Progress {
    /// The last cycle, and the clock after it.
    epoch: u64,
    clock_ms: i64,
    /// When the cycles that are not durable were handed to the log, in order.
    pending: VecDeque<Instant>,
    /// How long it took to write and sync the last group.
    sync_time: Duration,
}

/// See the file's head.
#[derive(Debug)]
pub struct FleetLog {
    fleet: CurrentName,
    reading: watch::Sender<LogReading>,
    /// Locked until the resulting state is published, so that no settled cycle is missed.
    progress: Mutex<Progress>,
    followers: FollowerTable,
    /// Set once, before the threads of the log start.
    history: OnceLock<Arc<FleetHistory>>,
    purge: LogPurge,
    /// Bytes of the pending cycles.
    pending_bytes: AtomicU64,
    sync_times: SyncTimes,
    tail: LogTail,
    /// True once the fleet ends. The log then no longer waits for space on a full disk.
    is_ending: AtomicBool,
}

impl FleetLog {
    pub(super) fn new(fleet: &CurrentName, reading: LogReading) -> Self {
        Self {
            fleet: fleet.clone(),
            progress: Mutex::new(Progress {
                epoch: reading.durable_epoch,
                clock_ms: 0,
                pending: VecDeque::new(),
                sync_time: Duration::ZERO,
            }),
            followers: FollowerTable::default(),
            history: OnceLock::new(),
            purge: LogPurge::default(),
            reading: watch::Sender::new(reading),
            pending_bytes: AtomicU64::new(0),
            sync_times: SyncTimes::new(),
            tail: LogTail::default(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// A receiver of the current state and of later ones.
    pub(crate) fn subscribe(&self) -> watch::Receiver<LogReading> {
        self.reading.subscribe()
    }

    /// The followers that copy it.
    pub(crate) fn followers(&self) -> &FollowerTable {
        &self.followers
    }

    /// The history that is written from it, if the server keeps one.
    pub(crate) fn history(&self) -> Option<&Arc<FleetHistory>> {
        self.history.get()
    }

    /// Attaches the history; the log then keeps the cycles that the history has not read.
    pub(super) fn feed(&self, history: Arc<FleetHistory>) {
        // An error cannot occur: a log is opened once.
        let _ = self.history.set(history);
    }

    /// The number of rows that a recovery would replay, and how long that takes.
    pub(crate) fn tail(&self) -> &LogTail {
        &self.tail
    }

    /// The purge of the log.
    pub(crate) fn purge(&self) -> &LogPurge {
        &self.purge
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its state.
    #[must_use]
    pub fn reading(&self) -> LogReading {
        self.reading.borrow().clone()
    }

    /// The numbers of the log for gauges.
    #[must_use]
    pub fn depth(&self) -> LogDepth {
        let LogReading { bytes, durable_epoch, checkpoint_epoch, .. } = self.reading();
        let (pending_bytes, pending_cycles) = (self.pending_bytes(), self.pending_cycles());
        LogDepth { bytes, pending_bytes, pending_cycles, durable_epoch, checkpoint_epoch }
    }

    /// Bytes that are not durable.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::SeqCst)
    }

    /// Cycles with changes that are not durable.
    #[must_use]
    pub fn pending_cycles(&self) -> u64 {
        self.progress().pending.len() as u64
    }

    /// Whether many bytes wait longer than for a log that keeps up: then the threads of the log have
    /// too little of the cores or of the disk, and more cycles would only wait longer. A full disk
    /// is no reason to wait: reports are refused, and [`FleetLog::pending_bytes`] is limited.
    pub(super) fn is_late(&self) -> bool {
        if self.pending_bytes() < LOG_LATE_BYTES_MIN {
            return false;
        }
        let progress = self.progress();
        let most = Duration::from_millis(LOG_PENDING_MS) + 2 * progress.sync_time;
        let is_late = progress.pending.front().is_some_and(|since| since.elapsed() > most);
        is_late && self.reading.borrow().condition == LogCondition::Running
    }

    /// How long it took to write and sync groups.
    #[must_use]
    pub fn syncs(&self) -> SyncReading {
        let percentile = |percent| self.sync_times.percentile(percent);
        SyncReading { groups: self.sync_times.count(), p50: percentile(50), p99: percentile(99) }
    }

    /// Records how long it took to write and sync a group.
    pub(super) fn count_sync(&self, time: Duration) {
        self.sync_times.record(time);
        self.progress().sync_time = time;
    }

    /// Confirms that the fleet takes changes.
    ///
    /// # Errors
    /// [`ServiceError::LogSpace`], [`ServiceError::LogFailed`].
    pub fn check(&self) -> Result<(), ServiceError> {
        self.error_of(&self.reading.borrow().condition).map_or(Ok(()), Err)
    }

    /// Waits until a cycle is durable; on a full disk at most [`LOG_SPACE_WAIT_MS`].
    ///
    /// # Errors
    /// [`ServiceError::LogSpace`]: the cycle is applied, and becomes durable when there is space. A
    /// numbered message that is then sent again is acknowledged as a duplicate.
    /// [`ServiceError::LogFailed`].
    pub async fn durable(&self, epoch: u64) -> Result<(), ServiceError> {
        const WAIT: Duration = Duration::from_millis(LOG_SPACE_WAIT_MS);
        let mut readings = self.reading.subscribe();
        loop {
            let is_durable = |reading: &LogReading| reading.durable_epoch >= epoch;
            let is_decided = |reading: &LogReading| {
                is_durable(reading) || reading.condition != LogCondition::Running
            };
            // Errors cannot occur: `self` holds the sender.
            let Ok(reading) = readings.wait_for(is_decided).await.map(|it| it.clone()) else {
                return Ok(());
            };
            if is_durable(&reading) {
                return Ok(());
            }
            let is_full = |reading: &LogReading| {
                matches!(reading.condition, LogCondition::NoSpace(_)) && !is_durable(reading)
            };
            let has_space = readings.wait_for(|reading| !is_full(reading));
            if !is_full(&reading) || tokio::time::timeout(WAIT, has_space).await.is_err() {
                return self.error_of(&reading.condition).map_or(Ok(()), Err);
            }
        }
    }

    /// Waits until the beginning of a term is durable.
    ///
    /// # Errors
    /// [`ServiceError::LogSpace`], [`ServiceError::LogFailed`].
    pub(crate) async fn in_term(&self, term: u64) -> Result<(), ServiceError> {
        let mut readings = self.reading.subscribe();
        let is_decided = |reading: &LogReading| {
            reading.term == term || reading.condition != LogCondition::Running
        };
        // The reading is cloned, because a borrowed one blocks the writers of the channel. An error
        // cannot occur, see `durable`.
        let reading = readings.wait_for(is_decided).await.map(|it| it.clone());
        reading.ok().and_then(|it| self.error_of(&it.condition)).map_or(Ok(()), Err)
    }

    /// Blocks until a cycle is durable; `None` if the log fails first.
    pub(super) fn wait_durable(&self, epoch: u64) -> Option<LogReading> {
        const POLL: Duration = Duration::from_millis(5);
        loop {
            let reading = self.reading();
            if reading.durable_epoch >= epoch {
                return Some(reading);
            }
            if self.has_failed() {
                return None;
            }
            thread::sleep(POLL);
        }
    }

    /// Marks that the fleet ends.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    /// Whether the fleet ends.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    fn error_of(&self, condition: &LogCondition) -> Option<ServiceError> {
        let fleet = || self.fleet.to_string();
        match condition {
            LogCondition::Running => None,
            LogCondition::NoSpace(why) => {
                Some(ServiceError::LogSpace { fleet: fleet(), why: why.to_string() })
            }
            LogCondition::Failed(why) => {
                Some(ServiceError::LogFailed { fleet: fleet(), why: why.to_string() })
            }
        }
    }

    /// Counts a cycle that is handed to the log as pending.
    pub(super) fn add_pending(&self, epoch: u64, clock_ms: i64, bytes: u64) {
        self.pending_bytes.fetch_add(bytes, Ordering::SeqCst);
        let mut progress = self.progress();
        (progress.epoch, progress.clock_ms) = (epoch, clock_ms);
        progress.pending.push_back(Instant::now());
    }

    /// Records a settled cycle without changes, which is not logged. It counts as durable once all
    /// cycles before it are.
    pub(super) fn pass(&self, epoch: u64, clock_ms: i64) {
        let mut progress = self.progress();
        (progress.epoch, progress.clock_ms) = (epoch, clock_ms);
        if progress.pending.is_empty() {
            self.publish(|reading| reading.reach(epoch, Some(clock_ms)));
        }
    }

    /// Marks `cycles` cycles (`bytes` bytes) up to `position` as durable.
    pub(super) fn synced(&self, position: Position, cycles: u64, bytes: u64, log_bytes: u64) {
        self.pending_bytes.fetch_sub(bytes, Ordering::SeqCst);
        let mut progress = self.progress();
        progress.pending.drain(..cycles as usize);
        let Progress { epoch, clock_ms, .. } = *progress;
        let is_behind = progress.pending.is_empty() && epoch > position.epoch;
        let durable = if is_behind { epoch } else { position.epoch };
        self.publish(|reading| {
            reading.reach(durable, is_behind.then_some(clock_ms));
            reading.position = position;
            reading.bytes = log_bytes;
            reading.condition = LogCondition::Running;
        });
    }

    /// The last cycle that the engine has settled.
    pub(super) fn settled_epoch(&self) -> u64 {
        self.progress().epoch
    }

    /// Records that a term begins at a position. Sets the durable epoch back to it: later epochs of
    /// the former term do not count.
    pub(super) fn term_began(&self, term: u64, position: Position) {
        self.publish(|reading| {
            (reading.term, reading.durable_epoch) = (term, position.epoch);
            (reading.clock_ms, reading.position) = (None, position);
        });
    }

    /// Changes and publishes the state. Has no effect once the log has failed, because later cycles
    /// cannot become durable.
    pub(super) fn publish(&self, change: impl FnOnce(&mut LogReading)) {
        self.reading.send_if_modified(|reading| {
            if matches!(reading.condition, LogCondition::Failed(_)) {
                return false;
            }
            let before = reading.clone();
            change(reading);
            *reading != before
        });
    }

    /// Marks the log as failed, for the reason `why`.
    pub(super) fn fail(&self, why: &str) {
        self.publish(|reading| reading.condition = LogCondition::Failed(why.into()));
    }

    /// True if the log has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self.reading.borrow().condition, LogCondition::Failed(_))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use crossbeam_channel::bounded;

    use super::*;
    use crate::cycle::FleetName;

    fn fleet() -> CurrentName {
        CurrentName::new(FleetName::new("name", "f").unwrap())
    }

    fn at(epoch: u64) -> Position {
        Position { epoch, ..Position::default() }
    }

    #[tokio::test]
    async fn a_cycle_is_durable_once_all_before_it_are() {
        let log = FleetLog::new(&fleet(), LogReading { durable_epoch: 4, ..LogReading::default() });
        log.pass(5, 0);
        assert_eq!(log.reading().durable_epoch, 5);
        log.add_pending(6, 0, 10);
        log.pass(7, 0);
        assert_eq!(log.reading().durable_epoch, 5);
        log.add_pending(8, 0, 20);
        log.synced(at(6), 1, 10, 100);
        assert_eq!(log.reading().durable_epoch, 6);
        log.pass(9, 0);
        log.synced(at(8), 1, 20, 100);
        assert_eq!((log.reading().durable_epoch, log.pending_bytes()), (9, 0));
        log.durable(9).await.unwrap();
    }

    #[test]
    fn cycles_that_wait_longer_than_for_two_writes_are_late() {
        let log = FleetLog::new(&fleet(), LogReading::default());
        assert!(!log.is_late());
        log.count_sync(Duration::from_secs(3_600));
        log.add_pending(1, 0, LOG_LATE_BYTES_MIN - 1);
        thread::sleep(Duration::from_millis(LOG_PENDING_MS + 1));
        assert!(!log.is_late(), "the disk is slow");
        log.count_sync(Duration::ZERO);
        assert!(!log.is_late(), "few bytes wait");
        log.add_pending(2, 0, 1);
        assert!(log.is_late());
        log.publish(|reading| reading.condition = LogCondition::NoSpace("full".into()));
        assert!(!log.is_late());
        log.synced(at(2), 2, LOG_LATE_BYTES_MIN, 1);
        assert!(!log.is_late());
    }

    #[test]
    fn a_cycle_without_changes_is_durable_when_its_predecessor_becomes_so_meanwhile() {
        const ROUNDS: u64 = 20_000;
        let log = FleetLog::new(&fleet(), LogReading::default());
        let turn = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    turn.wait();
                    log.synced(at(2 * round), 1, 1, 1);
                    turn.wait();
                }
            });
            for round in 1..=ROUNDS {
                log.add_pending(2 * round, 0, 1);
                turn.wait();
                log.pass(2 * round + 1, 0);
                turn.wait();
                assert_eq!(log.reading().durable_epoch, 2 * round + 1);
            }
        });
    }

    /// A task that waits for a state must not hold a borrow of it while it reads the state again: a
    /// change in between would wait for the borrow, and the second read for the change.
    #[test]
    fn a_term_that_begins_is_seen_while_the_state_changes() {
        const TERMS: u64 = 20_000;
        let log = Arc::new(FleetLog::new(&fleet(), LogReading::default()));
        let (seen, seen_terms) = bounded(0);
        let waiting = log.clone();
        // The threads are not joined: if they deadlock, the timeout below fails the test. With more
        // threads than cores a thread may be preempted at any point.
        for _ in 0..4 {
            let changing = log.clone();
            thread::spawn(move || {
                while changing.reading().term < TERMS {
                    changing.synced(at(1), 0, 0, 0);
                }
            });
        }
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            for term in 1..=TERMS {
                waiting.term_began(term, at(term));
                seen.send(runtime.block_on(waiting.in_term(term))).unwrap();
            }
        });
        for _ in 1..=TERMS {
            seen_terms.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_disk_fails_those_that_wait_for_long() {
        let log = FleetLog::new(&fleet(), LogReading::default());
        log.add_pending(1, 0, 1);
        log.add_pending(2, 0, 1);
        let full = |why: &str| {
            log.publish(|reading| reading.condition = LogCondition::NoSpace(why.into()));
        };
        full("1 byte");
        // Another text is the same condition.
        let change = async {
            tokio::time::sleep(Duration::from_millis(LOG_SPACE_WAIT_MS / 2)).await;
            full("2 bytes");
        };
        let (waited, ()) = tokio::join!(log.durable(1), change);
        assert!(matches!(waited, Err(ServiceError::LogSpace { .. })), "{waited:?}");
        // Space in time.
        let space = async {
            tokio::time::sleep(Duration::from_millis(LOG_SPACE_WAIT_MS / 2)).await;
            log.synced(at(1), 1, 1, 1);
        };
        let (first, second, ()) = tokio::join!(log.durable(1), log.durable(2), async {
            space.await;
            full("3 bytes");
        });
        first.unwrap();
        assert!(matches!(second, Err(ServiceError::LogSpace { .. })), "{second:?}");
        log.synced(at(2), 1, 1, 1);
        log.durable(2).await.unwrap();
        log.add_pending(3, 0, 1);
        full("4 bytes");
        let fail = async {
            tokio::time::sleep(Duration::from_millis(LOG_SPACE_WAIT_MS / 2)).await;
            log.fail("bad");
        };
        let (waited, ()) = tokio::join!(log.durable(3), fail);
        assert!(matches!(waited, Err(ServiceError::LogFailed { .. })), "{waited:?}");
    }

    #[tokio::test]
    async fn failure_is_final_and_a_full_disk_is_not() {
        let log = FleetLog::new(&fleet(), LogReading::default());
        log.publish(|reading| reading.condition = LogCondition::NoSpace("full".into()));
        assert!(matches!(log.check(), Err(ServiceError::LogSpace { .. })));
        log.add_pending(1, 0, 1);
        log.synced(at(1), 1, 1, 1);
        log.check().unwrap();
        log.add_pending(2, 0, 1);
        log.fail("bad");
        log.publish(|reading| reading.condition = LogCondition::Running);
        assert!(matches!(log.check(), Err(ServiceError::LogFailed { .. })));
        assert!(matches!(log.durable(2).await, Err(ServiceError::LogFailed { .. })));
        log.synced(at(2), 1, 1, 1);
        log.pass(3, 0);
        assert!(matches!(log.durable(3).await, Err(ServiceError::LogFailed { .. })));
        log.durable(1).await.unwrap();
    }
}
