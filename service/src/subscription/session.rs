//! A session: its messages, its regions and its reader.
//!
//! Everything is behind one lock that is held briefly; nothing waits for a reader. A region that
//! awaits a snapshot receives no events until it arrives. A session ends once, for one reason. If
//! its client closed it, the reader may still read the remaining messages; otherwise they are
//! dropped.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_engine::RegionId;

use super::handle::SessionHandle;
use super::message::{MessageFormat, lagged_body, seal};
use super::outbox::{Outbox, Rewound};
use super::outbox_entry::Taken;
use super::pool::Share;
use super::session_owner::SessionOwner;
use super::session_region::SessionRegion;
use super::sessions::SessionTools;
use crate::error::ServiceError;
use crate::limits::{ANSWER_STALL_MS_MAX, DELIVERED_SNAPSHOT_MS_MAX};
use crate::shares::Requester;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// Its client closed it.
    Closed,
    /// It had no reader for its retention time, or it was full and had no reader.
    Left,
    /// Its fleet ended.
    FleetGone,
}

/// What a reader receives.
#[derive(Debug)]
pub(crate) enum SessionPoll {
    /// A message.
    Message(Bytes),
    /// A message that says that messages were lost, and the regions whose snapshots must be
    /// requested.
    Lagged(Bytes, Vec<RegionId>),
    /// Nothing yet: everything was read.
    Nothing,
    /// Nothing yet: messages are being coalesced or a snapshot is being sorted.
    Wait,
    /// Another reader took over.
    TakenOver,
    /// The session ended.
    Ended(SessionEnd),
}

/// A new reader.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Its number among the readers of the session.
    pub(crate) reader: u64,
    /// Number of the next message, if messages before it are missing.
    pub(crate) gap: Option<u64>,
    /// The regions whose snapshots must be requested.
    pub(crate) snapshots: Vec<RegionId>,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) handle: SessionHandle,
    /// See [`SessionOwner`].
    pub(crate) client: Requester,
    /// How long the session continues without a reader.
    pub(crate) retention: Duration,
    format: MessageFormat,
    state: Mutex<State>,
}

/// What the lock protects.
#[derive(Debug)]
pub(super) struct State {
    pub(super) outbox: Outbox,
    pub(super) share: Share,
    pub(super) owner: SessionOwner,
    pub(super) regions: HashMap<u64, SessionRegion>,
    /// Regions whose snapshot is requested; they receive no events until it arrives.
    pub(super) awaiting: HashSet<RegionId>,
    /// Regions whose snapshot was not possible; it is requested again after a delay.
    pub(super) deferred: HashSet<RegionId>,
    /// True if unread messages were lost and the reader has not yet read the message about it;
    /// until then no events are added.
    pub(super) is_lagged: bool,
    pub(super) is_read: bool,
    reader: u64,
    waker: Option<Waker>,
    left_at: Option<Instant>,
    /// When the reader last asked for a message.
    taken_at: Instant,
    pub(super) end: Option<SessionEnd>,
}

impl State {
    /// The regions for which the client wants snapshots.
    pub(super) fn with_snapshot(&self) -> impl Iterator<Item = RegionId> {
        self.regions.values().filter(|of| of.snapshot).map(|of| of.id)
    }

    /// After messages were lost: marks all regions with snapshots as awaiting one, and returns
    /// them.
    fn await_all(&mut self) -> Vec<RegionId> {
        self.is_lagged = false;
        self.deferred.clear();
        self.awaiting = self.with_snapshot().collect();
        self.awaiting.iter().copied().collect()
    }

    /// Marks a region as awaiting its snapshot. Returns false if the client wants none for it or
    /// the region awaits one already.
    fn await_snapshot(&mut self, region_id: u64, region: RegionId) -> bool {
        let known = self.regions.get(&region_id).filter(|known| known.id == region);
        known.is_some_and(|known| known.snapshot) && self.awaiting.insert(region)
    }
}

