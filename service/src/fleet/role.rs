//! The part of a fleet in replication: leader, follower, or a leader whose place another took.
//!
//! Only a leader takes changes. A follower knows how current its state is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// See the file's head.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// It takes changes, from this time on.
    Leader {
        /// Until then a server that was promoted in its place may fence it.
        opens: Option<Instant>,
    },
    /// It copies the log of a leader.
    Follower(Arc<Following>),
    /// Another server was promoted in its place.
    Fenced {
        /// The term that began there.
        term: u64,
        /// The last epoch of this server that survived.
        last_epoch: u64,
    },
}

/// How far a follower is.
#[derive(Debug)]
pub(crate) struct Following {
    /// Address of the leader.
    pub(crate) leader: Arc<str>,
    known: Mutex<Known>,
    applied: watch::Sender<u64>,
}

/// What a follower knows of its leader.
#[derive(Debug)]
struct Known {
    leader_epoch: u64,
    /// The oldest epoch of the leader that is not applied, and when it was the last durable one.
    awaited: Option<(u64, Instant)>,
    /// When the state was that of the leader.
    current_at: Instant,
    /// How old the state was then, if this run has not known it to be current.
    older: Duration,
    /// Whether the leader continues the log of this copy, whose terms are then those of the leader.
    is_continued: bool,
}

/// How current a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staleness {
    /// The last durable epoch of the leader that is known.
    pub(crate) leader_epoch: u64,
    /// Since the state was known to be that of the leader.
    pub(crate) stale_ms: u64,
}

impl Known {
    /// The state was that of the leader at a time of this run.
    fn become_current(&mut self, at: Instant) {
        (self.awaited, self.current_at, self.older) = (None, at, Duration::ZERO);
    }
}

impl Following {
    /// Follows with the state of an epoch, which was that of the leader so long ago.
    pub(crate) fn new(leader: Arc<str>, epoch: u64, older: Duration) -> Self {
        let current_at = Instant::now();
        let (awaited, is_continued) = (None, false);
        let known = Known { leader_epoch: epoch, awaited, current_at, older, is_continued };
        Self { leader, known: Mutex::new(known), applied: watch::Sender::new(epoch) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The leader has just said that this is its last durable epoch.
    pub(crate) fn heard(&self, leader_epoch: u64) {
        let mut known = self.known();
        (known.leader_epoch, known.is_continued) = (leader_epoch, true);
        if *self.applied.borrow() >= leader_epoch {
            known.become_current(Instant::now());
        } else if known.awaited.is_none() {
            known.awaited = Some((leader_epoch, Instant::now()));
        }
    }

    /// Whether the leader has continued the log of this copy in this run.
    pub(crate) fn is_continued(&self) -> bool {
        self.known().is_continued
    }

    /// The state is that after this epoch.
    pub(crate) fn applied(&self, epoch: u64) {
        self.applied.send_if_modified(|applied| std::mem::replace(applied, epoch) != epoch);
        let mut known = self.known();
        if let Some((_, at)) = known.awaited.filter(|(awaited, _)| *awaited <= epoch) {
            known.become_current(at);
        }
    }

    /// A term has begun: epochs of the former one do not compare.
    pub(crate) fn term_began(&self, epoch: u64) {
        let mut known = self.known();
        (known.leader_epoch, known.awaited, known.is_continued) = (epoch, None, false);
        self.applied.send_replace(epoch);
    }

    /// Completes once an epoch is applied.
    pub(crate) async fn reached(&self, epoch: u64) {
        // The sender lives as long as this.
        let _ = self.applied.subscribe().wait_for(|applied| *applied >= epoch).await;
    }

    /// How current the state is.
    pub(crate) fn staleness(&self) -> Staleness {
        let known = self.known();
        let stale_ms = (known.current_at.elapsed() + known.older).as_millis();
        let stale_ms = u64::try_from(stale_ms).unwrap_or(u64::MAX);
        Staleness { leader_epoch: known.leader_epoch, stale_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_current_as_of_the_epoch_that_it_has_reached() {
        let following = Following::new("a".into(), 5, Duration::from_secs(9));
        assert!(following.staleness().stale_ms >= 9_000);
        let before = following.known().current_at;
        following.heard(5);
        let reached = following.known().current_at;
        assert!(reached >= before && following.staleness().stale_ms < 9_000);
        following.heard(8);
        let (_, asked) = following.known().awaited.unwrap();
        std::thread::sleep(Duration::from_millis(2));
        // Later news does not hide that the earlier one is not applied.
        following.heard(9);
        following.applied(7);
        assert_eq!(following.known().current_at, reached);
        following.applied(8);
        assert_eq!(following.known().current_at, asked);
        assert_eq!(following.staleness().leader_epoch, 9);
        following.term_began(3);
        following.heard(3);
        assert!(following.known().current_at > asked);
    }
}
