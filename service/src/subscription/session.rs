//! What happens to one session: events come, a reader comes, takes, leaves, and comes back?
//!
//! Everything under one lock that is held for short: nobody waits for a reader. Events of a region
//! whose members were asked for anew are not told until these come. A session ends once, for one
//! reason, and holds nothing more then.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_engine::RegionId;

use super::entry::Taken;
use super::handle::SessionHandle;
use super::message::seal;
use super::outbox::{Outbox, Rewound};
use super::pool::{Pool, Share};
use super::sessions::SessionTools;
use super::standing::Standing;
use crate::error::ServiceError;
use crate::limits::{ANSWER_STALL_MS_MAX, DELIVERED_SNAPSHOT_MS_MAX};

/// Why a session is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// Its client closed it.
    Closed,
    /// Nobody read it for longer, or for more, than is kept.
    Left,
    /// Its fleet ended.
    FleetGone,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Take {
    /// A message.
    Message(Bytes),
    /// That messages were lost, and whose members must be told anew.
    Lagged(Bytes, Vec<RegionId>),
    /// Nothing yet: everything was taken.
    Nothing,
    /// Nothing yet: messages are being coalesced, or a snapshot is brought in order.
    Wait,
    /// Another reader came.
    TakenOver,
    /// The session ended.
    Ended(SessionEnd),
}

/// How a reader begins.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Which of the session's readers it is.
    pub(crate) reader: u64,
    /// Number of the next message, when messages before it are missing.
    pub(crate) gap: Option<u64>,
    /// Whose members must be told anew.
    pub(crate) snapshots: Vec<RegionId>,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) handle: SessionHandle,
    /// How long it is kept without a reader.
    pub(crate) retention: Duration,
    state: Mutex<State>,
}

/// What the lock holds.
#[derive(Debug)]
pub(super) struct State {
    pub(super) outbox: Outbox,
    pub(super) share: Share,
    pub(super) regions: HashMap<u64, Standing>,
    /// Their members are on their way: no events until then.
    pub(super) awaiting: HashSet<RegionId>,
    /// Their members could not be told or held; to be asked for again in a while.
    pub(super) deferred: HashSet<RegionId>,
    /// Unread messages were lost and the reader does not know yet: nothing is told until then.
    pub(super) is_lagged: bool,
    pub(super) is_read: bool,
    reader: u64,
    waker: Option<Waker>,
    left_at: Option<Instant>,
    /// When a message was taken, or found nobody to take it.
    taken_at: Instant,
    pub(super) end: Option<SessionEnd>,
}

impl State {
    /// The regions that promise their members.
    pub(super) fn with_snapshot(&self) -> impl Iterator<Item = RegionId> {
        self.regions.values().filter(|of| of.snapshot).map(|of| of.region)
    }

    /// What was held is not certain: members of the regions that promise them are awaited.
    fn await_all(&mut self) -> Vec<RegionId> {
        self.is_lagged = false;
        self.deferred.clear();
        self.awaiting = self.with_snapshot().collect();
        self.awaiting.iter().copied().collect()
    }

    /// Awaits the members of a region. False when it does not promise them, or awaits them already.
    fn await_members(&mut self, region_id: u64, region: RegionId) -> bool {
        let standing = self.regions.get(&region_id).filter(|of| of.region == region);
        standing.is_some_and(|of| of.snapshot) && self.awaiting.insert(region)
    }

