//! Limits of one query: tiles read, rows in memory, and cancellation.
//!
//! A page of objects, removals or returns counts as a tile. Clones share the count of tiles, so
//! that the parts of a query have one budget. Tiles and cancellation are checked before each page
//! and each span of at most 16 tiles, whose decoding takes about a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::HistoryError;

/// The budget of a query.
#[derive(Clone, Debug)]
pub struct QueryBudget {
    tiles_max: u64,
    tiles: Arc<AtomicU64>,
    rows_max: usize,
    is_cancelled: Arc<AtomicBool>,
}

impl QueryBudget {
    /// At most `tiles_max` tiles are read, and about `rows_max` rows (at least one) are held in
    /// memory at a time. The query ends soon after `is_cancelled` becomes true.
    #[must_use]
    pub fn new(tiles_max: u64, rows_max: usize, is_cancelled: Arc<AtomicBool>) -> Self {
        Self { tiles_max, tiles: Arc::default(), rows_max: rows_max.max(1), is_cancelled }
    }

    /// A budget without limits, for tests and tools.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(u64::MAX, usize::MAX / 4, Arc::default())
    }

    /// Tiles that were read so far.
    #[must_use]
    pub fn tiles(&self) -> u64 {
        self.tiles.load(Ordering::Relaxed)
    }

    /// Rows that the query may hold.
    pub(crate) fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// A budget with the same limits, but without a limit of tiles and with its own count.
    pub(crate) fn uncounted(&self) -> Self {
        Self { tiles_max: u64::MAX, tiles: Arc::default(), ..self.clone() }
    }

    /// Fails if the query was cancelled.
    pub(crate) fn check(&self) -> Result<(), HistoryError> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            Err(HistoryError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Takes `count` tiles before they are read. Fails if the query was cancelled or exceeds its
    /// limit of tiles.
    pub(crate) fn take_tiles(&self, count: usize) -> Result<(), HistoryError> {
        self.check()?;
        let before = self.tiles.fetch_add(count as u64, Ordering::Relaxed);
        if before.saturating_add(count as u64) > self.tiles_max {
            return Err(HistoryError::Budget { unit: "tiles", limit: self.tiles_max });
        }
        Ok(())
    }

    /// Fails if `count`, the number of elements that the query holds at once, exceeds the rows of
    /// the budget.
    pub(crate) fn hold(&self, unit: &'static str, count: usize) -> Result<(), HistoryError> {
        let limit = self.rows_max as u64;
        if count > self.rows_max { Err(HistoryError::Budget { unit, limit }) } else { Ok(()) }
    }
}
