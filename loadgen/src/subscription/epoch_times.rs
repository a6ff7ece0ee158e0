//! The intended send time of each epoch, for the latency of its events.
//!
//! Acks state the epochs of their messages. The latency of an event counts from the earliest
//! intended send time among the messages of its epoch, so it is never too short. A merged ack
//! states only its first and last epoch; the epochs between them get the earliest send time of the
//! ack. Epochs without rows sent while the clock ran have no send time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::limits::EPOCH_TIMES_MAX;

/// The epochs of all connections' messages.
#[derive(Debug)]
pub struct EpochTimes(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// The latest acknowledged epoch.
    known: u64,
    connections: Vec<Connection>,
    /// Earliest intended send time by epoch.
    times: BTreeMap<u64, Instant>,
}

#[derive(Clone, Debug, Default)]
struct Connection {
    /// Minimum epoch of each unacknowledged message, oldest first.
    in_flight: VecDeque<u64>,
    /// Epoch of the last acknowledged message; acks arrive in order.
    last_epoch: u64,
}

/// The send time of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The epoch may have unacknowledged messages.
    Open,
    /// None of its messages has a send time.
    Never,
    /// Earliest intended send time of its messages.
    At(Instant),
}

impl EpochTimes {
    /// Creates the times for a number of connections.
    #[must_use]
    pub fn new(connections: u32) -> Self {
        let connections = vec![Connection::default(); connections as usize];
        Self(Mutex::new(Inner { known: 0, connections, times: BTreeMap::new() }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change below is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a message; call before sending it.
    pub fn sent(&self, connection: u32) {
        let mut inner = self.inner();
        let least = inner.known + 1;
        inner.connections[connection as usize].in_flight.push_back(least);
    }

    /// Records that `messages` of a connection were applied at `epochs`; `intended` is the earliest
    /// send time, if measured.
    pub fn acked(
        &self,
        connection: u32,
        messages: usize,
        epochs: RangeInclusive<u64>,
        intended: Option<Instant>,
    ) {
        let mut inner = self.inner();
        let (first, last) = epochs.into_inner();
        inner.known = inner.known.max(last);
        let of = &mut inner.connections[connection as usize];
        of.in_flight.drain(..messages.min(of.in_flight.len()));
        of.last_epoch = last;
        if let Some(intended) = intended {
            for epoch in first.max(last.saturating_sub(EPOCH_TIMES_MAX as u64))..=last {
                let earliest = inner.times.entry(epoch).or_insert(intended);
                *earliest = intended.min(*earliest);
            }
        }
        while inner.times.len() > EPOCH_TIMES_MAX {
            inner.times.pop_first();
        }
    }

    /// The send times of epochs in order, up to the first open epoch.
    pub fn moments(&self, epochs: impl Iterator<Item = u64>) -> Vec<Moment> {
        let inner = self.inner();
        let bound = |of: &Connection| of.in_flight.front().map(|least| (*least).max(of.last_epoch));
        let open_from = inner.connections.iter().filter_map(bound).min().unwrap_or(u64::MAX);
        let moment = |epoch: u64| match inner.times.get(&epoch) {
            _ if epoch >= open_from => Moment::Open,
            Some(at) => Moment::At(*at),
            None => Moment::Never,
        };
        epochs.map(moment).take_while(|moment| *moment != Moment::Open).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_epoch_is_open_until_every_message_that_may_lie_in_it_has_its_ack() {
        let times = EpochTimes::new(2);
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        times.sent(0);
        times.sent(1);
        assert_eq!(times.moments([1].into_iter()), []);
        times.acked(0, 1, 1..=1, Some(at(5)));
        assert_eq!(times.moments([1].into_iter()), [], "connection 1 may have been applied in it");
        times.acked(1, 1, 1..=1, Some(at(3)));
        assert_eq!(times.moments([1, 2].into_iter()), [Moment::At(at(3)), Moment::Never]);
        times.sent(0);
        assert_eq!(times.moments([1, 2].into_iter()), [Moment::At(at(3))]);
        times.acked(0, 1, 4..=4, None);
        assert_eq!(times.moments([2, 4].into_iter()), [Moment::Never; 2]);
    }

    #[test]
    fn a_merged_ack_gives_its_earliest_moment_to_all_of_its_epochs() {
        let times = EpochTimes::new(1);
        let start = Instant::now();
        for _ in 0..3 {
            times.sent(0);
        }
        times.acked(0, 3, 7..=9, Some(start));
        assert_eq!(
            times.moments(7..=10),
            [Moment::At(start), Moment::At(start), Moment::At(start), Moment::Never]
        );
    }

    #[test]
    fn memory_is_bounded() {
        let times = EpochTimes::new(1);
        let start = Instant::now();
        times.acked(0, 0, 0..=u64::MAX - 1, Some(start));
        assert!(times.inner().times.len() <= EPOCH_TIMES_MAX);
    }
}