    pub(super) fn wake(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// Tells the room that all share how much of it the outbox takes now.
    pub(super) fn share_room(&mut self) {
        self.share.set(self.outbox.bytes() as u64);
    }
}

impl Session {
    /// A session whose first reader is there, under number 1.
    pub(super) fn new(handle: SessionHandle, retention: Duration, pool: Arc<Pool>) -> Self {
        let state = State {
            outbox: Outbox::default(),
            share: Share::new(pool),
            regions: HashMap::new(),
            awaiting: HashSet::new(),
            deferred: HashSet::new(),
            is_lagged: false,
            is_read: true,
            reader: 1,
            waker: None,
            left_at: None,
            taken_at: Instant::now(),
            end: None,
        };
        Self { handle, retention, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is no more.
    pub(crate) fn is_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Number of the last message that was taken.
    pub(crate) fn read_sequence(&self) -> u64 {
        self.lock().outbox.read_sequence()
    }

    /// The next message for a reader; without one its waker is kept.
    pub(crate) fn take(&self, reader: u64, waker: &Waker) -> Take {
        let piece = {
            let mut state = self.lock();
            if state.reader != reader {
                return Take::TakenOver;
            }
            if let Some(end @ (SessionEnd::FleetGone | SessionEnd::Left)) = state.end {
                return Take::Ended(end);
            }
            let now = Instant::now();
            state.taken_at = now;
            match state.outbox.take(now) {
                Some(Taken::Lagged(bytes)) => {
                    // A reader that came back may see it again; then members are under way.
                    let asked = if state.is_lagged { state.await_all() } else { Vec::new() };
                    return Take::Lagged(bytes, asked);
                }
                Some(Taken::Released { region_id, region, numbers }) => {
                    let asked = region.filter(|region| state.await_members(region_id, *region));
                    let lagged = super::delivery::lagged(vec![region_id]);
                    let bytes = seal(lagged, &self.handle, numbers, false);
                    return Take::Lagged(bytes, asked.into_iter().collect());
                }
                Some(Taken::Message(bytes)) => return Take::Message(bytes),
                Some(Taken::Piece { snapshot, held, index, sequence, epoch_done }) => {
                    (snapshot, held, index, sequence, epoch_done)
                }
                None => match state.end.filter(|_| !state.outbox.has_unread()) {
                    Some(end) => return Take::Ended(end),
                    None => {
                        state.waker = Some(waker.clone());
                        let comes = state.outbox.has_unread();
                        return if comes { Take::Wait } else { Take::Nothing };
                    }
                },
            }
        };
        // Made without the lock: it takes a while.
        let (snapshot, held, index, sequence, epoch_done) = piece;
        Take::Message(snapshot.message(&held, index, &self.handle, sequence, epoch_done))
    }

    /// What its reader waited for is ready.
    pub(super) fn wake(&self) {
        let waker = self.lock().wake();
        waker.into_iter().for_each(Waker::wake);
    }

    /// A reader comes back that has everything up to a message; another one ends.
    ///
    /// # Errors
    /// [`ServiceError::SessionGone`], [`ServiceError::Token`].
    pub(crate) fn attach(&self, sequence: u64) -> Result<Attached, ServiceError> {
        let (attached, waker) = {
            let mut state = self.lock();
            if state.end.is_some() {
                return Err(ServiceError::SessionGone);
            }
            let now = Instant::now();
            let (gap, mut snapshots) = match state.outbox.rewind(sequence, now) {
                Rewound::Done => (None, Vec::new()),
                Rewound::Gap => {
                    state.outbox.reset();
                    (Some(state.outbox.next_sequence()), state.await_all())
                }
                Rewound::Ahead => {
                    return Err(ServiceError::Token("its message is in the future"));
                }
            };
            snapshots.extend(state.deferred.drain());
            state.reader += 1;
            (state.is_read, state.left_at, state.taken_at) = (true, None, now);
            (Attached { reader: state.reader, gap, snapshots }, state.wake())
        };
        waker.into_iter().for_each(Waker::wake);
        Ok(attached)
    }

    /// A reader leaves. True when nobody else reads.
    pub(crate) fn detach(&self, reader: u64) -> bool {
        let mut state = self.lock();
        if state.reader != reader {
            return false;
        }
        (state.is_read, state.left_at, state.waker) = (false, Some(Instant::now()), None);
        true
    }

    /// Whether its time without a reader is over.
    pub(super) fn is_left(&self, now: Instant) -> bool {
        let left_at = self.lock().left_at;
        left_at.is_some_and(|left_at| now.duration_since(left_at) >= self.retention)
    }

    /// Releases large snapshots: unread ones when the reader stalls, since others wait for the
    /// memory, and delivered ones when the reader had the time to resume inside them. Without a
    /// reader the latter stay as long as the session.
    pub(super) fn release(&self, now: Instant, tools: &SessionTools) {
        let mut state = self.lock();
        let is_before = |at, time| now.saturating_duration_since(at) >= time;
        if is_before(state.taken_at, Duration::from_millis(ANSWER_STALL_MS_MAX))
            && state.outbox.holds_large()
        {
            state.outbox.release_unread();
            tools.metrics.count_lagged();
        }
        let kept = self.retention.min(Duration::from_millis(DELIVERED_SNAPSHOT_MS_MAX));
        if state.is_read
            && let Some(until) = now.checked_sub(kept)
        {
            state.outbox.release_delivered(until);
        }
    }

    /// Loses what is unread, and says so.
    pub(super) fn lag(&self, state: &mut State, tools: &SessionTools) {
        state.outbox.lag(&self.handle, super::delivery::lagged(Vec::new()));
        state.is_lagged = true;
        state.share_room();
        tools.metrics.count_lagged();
    }

    /// Regions whose members could not be told before.
    pub(crate) fn retry(&self) -> Vec<RegionId> {
        self.lock().deferred.drain().collect()
    }

    /// Ends it, the first reason stays; gives the regions that it had, once.
    pub(super) fn end(&self, end: SessionEnd) -> Option<Vec<Standing>> {
        let (regions, waker) = {
            let mut state = self.lock();
            if state.end.is_some() {
                return None;
            }
            state.end = Some(end);
            if end == SessionEnd::Closed {
                // Its reader may take the rest, and cannot resume.
                state.outbox.release_delivered(Instant::now());
            } else {
                state.outbox = Outbox::default();
            }
            state.share_room();
            (state.awaiting, state.deferred) = Default::default();
            let regions = state.regions.drain().map(|(_, standing)| standing).collect();
            (regions, state.wake())
        };
        waker.into_iter().for_each(Waker::wake);
        Some(regions)
    }
}
