//! What one cycle tells about its standing regions.
//!
//! Events lie flat behind each other, by region, object and order of judging, in memory that
//! whoever made it may want back. Regions without events are not listed.

use std::fmt;
use std::sync::Arc;

use shoal_codec::FixRow;

use crate::query::{SharedFixes, SharedWords};
use crate::subscription::{EventKind, RegionId};

/// Bytes that whoever made them may want back, such as page-locked memory.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Where one region's events lie in the lists of its set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventHead {
    /// Whose.
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
    /// How many events.
    #[must_use]
    pub fn events(&self) -> usize {
        self.events.1 - self.events.0
    }

    /// How many of them have a record beside them: all or none.
    #[must_use]
    pub fn fixes(&self) -> usize {
        self.fixes.1 - self.fixes.0
    }
}

/// Lists that heads point into.
#[derive(Clone)]
struct Part {
    objects: SharedWords,
    kinds: SharedBytes,
    fixes: SharedFixes,
}

/// The events of one cycle, by region ascending.
///
/// Shared lists may be made when they are first read: millions of members are brought in order by
/// whoever reads them, not by the cycle. [`EventSet::heads`] tells of them without reading any.
#[derive(Clone, Default)]
pub struct EventSet {
    /// Each with the part that it points into.
    heads: Vec<(EventHead, u32)>,
    parts: Arc<Vec<Part>>,
}

impl EventSet {
    /// Builds a set from heads and the lists that they point into.
    #[must_use]
    pub fn new(
        heads: Vec<EventHead>,
        objects: Vec<u64>,
        kinds: Vec<u8>,
        fixes: Vec<FixRow>,
    ) -> Self {
        Self::of_shared(heads, Arc::new(objects), Arc::new(kinds), Arc::new(fixes))
    }

    /// All regions of some sets, which have none in common.
    #[must_use]
    pub fn joined(sets: Vec<Self>) -> Self {
        let (mut heads, mut parts) = (Vec::new(), Vec::new());
        for set in sets {
            let first = parts.len() as u32;
            heads.extend(set.heads.iter().map(|(head, part)| (*head, first + part)));
            parts.extend(Arc::unwrap_or_clone(set.parts));
        }
        // Stable for its speed: each set is in order already.
        heads.sort_by_key(|(head, _): &(EventHead, u32)| head.region);
        Self { heads, parts: Arc::new(parts) }
    }

    /// As [`EventSet::new`], of memory that is shared. A kind is its number.
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

    /// Regions that are told something.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// True when no region is told anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Events of all regions.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.heads().map(|head| head.events() as u64).sum()
    }

    /// What is told of each region, ascending, without a look at the lists.
    pub fn heads(&self) -> impl ExactSizeIterator<Item = &EventHead> {
        self.heads.iter().map(|(head, _)| head)
    }

    /// The head of the region at a place; panics past the end, as slices do.
    #[must_use]
    pub fn head(&self, place: usize) -> &EventHead {
        &self.heads[place].0
    }

    /// The events of the region at a place; panics past the end, as slices do.
    #[must_use]
    pub fn get(&self, place: usize) -> RegionEvents<'_> {
        self.of(&self.heads[place])
    }

    /// The events of a region, if it is told any.
    #[must_use]
    pub fn find(&self, region: RegionId) -> Option<RegionEvents<'_>> {
        let place = self.heads.binary_search_by_key(&region, |(head, _)| head.region).ok()?;
        Some(self.get(place))
    }

    /// All regions that are told something, ascending.
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
    /// Whose.
    pub region: RegionId,
    /// There were more events than a cycle may have ([`crate::EngineOptions::events_max`]): the
    /// memberships stand, nothing of this region is told, and whoever follows it needs a snapshot.
    pub is_lagged: bool,
    /// True when these are all members, to replace what was held.
    pub is_snapshot: bool,
    /// Ascending; one object's events in the order of judging.
    pub objects: &'a [u64],
    /// Beside them.
    pub kinds: KindList<'a>,
    /// Beside them where the subscription wants records, else empty: the record after the event;
    /// for `Removed`, `Expired` and `Cleared` the last one.
    pub fixes: &'a [FixRow],
}

impl<'a> RegionEvents<'a> {
    /// Every event with its record, where there are records.
    pub fn iter(&self) -> impl Iterator<Item = (u64, EventKind, Option<&'a FixRow>)> {
        let fixes = self.fixes;
        let pairs = self.objects.iter().zip(self.kinds.iter()).enumerate();
        pairs.map(move |(at, (object, kind))| (*object, kind, fixes.get(at)))
    }
}

/// The kinds of some events, a byte each.
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

    /// The kind at a place; panics past the end, as slices do.
    #[must_use]
    pub fn get(&self, place: usize) -> EventKind {
        kind_of(self.0[place])
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = EventKind> + use<'a> {
        self.0.iter().map(|number| kind_of(*number))
    }

    /// As numbers.
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

/// Only backends write kinds: a number that is none is their fault.
fn kind_of(number: u8) -> EventKind {
    EventKind::of(number).expect("a backend writes kinds of events")
}

/// Gathers the events of a cycle region by region and keeps to the most that it may have.
#[derive(Debug)]
pub struct EventWriter {
    heads: Vec<EventHead>,
    objects: Vec<u64>,
    kinds: Vec<u8>,
    fixes: Vec<FixRow>,
    events_max: u64,
}

impl EventWriter {
    /// Of at most `events_max` events.
    #[must_use]
    pub fn new(events_max: u64) -> Self {
        Self {
            heads: Vec::new(),
            objects: Vec::new(),
            kinds: Vec::new(),
            fixes: Vec::new(),
            events_max,
        }
    }

    /// Adds a region, above those before it, with its events in order; without any, and no
    /// snapshot, it is not listed. One whose events do not fit beside those before it is lagged.
    pub fn region(
        &mut self,
        region: RegionId,
        is_snapshot: bool,
        with_fixes: bool,
        events: &[(EventKind, FixRow)],
    ) {
        if events.is_empty() && !is_snapshot {
            return;
        }
        let first = (self.objects.len(), self.fixes.len());
        let is_lagged = (first.0 + events.len()) as u64 > self.events_max;
        for (kind, row) in if is_lagged { &[] } else { events } {
            self.objects.push(row.object);
            self.kinds.push(*kind as u8);
            if with_fixes {
                self.fixes.push(*row);
            }
        }
        self.heads.push(EventHead {
            region,
            is_lagged,
            is_snapshot: is_snapshot && !is_lagged,
            events: (first.0, self.objects.len()),
            fixes: (first.1, self.fixes.len()),
        });
    }

    /// The set.
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
        let told: Vec<_> = set
            .iter()
            .map(|of| (of.region.0, of.is_lagged, of.is_snapshot, of.objects.len()))
            .collect();
        assert_eq!(told, [(1, false, false, 1), (2, true, false, 0), (3, false, false, 1)]);
    }
}
