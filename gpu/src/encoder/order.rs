//! In which order do keyed columns stand? FORMAT.md, section 6.13, on the device.

use shoal_codec::tile::SEGMENT_ROWS;
use shoal_engine::EngineError;
use shoal_engine::layout::CodecRange;

use super::source::Source;
use super::worker::Worker;
use crate::launch::{Ordering, Room, TILE_VALUES};

/// Grouped order of a column of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// Row within its segment by position.
    pub(crate) rows: Room<u16>,
    /// A bit for each position that is a head.
    pub(crate) heads: Room<u32>,
}

impl Order {
    /// Of keys, which are a column and not empty; queued when it returns.
    pub(crate) fn new(worker: &mut Worker, keys: &Source) -> Result<Self, EngineError> {
        assert!(keys.counts.is_none() && keys.order.address() == 0, "rows lie in their order");
        let rows = keys.rows as usize;
        let whole = rows.next_multiple_of(TILE_VALUES);
        let digits = Ordering::digits(rows);
        let ordering = Ordering {
            keys: keys.values,
            key_bytes: keys.bits / 8,
            rows: keys.rows,
            order: worker.arena.room(whole)?,
            list: worker.arena.room(whole)?,
            work: worker.arena.room(whole)?,
            other: worker.arena.room(whole)?,
            counts: worker.arena.room(digits * (keys.bits / 8) as usize)?,
            told: worker.arena.room(digits)?,
            ranges: worker.arena.room(rows.div_ceil(SEGMENT_ROWS))?,
        };
        let record = worker.there(&[ordering.record()])?;
        worker.kernels.range_keys(&worker.stream, &ordering, record)?;
        let mut ranges = vec![CodecRange::default(); ordering.ranges.len()];
        ordering.ranges.download(&worker.stream, &mut ranges)?;
        worker.wait()?;
        let bits = ranges.iter().map(|range| range.bits as u32).max().unwrap_or(0);
        let passes = bits.div_ceil(8).max(1);
        worker.kernels.order_keys(&worker.stream, &ordering, record, passes)?;
        let heads = worker.arena.room(whole / 32)?;
        worker.kernels.encode_heads(&worker.stream, (&keys.task(), &ordering), heads)?;
        Ok(Self { rows: ordering.list, heads })
    }

    /// The same values in this order.
    pub(crate) fn of(&self, source: &Source) -> Source {
        Source { order: self.rows, heads: self.heads, ..*source }
    }
}
