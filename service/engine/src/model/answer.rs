//! Answers of the model: every query is tested against every record.
//!
//! All queries share one scan, because reading a million records costs more than testing them.

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::FixRow;

use crate::query::{AnswerHead, AnswerPage, Projection, Query, QueryKind};
use crate::rank::Ranker;
use crate::space::Space;

/// Number of records that are copied from the map and tested at a time.
const CHUNK_ROWS: usize = 4_096;

/// One query during a scan.
pub(super) struct Search<'a> {
    query: &'a Query,
    /// `Some` for a nearest query.
    ranker: Option<Ranker>,
    /// Greatest rank of a record to keep; a nearest query lowers it as it finds more.
    rank_max: u64,
    /// Rank and record. All ranks are 0 unless the query is a nearest query.
    found: Vec<(u64, FixRow)>,
}

impl<'a> Search<'a> {
    /// The search before the scan; a `Get` finds all its records here.
    pub(super) fn new(
        query: &'a Query,
        space: &Space,
        records: &BTreeMap<u64, FixRow>,
        clock_ms: i64,
    ) -> Self {
        let mut search = Self { query, ranker: None, rank_max: u64::MAX, found: Vec::new() };
        match &query.kind {
            QueryKind::Get(objects) => {
                let objects: BTreeSet<&u64> = objects.iter().collect();
                let rows = objects.into_iter().filter_map(|object| records.get(object));
                rows.for_each(|row| search.keep(0, row, clock_ms));
            }
            QueryKind::Nearest { x, y, rank_max, .. } => {
                search.ranker = Some(Ranker::new(space, *x, *y));
                search.rank_max = *rank_max;
            }
            QueryKind::Range(_) => {}
        }
        search
    }

    /// Tests all records, which ascend by object.
    pub(super) fn scan<'r>(
        searches: &mut [Self],
        mut records: impl Iterator<Item = &'r FixRow>,
        clock_ms: i64,
    ) {
        let is_get = |search: &Self| matches!(search.query.kind, QueryKind::Get(_));
        let mut searches: Vec<_> = searches.iter_mut().filter(|search| !is_get(search)).collect();
        let mut chunk = Vec::with_capacity(CHUNK_ROWS);
        while !searches.is_empty() {
            chunk.extend(records.by_ref().take(CHUNK_ROWS).copied());
            if chunk.is_empty() {
                return;
            }
            for search in &mut searches {
                search.test(&chunk, clock_ms);
            }
            chunk.clear();
        }
    }

    fn test(&mut self, rows: &[FixRow], clock_ms: i64) {
        for row in rows {
            match (&self.query.kind, &self.ranker) {
                (QueryKind::Range(region), _) if region.contains(row.x, row.y) => {
                    self.keep(0, row, clock_ms);
                }
                (_, Some(ranker)) => self.keep(ranker.rank(row.x, row.y), row, clock_ms),
                _ => {}
            }
        }
    }

    /// Keeps a record that passes the filter and is near enough.
    fn keep(&mut self, rank: u64, row: &FixRow, clock_ms: i64) {
        if rank > self.rank_max || !self.query.passes(row, clock_ms) {
            return;
        }
        self.found.push((rank, *row));
        if let QueryKind::Nearest { k, .. } = self.query.kind
            && self.found.len() > 2 * k as usize + 64
        {
            self.cut_to(k);
        }
    }

    /// Keeps the `k` nearest found so far.
    fn cut_to(&mut self, k: u32) {
        self.found.sort_unstable_by_key(|(rank, row)| (*rank, row.object));
        self.found.truncate(k as usize);
        if let (Some((rank, _)), true) = (self.found.last(), self.found.len() == k as usize) {
            self.rank_max = *rank;
        }
    }

    /// Appends the answer to the page.
    pub(super) fn finish(mut self, page: &mut AnswerPage) {
        if let QueryKind::Nearest { k, .. } = self.query.kind {
            self.cut_to(k);
        }
        let total = self.found.len();
        let is_count = self.query.projection == Projection::Count;
        let returned = if is_count { 0 } else { self.query.returned(total) };
        let first = (page.objects.len(), page.fixes.len(), page.ranks.len());
        for (rank, row) in &self.found[..returned] {
            page.objects.push(row.object);
            if self.query.projection == Projection::Fixes {
                page.fixes.push(*row);
            }
            if self.ranker.is_some() {
                page.ranks.push(*rank);
            }
        }
        page.heads.push(AnswerHead {
            total: total as u64,
            truncated: !is_count && returned < total,
            objects: (first.0, page.objects.len()),
            fixes: (first.1, page.fixes.len()),
            ranks: (first.2, page.ranks.len()),
        });
    }
}
