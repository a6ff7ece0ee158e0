//! Writes groups to the log and syncs them, recycles segments and closes the log.
//!
//! A disk error ends the log; on a full disk the write is repeated until there is space. Two
//! threads of their own prepare and retire segments, so that no acknowledgement waits for that.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvError, Sender, bounded, never, select};
use shoal_position_log::{LogError, LogWriter, Retention, Retired, Spare};
use tracing::{debug, error, info, warn};

use super::fleet_log::{FleetLog, LogCondition};
use super::group_thread::PendingGroup;
use crate::cycle::{CurrentName, WallClock};
use crate::limits::LOG_RETRY_MS;
use crate::metrics::FleetMetrics;

/// The error of a log whose last group did not arrive. No clean mark is written.
const UNFINISHED: &str = "the thread that collects its cycles has ended before the last one";

/// See the file's head.
pub(super) struct DiskThread {
    pub(super) fleet: CurrentName,
    pub(super) writer: LogWriter,
    pub(super) log: Arc<FleetLog>,
    pub(super) groups: Receiver<PendingGroup>,
    /// Returns written groups to the group thread, emptied.
    pub(super) empty: Sender<PendingGroup>,
    /// Wakes the engine's thread after a write.
    pub(super) written: Sender<()>,
    /// Epochs after which the log must keep its cycles; sent after each checkpoint.
    pub(super) needed: Receiver<u64>,
    pub(super) retention: Retention,
    /// Segments are kept for followers only while the log has at most this many bytes.
    pub(super) follower_bytes: u64,
    /// How long the log keeps cycles for a disconnected follower.
    pub(super) follower_keep: Duration,
    pub(super) wall: WallClock,
    pub(super) metrics: FleetMetrics,
    /// Segments whose cycles are all at or before this epoch are to be retired; `None` if there are
    /// none.
    pub(super) needed_epoch: Option<u64>,
    /// Set if a retirement failed because the disk was full. `needed_epoch` gets this value again
    /// after the next group or the next wait for space.
    pub(super) put_off: Option<u64>,
    /// False once preparing a segment has failed. The writer then creates segments itself.
    pub(super) prepares: bool,
    pub(super) preparing: Option<Preparing>,
    pub(super) retiring: Option<Retiring>,
}

/// The preparation of a segment on another thread.
pub(super) struct Preparing {
    spare: Receiver<Result<Spare, LogError>>,
    /// The thread stops when this is dropped.
    wanted: Arc<()>,
    thread: JoinHandle<()>,
}

/// The retirement of segments on another thread, one segment after the other.
pub(super) struct Retiring {
    retired: Receiver<Result<Retired, LogError>>,
    thread: JoinHandle<()>,
}

impl DiskThread {
    /// Runs until the last group; then ends the log in order.
    pub(super) fn run(mut self) {
        let written = self.write_all();
        if let Err(error) = &written {
            error!(fleet = %self.fleet, %error, "the log failed; the fleet takes no more reports");
            self.log.fail(&error.to_string());
            self.wake();
        }
        // No file changes after this thread has ended: the folder may be deleted then.
        if let Some(Preparing { wanted, thread, .. }) = self.preparing.take() {
            drop(wanted);
            let _ = thread.join();
        }
        if let Some(Retiring { retired, thread }) = self.retiring.take() {
            // The thread ends after its current segment.
            drop(retired);
            let _ = thread.join();
        }
        if written.is_err() {
            return;
        }
        let fleet = self.fleet;
        match self.writer.close() {
            Ok(()) => info!(%fleet, "the log is closed"),
            Err(error) => {
                error!(%fleet, %error, "the log was not closed in order");
                self.log.fail(&error.to_string());
            }
        }
    }

    fn write_all(&mut self) -> Result<(), LogError> {
        let idle = never();
        loop {
            let retiring = self.retiring.as_ref().map_or(&idle, |retiring| &retiring.retired);
            select! {
                recv(self.groups) -> group => match group {
                    Ok(group) if group.is_last => return Ok(()),
                    Ok(group) => self.write(group)?,
                    Err(_) => return Err(LogError::Stopped { reason: UNFINISHED.into() }),
                },
                recv(self.needed) -> needed => self.take_needed(needed),
                recv(retiring) -> retired => self.take_retired(retired)?,
                recv(self.log.purge().asked()) -> _ => self.purge()?,
            }
            self.retire();
        }
    }

