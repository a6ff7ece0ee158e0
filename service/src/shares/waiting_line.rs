//! The holders of places and those that wait, in the order in which places are granted: whoever
//! holds the fewest first, then in turn. Lines nest: the line of all tokens contains one line of
//! connections per token.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

/// The keys that hold places or wait.
#[derive(Debug)]
pub(super) struct WaitingLine<K, Q> {
    pub(super) holders: HashMap<K, Holder<Q>>,
    /// The keys that wait: places held, order of arrival or of the last turn, key.
    pub(super) waiting: BTreeSet<(usize, u64, K)>,
}

#[derive(Debug, Default)]
pub(super) struct Holder<Q> {
    pub(super) held: usize,
    pub(super) arrival: u64,
    pub(super) waiters: Q,
}

/// A collection of waiting requests.
pub(super) trait Waiters: Default {
    fn has_none(&self) -> bool;
}

impl<W> Waiters for VecDeque<W> {
    fn has_none(&self) -> bool {
        self.is_empty()
    }
}

impl<K, Q> Waiters for WaitingLine<K, Q> {
    fn has_none(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl<K, Q> Default for WaitingLine<K, Q> {
    fn default() -> Self {
        Self { holders: HashMap::new(), waiting: BTreeSet::new() }
    }
}

impl<K: Copy + Ord + Hash, Q: Waiters> WaitingLine<K, Q> {
    /// Changes the places and requests of a key, and updates its position in `waiting`.
    pub(super) fn update<T>(
        &mut self,
        key: K,
        arrivals: &mut u64,
        change: impl FnOnce(&mut Holder<Q>, &mut u64) -> T,
    ) -> T {
        let idle = || Holder { held: 0, arrival: 0, waiters: Q::default() };
        let holder = self.holders.entry(key).or_insert_with(idle);
        let had_waiters = !holder.waiters.has_none();
        if had_waiters {
            self.waiting.remove(&(holder.held, holder.arrival, key));
        }
        let changed = change(holder, arrivals);
        if !holder.waiters.has_none() {
            if !had_waiters {
                *arrivals += 1;
                holder.arrival = *arrivals;
            }
            self.waiting.insert((holder.held, holder.arrival, key));
        } else if holder.held == 0 {
            self.holders.remove(&key);
        }
        changed
    }
}
