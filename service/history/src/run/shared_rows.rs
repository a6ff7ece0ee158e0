//! Rows of a run that a newer run of its partition may replace, because both have their objects.
//!
//! The object ranges of two runs mostly overlap even if no object is in both, for example when
//! objects were imported one by one. Comparing their directories gives the exact rows.

use std::ops::Range;

use super::run_reader::RunReader;
use crate::error::HistoryError;
use crate::query::QueryBudget;

/// Most ranges in a list: two kilobytes, too small to count in a budget.
const RANGES_MAX: usize = 1 << 8;

/// Rows of a run that a newer run may replace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SharedRows {
    /// These rows, ascending.
    Ranges(Vec<Range<u32>>),
    /// There are too many ranges to list, so any row may be shared.
    Many,
}

impl SharedRows {
    /// Compares the directories of a run and a newer one.
    ///
    /// # Errors
    /// [`HistoryError::Cancelled`], [`HistoryError::Budget`], [`HistoryError::File`],
    /// [`HistoryError::Page`].
    pub(super) fn find(
        run: &RunReader,
        newer: &RunReader,
        budget: &QueryBudget,
    ) -> Result<Self, HistoryError> {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        let (mut held, mut next_page) = (Vec::new(), 0);
        for page in 0..run.object_pages() {
            budget.take_tiles(1)?;
            let (objects, entries) = run.object_page(page)?;
            for (object, entry) in objects.into_iter().zip(entries) {
                while next_page < newer.object_pages() && held.last() < Some(&object) {
                    held = newer.page_objects(next_page, budget)?;
                    next_page += 1;
                }
                if held.binary_search(&object).is_err() {
                    continue;
                }
                if ranges.len() == RANGES_MAX {
                    return Ok(Self::Many);
                }
                ranges.push(entry.first_row..entry.first_row + entry.rows);
            }
        }
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, range| {
            let is_adjacent = range.end == next.start;
            if is_adjacent {
                range.end = next.end;
            }
            is_adjacent
        });
        Ok(Self::Ranges(ranges))
    }

    /// True if a newer run may replace some of `rows`.
    pub(crate) fn meet(&self, rows: &Range<u32>) -> bool {
        match self {
            Self::Many => true,
            Self::Ranges(ranges) => {
                let next = ranges.partition_point(|range| range.end <= rows.start);
                ranges.get(next).is_some_and(|range| range.start < rows.end)
            }
        }
    }
}
