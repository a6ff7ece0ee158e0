//! What does the engine owe to sessions that nobody waits for?
//!
//! Regions of sessions that ended are to go, and members are to be told again to those who lost
//! messages. Both are bounded by the regions there are, so they need no room; the next cycle takes
//! them, and a cycle is run for them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use shoal_engine::RegionId;

/// Some of what is owed.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    pub(crate) removals: BTreeSet<RegionId>,
    pub(crate) snapshots: BTreeSet<RegionId>,
}

impl Owed {
    pub(crate) fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.snapshots.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.removals.len() + self.snapshots.len()
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Chores {
    owed: Mutex<Owed>,
    /// Wakes the engine.
    poke: Sender<()>,
}

impl Chores {
    pub(crate) fn new(poke: Sender<()>) -> Self {
        Self { owed: Mutex::default(), poke }
    }

    fn lock(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These regions are to go.
    pub(crate) fn remove(&self, regions: impl IntoIterator<Item = RegionId>) {
        self.add(|owed| owed.removals.extend(regions));
    }

    /// The members of these are to be told.
    pub(crate) fn snapshot(&self, regions: impl IntoIterator<Item = RegionId>) {
        self.add(|owed| owed.snapshots.extend(regions));
    }

    /// Gives back what a cycle took that was refused. The next cycle takes it; none is run at once,
    /// for it would be refused as well.
    pub(crate) fn put_back(&self, back: Owed) {
        let mut owed = self.lock();
        owed.removals.extend(back.removals);
        owed.snapshots.extend(back.snapshots);
    }

    /// Has a cycle run for what is owed still.
    pub(crate) fn remind(&self) {
        self.add(|_| ());
    }

    fn add(&self, add: impl FnOnce(&mut Owed)) {
        let is_empty = {
            let mut owed = self.lock();
            add(&mut owed);
            owed.is_empty()
        };
        if !is_empty {
            // Full means that the engine was woken already.
            let _ = self.poke.try_send(());
        }
    }

    /// Takes at most so many; what is left wakes the engine again.
    pub(crate) fn take(&self, count_max: usize) -> Owed {
        let mut owed = self.lock();
        if owed.len() <= count_max {
            return std::mem::take(&mut owed);
        }
        let mut taken = Owed::default();
        while taken.len() < count_max
            && let Some(region) = owed.removals.pop_first()
        {
            taken.removals.insert(region);
        }
        while taken.len() < count_max
            && let Some(region) = owed.snapshots.pop_first()
        {
            taken.snapshots.insert(region);
        }
        drop(owed);
        let _ = self.poke.try_send(());
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_wakes_again() {
        let (poke, pokes) = crossbeam_channel::bounded(1);
        let chores = Chores::new(poke);
        chores.remove([]);
        assert!(pokes.is_empty());
        chores.remove((0..5).map(RegionId));
        chores.snapshot((3..9).map(RegionId));
        assert!(pokes.try_recv().is_ok());
        let first = chores.take(7);
        assert_eq!((first.removals.len(), first.snapshots.len()), (5, 2));
        assert!(pokes.try_recv().is_ok());
        chores.put_back(first);
        assert!(pokes.is_empty());
        chores.remind();
        assert!(pokes.try_recv().is_ok());
        assert_eq!(chores.take(100).len(), 11);
        assert!(chores.take(100).is_empty());
        chores.remind();
        assert!(pokes.is_empty());
    }
}
