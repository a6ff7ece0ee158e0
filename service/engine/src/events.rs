//! The events of one cycle.
//!
//! Events are flat columns, ordered by region, object and order of evaluation, in shared memory
//! that its producer may reuse. Regions without events are not listed.

use std::fmt;
use std::sync::Arc;

use shoal_codec::FixRow;

use crate::query::{SharedFixes, SharedWords};
use crate::subscription::{EventKind, RegionId};

/// Shared bytes that their producer may reuse after the last reader, such as page-locked memory.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The range of one region's events in the columns of its set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventHead {
    /// The region.
    pub region: RegionId,
    /// See [`RegionEvents::is_lagged`].
    pub is_lagged: bool,
    /// See [`RegionEvents::is_snapshot`].
    pub is_snapshot: bool,
    /// First and past-last event.
    pub events: (usize, usize),
    /// First and past-last record.
    pub fixes: (usize, usize),
}

impl EventHead {
    /// Number of events.
    #[must_use]
    pub fn events(&self) -> usize {
        self.events.1 - self.events.0
    }

    /// Number of records: one for each event, or none.
    #[must_use]
    pub fn fixes(&self) -> usize {
        self.fixes.1 - self.fixes.0
    }
}

/// Columns that heads point into.
#[derive(Clone)]
struct Part {
    objects: SharedWords,
    kinds: SharedBytes,
    fixes: SharedFixes,
}

/// The events of one cycle, by region ascending.
///
/// Columns may be computed when they are first read, so that the reader sorts millions of members
/// and not the cycle. [`EventSet::heads`] reads no columns.
#[derive(Clone, Default)]
pub struct EventSet {
    /// Each head with the index of the part that it points into.
    heads: Vec<(EventHead, u32)>,
    parts: Arc<Vec<Part>>,
}

impl EventSet {
    /// A set of heads and the columns that they point into.
    #[must_use]
    pub fn new(
        heads: Vec<EventHead>,
        objects: Vec<u64>,
        kinds: Vec<u8>,
        fixes: Vec<FixRow>,
    ) -> Self {
        Self::of_shared(heads, Arc::new(objects), Arc::new(kinds), Arc::new(fixes))
    }

    /// Merges several sets, which must have no region in common.
    #[must_use]
    pub fn joined(sets: Vec<Self>) -> Self {
        let (mut heads, mut parts) = (Vec::new(), Vec::new());
        for set in sets {
            let first = parts.len() as u32;
            heads.extend(set.heads.iter().map(|(head, part)| (*head, first + part)));
            parts.extend(Arc::unwrap_or_clone(set.parts));
        }
        // The stable sort is faster here, because each set is already in order.
        heads.sort_by_key(|(head, _): &(EventHead, u32)| head.region);
        Self { heads, parts: Arc::new(parts) }
    }

    /// As [`EventSet::new`], with columns in shared memory; kinds are given as their numbers.
    #[must_use]
    pub fn of_shared(
        heads: Vec<EventHead>,
        objects: SharedWords,
        kinds: SharedBytes,
        fixes: SharedFixes,
    ) -> Self {
        let mut heads: Vec<_> = heads.into_iter().map(|head| (head, 0)).collect();
        heads.sort_unstable_by_key(|(head, _)| head.region);
        Self { heads, parts: Arc::new(vec![Part { objects, kinds, fixes }]) }
    }

