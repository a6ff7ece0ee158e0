//! The events of a cycle, while those of the device may still be copied to the host.
//!
//! The device's events are columns, region by region; the host's own events (of its queries, of
//! snapshots and changes) follow them in the same lists. Very many events of one region remain in
//! separate lists: copying them would delay the cycle.

use std::sync::Arc;

use cudarc::driver::CudaEvent;
use shoal_codec::FixRow;
use shoal_engine::layout::{AnswerRecord, QUERY_FIXES, RegionHead};
use shoal_engine::stage::registry::ContinuousQuery;
use shoal_engine::{EngineError, EventHead, EventKind, EventSet, RegionId};

use crate::launch::fault;
use crate::stages::answers::PooledBuffer;
use crate::state::record::row;

/// Least number of events of one region for which they remain in separate lists.
const APART_MIN: usize = 1 << 16;

/// The host's events of one region.
#[derive(Debug, Default)]
pub(super) struct HostEvents {
    pub(super) region: RegionId,
    pub(super) is_snapshot: bool,
    pub(super) is_lagged: bool,
    pub(super) objects: Vec<u64>,
    pub(super) kinds: Vec<u8>,
    /// Parallel records, if requested.
    pub(super) fixes: Vec<FixRow>,
}

impl HostEvents {
    /// A region whose events did not fit.
    pub(super) fn lagged(region: RegionId) -> Self {
        Self { region, is_lagged: true, ..Self::default() }
    }

    /// Number of its events that go to the common lists.
    pub(super) fn common(&self) -> usize {
        if self.is_apart() { 0 } else { self.objects.len() }
    }

    fn is_apart(&self) -> bool {
        self.objects.len() >= APART_MIN
    }

    /// The events in separate lists.
    fn into_set(self) -> EventSet {
        let head = EventHead {
            region: self.region,
            is_lagged: self.is_lagged,
            is_snapshot: self.is_snapshot,
            events: (0, self.objects.len()),
            fixes: (0, self.fixes.len()),
        };
        EventSet::new(vec![head], self.objects, self.kinds, self.fixes)
    }

    /// The events that the query reports; `None` if there are none.
    pub(super) fn wanted(
        query: &ContinuousQuery,
        events: Vec<(EventKind, FixRow)>,
    ) -> Option<Self> {
        let of = &query.subscription;
        let mut wanted = Self { region: query.id, ..Self::default() };
        for (kind, row) in events.into_iter().filter(|(kind, _)| of.wanted.reports(*kind)) {
            wanted.push(kind, row, of.with_fixes);
        }
        (!wanted.objects.is_empty()).then_some(wanted)
    }

    /// Adds an event.
    pub(super) fn push(&mut self, kind: EventKind, fix: FixRow, with_fixes: bool) {
        self.objects.push(fix.object);
        self.kinds.push(kind as u8);
        if with_fixes {
            self.fixes.push(fix);
        }
    }
}

/// The device's events.
#[derive(Debug)]
pub(crate) struct Columns {
    /// The event after the copies.
    pub(super) copied: Arc<CudaEvent>,
    /// Number of the device's events; the lists have capacity for the host's after them.
    pub(super) events: usize,
    pub(super) objects: PooledBuffer<u64>,
    pub(super) kinds: PooledBuffer<u8>,
    /// The first event of each region.
    pub(super) heads: PooledBuffer<RegionHead>,
    /// Number of these regions.
    pub(super) regions: PooledBuffer<u32>,
    /// Records of the events with a record.
    pub(super) fixes: PooledBuffer<AnswerRecord>,
}

/// A cycle's events.
#[derive(Debug)]
pub(crate) enum Events {
    /// Complete.
    Ready(EventSet),
    /// The events of the device, which may still be copied; heads and records of the host's events;
    /// the events in separate lists.
    Copying(Box<Columns>, Vec<EventHead>, Vec<FixRow>, Vec<EventSet>),
}

