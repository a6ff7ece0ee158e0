//! The followers of a fleet, and the epoch after which the fleet's log must keep cycles for them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::error::ServiceError;
use crate::limits::FOLLOWERS_ABSENT_MAX;

/// A follower that is or was connected.
#[derive(Debug)]
struct Follower {
    /// The log keeps the cycles after it.
    durable_epoch: u64,
    /// True while it completes a copy: then [`FollowerTable::connected`] reports epoch 0.
    is_copying: bool,
    /// Notifies its stream, if one is open; if there are two streams, the newer.
    stream: Option<watch::Sender<()>>,
    seen: Instant,
}

impl Follower {
    /// True if `place` belongs to its current stream.
    fn has(&self, place: &FollowerPlace) -> bool {
        let is_this = |stream: &watch::Sender<()>| stream.subscribe().same_channel(&place.0);
        self.stream.as_ref().is_some_and(is_this)
    }
}

/// The place of a follower's stream.
#[derive(Debug)]
pub(crate) struct FollowerPlace(watch::Receiver<()>);

/// The error of a fleet with the greatest allowed number of followers.
#[derive(Debug)]
pub(crate) struct FollowersFull(usize);

impl From<FollowersFull> for ServiceError {
    fn from(FollowersFull(max): FollowersFull) -> Self {
        let (value, limit) = (max as u64 + 1, max as u64);
        Self::Limit { what: "the number of followers of the fleet", value, limit }
    }
}

impl FollowerPlace {
    /// Completes when a newer stream has taken the place.
    pub(crate) async fn replaced(&self) {
        let mut place = self.0.clone();
        while place.changed().await.is_ok() {}
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct FollowerTable(Mutex<BTreeMap<String, Follower>>);

impl FollowerTable {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Follower>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a follower with its durable epoch, and whether it completes a copy. Replaces an
    /// earlier stream of the same name. Fails if `followers_max` others are connected.
    pub(crate) fn connect(
        &self,
        name: &str,
        (durable_epoch, is_copying): (u64, bool),
        followers_max: usize,
    ) -> Result<FollowerPlace, FollowersFull> {
        let (mut table, seen) = (self.lock(), Instant::now());
        let others = table.iter().filter(|(other, it)| *other != name && it.stream.is_some());
        if others.count() >= followers_max {
            return Err(FollowersFull(followers_max));
        }
        // The insertion drops the sender of the earlier stream, which completes its `replaced`.
        let (sender, receiver) = watch::channel(());
        let stream = Some(sender);
        table.insert(name.to_owned(), Follower { durable_epoch, is_copying, stream, seen });
        Ok(FollowerPlace(receiver))
    }

    /// Raises the durable epoch of a follower. No effect if another stream took its place.
    pub(crate) fn acknowledge(&self, name: &str, place: &FollowerPlace, durable_epoch: u64) {
        if let Some(follower) = self.lock().get_mut(name)
            && follower.has(place)
        {
            follower.durable_epoch = follower.durable_epoch.max(durable_epoch);
            follower.seen = Instant::now();
        }
    }

    /// Marks the follower of this stream as disconnected. Beyond [`FOLLOWERS_ABSENT_MAX`], removes
    /// the disconnected follower that was seen least recently.
    pub(crate) fn disconnect(&self, name: &str, place: &FollowerPlace) {
        let mut table = self.lock();
        let Some(follower) = table.get_mut(name) else { return };
        if follower.has(place) {
            (follower.stream, follower.seen) = (None, Instant::now());
        }
        let absent = || table.iter().filter(|(_, follower)| follower.stream.is_none());
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
        let connected = table.iter().filter(|(_, follower)| follower.stream.is_some());
        let durable = |it: &Follower| if it.is_copying { 0 } else { it.durable_epoch };
        connected.map(|(address, follower)| (address.clone(), durable(follower))).collect()
    }

    /// The epoch after which the log must keep its cycles for followers; `None` without followers.
    /// Removes those that disconnected longer than `keep` ago.
    pub(super) fn needed_epoch(&self, keep: Duration) -> Option<u64> {
        let mut table = self.lock();
        table.retain(|_, follower| follower.stream.is_some() || follower.seen.elapsed() < keep);
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
        let first = table.connect("a", (5, false), 9).unwrap();
        table.connect("b", (9, false), 9).unwrap();
        table.acknowledge("a", &first, 7);
        // A lower acknowledgement does not lower the epoch.
        table.acknowledge("a", &first, 6);
        assert_eq!(table.connected(), [("a".to_owned(), 7), ("b".to_owned(), 9)]);
        assert_eq!(table.needed_epoch(Duration::ZERO), Some(7));
        // A stream may replace a broken one before the broken one ends.
        let second = table.connect("a", (7, false), 9).unwrap();
        table.acknowledge("a", &first, 8);
        table.disconnect("a", &first);
        assert_eq!(table.connected().len(), 2);
        table.disconnect("a", &second);
        assert_eq!(table.connected(), [("b".to_owned(), 9)]);
        assert_eq!(table.needed_epoch(long), Some(7));
        assert_eq!(table.needed_epoch(Duration::ZERO), Some(9));
    }

    #[tokio::test]
    async fn a_name_has_one_stream_and_a_fleet_a_number_of_followers() {
        let table = FollowerTable::default();
        let first = table.connect("a", (5, false), 2).unwrap();
        let _other = table.connect("b", (5, false), 2).unwrap();
        assert!(table.connect("c", (5, false), 2).is_err());
        let second = table.connect("a", (5, false), 2).unwrap();
        first.replaced().await;
        let replaced = tokio::time::timeout(Duration::from_millis(10), second.replaced());
        assert!(replaced.await.is_err());
        table.disconnect("a", &second);
        // One that completes a copy holds the log, and has nothing yet.
        table.connect("c", (5, true), 2).unwrap();
        assert_eq!(table.connected(), [("b".to_owned(), 5), ("c".to_owned(), 0)]);
        assert_eq!(table.needed_epoch(Duration::ZERO), Some(5));
    }

    #[test]
    fn followers_that_left_are_remembered_up_to_a_number() {
        let (table, long) = (FollowerTable::default(), Duration::from_secs(3600));
        table.connect("stays", (1_000, false), 9).unwrap();
        for epoch in 0..500 {
            let name = format!("leaves {epoch}");
            let place = table.connect(&name, (epoch, false), 9).unwrap();
            table.disconnect(&name, &place);
        }
        assert_eq!(table.lock().len(), FOLLOWERS_ABSENT_MAX + 1);
        assert_eq!(table.needed_epoch(long), Some(500 - FOLLOWERS_ABSENT_MAX as u64));
        assert_eq!(table.connected(), [("stays".to_owned(), 1_000)]);
    }
}