    /// Number of regions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// True without regions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Events of all regions.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.heads().map(|head| head.events() as u64).sum()
    }

    /// The heads, ascending by region; reads no columns.
    pub fn heads(&self) -> impl ExactSizeIterator<Item = &EventHead> {
        self.heads.iter().map(|(head, _)| head)
    }

    /// The head at an index; panics past the end, as slices do.
    #[must_use]
    pub fn head(&self, place: usize) -> &EventHead {
        &self.heads[place].0
    }

    /// The events of the region at an index; panics past the end, as slices do.
    #[must_use]
    pub fn get(&self, place: usize) -> RegionEvents<'_> {
        self.of(&self.heads[place])
    }

    /// The events of a region, if it has any.
    #[must_use]
    pub fn find(&self, region: RegionId) -> Option<RegionEvents<'_>> {
        let place = self.heads.binary_search_by_key(&region, |(head, _)| head.region).ok()?;
        Some(self.get(place))
    }

    /// The events of all regions, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RegionEvents<'_>> {
        self.heads.iter().map(|head| self.of(head))
    }

    fn of(&self, (head, part): &(EventHead, u32)) -> RegionEvents<'_> {
        let Part { objects, kinds, fixes } = &self.parts[*part as usize];
        let ((first, end), (first_fix, end_fix)) = (head.events, head.fixes);
        RegionEvents {
            region: head.region,
            is_lagged: head.is_lagged,
            is_snapshot: head.is_snapshot,
            objects: &(**objects).as_ref()[first..end],
            kinds: KindList(&(**kinds).as_ref()[first..end]),
            fixes: &(**fixes).as_ref()[first_fix..end_fix],
        }
    }
}

impl fmt::Debug for EventSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for EventSet {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// One region's events, borrowed from its [`EventSet`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionEvents<'a> {
    /// The region.
    pub region: RegionId,
    /// True if the region's events did not fit [`crate::EngineOptions::events_max`]: none of them
    /// is reported, memberships are up to date, and a subscriber needs a snapshot.
    pub is_lagged: bool,
    /// True when these are all members; they replace what the subscriber holds.
    pub is_snapshot: bool,
    /// The object of each event, ascending. Events of the same object are in the order of
    /// evaluation.
    pub objects: &'a [u64],
    /// The kind of each event.
    pub kinds: KindList<'a>,
    /// The record after each event, or the last record for `Removed`, `Expired` and `Cleared`.
    /// Empty if the subscription wants no records.
    pub fixes: &'a [FixRow],
}

impl<'a> RegionEvents<'a> {
    /// All events, with their records where there are any.
    pub fn iter(&self) -> impl Iterator<Item = (u64, EventKind, Option<&'a FixRow>)> {
        let fixes = self.fixes;
        let pairs = self.objects.iter().zip(self.kinds.iter()).enumerate();
        pairs.map(move |(at, (object, kind))| (*object, kind, fixes.get(at)))
    }
}

/// The kinds of events, a byte each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KindList<'a>(&'a [u8]);

impl<'a> KindList<'a> {
    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kind at an index; panics past the end, as slices do.
    #[must_use]
    pub fn get(&self, place: usize) -> EventKind {
        kind_of(self.0[place])
    }

    /// All kinds.
    pub fn iter(&self) -> impl Iterator<Item = EventKind> + use<'a> {
        self.0.iter().map(|number| kind_of(*number))
    }

    /// The kinds as numbers.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for KindList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The kind of a number that a backend wrote.
fn kind_of(number: u8) -> EventKind {
    EventKind::of(number).expect("a backend writes kinds of events")
}

/// Builds the events of a cycle region by region, within their limit.
#[derive(Debug, Default)]
pub struct EventWriter {
    heads: Vec<EventHead>,
    objects: Vec<u64>,
    kinds: Vec<u8>,
    fixes: Vec<FixRow>,
    events_max: u64,
}

impl EventWriter {
    /// A writer of at most `events_max` events.
    #[must_use]
    pub fn new(events_max: u64) -> Self {
        Self { events_max, ..Self::default() }
    }

    /// A writer without a limit, with memory for this number of regions and events.
    #[must_use]
    pub fn with_capacity(regions: usize, events: usize) -> Self {
        Self {
            heads: Vec::with_capacity(regions),
            objects: Vec::with_capacity(events),
            kinds: Vec::with_capacity(events),
            ..Self::new(u64::MAX)
        }
    }

