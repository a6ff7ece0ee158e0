//! Delivers the events of a cycle to a session, and keeps the session within its bounds.
//!
//! The messages of a cycle are in this order: `lagged` messages of regions, snapshots, events. A
//! region that awaits a snapshot receives nothing else. If the engine or the answer budget has no
//! room for a snapshot, it is requested again, after a delay if it was not the first attempt or if
//! the budget was full. Another thread coalesces the unread messages of a slow reader; meanwhile
//! more messages may be added, within the bounds of the session.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use shoal_engine::{EventHead, EventSet, RegionEvents, RegionId};

use super::coalesce::CoalesceJob;
use super::columns::{EventSlice, EventWriter};
use super::fan_out::Route;
use super::large_snapshot::{HeldSet, LargeSnapshot};
use super::message::{EpochStamp, SnapshotWriter, lagged_body};
use super::outbox::{Bounds, Outgoing};
use super::session::{Session, State};
use super::sessions::SessionTools;
use crate::limits::{CHUNK_BYTES_TARGET, COPIED_SNAPSHOT_BYTES_MAX, CROWDED_SHARE, SNAPSHOT_SHARE};

/// The events of a cycle, for all sessions.
pub(super) struct Delivery<'a> {
    tools: &'a SessionTools,
    stamp: EpochStamp,
    set: &'a Arc<EventSet>,
    /// The event set that all large snapshots of the cycle share, so that the budget counts it
    /// once; the inner `None` means that the budget has no memory for it.
    held: OnceCell<Option<Arc<HeldSet>>>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(tools: &'a SessionTools, stamp: EpochStamp, set: &'a Arc<EventSet>) -> Self {
        Self { tools, stamp, set, held: OnceCell::new() }
    }

    /// Creates a large snapshot; `None` if the budget has no memory for the event set.
    fn hold(&self, place: &Place, selected: Option<&Arc<EventSet>>) -> Option<Arc<LargeSnapshot>> {
        let answers = &self.tools.answers;
        let (held, index) = match selected {
            Some(set) => (HeldSet::new(answers, set)?, 0),
            None => (self.held()?, place.index),
        };
        let (place, format) = ((index, place.route.region_id), &self.tools.format);
        Some(Arc::new(LargeSnapshot::new(answers.clone(), held, place, self.stamp, format)))
    }

    /// The events of a region whose objects match its pattern. Reads the columns of the region,
    /// which may sort them, so no session may be locked.
    fn select(&self, place: &Place) -> Selection {
        let tools = self.tools;
        let (Some(pattern), Some(names)) = (&place.route.pattern, &tools.format.names) else {
            return Selection::All;
        };
        let head = self.set.head(place.index);
        if head.is_lagged {
            return Selection::All;
        }
        let is_large =
            head.events() * tools.format.row_bytes(head.fixes() > 0) > tools.copied_max();
        let _held = match is_large && head.is_snapshot {
            true => match self.held() {
                Some(held) => Some(held),
                None => return Selection::NoRoom,
            },
            false => None,
        };
        let events = self.set.get(place.index);
        let kinds = events.kinds.as_bytes();
        let mut rows: Vec<usize> = Vec::new();
        names.test(pattern, events.objects.iter().copied(), |row, is_match| {
            if is_match {
                rows.push(row);
            }
        });
        let of = |row: &usize| events.fixes.get(*row).copied();
        let fixes: Vec<_> = rows.iter().filter_map(of).collect();
        let head = EventHead {
            region: head.region,
            is_snapshot: head.is_snapshot,
            events: (0, rows.len()),
            fixes: (0, fixes.len()),
            ..EventHead::default()
        };
        let objects = rows.iter().map(|row| events.objects[*row]).collect();
        let kinds = rows.iter().map(|row| kinds[*row]).collect();
        Selection::Some(Arc::new(EventSet::new(vec![head], objects, kinds, fixes)))
    }

    /// The event set with its reservation in the budget; `None` if the budget has no memory for it.
    fn held(&self) -> Option<Arc<HeldSet>> {
        self.held.get_or_init(|| HeldSet::new(&self.tools.answers, self.set)).clone()
    }
}

/// The events of a region for its client.
#[derive(Debug)]
enum Selection {
    /// All events of the set.
    All,
    /// Those that match its pattern, as a set of its own.
    Some(Arc<EventSet>),
    /// A snapshot for which the budget has no memory.
    NoRoom,
}

/// The events of a region in a set, and where they go.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The index of the region in the set.
    pub(super) index: usize,
    pub(super) route: Route,
}

/// What the caller must do after a delivery.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    /// The regions whose snapshots must be requested.
    pub(super) snapshots: Vec<RegionId>,
    /// True if the session has no reader and is full: the caller must close it.
    pub(super) is_over: bool,
    pub(super) coalesce: Option<CoalesceJob>,
    /// The large snapshots that must be made ready for reading.
    pub(super) large: Vec<Arc<LargeSnapshot>>,
}

impl SessionTools {
    /// Bytes up to which the snapshots of a cycle are copied into a session.
    fn copied_max(&self) -> usize {
        COPIED_SNAPSHOT_BYTES_MAX.min(self.bytes_max / SNAPSHOT_SHARE)
    }

    fn bounds(&self, is_crowded: bool) -> Bounds {
        let share = if is_crowded { CROWDED_SHARE } else { 1 };
        Bounds { bytes_max: self.bytes_max / share, messages_max: self.messages_max }
    }
}