    fn write(&mut self, mut group: PendingGroup) -> Result<(), LogError> {
        self.take_spare();
        let started = Instant::now();
        while let Err(error) = self.writer.write(&mut group.group) {
            if !matches!(error, LogError::Space { .. }) || self.log.is_ending() {
                return Err(error);
            }
            self.wait_for_space(&error)?;
        }
        let mut position = self.writer.sync()?;
        if let Some(term) = group.term {
            position = self.writer.begin_term(term)?;
            self.log.term_began(term, position);
        }
        let time = started.elapsed();
        self.metrics.log_sync_seconds.observe(time.as_secs_f64());
        self.log.count_sync(time);
        self.metrics.log_groups.inc();
        let PendingGroup { cycles, bytes, .. } = group;
        self.log.synced(position, cycles, bytes, self.writer.bytes());
        self.wake();
        group = PendingGroup { group: group.group, ..PendingGroup::default() };
        // An error means that there is an empty group already, or that none will be needed.
        let _ = self.empty.try_send(group);
        self.prepare_spare();
        self.take_put_off();
        Ok(())
    }

    fn take_put_off(&mut self) {
        self.needed_epoch = self.put_off.take().max(self.needed_epoch);
    }

    /// Reports that the log has no space and waits before the next attempt. A checkpoint that
    /// completes meanwhile may free segments.
    fn wait_for_space(&mut self, error: &LogError) -> Result<(), LogError> {
        let had_space = self.log.check().is_ok();
        let why: Arc<str> = error.to_string().into();
        self.log.publish(|reading| reading.condition = LogCondition::NoSpace(why));
        if had_space {
            warn!(fleet = %self.fleet, %error, "the log has no space; reports are refused");
            // The engine may wait for this write.
            self.wake();
        }
        let idle = never();
        let retiring = self.retiring.as_ref().map_or(&idle, |retiring| &retiring.retired);
        select! {
            recv(self.needed) -> needed => self.take_needed(needed),
            recv(retiring) -> retired => self.take_retired(retired)?,
            default(Duration::from_millis(LOG_RETRY_MS)) => self.take_put_off(),
        }
        self.retire();
        Ok(())
    }

    /// Prepares the next segment on a thread of its own.
    fn prepare_spare(&mut self) {
        if self.preparing.is_some() || !self.prepares {
            return;
        }
        if let Some(job) = self.writer.spare_job() {
            let (sender, spare) = bounded(1);
            let wanted = Arc::new(());
            let is_wanted = Arc::downgrade(&wanted);
            let work = move || drop(sender.send(job.run_while(|| is_wanted.strong_count() > 0)));
            // Without a thread the writer prepares the segment itself.
            let thread = thread::Builder::new().name(format!("spare-{}", self.fleet)).spawn(work);
            self.preparing = thread.ok().map(|thread| Preparing { spare, wanted, thread });
        }
    }

    fn take_spare(&mut self) {
        let prepared = self.preparing.as_ref().and_then(|it| it.spare.try_recv().ok());
        let Some(spare) = prepared else { return };
        self.preparing = None;
        match spare {
            Ok(spare) => self.writer.add_spare(spare),
            // The writer reports the full disk when it needs the segment.
            Err(LogError::Space { .. }) => {}
            Err(error) => {
                warn!(fleet = %self.fleet, %error, "the next segment of the log is not prepared");
                self.prepares = false;
            }
        }
    }

    fn take_needed(&mut self, needed: Result<u64, RecvError>) {
        match needed {
            Ok(epoch) => self.needed_epoch = Some(epoch),
            // The sink has dropped the sender; the channel of groups closes soon after.
            Err(_) => self.needed = never(),
        }
    }

