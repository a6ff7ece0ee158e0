//! Changes that sessions need from the engine without a caller that waits.
//!
//! Removals of the regions of ended sessions, and snapshots for sessions that lost messages. Both
//! are bounded by the number of regions, so they need no queue capacity; a cycle runs for them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use shoal_engine::RegionId;

/// Some of them.
#[derive(Debug, Default)]
pub(crate) struct PendingBatch {
    pub(crate) removals: BTreeSet<RegionId>,
    pub(crate) snapshots: BTreeSet<RegionId>,
}

impl PendingBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.snapshots.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.removals.len() + self.snapshots.len()
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct PendingChanges {
    batch: Mutex<PendingBatch>,
    /// Wakes the engine.
    poke: Sender<()>,
}

impl PendingChanges {
    pub(crate) fn new(poke: Sender<()>) -> Self {
        Self { batch: Mutex::default(), poke }
    }

    fn lock(&self) -> MutexGuard<'_, PendingBatch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the removal of regions.
    pub(crate) fn remove(&self, regions: impl IntoIterator<Item = RegionId>) {
        self.add(|batch| batch.removals.extend(regions));
    }

    /// Requests snapshots of regions.
    pub(crate) fn snapshot(&self, regions: impl IntoIterator<Item = RegionId>) {
        self.add(|batch| batch.snapshots.extend(regions));
    }

    /// Returns the batch of a refused cycle. The next cycle takes it; none runs at once, since it
    /// would be refused as well.
    pub(crate) fn put_back(&self, back: PendingBatch) {
        let mut batch = self.lock();
        batch.removals.extend(back.removals);
        batch.snapshots.extend(back.snapshots);
    }

    /// Has a cycle run for what is pending.
    pub(crate) fn wake(&self) {
        self.add(|_| ());
    }

    fn add(&self, add: impl FnOnce(&mut PendingBatch)) {
        let is_empty = {
            let mut batch = self.lock();
            add(&mut batch);
            batch.is_empty()
        };
        if !is_empty {
            // Full means that the engine is already woken.
            let _ = self.poke.try_send(());
        }
    }

    /// Takes at most `count_max`; the rest wakes the engine again.
    pub(crate) fn take(&self, count_max: usize) -> PendingBatch {
        let mut batch = self.lock();
        if batch.len() <= count_max {
            return std::mem::take(&mut batch);
        }
        let first = |regions: &mut BTreeSet<RegionId>, count| {
            std::iter::from_fn(|| regions.pop_first()).take(count).collect()
        };
        let removals: BTreeSet<RegionId> = first(&mut batch.removals, count_max);
        let snapshots = first(&mut batch.snapshots, count_max - removals.len());
        let taken = PendingBatch { removals, snapshots };
        drop(batch);
        let _ = self.poke.try_send(());
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_wakes_the_engine_again() {
        let (poke, pokes) = crossbeam_channel::bounded(1);
        let pending = PendingChanges::new(poke);
        pending.remove([]);
        assert!(pokes.is_empty());
        pending.remove((0..5).map(RegionId));
        pending.snapshot((3..9).map(RegionId));
        assert!(pokes.try_recv().is_ok());
        let first = pending.take(7);
        assert_eq!((first.removals.len(), first.snapshots.len()), (5, 2));
        assert!(pokes.try_recv().is_ok());
        pending.put_back(first);
        assert!(pokes.is_empty());
        pending.wake();
        assert!(pokes.try_recv().is_ok());
        assert_eq!(pending.take(100).len(), 11);
        assert!(pending.take(100).is_empty());
        pending.wake();
        assert!(pokes.is_empty());
    }
}
