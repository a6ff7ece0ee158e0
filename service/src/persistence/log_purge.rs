//! The removal of all cycles up to a moment from a log and its checkpoints: what an erasure needs.
//!
//! The history's thread polls it. The disk thread seals the segment. After the seal the sink logs a
//! cycle and triggers a checkpoint, twice, because two checkpoints are kept.
//! Then nothing needs the segments before the seal: they are removed, not recycled. After a crash
//! the history's thread asks anew.

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
    /// Cycles up to this epoch are to go.
    epoch: u64,
    /// The segment with the last of them was sealed behind this epoch.
    sealed: Option<u64>,
    /// Cycles up to this epoch are gone.
    gone: u64,
}

impl Default for LogPurge {
    fn default() -> Self {
        Self { state: Mutex::default(), asked: bounded(1), engine: OnceLock::new() }
    }
}

impl LogPurge {
    /// Takes what wakes the engine's thread.
    pub(crate) fn wakes(&self, engine: Sender<()>) {
        // An error cannot occur: a fleet starts once.
        let _ = self.engine.set(engine);
    }

    /// Asks that cycles up to an epoch go; true once they are gone.
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

    /// Receives a message when [`Self::is_gone`] was asked.
    pub(super) fn asked(&self) -> &Receiver<()> {
        &self.asked.1
    }

    /// Whether the segment is to be sealed.
    pub(super) fn is_open(&self) -> bool {
        let state = self.lock();
        state.epoch > state.gone && state.sealed.is_none()
    }

    /// The segment was sealed behind this epoch.
    pub(super) fn seal(&self, epoch: u64) {
        self.lock().sealed = Some(epoch);
    }

    /// The epoch behind which the segment was sealed, until the cycles before are gone.
    pub(super) fn sealed(&self) -> Option<u64> {
        self.lock().sealed
    }

    /// The cycles before the seal are gone.
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
