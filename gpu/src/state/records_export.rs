//! An export of the records while cycles run: a copy on the device, which is downloaded slice by
//! slice on a separate stream.
//!
//! One slice is converted to rows while the next is copied to pinned memory. Cycles wait only for
//! the copy on the device at the start.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use shoal_codec::FixColumns;
use shoal_engine::EngineError;
use shoal_engine::layout::AnswerRecord;

use crate::launch::{DeviceBuffer, Memory, PinnedBuffer, fault};
use crate::state::record::row;

/// Slots of one copy to the host: 3 MiB, some 60 us over the bus.
const SLICE_SLOTS: usize = 1 << 16;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct RecordsExport {
    records: DeviceBuffer<AnswerRecord>,
    stream: Arc<CudaStream>,
    slots: usize,
    /// Slots whose copies to the host are queued.
    queued: usize,
    slices: [Slice; 2],
    /// The slice that is converted.
    current: usize,
    /// Number of rows that were not returned yet.
    rows: u64,
}

/// Records on their way to the host.
#[derive(Debug)]
struct Slice {
    records: PinnedBuffer<AnswerRecord>,
    /// Index of the next record, and number of records.
    next: usize,
    length: usize,
}

impl RecordsExport {
    /// Exports `records`, which has the records of `slots` slots, of which `rows` have an object.
    pub(crate) fn new(
        memory: &Memory,
        stream: Arc<CudaStream>,
        records: DeviceBuffer<AnswerRecord>,
        slots: usize,
        rows: u64,
    ) -> Result<Self, EngineError> {
        let slice = || {
            let records = PinnedBuffer::new(memory, SLICE_SLOTS.min(slots))?;
            Ok(Slice { records, next: 0, length: 0 })
        };
        let slices = [slice()?, slice()?];
        let mut export = Self { records, stream, slots, queued: 0, slices, current: 1, rows };
        export.queue(0)?;
        Ok(export)
    }

    /// The next rows, at most `rows_max`; `None` at the end.
    pub(crate) fn next(&mut self, rows_max: usize) -> Result<Option<FixColumns>, EngineError> {
        let rows_max = self.rows.min(rows_max.max(1) as u64) as usize;
        let mut columns = FixColumns::with_capacity(rows_max);
        while columns.len() < rows_max {
            if self.slices[self.current].is_used_up() {
                self.advance()?;
            }
            self.slices[self.current].convert(&mut columns, rows_max);
        }
        self.rows -= rows_max as u64;
        Ok((rows_max > 0).then_some(columns))
    }

    /// Waits for the other slice, and queues the copy of the one after it.
    fn advance(&mut self) -> Result<(), EngineError> {
        // A copy that failed must not be read.
        self.stream.synchronize().map_err(fault)?;
        self.queue(self.current)?;
        self.current = 1 - self.current;
        assert!(!self.slices[self.current].is_used_up(), "{} rows have no slot", self.rows);
        Ok(())
    }

    /// Queues the copy of the next slots to a slice that is used up.
    fn queue(&mut self, number: usize) -> Result<(), EngineError> {
        let slice = &mut self.slices[number];
        let length = SLICE_SLOTS.min(self.slots - self.queued);
        (slice.next, slice.length) = (0, length);
        self.records.download(&self.stream, self.queued, slice.records.first(length))?;
        self.queued += length;
        Ok(())
    }
}

impl Slice {
    fn is_used_up(&self) -> bool {
        self.next == self.length
    }

    /// Appends rows to `columns`, up to `rows_max` in all.
    fn convert(&mut self, columns: &mut FixColumns, rows_max: usize) {
        for record in &self.records.as_slice()[self.next..self.length] {
            if columns.len() == rows_max {
                return;
            }
            self.next += 1;
            if record.found != 0 {
                columns.push_row(row(record));
            }
        }
    }
}
