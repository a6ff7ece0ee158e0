//! The replication role of a fleet: leader, follower, or fenced former leader.
//!
//! Only a leader takes changes. A follower knows how current its state is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// See the file's head.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// It accepts changes.
    Leader {
        /// It accepts no changes before this time, so that a server promoted in its place can
        /// fence it first.
        opens: Option<Instant>,
    },
    /// It copies the log of a leader.
    Follower(Arc<Following>),
    /// Another server was promoted in its place.
    Fenced {
        /// The term that began there.
        term: u64,
        /// The last epoch of this server that the promoted server also has.
        last_epoch: u64,
    },
}

/// The progress of a follower.
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
    /// The oldest reported durable epoch of the leader that is not applied yet, and the time of the
    /// report.
    awaited: Option<(u64, Instant)>,
    /// When the state last equalled the leader's.
    current_at: Instant,
    /// Age of the state at `current_at`; zero once the state has equalled the leader's in this run.
    older: Duration,
    /// Whether the leader has continued the log of this copy, so that both have the same terms.
    is_continued: bool,
}

/// How current a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staleness {
    /// The last durable epoch of the leader that is known.
    pub(crate) leader_epoch: u64,
    /// Milliseconds since the state was last known to equal the leader's.
    pub(crate) stale_ms: u64,
}

impl Known {
    /// Records that the state equalled the leader's at `at`.
    fn become_current(&mut self, at: Instant) {
        (self.awaited, self.current_at, self.older) = (None, at, Duration::ZERO);
    }
}

impl Following {
    /// Starts following from the state after `epoch`, which last equalled the leader's `older` ago.
    pub(crate) fn new(leader: Arc<str>, epoch: u64, older: Duration) -> Self {
        let current_at = Instant::now();
        let (awaited, is_continued) = (None, false);
        let known = Known { leader_epoch: epoch, awaited, current_at, older, is_continued };
        Self { leader, known: Mutex::new(known), applied: watch::Sender::new(epoch) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the last durable epoch that the leader reported now.
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

    /// Records that `epoch` is applied.
    pub(crate) fn applied(&self, epoch: u64) {
        self.applied.send_if_modified(|applied| std::mem::replace(applied, epoch) != epoch);
        let mut known = self.known();
        if let Some((_, at)) = known.awaited.filter(|(awaited, _)| *awaited <= epoch) {
            known.become_current(at);
        }
    }

    /// Records that a term has begun after `epoch`, and forgets what was reported before, because
    /// epochs of the former term are not comparable.
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
