//! How does a block come together whose columns were encoded elsewhere, on a device for instance?
//!
//! The frame says what the header will hold and where the payload goes; who fills it writes the
//! bytes that `encode` would have written. Checksums are made here, over what was filled in.

use crate::assemble::{entry_bytes, write_entry};
use crate::column::{Column, ColumnSet, ValueType};
use crate::columns::FixColumns;
use crate::encode::{ColumnOutcome, header_of, time_range, within_limits};
use crate::encoding::Encoding;
use crate::error::BlockError;
use crate::limits::{HEADER_BYTES, SECTION_ALIGN_BYTES};
use crate::plan::{Plan, PlanNode};
use crate::space::SpaceTag;
use crate::tree_encode::NotApplicable;

/// Plan and lengths of an encoded column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkShape {
    /// Its nodes.
    pub plan: Plan,
    /// Bytes of each section, without padding.
    pub section_bytes: Vec<u64>,
}

impl ChunkShape {
    /// Of nodes in pre-order and their sections.
    ///
    /// # Errors
    /// What a reader would refuse.
    pub fn new(nodes: Vec<PlanNode>, section_bytes: Vec<u64>) -> Result<Self, NotApplicable> {
        let plan = Plan::built(nodes);
        match plan.check(&section_bytes) {
            Ok(()) => Ok(Self { plan, section_bytes }),
            Err(fault) => NotApplicable::because(fault.problem),
        }
    }

    /// Of plan `raw`.
    pub fn raw(value_type: ValueType, rows: u32) -> Self {
        let section_bytes = vec![u64::from(rows) * value_type.width_bytes() as u64];
        Self { plan: Plan::raw(value_type, rows), section_bytes }
    }

    /// Bytes of its directory entry and its padded sections: what decides between a tree and raw.
    pub fn bytes(&self) -> usize {
        self.entry_bytes() + self.payload_bytes()
    }

    /// Bytes of its padded sections.
    pub fn payload_bytes(&self) -> usize {
        let padded = |bytes: &u64| (*bytes as usize).next_multiple_of(SECTION_ALIGN_BYTES);
        self.section_bytes.iter().map(padded).sum()
    }

    /// Where each section begins in the chunk's payload.
    pub fn section_places(&self) -> Vec<usize> {
        let mut end = 0;
        let place = |bytes: &u64| {
            let start = end;
            end += (*bytes as usize).next_multiple_of(SECTION_ALIGN_BYTES);
            start
        };
        self.section_bytes.iter().map(place).collect()
    }

    /// True if its plan is another than `raw`.
    pub fn is_planned(&self) -> bool {
        self.plan.root().encoding != Encoding::Raw
    }

    /// Bytes of its directory entry.
    fn entry_bytes(&self) -> usize {
        entry_bytes(&self.plan, self.section_bytes.len())
    }
}

/// A batch whose block is about to be made.
#[derive(Debug)]
pub struct Frame<'a> {
    columns: &'a FixColumns,
    set: ColumnSet,
    times: (i64, u32),
}

impl<'a> Frame<'a> {
    /// Checks what `encode_planned` checks.
    ///
    /// # Errors
    /// As there.
    pub fn new(columns: &'a FixColumns, space: &SpaceTag) -> Result<Self, BlockError> {
        let set = within_limits(columns, space)?;
        Ok(Self { columns, set, times: time_range(&columns.time_ms)? })
    }

    /// Columns that the block will have, in its order.
    pub fn set(&self) -> ColumnSet {
        self.set
    }

    /// What times are counted from.
    pub fn base_time_ms(&self) -> i64 {
        self.times.0
    }

    /// Makes `out` as long as the block, zero, and tells where its payload begins. Chunks follow
    /// each other there, each with its padded sections.
    pub fn open(&self, shapes: &[ChunkShape], out: &mut Vec<u8>) -> usize {
        assert_eq!(shapes.len(), self.set.len(), "every column has a shape");
        let payload = HEADER_BYTES + directory_bytes(shapes);
        let bytes: usize = shapes.iter().map(ChunkShape::payload_bytes).sum();
        out.clear();
        out.resize(payload + bytes, 0);
        payload
    }

    /// Writes header and directory around the payload, which has been filled in.
    pub fn seal(
        &self,
        shapes: &[ChunkShape],
        space: &SpaceTag,
        sequence: u64,
        out: &mut [u8],
    ) -> Vec<ColumnOutcome> {
        let directory_bytes = directory_bytes(shapes);
        let mut directory = Vec::with_capacity(directory_bytes);
        let mut start = HEADER_BYTES + directory_bytes;
        for (column, shape) in self.set.iter().zip(shapes) {
            let end = start + shape.payload_bytes();
            let payload_crc = crc32c::crc32c(&out[start..end]);
            let (plan, bytes) = (&shape.plan, &shape.section_bytes);
            write_entry(column.id(), plan, bytes, payload_crc, &mut directory);
            start = end;
        }
        assert_eq!(start, out.len(), "the block is as long as `open` made it");
        directory.resize(directory_bytes, 0);
        let is_raw = shapes.iter().all(|shape| !shape.is_planned());
        let mut header = header_of(self.columns, self.times, is_raw, space, sequence);
        header.directory_bytes = u32::try_from(directory_bytes).expect("within its limit");
        header.directory_crc = crc32c::crc32c(&directory);
        header.block_bytes = out.len() as u64;
        out[HEADER_BYTES..HEADER_BYTES + directory_bytes].copy_from_slice(&directory);
        out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let rows = self.columns.len();
        let outcome = |(column, shape): (Column, &ChunkShape)| ColumnOutcome {
            column,
            is_planned: shape.is_planned(),
            raw_bytes: rows * column.value_type().width_bytes(),
            encoded_bytes: shape.bytes(),
        };
        self.set.iter().zip(shapes).map(outcome).collect()
    }
}

/// Bytes of a directory with its padding.
fn directory_bytes(shapes: &[ChunkShape]) -> usize {
    let entries: usize = shapes.iter().map(ChunkShape::entry_bytes).sum();
    entries.next_multiple_of(SECTION_ALIGN_BYTES)
}