impl Events {
    /// Events of the host only.
    pub(super) fn of_host(host: Vec<HostEvents>) -> Self {
        let (mut objects, mut kinds) = (Vec::new(), Vec::new());
        let (host, mut sets) = split(host);
        let (heads, fixes) = place(host, (0, 0), |_, more, more_kinds| {
            objects.extend_from_slice(more);
            kinds.extend_from_slice(more_kinds);
        });
        sets.push(EventSet::new(heads, objects, kinds, fixes));
        Self::Ready(EventSet::joined(sets))
    }

    /// Events of the device, followed by those of the host.
    pub(super) fn of_both(mut columns: Box<Columns>, host: Vec<HostEvents>) -> Self {
        let first = (columns.events, columns.fixes.as_ref().len());
        let (objects, kinds) = (&mut columns.objects, &mut columns.kinds);
        let (objects, kinds) = (objects.as_mut_slice(), kinds.as_mut_slice());
        let (host, apart) = split(host);
        let (heads, fixes) = place(host, first, |at, more, more_kinds| {
            objects[at..at + more.len()].copy_from_slice(more);
            kinds[at..at + more.len()].copy_from_slice(more_kinds);
        });
        Self::Copying(columns, heads, fixes, apart)
    }

    /// Waits for them.
    pub(crate) fn wait(self) -> Result<EventSet, EngineError> {
        let (columns, others, fixes, mut sets) = match self {
            Self::Ready(events) => return Ok(events),
            Self::Copying(columns, heads, fixes, apart) => (*columns, heads, fixes, apart),
        };
        columns.copied.synchronize().map_err(fault)?;
        let regions = columns.regions.as_ref().first().map_or(0, |regions| *regions as usize);
        let device_heads = &columns.heads.as_ref()[..regions];
        let mut heads = Vec::with_capacity(regions + others.len());
        let mut first_fix = 0;
        for (number, of) in device_heads.iter().enumerate() {
            let end =
                device_heads.get(number + 1).map_or(columns.events, |next| next.first as usize);
            let events = (of.first as usize, end);
            let with_fixes = of.flags & QUERY_FIXES != 0;
            let fixes = if with_fixes { events.1 - events.0 } else { 0 };
            let region = RegionId(of.region);
            let fixes = (first_fix, first_fix + fixes);
            first_fix = fixes.1;
            let (is_lagged, is_snapshot) = (false, false);
            heads.push(EventHead { region, is_lagged, is_snapshot, events, fixes });
        }
        heads.extend(others);
        // Numbers mostly ascend with ids, so there is little to sort.
        heads.sort_by_key(|head| head.region);
        let rows = columns.fixes.as_ref().iter().map(row).chain(fixes);
        let rows = Arc::new(rows.collect::<Vec<FixRow>>());
        let (objects, kinds) = (Arc::new(columns.objects), Arc::new(columns.kinds));
        sets.push(EventSet::of_shared(heads, objects, kinds, rows));
        Ok(EventSet::joined(sets))
    }
}

/// Separates the events for the common lists from those in separate lists.
fn split(host: Vec<HostEvents>) -> (Vec<HostEvents>, Vec<EventSet>) {
    let (apart, beside) = host.into_iter().partition::<Vec<_>, _>(HostEvents::is_apart);
    (beside, apart.into_iter().map(HostEvents::into_set).collect())
}

/// Heads and records of the host's events, ascending by region; `put` stores them from `first` on.
fn place(
    mut host: Vec<HostEvents>,
    first: (usize, usize),
    mut put: impl FnMut(usize, &[u64], &[u8]),
) -> (Vec<EventHead>, Vec<FixRow>) {
    host.sort_by_key(|own| own.region);
    let (mut heads, mut fixes) = (Vec::with_capacity(host.len()), Vec::new());
    let mut at = first.0;
    for own in host {
        put(at, &own.objects, &own.kinds);
        let events = (at, at + own.objects.len());
        let first_fix = first.1 + fixes.len();
        fixes.extend_from_slice(&own.fixes);
        heads.push(EventHead {
            region: own.region,
            is_lagged: own.is_lagged,
            is_snapshot: own.is_snapshot && !own.is_lagged,
            events,
            fixes: (first_fix, first.1 + fixes.len()),
        });
        at = events.1;
    }
    (heads, fixes)
}
