//! What one query may take: tiles, rows in memory; and whether it is cancelled.
//!
//! A page of objects, removals or returns counts as a tile. Clones share the number of tiles, so
//! that the parts of a query have one budget. Both are checked before each page and each span of at
//! most 16 tiles, which takes about a millisecond.

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

    /// No bound, for tests and tools.
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

    /// The same without a bound on tiles.
    pub(crate) fn uncounted(&self) -> Self {
        Self { tiles_max: u64::MAX, tiles: Arc::default(), ..self.clone() }
    }

    /// Whether the query goes on.
    pub(crate) fn check(&self) -> Result<(), HistoryError> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            Err(HistoryError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Before some tiles are read.
    pub(crate) fn take_tiles(&self, count: usize) -> Result<(), HistoryError> {
        self.check()?;
        let before = self.tiles.fetch_add(count as u64, Ordering::Relaxed);
        if before.saturating_add(count as u64) > self.tiles_max {
            return Err(HistoryError::Budget { unit: "tiles", limit: self.tiles_max });
        }
        Ok(())
    }

    /// Checks a number of elements that the answer needs at once.
    pub(crate) fn hold(&self, unit: &'static str, count: usize) -> Result<(), HistoryError> {
        let limit = self.rows_max as u64;
        if count > self.rows_max { Err(HistoryError::Budget { unit, limit }) } else { Ok(()) }
    }
}
