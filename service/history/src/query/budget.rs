//! What one query may take: tiles, rows in memory; and whether it is cancelled.
//!
//! Both are checked before each span of at most 16 tiles, which takes about a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::HistoryError;

/// The budget of a query.
#[derive(Clone, Debug)]
pub struct QueryBudget {
    tiles_max: u64,
    tiles: u64,
    rows_max: usize,
    is_cancelled: Arc<AtomicBool>,
}

impl QueryBudget {
    /// At most `tiles_max` tiles are decoded, and about `rows_max` rows (at least one) are held in
    /// memory at a time. The query ends soon after `is_cancelled` becomes true.
    #[must_use]
    pub fn new(tiles_max: u64, rows_max: usize, is_cancelled: Arc<AtomicBool>) -> Self {
        Self { tiles_max, tiles: 0, rows_max: rows_max.max(1), is_cancelled }
    }

    /// No bound, for tests and tools.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(u64::MAX, usize::MAX / 4, Arc::default())
    }

    /// Tiles that were decoded so far.
    #[must_use]
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Rows that the query may hold.
    pub(crate) fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// Before a tile is decoded.
    pub(crate) fn tile(&mut self) -> Result<(), HistoryError> {
        self.take_tiles(1)
    }

    /// Before some tiles are decoded.
    pub(crate) fn take_tiles(&mut self, count: usize) -> Result<(), HistoryError> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(HistoryError::Cancelled);
        }
        if self.tiles_max - self.tiles < count as u64 {
            return Err(HistoryError::Budget { unit: "tiles", limit: self.tiles_max });
        }
        self.tiles += count as u64;
        Ok(())
    }

    /// Checks a number of elements that the answer needs at once.
    pub(crate) fn hold(&self, unit: &'static str, count: usize) -> Result<(), HistoryError> {
        let limit = self.rows_max as u64;
        if count > self.rows_max { Err(HistoryError::Budget { unit, limit }) } else { Ok(()) }
    }
}
