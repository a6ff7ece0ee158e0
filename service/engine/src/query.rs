//! Queries and their answers.
//!
//! Values are in quanta and stored units; the service converts degrees and metres once, on receipt,
//! through `Space`. Answers hold their rows in shared pages, so a million small answers take a few
//! allocations.

use std::fmt;
use std::sync::Arc;

use shoal_codec::{FixRow, MEASURES};

use crate::region::Region;

/// One query, answered on the state after one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// What it searches for.
    pub kind: QueryKind,
    /// A filter of objects by their record; `None` passes all. Boxed, because few queries have one
    /// and a cycle may have millions of queries. See [`Filter::boxed`].
    pub filter: Option<Box<Filter>>,
    /// The columns to return for each object.
    pub projection: Projection,
    /// Limit on the matching rows to return; `None` returns all. The total counts every match.
    pub limit: Option<RowLimit>,
}

/// A limit on the rows of an answer; has no effect with [`Projection::Count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLimit {
    /// The first rows, up to this number, in the order of the answer.
    First(u64),
    /// All rows if their number is at most the limit, else only the total. For a caller that
    /// reserves the memory of an answer by its total.
    AllOrNone(u64),
}

impl RowLimit {
    /// Number of rows to return when `found` match.
    #[inline]
    #[must_use]
    pub fn returned(self, found: u64) -> u64 {
        match self {
            Self::First(limit) => found.min(limit),
            Self::AllOrNone(limit) => {
                if found <= limit {
                    found
                } else {
                    0
                }
            }
        }
    }
}

// A cycle may have millions.
const _: () = assert!(size_of::<Query>() <= 72, "a query is small");

impl Query {
    /// Whether a record passes the filter at the answer's clock.
    #[inline]
    #[must_use]
    pub fn passes(&self, row: &FixRow, clock_ms: i64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.passes(row, clock_ms))
    }

    /// Number of rows to return when `found` match, ignoring the projection.
    #[must_use]
    pub fn returned(&self, found: usize) -> usize {
        self.limit.map_or(found, |limit| limit.returned(found as u64) as usize)
    }

    /// Largest number of matches for which the answer has rows: 0 for a count, the limit of
    /// [`RowLimit::AllOrNone`], else `usize::MAX`.
    #[inline]
    #[must_use]
    pub fn matches_max(&self) -> usize {
        match (self.projection, self.limit) {
            (Projection::Count, _) => 0,
            (_, Some(RowLimit::AllOrNone(limit))) => usize::try_from(limit).unwrap_or(usize::MAX),
            (_, Some(RowLimit::First(_)) | None) => usize::MAX,
        }
    }
}

/// The kinds of query.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryKind {
    /// These objects; ids that do not exist are absent, repeated ids count once.
    /// At most [`crate::limits::GET_OBJECTS_MAX`].
    Get(Vec<u64>),
    /// Every object in a region.
    Range(Region),
    /// The `k` objects nearest to a point, ordered by (rank, object); see [`crate::Ranker::rank`].
    Nearest {
        /// Centre, quanta, inside the space.
        x: i32,
        /// Centre, quanta, inside the space.
        y: i32,
        /// Number of objects, 0 to [`crate::limits::NEAREST_MAX`].
        k: u32,
        /// Greatest rank, as [`crate::Space::rank_within`] returns it; `u64::MAX` is no bound.
        rank_max: u64,
    },
}

impl QueryKind {
    /// The `k` nearest to a point at any distance.
    #[must_use]
    pub const fn nearest(x: i32, y: i32, k: u32) -> Self {
        Self::Nearest { x, y, k, rank_max: u64::MAX }
    }
}

macro_rules! filter {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        /// Conditions on the record and its object; all must hold. The default passes everything.
        /// An unknown attribute matches no range.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Filter {
            /// Bits of the state that are compared.
            pub state_mask: u32,
            /// Their wanted value: `state & state_mask == state_value`.
            pub state_value: u32,
            /// Largest age in milliseconds: `clock_ms - time_ms <= age_max_ms`.
            pub age_max_ms: Option<i64>,
            $(
                #[doc = concat!("Closed range of `Column::", stringify!($column), "`; of a")]
                /// circular measure, a range with from > to wraps around.
                pub $field: Option<($type, $type)>,
            )+
            /// Only objects above this id, to continue a listing that a limit truncated. Not
            /// allowed in the filter of a continuous query.
            pub object_after: Option<u64>,
        }

        impl Filter {
            /// Whether a record passes at the answer's clock.
            #[must_use]
            pub fn passes(&self, row: &FixRow, clock_ms: i64) -> bool {
                row.state & self.state_mask == self.state_value
                    && self.object_after.is_none_or(|object| row.object > object)
                    && self.age_max_ms.is_none_or(|age| clock_ms.saturating_sub(row.time_ms) <= age)
                    $(&& self
                        .$field
                        .is_none_or(|range| MEASURES.$field.is_within(row.$field, range)))+
            }
        }
    };
}

