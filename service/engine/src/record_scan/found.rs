//! What a scan has found for one query.

use shoal_codec::{FixColumns, FixRow};

use crate::query::{AnswerHead, AnswerPage, Projection, Query, QueryKind, RowLimit};

/// Least number of rows collected beyond the limit before the list is truncated.
const SPARE_ROWS: usize = 64;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) total: u64,
    keep: Keep,
    rows: Rows,
    /// Rows after this (rank, id) are not kept.
    last: (u64, u64),
}

/// The rows that a query keeps.
#[derive(Clone, Copy, Debug)]
enum Keep {
    All,
    /// The first by (rank, id).
    First(usize),
    /// All rows up to this number, none if there are more; 0 only counts.
    AllOrNone(usize),
}

/// The rows that are kept, as the answer has them: the first answer of a page is not copied. The
/// rows of a nearest query have ranks.
#[derive(Debug)]
enum Rows {
    Ids(Vec<u64>),
    Fixes(Vec<FixRow>),
    RankedIds(Vec<(u64, u64)>),
    RankedFixes(Vec<(u64, FixRow)>),
}

impl Found {
    /// Nothing found yet for a query to which at most `records` records match.
    pub(super) fn new(query: &Query, records: u64) -> Self {
        let rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let is_nearest = matches!(query.kind, QueryKind::Nearest { .. });
        let keep = match (&query.kind, query.projection, query.limit) {
            (QueryKind::Nearest { k, .. }, Projection::Ids | Projection::Fixes, _) => {
                Keep::First(*k as usize)
            }
            (_, Projection::Count, _) => Keep::AllOrNone(0),
            (_, _, Some(RowLimit::AllOrNone(most))) => Keep::AllOrNone(rows(most)),
            (_, _, Some(RowLimit::First(most))) => Keep::First(rows(most)),
            (_, _, None) => Keep::All,
        };
        // Whoever wants all rows or none has the memory for them. A list that grows takes twice as
        // much from time to time.
        let capacity = match keep {
            Keep::AllOrNone(most) => most.min(rows(records)),
            Keep::All | Keep::First(_) => 0,
        };
        let rows = match (query.projection == Projection::Fixes, is_nearest) {
            (false, false) => Rows::Ids(Vec::with_capacity(capacity)),
            (true, false) => Rows::Fixes(Vec::with_capacity(capacity)),
            (false, true) => Rows::RankedIds(Vec::new()),
            (true, true) => Rows::RankedFixes(Vec::new()),
        };
        Self { total: 0, keep, rows, last: (u64::MAX, u64::MAX) }
    }

    /// True when rows are only counted.
    pub(super) fn counts_only(&self) -> bool {
        matches!(self.keep, Keep::AllOrNone(0))
    }

    /// Rows with a greater rank are not kept.
    pub(super) fn rank_max(&self) -> u64 {
        self.last.0
    }

    /// Counts a row that passes the filter, and keeps it if the answer may contain it.
    pub(super) fn add(
        &mut self,
        query: &Query,
        clock_ms: i64,
        rank: u64,
        batch: &FixColumns,
        row: usize,
    ) {
        if query.filter.is_some() && !query.passes(&batch.row(row), clock_ms) {
            return;
        }
        self.total += 1;
        let most = match self.keep {
            Keep::All => usize::MAX,
            Keep::First(_) if (rank, batch.object[row]) > self.last => return,
            Keep::First(most) => most.saturating_add(SPARE_ROWS.max(most / 4)),
            Keep::AllOrNone(0) => return,
            Keep::AllOrNone(most) => most,
        };
        if self.rows.len() == most && !matches!(self.keep, Keep::First(_)) {
            self.rows = Rows::Ids(Vec::new());
            self.keep = Keep::AllOrNone(0);
            return;
        }
        self.rows.push(rank, batch, row);
        if let Keep::First(first) = self.keep
            && self.rows.len() > most
        {
            self.rows.sort();
            self.rows.truncate(first);
            self.last = self.rows.last().unwrap_or(self.last);
        }
    }

