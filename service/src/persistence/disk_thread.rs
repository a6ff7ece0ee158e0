//! Writes groups to the log and syncs them; recycles segments; ends the log in order.
//!
//! An error of the disk is final; on a full disk the write is repeated until there is space. A
//! checkpoint frees many segments at once: they are retired one by one between groups, because
//! each takes a sync of the folder, for which acknowledgements would wait.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, after, bounded, never, select};
use shoal_position_log::{LogError, LogWriter, Retention, Spare};
use tracing::{debug, error, info, warn};

use super::fleet_log::{FleetLog, LogCondition};
use super::group_thread::PendingGroup;
use crate::fleet::WallClock;
use crate::limits::LOG_RETRY_MS;
use crate::metrics::FleetMetrics;

/// See the file's head.
pub(super) struct DiskThread {
    pub(super) fleet: String,
    pub(super) writer: LogWriter,
    pub(super) log: Arc<FleetLog>,
    pub(super) groups: Receiver<PendingGroup>,
    /// Returns written groups.
    pub(super) empty: Sender<PendingGroup>,
    /// Wakes the engine's thread after a write.
    pub(super) written: Sender<()>,
    /// Epochs after which the log must keep its cycles; sent after each checkpoint.
    pub(super) needed: Receiver<u64>,
    pub(super) retention: Retention,
    /// Bytes of the log up to which segments are kept for followers.
    pub(super) follower_bytes: u64,
    /// How long a follower that left counts.
    pub(super) follower_keep: Duration,
    pub(super) wall: WallClock,
    pub(super) metrics: FleetMetrics,
    /// Segments before this epoch are to be retired.
    pub(super) needed_epoch: Option<u64>,
    /// False once a segment could not be prepared: the writer prepares the next itself.
    pub(super) prepares: bool,
}

/// A segment that another thread prepares.
type Preparing = Option<Receiver<Result<Spare, LogError>>>;

impl DiskThread {
    /// Runs until no group can follow; then ends the log in order.
    pub(super) fn run(mut self) {
        if let Err(error) = self.write_all() {
            error!(fleet = self.fleet, %error, "the log failed; the fleet takes no more reports");
            self.log.fail(&error.to_string());
            self.wake();
            return;
        }
        let fleet = self.fleet;
        match self.writer.close() {
            Ok(()) => info!(fleet, "the log is closed"),
            Err(error) => {
                error!(fleet, %error, "the log was not closed in order");
                self.log.fail(&error.to_string());
            }
        }
    }

    fn write_all(&mut self) -> Result<(), LogError> {
        /// A group that is ready is written first.
        const PAUSE: Duration = Duration::from_millis(1);
        let mut preparing = None;
        loop {
            let pause = if self.needed_epoch.is_some() { after(PAUSE) } else { never() };
            select! {
                recv(self.groups) -> group => match group {
                    Ok(group) => self.write(group, &mut preparing)?,
                    Err(_) => return Ok(()),
                },
                recv(self.needed) -> needed => match needed {
                    Ok(epoch) => self.needed_epoch = Some(epoch),
                    // Its sender ends with the sink; the groups end soon after.
                    Err(_) => self.needed = never(),
                },
                recv(pause) -> _ => {}
            }
            self.retire_next()?;
        }
    }

    fn write(
        &mut self,
        mut group: PendingGroup,
        preparing: &mut Preparing,
    ) -> Result<(), LogError> {
        self.take_spare(preparing);
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
        self.prepare_spare(preparing);
        Ok(())
    }

    /// Waits before the next attempt. A checkpoint that ends meanwhile frees segments.
    fn wait_for_space(&mut self, error: &LogError) -> Result<(), LogError> {
        if self.log.check().is_ok() {
            warn!(fleet = self.fleet, %error, "the log has no space; reports are refused");
        }
        let why: Arc<str> = error.to_string().into();
        self.log.publish(|reading| reading.condition = LogCondition::NoSpace(why));
        match self.needed.recv_timeout(Duration::from_millis(LOG_RETRY_MS)) {
            Ok(epoch) => self.needed_epoch = Some(epoch),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.needed = never(),
        }
        while self.needed_epoch.is_some() {
            self.retire_next()?;
        }
        Ok(())
    }

    /// Prepares the next segment on a thread of its own.
    fn prepare_spare(&mut self, preparing: &mut Preparing) {
        if preparing.is_some() || !self.prepares {
            return;
        }
        if let Some(job) = self.writer.spare_job() {
            let (sender, receiver) = bounded(1);
            let name = format!("spare-{}", self.fleet);
            let work = move || drop(sender.send(job.run()));
            // Without a thread the writer prepares the segment itself.
            if thread::Builder::new().name(name).spawn(work).is_ok() {
                *preparing = Some(receiver);
            }
        }
    }

    fn take_spare(&mut self, preparing: &mut Preparing) {
        let Some(spare) = preparing.as_ref().and_then(|receiver| receiver.try_recv().ok()) else {
            return;
        };
        *preparing = None;
        match spare {
            Ok(spare) => self.writer.add_spare(spare),
            // The writer reports it when it needs the segment.
            Err(LogError::Space { .. }) => {}
            Err(error) => {
                warn!(fleet = self.fleet, %error, "the next segment of the log is not prepared");
                self.prepares = false;
            }
        }
    }

    /// Retires a segment, if one is to be retired.
    fn retire_next(&mut self) -> Result<(), LogError> {
        let Some(needed_epoch) = self.needed_epoch else { return Ok(()) };
        let held = self.log.followers().needed_epoch(self.follower_keep);
        let held = held.filter(|_| self.writer.bytes() <= self.follower_bytes);
        let epoch = held.map_or(needed_epoch, |held| held.min(needed_epoch));
        if !self.writer.retire_next(epoch, &self.retention, self.wall.now_ms())? {
            self.needed_epoch = None;
            return Ok(());
        }
        debug!(fleet = self.fleet, epoch, "a segment of the log is retired");
        let bytes = self.writer.bytes();
        self.log.publish(|reading| reading.bytes = bytes);
        Ok(())
    }

    fn wake(&self) {
        // An error means that a message is there already.
        let _ = self.written.try_send(());
    }
}