shoal_codec::measures!(filter);

impl Filter {
    /// True when every record passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The filter as [`Query::filter`] holds it: `None` if it passes every record.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (!self.is_empty()).then(|| Box::new(self))
    }
}

/// What an answer returns of each object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Projection {
    /// Object ids.
    #[default]
    Ids,
    /// Whole records.
    Fixes,
    /// The total alone.
    Count,
}

/// One answer, borrowed from its [`AnswerSet`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer<'a> {
    /// Objects that match, whether returned or not; nearest: at most `k`.
    pub total: u64,
    /// True when `limit` dropped at least one row; false with [`Projection::Count`].
    pub truncated: bool,
    /// Ids, ascending; nearest: by (rank, object). Empty for `Count`.
    pub objects: &'a [u64],
    /// The record of each object with [`Projection::Fixes`], else empty.
    pub fixes: &'a [FixRow],
    /// The rank of each object for nearest (none for `Count`), else empty; see
    /// [`crate::Space::distance_m`].
    pub ranks: &'a [u64],
}

/// The ranges of one answer's rows in its page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnswerHead {
    /// Objects that match.
    pub total: u64,
    /// True when `limit` dropped rows.
    pub truncated: bool,
    /// First and past-last entry in the page's `objects`.
    pub objects: (usize, usize),
    /// First and past-last entry in the page's `fixes`.
    pub fixes: (usize, usize),
    /// First and past-last entry in the page's `ranks`.
    pub ranks: (usize, usize),
}

/// The answers of some queries as shared columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerPage {
    /// One per query of this page.
    pub heads: Vec<AnswerHead>,
    /// Ids of the objects of all answers.
    pub objects: Vec<u64>,
    /// Records of the answers with [`Projection::Fixes`].
    pub fixes: Vec<FixRow>,
    /// Ranks of the objects in the answers to nearest queries.
    pub ranks: Vec<u64>,
}

/// Shared words that their producer may reuse after the last reader, such as page-locked memory.
pub type SharedWords = Arc<dyn AsRef<[u64]> + Send + Sync>;

/// Shared records that their producer may reuse, or compute when they are first read.
pub type SharedFixes = Arc<dyn AsRef<[FixRow]> + Send + Sync>;

/// One answer whose rows are sorted on first read, because sorting millions of rows takes longer
/// than a cycle may.
#[derive(Clone)]
pub struct DeferredAnswer {
    total: u64,
    truncated: bool,
    /// Number of ids and number of records to return.
    returned: (usize, usize),
    objects: SharedWords,
    fixes: SharedFixes,
}

impl DeferredAnswer {
    /// An answer with this total that returns the first ids and records of these lists.
    #[must_use]
    pub fn new(
        total: u64,
        returned: (usize, usize),
        objects: SharedWords,
        fixes: SharedFixes,
    ) -> Self {
        Self { total, truncated: (returned.0 as u64) < total, returned, objects, fixes }
    }

    /// An answer that has only a total and is not truncated.
    #[must_use]
    pub fn count(total: u64) -> Self {
        let none = Self::new(total, (0, 0), Arc::new(Vec::new()), Arc::new(Vec::new()));
        Self { truncated: false, ..none }
    }

    fn get(&self) -> Answer<'_> {
        let (objects, fixes) = self.returned;
        Answer {
            total: self.total,
            truncated: self.truncated,
            objects: if objects == 0 { &[] } else { &(*self.objects).as_ref()[..objects] },
            fixes: if fixes == 0 { &[] } else { &(*self.fixes).as_ref()[..fixes] },
            ranks: &[],
        }
    }
}

impl fmt::Debug for DeferredAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The answers of one cycle, by the query's index in the input.
#[derive(Clone, Default)]
pub struct AnswerSet {
    store: Store,
    /// Answers that replace those in the store, ascending by query.
    deferred: Vec<(u32, DeferredAnswer)>,
}