    /// Appends the answer to the page.
    pub(super) fn finish(mut self, query: &Query, page: &mut AnswerPage) {
        let mut total = self.total;
        if let QueryKind::Nearest { k, .. } = query.kind {
            total = total.min(k.into());
        }
        let is_count = query.projection == Projection::Count;
        let returned = if is_count { 0 } else { query.returned(total as usize) };
        self.rows.sort();
        self.rows.truncate(returned);
        let first = (page.objects.len(), page.fixes.len(), page.ranks.len());
        self.rows.append_to(page);
        page.heads.push(AnswerHead {
            total,
            truncated: !is_count && (returned as u64) < total,
            objects: (first.0, page.objects.len()),
            fixes: (first.1, page.fixes.len()),
            ranks: (first.2, page.ranks.len()),
        });
    }
}

impl Rows {
    fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Fixes(fixes) => fixes.len(),
            Self::RankedIds(ids) => ids.len(),
            Self::RankedFixes(fixes) => fixes.len(),
        }
    }

    fn push(&mut self, rank: u64, batch: &FixColumns, row: usize) {
        match self {
            Self::Ids(ids) => ids.push(batch.object[row]),
            Self::Fixes(fixes) => fixes.push(batch.row(row)),
            Self::RankedIds(ids) => ids.push((rank, batch.object[row])),
            Self::RankedFixes(fixes) => fixes.push((rank, batch.row(row))),
        }
    }

    /// Sorts the rows by (rank, id).
    fn sort(&mut self) {
        match self {
            Self::Ids(ids) => ids.sort_unstable(),
            Self::Fixes(fixes) => fixes.sort_unstable_by_key(|row| row.object),
            Self::RankedIds(ids) => ids.sort_unstable(),
            Self::RankedFixes(fixes) => {
                fixes.sort_unstable_by_key(|(rank, row)| (*rank, row.object));
            }
        }
    }

    fn truncate(&mut self, most: usize) {
        match self {
            Self::Ids(ids) => ids.truncate(most),
            Self::Fixes(fixes) => fixes.truncate(most),
            Self::RankedIds(ids) => ids.truncate(most),
            Self::RankedFixes(fixes) => fixes.truncate(most),
        }
    }

    /// Rank and id of the last row.
    fn last(&self) -> Option<(u64, u64)> {
        match self {
            Self::Ids(ids) => ids.last().map(|id| (0, *id)),
            Self::Fixes(fixes) => fixes.last().map(|row| (0, row.object)),
            Self::RankedIds(ids) => ids.last().copied(),
            Self::RankedFixes(fixes) => fixes.last().map(|(rank, row)| (*rank, row.object)),
        }
    }

    fn append_to(self, page: &mut AnswerPage) {
        match self {
            Self::Ids(ids) => append(&mut page.objects, ids),
            Self::Fixes(fixes) => {
                page.objects.extend(fixes.iter().map(|row| row.object));
                append(&mut page.fixes, fixes);
            }
            Self::RankedIds(ids) => {
                page.ranks.extend(ids.iter().map(|(rank, _)| rank));
                page.objects.extend(ids.iter().map(|(_, id)| id));
            }
            Self::RankedFixes(fixes) => {
                page.ranks.extend(fixes.iter().map(|(rank, _)| rank));
                page.objects.extend(fixes.iter().map(|(_, row)| row.object));
                page.fixes.extend(fixes.iter().map(|(_, row)| row));
            }
        }
    }
}

/// Appends rows; an empty list takes over their memory.
fn append<T: Copy>(list: &mut Vec<T>, mut rows: Vec<T>) {
    if list.is_empty() {
        rows.shrink_to_fit();
        *list = rows;
    } else {
        list.extend_from_slice(&rows);
    }
}
