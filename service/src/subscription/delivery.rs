//! What does one cycle bring to one session, and what gives way when it holds too much?
//!
//! Messages in this order: that regions lagged, members of regions, events. Regions whose members
//! are awaited are told nothing else. What an engine could not tell and what there was no room for
//! is asked for again, the second time after a while. What a slow reader leaves is coalesced beside
//! this thread; while that is done more may come, up to what a session may hold.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use shoal_engine::{EventSet, RegionId};
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;

use super::large::{HeldSet, LargeSnapshot};
use super::message::{Body, BodyWriter, Told, body, row_bytes};
use super::outbox::{Bounds, Lent, Outgoing};
use super::session::{Session, State};
use super::sessions::SessionTools;
use crate::limits::{COPIED_SNAPSHOT_BYTES_MAX, CROWDED_SHARE, SNAPSHOT_SHARE};

/// What every session needs to have a cycle's events delivered.
pub(super) struct Delivering<'a> {
    tools: &'a SessionTools,
    told: Told,
    set: &'a Arc<EventSet>,
    /// The set for all large snapshots in it: its room is taken once.
    held: OnceCell<Option<Arc<HeldSet>>>,
}

impl<'a> Delivering<'a> {
    pub(super) fn new(tools: &'a SessionTools, told: Told, set: &'a Arc<EventSet>) -> Self {
        Self { tools, told, set, held: OnceCell::new() }
    }

    /// A large snapshot, if there is room for it now.
    fn hold(&self, place: (usize, u64)) -> Option<Arc<LargeSnapshot>> {
        let answers = &self.tools.answers;
        let held = self.held.get_or_init(|| HeldSet::new(answers, self.set)).clone()?;
        let (answers, space) = (answers.clone(), self.tools.space);
        Some(Arc::new(LargeSnapshot::new(answers, held, place, space, self.told)))
    }
}

/// What a delivery leaves to be done.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    /// Members to be told anew.
    pub(super) snapshots: Vec<RegionId>,
    /// Nobody reads, and nothing more is kept.
    pub(super) is_over: bool,
    /// To be coalesced.
    pub(super) lent: Option<Lent>,
    /// To be made ready.
    pub(super) large: Vec<Arc<LargeSnapshot>>,
}

impl SessionTools {
    fn bounds(&self, is_crowded: bool) -> Bounds {
        let share = if is_crowded { CROWDED_SHARE } else { 1 };
        Bounds { bytes_max: self.bytes_max / share, messages_max: self.messages_max }
    }
}

impl Session {
    /// Takes one cycle's events in: places in the set with the client's number of the region.
    pub(super) fn deliver(&self, of: &Delivering<'_>, places: &[(usize, u64)]) -> Delivered {
        let mut delivered = Delivered::default();
        let waker = {
            let mut state = self.lock();
            if state.end.is_some() || state.is_lagged {
                return delivered;
            }
            let is_behind = state.outbox.has_unread();
            let outgoing = outgoing(&mut state, of, places, &mut delivered);
            let count = outgoing.len();
            for (number, outgoing) in (1..).zip(outgoing) {
                state.outbox.push(&self.handle, outgoing, number == count);
            }
            self.fit(&mut state, of.tools, is_behind, &mut delivered);
            state.share_room();
            state.wake()
        };
        waker.into_iter().for_each(std::task::Waker::wake);
        delivered
    }

    /// Makes the session fit its bounds. Whoever had read everything before is not slow, however
    /// much one cycle brings.
    fn fit(
        &self,
        state: &mut State,
        tools: &SessionTools,
        is_behind: bool,
        delivered: &mut Delivered,
    ) {
        let bounds = tools.bounds(state.share.is_crowded());
        let is_slow = is_behind && state.outbox.is_half_unread(&bounds);
        let fits = state.outbox.fit(&bounds);
        match (fits, state.is_read) {
            (false, false) => delivered.is_over = true,
            (false, true) => self.lag(state, tools),
            (true, true) if is_slow && state.outbox.lent().is_none() => {
                delivered.lent = state.outbox.lend();
            }
            (true, _) => {}
        }
    }

