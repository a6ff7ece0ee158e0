//! Grouped order of keyed columns on the device (FORMAT.md, section 6.13).
//!
//! If the keys of a segment have a small span, one block of threads sorts them by counting. For
//! other keys, and on devices with too little shared memory per block, the sort kernels of decoding
//! find the order.

use shoal_codec::tile::SEGMENT_ROWS;
use shoal_engine::EngineError;
use shoal_engine::layout::CodecRange;

use super::source::Source;
use super::worker::Worker;
use crate::launch::{DeviceSlice, Ordering, TILE_VALUES};

/// Grouped order of a column of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// The position of each row within its segment.
    places: DeviceSlice<u16>,
    /// Not 0 for segments whose order was not found.
    failed: DeviceSlice<u64>,
    /// A bit per position, set if the position is a head.
    heads: DeviceSlice<u32>,
}

impl Order {
    /// The order of a column of keys, which is not empty. Waits until it is known whether one block
    /// per segment found the order; other work is queued.
    pub(crate) fn new(worker: &mut Worker, keys: &Source) -> Result<Self, EngineError> {
        if worker.kernels.hold_segments() {
            let order = Self::by_segments(worker, keys)?;
            if worker.read(order.failed)?.iter().all(|failed| *failed == 0) {
                return Ok(order);
            }
        }
        Self::by_parts(worker, keys)
    }

    /// As [`Order::new`]; also returns the values of `column` in this order.
    pub(crate) fn with(
        worker: &mut Worker,
        keys: &Source,
        column: &Source,
    ) -> Result<(Self, Source), EngineError> {
        if worker.kernels.hold_segments() {
            let order = Self::by_segments(worker, keys)?;
            worker.begin_read(order.failed)?;
            let grouped = order.of(worker, column)?;
            if worker.finish_read()?.iter().all(|failed| *failed == 0) {
                return Ok((order, grouped));
            }
        }
        let order = Self::by_parts(worker, keys)?;
        let grouped = order.of(worker, column)?;
        Ok((order, grouped))
    }

    /// Queues the reordering of a column; returns the column whose values are in this order.
    pub(crate) fn of(&self, worker: &mut Worker, column: &Source) -> Result<Source, EngineError> {
        let width = column.bits as usize / 8;
        let whole = (column.rows as usize).next_multiple_of(TILE_VALUES);
        let values = worker.arena.allocate(whole * width)?;
        worker.kernels.encode_group(
            &worker.stream,
            &column.task(),
            self.places,
            self.failed,
            values,
        )?;
        Ok(Source { values, heads: self.heads, ..*column })
    }

    /// Orders with one block of threads per segment; sets `failed` if the span of a segment's keys
    /// is too large.
    fn by_segments(worker: &mut Worker, keys: &Source) -> Result<Self, EngineError> {
        assert!(keys.counts.is_none() && keys.heads.address() == 0, "keys are in row order");
        let whole = (keys.rows as usize).next_multiple_of(TILE_VALUES);
        let (places, heads) = (worker.arena.allocate(whole)?, worker.arena.allocate(whole / 32)?);
        let failed = worker.arena.allocate((keys.rows as usize).div_ceil(SEGMENT_ROWS))?;
        worker.kernels.encode_order(&worker.stream, &keys.task(), places, heads, failed)?;
        Ok(Self { places, failed, heads })
    }

    /// Orders with several blocks of threads per segment; accepts any keys.
    fn by_parts(worker: &mut Worker, keys: &Source) -> Result<Self, EngineError> {
        assert!(keys.counts.is_none() && keys.heads.address() == 0, "keys are in row order");
        let rows = keys.rows as usize;
        let whole = rows.next_multiple_of(TILE_VALUES);
        let digits = Ordering::digits(rows);
        let ordering = Ordering {
            keys: keys.values,
            key_bytes: keys.bits / 8,
            rows: keys.rows,
            order: worker.arena.allocate(whole)?,
            places: worker.arena.allocate(whole)?,
            work: worker.arena.allocate(whole)?,
            other: worker.arena.allocate(whole)?,
            counts: worker.arena.allocate(digits * (keys.bits / 8) as usize)?,
            published: worker.arena.allocate(digits)?,
            ranges: worker.arena.allocate(rows.div_ceil(SEGMENT_ROWS))?,
        };
        let record = worker.upload(&[ordering.record()])?;
        worker.kernels.range_keys(&worker.stream, &ordering, record)?;
        let mut ranges = vec![CodecRange::default(); ordering.ranges.len()];
        ordering.ranges.download(&worker.stream, &mut ranges)?;
        worker.wait()?;
        let bits = ranges.iter().map(|range| range.bits as u32).max().unwrap_or(0);
        let passes = bits.div_ceil(8).max(1);
        worker.kernels.order_keys(&worker.stream, &ordering, record, passes)?;
        let heads = worker.arena.allocate(whole / 32)?;
        worker.kernels.encode_heads(&worker.stream, &keys.task(), &ordering, heads)?;
        let failed = worker.arena.allocate(ordering.ranges.len())?;
        failed.fill(&worker.stream, 0)?;
        Ok(Self { places: ordering.places, failed, heads })
    }
}