#[derive(Clone)]
enum Store {
    /// Pages, and per query: page, head.
    Pages(Vec<AnswerPage>, Vec<(u32, u32)>),
    /// Bounds of each query's ids, the concatenated ids, and the limit of each query (empty: no
    /// limits).
    Ids(SharedWords, SharedWords, Vec<Option<RowLimit>>),
}

impl Default for Store {
    fn default() -> Self {
        Self::Pages(Vec::new(), Vec::new())
    }
}

impl fmt::Debug for AnswerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl AnswerSet {
    /// Builds a set from pages and, per query, its (page, head).
    #[must_use]
    pub fn new(pages: Vec<AnswerPage>, places: Vec<(u32, u32)>) -> Self {
        Self { store: Store::Pages(pages, places), deferred: Vec::new() }
    }

    /// Replaces answers in the pages with these, which ascend by query.
    #[must_use]
    pub fn with_deferred(self, deferred: Vec<(u32, DeferredAnswer)>) -> Self {
        Self { deferred, ..self }
    }

    /// True if some answers are sorted on first read.
    #[must_use]
    pub fn is_deferred(&self, queries: std::ops::Range<usize>) -> bool {
        self.deferred.iter().any(|(query, _)| queries.contains(&(*query as usize)))
    }

    /// A set of answers that have only ids. `bounds` holds the start of each query's ids in
    /// `objects`, then the end of the last. `limits` is empty or has the limit of each query.
    #[must_use]
    pub fn of_ids(
        bounds: SharedWords,
        objects: SharedWords,
        limits: Vec<Option<RowLimit>>,
    ) -> Self {
        Self { store: Store::Ids(bounds, objects, limits), deferred: Vec::new() }
    }

    /// Number of answers.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.store {
            Store::Pages(_, places) => places.len(),
            Store::Ids(bounds, ..) => bounds.as_ref().as_ref().len().saturating_sub(1),
        }
    }

    /// True without answers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The answer of query `index`; panics past the end, as slices do.
    #[must_use]
    pub fn get(&self, index: usize) -> Answer<'_> {
        self.find_deferred(index).unwrap_or_else(|| self.view().get(index))
    }

    fn find_deferred(&self, index: usize) -> Option<Answer<'_>> {
        if self.deferred.is_empty() {
            return None;
        }
        let at = self.deferred.binary_search_by_key(&index, |(query, _)| *query as usize).ok()?;
        Some(self.deferred[at].1.get())
    }

    /// All answers in query order.
    pub fn iter(&self) -> impl Iterator<Item = Answer<'_>> {
        self.range(0..self.len())
    }

    /// The answers of a range of queries, in their order; panics past the end, as slices do.
    pub fn range(&self, queries: std::ops::Range<usize>) -> impl Iterator<Item = Answer<'_>> {
        let view = self.view();
        queries.map(move |index| self.find_deferred(index).unwrap_or_else(|| view.get(index)))
    }

    fn view(&self) -> View<'_> {
        match &self.store {
            Store::Pages(pages, places) => View::Pages(pages, places),
            Store::Ids(bounds, objects, limits) => {
                View::Ids(bounds.as_ref().as_ref(), objects.as_ref().as_ref(), limits)
            }
        }
    }
}

/// A [`Store`] as slices.
#[derive(Clone, Copy)]
enum View<'a> {
    Pages(&'a [AnswerPage], &'a [(u32, u32)]),
    Ids(&'a [u64], &'a [u64], &'a [Option<RowLimit>]),
}

impl<'a> View<'a> {
    fn get(self, index: usize) -> Answer<'a> {
        match self {
            Self::Pages(pages, places) => {
                let (page, head) = places[index];
                let page = &pages[page as usize];
                let head = &page.heads[head as usize];
                Answer {
                    total: head.total,
                    truncated: head.truncated,
                    objects: &page.objects[head.objects.0..head.objects.1],
                    fixes: &page.fixes[head.fixes.0..head.fixes.1],
                    ranks: &page.ranks[head.ranks.0..head.ranks.1],
                }
            }
            Self::Ids(bounds, objects, limits) => {
                let (first, end) = (bounds[index], bounds[index + 1]);
                let total = end - first;
                let limit = limits.get(index).copied().flatten();
                let returned = limit.map_or(total, |limit| limit.returned(total));
                Answer {
                    total,
                    truncated: returned < total,
                    objects: &objects[first as usize..(first + returned) as usize],
                    fixes: &[],
                    ranks: &[],
                }
            }
        }
    }
}