    /// Coalesces what was lent and takes it back; if too much remains, it is lost.
    pub(super) fn coalesce(&self, lent: Lent, tools: &SessionTools) {
        let (unmoved, bounds) = {
            let state = self.lock();
            let unmoved = state.regions.iter().filter(|(_, of)| !of.wants_move);
            let unmoved: HashSet<u64> = unmoved.map(|(region_id, _)| *region_id).collect();
            (unmoved, tools.bounds(state.share.is_crowded()))
        };
        let first = lent.first;
        let wants_move = |region_id: u64| !unmoved.contains(&region_id);
        let coalesced = lent.coalesced(&self.handle, &bounds, wants_move);
        let waker = {
            let mut state = self.lock();
            // What was lost meanwhile stays lost.
            match coalesced {
                Some((lent, saved)) => {
                    let saved = if state.outbox.give_back(lent) { saved } else { 0 };
                    tools.metrics.count_coalesced(saved);
                }
                None if state.outbox.lent() == Some(first) => self.lag(&mut state, tools),
                None => {}
            }
            state.share_room();
            state.wake()
        };
        waker.into_iter().for_each(std::task::Waker::wake);
    }

    /// Nobody can coalesce what was lent.
    pub(super) fn lose_lent(&self, tools: &SessionTools) {
        self.lag(&mut self.lock(), tools);
    }
}

/// That messages of these regions were lost; of all, if none is named.
pub(super) fn lagged(region_ids: Vec<u64>) -> Body {
    body(Kind::Lagged(v1::Lagged { region_ids }))
}

/// Messages to be numbered, the last of which completes the epoch.
fn outgoing(
    state: &mut State,
    of: &Delivering<'_>,
    places: &[(usize, u64)],
    delivered: &mut Delivered,
) -> Vec<Outgoing> {
    let space = &of.tools.space;
    let copied_bytes_max = COPIED_SNAPSHOT_BYTES_MAX.min(of.tools.bytes_max / SNAPSHOT_SHARE);
    let mut events = BodyWriter::events(space, of.told);
    let mut members = BodyWriter::snapshots(space, of.told);
    let mut lost = Vec::new();
    let (mut told, mut copied_bytes) = (0, 0);
    for &(place, region_id) in places {
        let head = of.set.head(place);
        if head.is_lagged {
            lost.push(region_id);
            ask_again(state, region_id, head.region, delivered);
        } else if head.is_snapshot {
            told += head.events() as u64;
            let bytes = head.events() * row_bytes(head.fixes() > 0);
            if copied_bytes + bytes <= copied_bytes_max {
                copied_bytes += bytes;
                state.awaiting.remove(&head.region);
                members.add_members(region_id, &of.set.get(place));
            } else if let Some(snapshot) = of.hold((place, region_id)) {
                state.awaiting.remove(&head.region);
                delivered.large.push(snapshot);
            } else {
                state.deferred.insert(head.region);
                // `lagged` is sent once, not at each retry.
                lost.extend(state.awaiting.insert(head.region).then_some(region_id));
            }
        } else if !state.awaiting.contains(&head.region) {
            told += head.events() as u64;
            events.add_events(region_id, &of.set.get(place));
        }
    }
    of.tools.metrics.count_events(told);
    if !lost.is_empty() {
        of.tools.metrics.count_lagged();
    }
    let lost = (!lost.is_empty()).then(|| Outgoing::Other(lagged(lost)));
    let members = members.finish().into_iter().map(Outgoing::Other);
    let large = delivered.large.iter().cloned().map(Outgoing::Large);
    let events = events.finish().into_iter().map(Outgoing::Events);
    lost.into_iter().chain(members).chain(large).chain(events).collect()
}

fn ask_again(state: &mut State, region_id: u64, region: RegionId, delivered: &mut Delivered) {
    let standing = state.regions.get(&region_id).filter(|of| of.region == region);
    if !standing.is_some_and(|of| of.snapshot) {
        return;
    }
    if state.awaiting.insert(region) {
        delivered.snapshots.push(region);
    } else {
        state.deferred.insert(region);
    }
}
