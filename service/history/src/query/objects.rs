//! The objects with a fix that a scan finds.

use std::collections::BTreeSet;

use shoal_codec::{Column, ColumnSet};

use super::row_filter::RowFilter;
use super::scan::Scan;
use super::together::Together;
use crate::error::HistoryError;

const OBJECTS: ColumnSet = ColumnSet::NONE.with(Column::Object);

/// The distinct objects of the matches of a scan. They are returned at the end of the scan.
#[derive(Debug)]
pub struct Objects<F> {
    scan: Scan<F>,
    known: Together<BTreeSet<u64>>,
    /// Objects of the last tiles, not yet added to `known`.
    found: Vec<u64>,
}

impl<F: RowFilter> Objects<F> {
    /// Most memory for each row of the budget, if the budget is a power of two. It covers an id in
    /// an ordered set whose nodes are half full and in the answer.
    pub const ROW_BYTES: usize = 4 * size_of::<u64>();

    /// The objects of a scan.
    ///
    /// # Panics
    /// If there is no part, or the scan has begun.
    #[must_use]
    pub fn new(scan: Scan<F>) -> Self
    where
        F: Clone,
    {
        Self::split(scan, 1).pop().expect("a scan has a part")
    }

    /// As [`Scan::split`]. The part that ends last returns all objects.
    ///
    /// # Panics
    /// As [`Scan::split`].
    #[must_use]
    pub fn split(scan: Scan<F>, parts: usize) -> Vec<Self>
    where
        F: Clone,
    {
        let scans = scan.split(parts);
        let known = Together::of(scans.len());
        let of_part = |(scan, known)| Self { scan, known, found: Vec::new() };
        scans.into_iter().zip(known).map(of_part).collect()
    }

    /// Reads some tiles. Returns false at the end; the part that ends last has then appended all
    /// objects, ascending.
    ///
    /// # Errors
    /// As [`Scan::next`]; [`HistoryError::Budget`] if there are more objects than rows in the
    /// budget.
    pub fn next(&mut self, out: &mut Vec<u64>) -> Result<bool, HistoryError> {
        let Self { scan, known, found } = self;
        let has_more = scan.visit(OBJECTS, |rows, row| found.push(rows.object[row]))?;
        if !has_more {
            out.extend(known.end().unwrap_or_default());
            return Ok(false);
        }
        // Rows of an object follow each other.
        found.dedup();
        let mut known = known.lock();
        known.extend(found.drain(..));
        scan.hold("objects", known.len())?;
        Ok(true)
    }

    /// Returns all objects. Only for a scan with one part.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn all(mut self) -> Result<Vec<u64>, HistoryError> {
        let mut objects = Vec::new();
        while self.next(&mut objects)? {}
        Ok(objects)
    }
}