    /// Adds a region with its events in order; its id is greater than all ids already added. Adds
    /// nothing if the region has no events and is no snapshot. If its events exceed what is left of
    /// the limit, the region is lagged.
    pub fn region(
        &mut self,
        region: RegionId,
        is_snapshot: bool,
        with_fixes: bool,
        events: &[(EventKind, FixRow)],
    ) {
        if (self.objects.len() + events.len()) as u64 > self.events_max {
            self.lagged(region);
        } else if !events.is_empty() || is_snapshot {
            self.columns(
                region,
                is_snapshot,
                with_fixes,
                events.iter().map(|(_, row)| row.object),
                events.iter().map(|(kind, _)| *kind as u8),
                events.iter().map(|(_, row)| *row),
            );
        }
    }

    /// Adds a lagged region.
    pub fn lagged(&mut self, region: RegionId) {
        self.heads.push(EventHead { region, is_lagged: true, ..EventHead::default() });
    }

    /// Adds a region with its events as columns of equal length. The flags say whether it is a
    /// snapshot and whether it has records.
    pub fn columns(
        &mut self,
        region: RegionId,
        is_snapshot: bool,
        with_fixes: bool,
        objects: impl Iterator<Item = u64>,
        kinds: impl Iterator<Item = u8>,
        fixes: impl Iterator<Item = FixRow>,
    ) {
        let first = (self.objects.len(), self.fixes.len());
        self.objects.extend(objects);
        self.kinds.extend(kinds);
        if with_fixes {
            self.fixes.extend(fixes);
        }
        self.heads.push(EventHead {
            region,
            is_lagged: false,
            is_snapshot,
            events: (first.0, self.objects.len()),
            fixes: (first.1, self.fixes.len()),
        });
    }

    /// The events written.
    #[must_use]
    pub fn finish(self) -> EventSet {
        EventSet::new(self.heads, self.objects, self.kinds, self.fixes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(object: u64) -> FixRow {
        FixRow::new(object, 0, 5, 6)
    }

    #[test]
    fn events_come_back_by_region() {
        let mut writer = EventWriter::new(4);
        writer.region(RegionId(2), false, true, &[(EventKind::Enter, row(7))]);
        writer.region(RegionId(3), false, true, &[]);
        writer.region(RegionId(4), true, true, &[]);
        let two = [(EventKind::Move, row(1)), (EventKind::Left, row(9))];
        writer.region(RegionId(9), false, false, &two);
        let set = writer.finish();
        assert_eq!((set.len(), set.events(), set.is_empty()), (3, 3, false));
        let first: Vec<_> = set.get(0).iter().collect();
        assert_eq!(first, [(7, EventKind::Enter, Some(&row(7)))]);
        assert!(set.get(1).is_snapshot && set.get(1).objects.is_empty());
        let last: Vec<_> = set.find(RegionId(9)).unwrap().iter().collect();
        assert_eq!(last, [(1, EventKind::Move, None), (9, EventKind::Left, None)]);
        assert_eq!(set.get(2).kinds.get(1), EventKind::Left);
        assert_eq!(set.find(RegionId(3)), None);
        assert_eq!(set, set.clone());
        assert_ne!(set, EventSet::default());
    }

    #[test]
    fn a_region_that_does_not_fit_is_lagged_and_the_next_may_fit() {
        let mut writer = EventWriter::new(2);
        writer.region(RegionId(1), false, false, &[(EventKind::Enter, row(1))]);
        let two = [(EventKind::Present, row(1)), (EventKind::Present, row(2))];
        writer.region(RegionId(2), true, true, &two);
        writer.region(RegionId(3), false, false, &[(EventKind::Left, row(3))]);
        let set = writer.finish();
        let heads: Vec<_> = set
            .iter()
            .map(|of| (of.region.0, of.is_lagged, of.is_snapshot, of.objects.len()))
            .collect();
        assert_eq!(heads, [(1, false, false, 1), (2, true, false, 0), (3, false, false, 1)]);
    }
}