impl Session {
    /// Adds the events of a cycle: those at `places` of its event set.
    pub(super) fn deliver(&self, of: &Delivery<'_>, places: &[Place]) -> Delivered {
        let mut delivered = Delivered::default();
        let places: Vec<_> = places.iter().map(|place| (place, of.select(place))).collect();
        let places = &places[..];
        self.update(|state| {
            if state.end.is_some() || state.is_lagged {
                return;
            }
            if is_over_budget(state, of, places) {
                // Lose the messages now rather than encode and coalesce messages that would be lost
                // anyway.
                self.lag(state, of.tools);
                return;
            }
            let is_behind = state.outbox.has_unread();
            let outgoing = outgoing(state, of, places, &mut delivered);
            let count = outgoing.len();
            for (number, outgoing) in (1..).zip(outgoing) {
                state.outbox.push(&self.handle, outgoing, number == count);
            }
            self.fit(state, of.tools, is_behind, &mut delivered);
        });
        delivered
    }

    /// Keeps the session within its bounds. `is_behind` says whether messages were unread before
    /// this cycle: a reader that had read everything is not slow, however large the cycle is.
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
            (true, true) if is_slow && state.outbox.coalescing().is_none() => {
                delivered.coalesce = state.outbox.begin_coalescing();
            }
            (true, _) => {}
        }
    }

    /// Coalesces messages. If the result is too large, all unread messages are lost.
    pub(super) fn coalesce(&self, job: CoalesceJob, tools: &SessionTools) {
        let (unmoved, bounds) = {
            let state = self.lock();
            let unmoved = state.regions.iter().filter(|(_, of)| !of.wants_move);
            let unmoved: HashSet<u64> = unmoved.map(|(region_id, _)| *region_id).collect();
            (unmoved, tools.bounds(state.share.is_crowded()))
        };
        let first = job.first;
        let wants_move = |region_id: u64| !unmoved.contains(&region_id);
        let coalesced = job.run(&tools.format, &bounds, wants_move);
        self.update(|state| match coalesced {
            Some((job, saved)) => {
                // The messages may have been lost meanwhile.
                let saved = if state.outbox.finish_coalescing(job) { saved } else { 0 };
                tools.metrics.count_coalesced(saved);
            }
            None if state.outbox.coalescing() == Some(first) => self.lag(state, tools),
            None => {}
        });
    }

    /// Drops all unread messages, because no thread has time to coalesce them.
    pub(super) fn lose_coalescing(&self, tools: &SessionTools) {
        self.update(|state| self.lag(state, tools));
    }
}

/// Whether a cycle has more events for a session than `events_max`, not counting snapshots.
fn is_over_budget(state: &State, of: &Delivery<'_>, places: &[(&Place, Selection)]) -> bool {
    let heads = places.iter().map(|(place, selection)| match selection {
        Selection::Some(set) => set.head(0),
        Selection::All | Selection::NoRoom => of.set.head(place.index),
    });
    let heads = heads.filter(|head| !head.is_snapshot && !state.awaiting.contains(&head.region));
    heads.map(|head| head.events() as u64).sum::<u64>() > of.tools.events_max
}

/// The messages of a cycle; the last one completes the epoch.
fn outgoing(
    state: &mut State,
    of: &Delivery<'_>,
    places: &[(&Place, Selection)],
    delivered: &mut Delivered,
) -> Vec<Outgoing> {
    let format = &of.tools.format;
    let copied_bytes_max = of.tools.copied_max();
    let mut events = EventWriter::new(format, of.stamp, 0, CHUNK_BYTES_TARGET);
    let mut snapshots = SnapshotWriter::new(format, of.stamp);
    let mut lost = Vec::new();
    let (mut reported, mut copied_bytes) = (0, 0);
    for (place, selection) in places {
        let (head, region_id) = (of.set.head(place.index), place.route.region_id);
        if head.is_lagged {
            lost.push(region_id);
            request_again(state, region_id, head.region, delivered);
            continue;
        }
        let (set, index, selected) = match selection {
            Selection::Some(set) => (set, 0, Some(set)),
            Selection::All | Selection::NoRoom => (of.set, place.index, None),
        };
        let head = set.head(index);
        let has_room = !matches!(selection, Selection::NoRoom);
        if head.is_snapshot {
            reported += head.events() as u64;
            let bytes = head.events() * format.row_bytes(head.fixes() > 0);
            if has_room && copied_bytes + bytes <= copied_bytes_max {
                copied_bytes += bytes;
                state.awaiting.remove(&head.region);
                snapshots.add(region_id, &set.get(index));
            } else if has_room && let Some(snapshot) = of.hold(place, selected) {
                state.awaiting.remove(&head.region);
                delivered.large.push(snapshot);
            } else {
                state.deferred.insert(head.region);
                // `lagged` is sent once, not at each retry.
                lost.extend(state.awaiting.insert(head.region).then_some(region_id));
            }
        } else if !state.awaiting.contains(&head.region) {
            reported += head.events() as u64;
            let RegionEvents { objects, kinds, fixes, .. } = set.get(index);
            events.add(EventSlice { region_id, objects, kinds: kinds.as_bytes(), fixes });
        }
    }
    of.tools.metrics.count_events(reported);
    if !lost.is_empty() {
        of.tools.metrics.count_lagged();
    }
    let lost = (!lost.is_empty()).then(|| Outgoing::Other(lagged_body(lost)));
    let snapshots = snapshots.finish().into_iter().map(Outgoing::Other);
    let large = delivered.large.iter().cloned().map(Outgoing::Large);
    let events = events.finish().into_iter().map(Outgoing::Events);
    lost.into_iter().chain(snapshots).chain(large).chain(events).collect()
}

fn request_again(state: &mut State, region_id: u64, region: RegionId, delivered: &mut Delivered) {
    let known = state.regions.get(&region_id).filter(|known| known.id == region);
    if !known.is_some_and(|known| known.snapshot) {
        return;
    }
    if state.awaiting.insert(region) {
        delivered.snapshots.push(region);
    } else {
        state.deferred.insert(region);
    }
}