impl Session {
    /// Creates a session with its first reader, which has number 1.
    pub(super) fn new(
        handle: SessionHandle,
        retention: Duration,
        owner: SessionOwner,
        tools: &SessionTools,
    ) -> Self {
        let client = owner.client;
        let state = State {
            outbox: Outbox::default(),
            share: Share::new(tools.pool.clone()),
            owner,
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
        let format = tools.format.clone();
        Self { handle, client, retention, format, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Number of the last message that was read.
    pub(crate) fn read_sequence(&self) -> u64 {
        self.lock().outbox.read_sequence()
    }

    /// Takes the next message for a reader; if there is none, registers the waker.
    pub(crate) fn take(&self, reader: u64, waker: &Waker) -> SessionPoll {
        let message = {
            let mut state = self.lock();
            if state.reader != reader {
                return SessionPoll::TakenOver;
            }
            if let Some(end @ (SessionEnd::FleetGone | SessionEnd::Left)) = state.end {
                return SessionPoll::Ended(end);
            }
            let now = Instant::now();
            state.taken_at = now;
            match state.outbox.take(now) {
                Some(Taken::Lagged(bytes)) => {
                    // A reader that resumed may read this message twice, but snapshots are
                    // requested only once.
                    let requested = if state.is_lagged { state.await_all() } else { Vec::new() };
                    return SessionPoll::Lagged(bytes, requested);
                }
                Some(Taken::Released { region_id, region, numbers }) => {
                    let requested =
                        region.filter(|region| state.await_snapshot(region_id, *region));
                    let lagged = lagged_body(vec![region_id]);
                    let bytes = seal(lagged, &self.handle, numbers, false);
                    return SessionPoll::Lagged(bytes, requested.into_iter().collect());
                }
                Some(Taken::Message(message)) => message,
                None => match state.end.filter(|_| !state.outbox.has_unread()) {
                    Some(end) => return SessionPoll::Ended(end),
                    None => {
                        state.waker = Some(waker.clone());
                        let has_unread = state.outbox.has_unread();
                        return if has_unread { SessionPoll::Wait } else { SessionPoll::Nothing };
                    }
                },
            }
        };
        SessionPoll::Message(message.seal(&self.format, &self.handle))
    }

    /// Changes the state, reports its memory to the pool and wakes the reader.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, waker) = {
            let mut state = self.lock();
            let result = change(&mut state);
            let bytes = state.outbox.bytes() as u64;
            state.share.set(bytes);
            (result, state.waker.take())
        };
        waker.into_iter().for_each(Waker::wake);
        result
    }

    /// Attaches a reader that has the messages up to `sequence`; the previous reader ends.
    ///
    /// # Errors
    /// [`ServiceError::SessionGone`], [`ServiceError::Token`].
    pub(crate) fn attach(&self, sequence: u64) -> Result<Attached, ServiceError> {
        self.update(|state| {
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
            Ok(Attached { reader: state.reader, gap, snapshots })
        })
    }

    /// Detaches a reader. Returns false if another reader has taken over.
    pub(crate) fn detach(&self, reader: u64) -> bool {
        let mut state = self.lock();
        if state.reader != reader {
            return false;
        }
        (state.is_read, state.left_at, state.waker) = (false, Some(Instant::now()), None);
        true
    }

    /// Whether the session has had no reader for its retention time.
    pub(super) fn is_left(&self, now: Instant) -> bool {
        let left_at = self.lock().left_at;
        left_at.is_some_and(|left_at| now.duration_since(left_at) >= self.retention)
    }

    /// Releases large snapshots: unread ones if no reader has asked for messages for
    /// [`ANSWER_STALL_MS_MAX`], because others may wait for the memory; delivered ones once the
    /// reader has had time to resume inside them. If the session has no reader, delivered ones are
    /// not released here.
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

    /// Drops all unread messages, and adds a message that says so.
    pub(super) fn lag(&self, state: &mut State, tools: &SessionTools) {
        state.outbox.lag(&self.handle, lagged_body(Vec::new()));
        state.is_lagged = true;
        tools.metrics.count_lagged();
    }

    /// Takes the regions whose snapshot was not possible before.
    pub(crate) fn take_deferred(&self) -> Vec<RegionId> {
        self.lock().deferred.drain().collect()
    }

    /// Ends the session, unless it has ended. Returns its regions the first time, `None` later.
    pub(super) fn end(&self, end: SessionEnd) -> Option<Vec<SessionRegion>> {
        self.update(|state| {
            if state.end.is_some() {
                return None;
            }
            state.end = Some(end);
            if end == SessionEnd::Closed {
                // The reader may read the remaining messages but cannot resume.
                state.outbox.release_delivered(Instant::now());
            } else {
                state.outbox = Outbox::default();
            }
            (state.awaiting, state.deferred) = Default::default();
            state.owner.end();
            Some(state.regions.drain().map(|(_, region)| region).collect())
        })
    }
}
