//! In which order do keyed columns stand? FORMAT.md, section 6.13, on the device: sorted by key,
//! then, stably, by segment.

use shoal_engine::EngineError;

use super::source::Source;
use super::worker::Worker;
use crate::launch::Room;

/// Grouped order of a column of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// Row within its segment by position.
    pub(crate) rows: Room<u16>,
    /// A bit for each position that is a head.
    pub(crate) heads: Room<u32>,
}

impl Order {
    /// Of keys, which are not empty; queued when it returns.
    pub(crate) fn new(worker: &mut Worker, keys: &Source) -> Result<Self, EngineError> {
        let (_, mut rows) = worker.sorted(keys)?;
        let length = rows.len();
        let segments = (length as u32).div_ceil(1 << 16);
        if segments > 1 {
            let (from, to) = (worker.arena.room(length)?, worker.arena.room(length)?);
            let sorted = worker.arena.room(length)?;
            worker.kernels.encode_segments(&worker.stream, rows, from)?;
            let bits = u32::BITS - (segments - 1).leading_zeros();
            let pairs = ((from, rows), (to, sorted));
            worker.scratch.sort_rooms(&worker.stream, pairs.0, pairs.1, length as u32, bits)?;
            rows = sorted;
        }
        let order = Self {
            rows: worker.arena.room(length)?,
            heads: worker.arena.room(length.div_ceil(1024) * 32)?,
        };
        let made = (order.rows, order.heads);
        worker.kernels.encode_order(&worker.stream, &keys.task(), rows, made)?;
        Ok(order)
    }

    /// The same values in this order.
    pub(crate) fn of(&self, source: &Source) -> Source {
        Source { order: self.rows, heads: self.heads, ..*source }
    }
}