    /// Runs the disk thread's part of a purge.
    fn purge(&mut self) -> Result<(), LogError> {
        if self.retiring.is_some() {
            return Ok(());
        }
        let purge = self.log.purge();
        if purge.is_open() {
            self.writer.recycle(false)?;
            match self.writer.seal() {
                Ok(position) => purge.seal(position.epoch),
                // The history's thread asks again.
                Err(LogError::Space { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let Some(sealed) = purge.sealed() else { return Ok(()) };
        if self.writer.segments().next().is_some_and(|first| first.epoch_before >= sealed) {
            self.writer.recycle(true)?;
            purge.finish();
        } else {
            self.needed_epoch = Some(self.log.reading().needed_epoch);
        }
        Ok(())
    }

    /// Begins to retire the segments that no checkpoint, follower or history needs, unless others
    /// are being retired.
    fn retire(&mut self) {
        let Some(needed_epoch) = self.needed_epoch.filter(|_| self.retiring.is_none()) else {
            return;
        };
        let held = self.log.followers().needed_epoch(self.follower_keep);
        let held = held.filter(|_| self.writer.bytes() <= self.follower_bytes);
        let unread = self.log.history().and_then(|history| history.held_epoch());
        let epoch = [held, unread].into_iter().flatten().fold(needed_epoch, u64::min);
        // Segments before the seal of a purge are retired regardless of age.
        let (epoch, retention) = match self.log.purge().sealed() {
            Some(sealed) => (epoch.min(sealed + 1), Retention::default()),
            None => (epoch, self.retention),
        };
        let now_ms = self.wall.now_ms();
        let Some(mut retirement) = self.writer.retirement(epoch, &retention, now_ms) else {
            self.needed_epoch = None;
            return;
        };
        debug!(fleet = %self.fleet, epoch, "segments of the log are retired");
        // The channel holds at most one result.
        let (sender, retired) = bounded(1);
        let work = move || while retirement.next().is_some_and(|it| sender.send(it).is_ok()) {};
        // If the thread cannot start, the next group begins another attempt.
        let thread = thread::Builder::new().name(format!("retire-{}", self.fleet)).spawn(work);
        self.retiring = thread.ok().map(|thread| Retiring { retired, thread });
    }

    fn take_retired(
        &mut self,
        retired: Result<Result<Retired, LogError>, RecvError>,
    ) -> Result<(), LogError> {
        let Ok(retired) = retired else {
            // The thread has retired its last segment.
            self.retiring = None;
            return Ok(());
        };
        if let Err(error) = self.writer.retired(retired) {
            if matches!(error, LogError::Space { .. }) {
                // Another attempt follows the next group, or the next wait for space.
                self.put_off = self.needed_epoch.take();
                return Ok(());
            }
            return Err(error);
        }
        let bytes = self.writer.bytes();
        self.log.publish(|reading| reading.bytes = bytes);
        Ok(())
    }

    fn wake(&self) {
        // An error means that a message is there already.
        let _ = self.written.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use shoal_position_log::{
        CycleHeader, FleetIdentity, LogOptions, LogReader, ReadMode, ReadOptions, Recovered,
        SimulatedDisk, Storage, create_log,
    };

    use super::super::fleet_log::LogReading;
    use super::*;
    use crate::cycle::FleetName;
    use crate::metrics::Metrics;

    const LOG: &str = "log";

    fn recovered(storage: &Arc<dyn Storage>) -> Recovered {
        let options = ReadOptions { fleet: None, after_epoch: 0, mode: ReadMode::Recover };
        LogReader::open(storage.clone(), LOG, options).unwrap().finish().unwrap()
    }

    /// Writes a group, and the last one if `is_complete`; returns the log, and whether it ended in
    /// order.
    fn run(is_complete: bool) -> (Arc<FleetLog>, bool) {
        let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
        create_log(&*storage, LOG).unwrap();
        let options = LogOptions {
            segment_bytes: 64 << 10,
            reserve_bytes: 0,
            ..LogOptions::new(FleetIdentity::new(1, "f").unwrap(), 2)
        };
        let (before, storage_of) = (recovered(&storage), storage.clone());
        let writer = LogWriter::open(storage_of, LOG, options, before, 0, 3).unwrap();
        let fleet = CurrentName::new(FleetName::new("name", "f").unwrap());
        let log = Arc::new(FleetLog::new(&fleet, LogReading::default()));
        let (groups_sender, groups) = crossbeam_channel::unbounded();
        let (empty, _empty) = bounded(2);
        let (written, _written) = bounded(1);
        let mut group = PendingGroup::default();
        let header = CycleHeader { epoch: 1, system_ms: 0, time_max_ms: 0 };
        group.group.append(header, []).unwrap();
        log.add_pending(1, 0, 0);
        group.cycles = 1;
        groups_sender.send(group).unwrap();
        if is_complete {
            groups_sender.send(PendingGroup { is_last: true, ..PendingGroup::default() }).unwrap();
        }
        drop(groups_sender);
        let thread = DiskThread {
            fleet: fleet.clone(),
            writer,
            log: log.clone(),
            groups,
            empty,
            written,
            needed: never(),
            retention: Retention::default(),
            follower_bytes: 0,
            follower_keep: Duration::ZERO,
            wall: WallClock::system(),
            metrics: Metrics::default().fleet(&fleet),
            needed_epoch: None,
            put_off: None,
            prepares: true,
            preparing: None,
            retiring: None,
        };
        thread.run();
        let found = recovered(&storage);
        assert_eq!((found.end().epoch, log.reading().durable_epoch), (1, 1));
        (log, found.was_clean())
    }

    #[test]
    fn a_log_ends_in_order_only_behind_its_last_group() {
        let (log, is_clean) = run(true);
        assert!(is_clean && !log.has_failed());
        let (log, is_clean) = run(false);
        assert!(!is_clean && log.has_failed());
    }
}
