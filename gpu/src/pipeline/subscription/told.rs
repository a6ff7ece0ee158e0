//! What a cycle tells about standing regions, while it may still be on its way to the host.
//!
//! The device's events come as columns, region by region; what the host found out itself (members
//! at a snapshot or a change) stands behind them in the same lists. Where that is very much for one
//! region it stays in lists of its own: copying it would hold the cycle up.

use std::sync::Arc;

use cudarc::driver::CudaEvent;
use shoal_codec::FixRow;
use shoal_engine::layout::{Answered, STANDING_FIXES, Told};
use shoal_engine::{EngineError, EventHead, EventSet, RegionId};

use crate::launch::fault;
use crate::pipeline::answers::PooledBuffer;
use crate::pipeline::query_answers::row;

/// Events of one region that stay where the host made them.
const APART: usize = 1 << 16;

/// The events of one region that the host made.
#[derive(Debug, Default)]
pub(super) struct HostMade {
    pub(super) region: RegionId,
    pub(super) is_snapshot: bool,
    pub(super) is_lagged: bool,
    pub(super) objects: Vec<u64>,
    pub(super) kinds: Vec<u8>,
    /// Beside them where records are wanted.
    pub(super) fixes: Vec<FixRow>,
}

impl HostMade {
    /// That a region's events did not fit.
    pub(super) fn lagged(region: RegionId) -> Self {
        Self { region, is_lagged: true, ..Self::default() }
    }

    /// Events that stand in the lists of all.
    pub(super) fn beside(&self) -> usize {
        if self.is_apart() { 0 } else { self.objects.len() }
    }

    fn is_apart(&self) -> bool {
        self.objects.len() >= APART
    }

    /// In lists of its own.
    fn apart(self) -> EventSet {
        let head = EventHead {
            region: self.region,
            is_lagged: self.is_lagged,
            is_snapshot: self.is_snapshot,
            events: (0, self.objects.len()),
            fixes: (0, self.fixes.len()),
        };
        EventSet::new(vec![head], self.objects, self.kinds, self.fixes)
    }

    /// Adds an event.
    pub(super) fn push(&mut self, kind: u8, fix: FixRow, with_fixes: bool) {
        self.objects.push(fix.object);
        self.kinds.push(kind);
        if with_fixes {
            self.fixes.push(fix);
        }
    }
}

/// Events that the device found.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Set when they are here.
    pub(super) copied: Arc<CudaEvent>,
    /// Events of the device; the lists have room for the host's behind them.
    pub(super) events: usize,
    pub(super) objects: PooledBuffer<u64>,
    pub(super) kinds: PooledBuffer<u8>,
    /// Where each region's begin.
    pub(super) told: PooledBuffer<Told>,
    /// How many regions these are.
    pub(super) regions: PooledBuffer<u32>,
    /// Records of the events that want one.
    pub(super) fixes: PooledBuffer<Answered>,
}

/// A cycle's events.
#[derive(Debug)]
pub(crate) enum Events {
    /// All there.
    Here(EventSet),
    /// Those of the device may still be copied; heads of the others, and their records; those that
    /// stand apart.
    Coming(Box<Columns>, Vec<EventHead>, Vec<FixRow>, Vec<EventSet>),
}

impl Events {
    /// Events that the host made alone.
    pub(super) fn of_host(made: Vec<HostMade>) -> Self {
        let (mut objects, mut kinds) = (Vec::new(), Vec::new());
        let (made, mut sets) = split(made);
        let (heads, fixes) = place(made, (0, 0), |_, more, more_kinds| {
            objects.extend_from_slice(more);
            kinds.extend_from_slice(more_kinds);
        });
        sets.push(EventSet::new(heads, objects, kinds, fixes));
        Self::Here(EventSet::joined(sets))
    }

    /// Events of the device, and behind them those that the host made.
    pub(super) fn of_both(mut columns: Box<Columns>, made: Vec<HostMade>) -> Self {
        let first = (columns.events, columns.fixes.as_ref().len());
        let (objects, kinds) = (&mut columns.objects, &mut columns.kinds);
        let (objects, kinds) = (objects.as_mut_slice(), kinds.as_mut_slice());
        let (made, apart) = split(made);
        let (heads, fixes) = place(made, first, |at, more, more_kinds| {
            objects[at..at + more.len()].copy_from_slice(more);
            kinds[at..at + more.len()].copy_from_slice(more_kinds);
        });
        Self::Coming(columns, heads, fixes, apart)
    }

    /// Waits for them.
    pub(crate) fn wait(self) -> Result<EventSet, EngineError> {
        let (columns, others, fixes, mut sets) = match self {
            Self::Here(events) => return Ok(events),
            Self::Coming(columns, heads, fixes, apart) => (*columns, heads, fixes, apart),
        };
        columns.copied.synchronize().map_err(fault)?;
        let regions = columns.regions.as_ref().first().map_or(0, |regions| *regions as usize);
        let told = &columns.told.as_ref()[..regions];
        let mut heads = Vec::with_capacity(regions + others.len());
        let mut first_fix = 0;
        for (number, of) in told.iter().enumerate() {
            let end = told.get(number + 1).map_or(columns.events, |next| next.first as usize);
            let events = (of.first as usize, end);
            let with_fixes = of.flags & STANDING_FIXES != 0;
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

/// What stands in the lists of all, and what stands apart.
fn split(made: Vec<HostMade>) -> (Vec<HostMade>, Vec<EventSet>) {
    let (apart, beside) = made.into_iter().partition::<Vec<_>, _>(HostMade::is_apart);
    (beside, apart.into_iter().map(HostMade::apart).collect())
}

/// Heads of what the host made, ascending by region, its events put from place `first` on.
fn place(
    mut made: Vec<HostMade>,
    first: (usize, usize),
    mut put: impl FnMut(usize, &[u64], &[u8]),
) -> (Vec<EventHead>, Vec<FixRow>) {
    made.sort_by_key(|made| made.region);
    let (mut heads, mut fixes) = (Vec::with_capacity(made.len()), Vec::new());
    let mut at = first.0;
    for made in made {
        put(at, &made.objects, &made.kinds);
        let events = (at, at + made.objects.len());
        let first_fix = first.1 + fixes.len();
        fixes.extend_from_slice(&made.fixes);
        heads.push(EventHead {
            region: made.region,
            is_lagged: made.is_lagged,
            is_snapshot: made.is_snapshot && !made.is_lagged,
            events,
            fixes: (first_fix, first.1 + fixes.len()),
        });
        at = events.1;
    }
    (heads, fixes)
}
