//! Changes that the engine must make for sessions while no caller waits for them.
//!
//! They are removals of the regions of ended sessions, and snapshots for sessions that lost
//! messages. The number of regions bounds both, so they need no queue capacity; a cycle runs for
//! them. Sessions get their snapshots in turn, so that one with many regions does not delay the
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use shoal_engine::RegionId;

/// Number of snapshots of a session before the next session has its turn; small, so that one cycle
/// serves many sessions.
const SNAPSHOTS_IN_TURN: usize = 16;

/// A batch of pending changes.
#[derive(Debug, Default)]
pub(crate) struct PendingBatch {
    pub(crate) removals: BTreeSet<RegionId>,
    /// The regions whose snapshots are requested, by number of the session.
    snapshots: BTreeMap<u64, BTreeSet<RegionId>>,
    /// The session that had the last turn.
    served: u64,
}

impl PendingBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.snapshots.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.removals.len() + self.snapshots().count()
    }

    /// The regions of all snapshots.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = RegionId> {
        self.snapshots.values().flatten().copied()
    }

    fn merge(&mut self, other: Self) {
        self.removals.extend(other.removals);
        for (session, regions) in other.snapshots {
            self.snapshots.entry(session).or_default().extend(regions);
        }
    }

    /// Takes at most `count_max` snapshots, up to [`SNAPSHOTS_IN_TURN`] of each session in turn.
    fn take_snapshots(&mut self, count_max: usize) -> BTreeMap<u64, BTreeSet<RegionId>> {
        let (mut taken, mut left) = (BTreeMap::<u64, BTreeSet<RegionId>>::new(), count_max);
        while left > 0 {
            let next = self.snapshots.range(self.served + 1..).next();
            let Some((&session, _)) = next.or_else(|| self.snapshots.iter().next()) else { break };
            let Some(regions) = self.snapshots.get_mut(&session) else { break };
            let some = taken.entry(session).or_default();
            for region in
                std::iter::from_fn(|| regions.pop_first()).take(SNAPSHOTS_IN_TURN.min(left))
            {
                some.insert(region);
                left -= 1;
            }
            if regions.is_empty() {
                self.snapshots.remove(&session);
            }
            self.served = session;
        }
        taken
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct PendingChanges {
    batch: Mutex<PendingBatch>,
    /// Wakes the engine's thread.
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

    /// Requests snapshots of regions of a session.
    pub(crate) fn snapshot(&self, session: u64, regions: impl IntoIterator<Item = RegionId>) {
        let mut regions = regions.into_iter().peekable();
        if regions.peek().is_some() {
            self.add(|batch| batch.snapshots.entry(session).or_default().extend(regions));
        }
    }

    /// Puts back the batch of a refused cycle, for the next cycle. Does not wake the engine,
    /// because an immediate cycle would be refused as well.
    pub(crate) fn put_back(&self, back: PendingBatch) {
        self.lock().merge(back);
    }

    /// Wakes the engine, so that a cycle runs for the pending changes.
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
            // An error means that a message is there already.
            let _ = self.poke.try_send(());
        }
    }

    /// Takes at most `count_max` changes, of which at most `snapshots_max` are snapshots. If
    /// changes remain, wakes the engine again.
    pub(crate) fn take(&self, count_max: usize, snapshots_max: usize) -> PendingBatch {
        let mut batch = self.lock();
        let removals = &mut batch.removals;
        let removals: BTreeSet<RegionId> =
            std::iter::from_fn(|| removals.pop_first()).take(count_max).collect();
        let snapshots = batch.take_snapshots(snapshots_max.min(count_max - removals.len()));
        let (is_empty, served) = (batch.is_empty(), batch.served);
        drop(batch);
        if !is_empty {
            let _ = self.poke.try_send(());
        }
        PendingBatch { removals, snapshots, served }
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
        pending.snapshot(1, []);
        assert!(pokes.is_empty());
        pending.remove((0..5).map(RegionId));
        pending.snapshot(1, (3..9).map(RegionId));
        assert!(pokes.try_recv().is_ok());
        let first = pending.take(7, 7);
        assert_eq!((first.removals.len(), first.snapshots().count()), (5, 2));
        assert!(pokes.try_recv().is_ok());
        pending.put_back(first);
        assert!(pokes.is_empty());
        pending.wake();
        assert!(pokes.try_recv().is_ok());
        assert_eq!(pending.take(100, 100).len(), 11);
        assert!(pending.take(100, 100).is_empty());
        pending.wake();
        assert!(pokes.is_empty());
    }

    #[test]
    fn sessions_have_their_snapshots_in_turn() {
        let (poke, _pokes) = crossbeam_channel::bounded(1);
        let pending = PendingChanges::new(poke);
        pending.snapshot(1, (0..10_000).map(RegionId));
        pending.snapshot(2, (20_000..20_003).map(RegionId));
        pending.snapshot(9, (30_000..30_040).map(RegionId));
        let mut taken = Vec::new();
        for _ in 0..3 {
            let batch = pending.take(100, 40);
            taken.extend(batch.snapshots().map(|region| region.0));
        }
        assert_eq!(taken.len(), 120);
        let of = |from: u64| taken.iter().filter(|region| **region >= from).count();
        assert_eq!((of(20_000) - of(30_000), of(30_000)), (3, 40));
        let mut rest = BTreeSet::new();
        loop {
            let batch = pending.take(100, 40);
            if batch.is_empty() {
                break;
            }
            rest.extend(batch.snapshots().map(|region| region.0));
        }
        assert_eq!(rest.len() + taken.len(), 10_043);
    }
}
