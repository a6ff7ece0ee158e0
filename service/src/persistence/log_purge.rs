//! Removes all cycles up to an epoch from a log and its checkpoints, for an erasure.
//!
//! The history's thread polls until the purge is complete. The disk thread seals the current
//! segment. Twice after that, because two checkpoints are kept, the sink logs a cycle and triggers
//! a checkpoint. Then nothing needs the segments before the seal, and they are deleted, not
//! recycled. After a crash the history's thread requests the purge again.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::fleet_log::LogReading;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct LogPurge {
    state: Mutex<State>,
    /// Wakes the disk thread.
    asked: (Sender<()>, Receiver<()>),
    /// Wakes the engine's thread, which then runs a cycle.
    engine: OnceLock<Sender<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// Cycles up to this epoch must be removed.
    epoch: u64,
    /// The last epoch of the segment that was sealed for the purge; `None` before the seal.
    sealed: Option<u64>,
    /// Cycles up to this epoch were removed.
    gone: u64,
}

impl Default for LogPurge {
    fn default() -> Self {
        Self { state: Mutex::default(), asked: bounded(1), engine: OnceLock::new() }
    }
}

impl LogPurge {
    /// Sets the channel that wakes the engine's thread.
    pub(crate) fn wakes(&self, engine: Sender<()>) {
        // An error cannot occur: a fleet starts once.
        let _ = self.engine.set(engine);
    }

    /// Requests the removal of all cycles up to `epoch`; returns true once they are removed.
    pub(super) fn is_gone(&self, epoch: u64) -> bool {
        let mut state = self.lock();
        if state.gone >= epoch {
            return true;
        }
        if epoch > state.epoch {
            (state.epoch, state.sealed) = (epoch, None);
        }
        // An error means that a message is there already.
        let _ = self.asked.0.try_send(());
        if let Some(engine) = self.engine.get() {
            let _ = engine.try_send(());
        }
        false
    }

    /// Receives a message when [`Self::is_gone`] has requested a removal.
    pub(super) fn asked(&self) -> &Receiver<()> {
        &self.asked.1
    }

    /// Whether the disk thread must seal the current segment.
    pub(super) fn is_open(&self) -> bool {
        let state = self.lock();
        state.epoch > state.gone && state.sealed.is_none()
    }

    /// Records that a segment was sealed with this last epoch.
    pub(super) fn seal(&self, epoch: u64) {
        self.lock().sealed = Some(epoch);
    }

    /// The last epoch of the sealed segment; `None` before the seal and after [`Self::finish`].
    pub(super) fn sealed(&self) -> Option<u64> {
        self.lock().sealed
    }

    /// Records that the cycles up to the seal were removed.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        (state.gone, state.sealed) = (state.epoch, None);
    }

    /// The epoch that the log must exceed before the next checkpoint of the purge; `None` if none
    /// is needed. Called in each cycle, so `reading` is called only while a seal is pending.
    pub(super) fn checkpoint_after(&self, reading: impl FnOnce() -> LogReading) -> Option<u64> {
        let (sealed, reading) = (self.sealed()?, reading());
        (reading.needed_epoch <= sealed).then(|| sealed.max(reading.checkpoint_epoch))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
