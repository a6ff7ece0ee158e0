//! The followers of a fleet, and the epoch behind which they need its log.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::FOLLOWERS_ABSENT_MAX;

/// A follower that is or was connected.
#[derive(Debug)]
struct Follower {
    durable_epoch: u64,
    /// Streams that are open.
    streams: u32,
    seen: Instant,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct FollowerTable(Mutex<BTreeMap<String, Follower>>);

impl FollowerTable {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Follower>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A follower has connected.
    pub(crate) fn connect(&self, address: &str, durable_epoch: u64) {
        let (mut table, seen) = (self.lock(), Instant::now());
        let streams = table.get(address).map_or(0, |follower| follower.streams) + 1;
        table.insert(address.to_owned(), Follower { durable_epoch, streams, seen });
    }

    /// A follower has made cycles durable.
    pub(crate) fn acknowledge(&self, address: &str, durable_epoch: u64) {
        if let Some(follower) = self.lock().get_mut(address) {
            (follower.durable_epoch, follower.seen) = (durable_epoch, Instant::now());
        }
    }

    /// A stream of a follower has ended. Of too many that left, the first is forgotten.
    pub(crate) fn disconnect(&self, address: &str) {
        let mut table = self.lock();
        let Some(follower) = table.get_mut(address) else { return };
        follower.streams = follower.streams.saturating_sub(1);
        follower.seen = Instant::now();
        let absent = || table.iter().filter(|(_, follower)| follower.streams == 0);
        if absent().count() > FOLLOWERS_ABSENT_MAX
            && let Some((first, _)) = absent().min_by_key(|(_, follower)| follower.seen)
        {
            let first = first.clone();
            table.remove(&first);
        }
    }

    /// Addresses and durable epochs of those that are connected.
    pub(crate) fn connected(&self) -> Vec<(String, u64)> {
        let table = self.lock();
        let connected = table.iter().filter(|(_, follower)| follower.streams > 0);
        connected.map(|(address, follower)| (address.clone(), follower.durable_epoch)).collect()
    }

    /// The log keeps the cycles after this epoch for its followers. Those that left longer ago than
    /// `keep` are forgotten.
    pub(super) fn needed_epoch(&self, keep: Duration) -> Option<u64> {
        let mut table = self.lock();
        table.retain(|_, follower| follower.streams > 0 || follower.seen.elapsed() < keep);
        table.values().map(|follower| follower.durable_epoch).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_that_left_count_for_a_while() {
        let (table, long) = (FollowerTable::default(), Duration::from_secs(3600));
        assert_eq!(table.needed_epoch(long), None);
        table.connect("a", 5);
        table.connect("b", 9);
        table.acknowledge("a", 7);
        assert_eq!(table.connected(), [("a".to_owned(), 7), ("b".to_owned(), 9)]);
        assert_eq!(table.needed_epoch(Duration::ZERO), Some(7));
        // A stream that replaces a broken one begins before that ends.
        table.connect("a", 7);
        table.disconnect("a");
        assert_eq!(table.connected().len(), 2);
        table.disconnect("a");
        assert_eq!(table.connected(), [("b".to_owned(), 9)]);
        assert_eq!(table.needed_epoch(long), Some(7));
        assert_eq!(table.needed_epoch(Duration::ZERO), Some(9));
    }

    #[test]
    fn followers_that_left_are_remembered_up_to_a_number() {
        let (table, long) = (FollowerTable::default(), Duration::from_secs(3600));
        table.connect("stays", 1_000);
        for epoch in 0..500 {
            let address = format!("leaves {epoch}");
            table.connect(&address, epoch);
            table.disconnect(&address);
        }
        assert_eq!(table.lock().len(), FOLLOWERS_ABSENT_MAX + 1);
        assert_eq!(table.needed_epoch(long), Some(500 - FOLLOWERS_ABSENT_MAX as u64));
        assert_eq!(table.connected(), [("stays".to_owned(), 1_000)]);
    }
}
