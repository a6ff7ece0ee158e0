//! What does the directory say of one column, and where in the block does its payload lie?
//!
//! A chunk entry is 24 bytes, the plan's nodes, the lengths of the sections (FORMAT.md,
//! section 4). There are no offsets in it: sections follow each other from the payload's start,
//! so they tile it by construction and cannot overlap. It decodes no value.

use std::ops::Range;

use crate::column::Column;
use crate::error::BlockError;
use crate::header::truncated;
use crate::limits::{
    CHUNK_ENTRY_BYTES, CHUNK_SECTIONS_MAX, NODE_BYTES, PLAN_NODES_MAX, SECTION_ALIGN_BYTES,
    SECTION_ENTRY_BYTES,
};
use crate::plan::{Plan, at as node_at};
use crate::wire::array_at;

/// Byte offsets of a chunk entry's fields.
mod at {
    pub(super) const COLUMN: usize = 0;
    pub(super) const VALUE_TYPE: usize = 2;
    pub(super) const NODES: usize = 3;
    pub(super) const RESERVED: usize = 4;
    pub(super) const DECODED_BYTES: usize = 8;
    pub(super) const SECTIONS: usize = 16;
    pub(super) const PAYLOAD_CRC: usize = 20;
}

const _: () = assert!(at::PAYLOAD_CRC + 4 == CHUNK_ENTRY_BYTES);

/// One column of a block: what it is, how it is encoded, where its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Which column.
    pub column: Column,
    /// How sections become values.
    pub plan: Plan,
    /// Bytes of all values of the column, decoded.
    pub decoded_bytes: u64,
    /// CRC32C of the payload, padding included.
    pub payload_crc: u32,
    /// All sections and their padding, bytes from the block's start.
    pub payload: Range<usize>,
    /// Each section without its padding, bytes from the block's start, in pre-order of the nodes.
    pub sections: Vec<Range<usize>>,
}

/// Reads entries one after another; holds where the next one and its payload begin.
pub(crate) struct ChunkReader<'a> {
    /// The whole block.
    block: &'a [u8],
    /// End of the directory.
    directory_end: usize,
    /// Rows that the header states.
    rows: u32,
    /// Number of the next chunk.
    index: usize,
    /// Where the next entry begins.
    entry: usize,
    /// Where the next section begins.
    section: usize,
    /// Column of the chunk before.
    previous: Option<Column>,
}

impl<'a> ChunkReader<'a> {
    /// Starts at the first entry. The directory lies inside the block.
    pub(crate) fn new(block: &'a [u8], directory: &Range<usize>, rows: u32) -> Self {
        Self {
            block,
            directory_end: directory.end,
            rows,
            index: 0,
            entry: directory.start,
            section: directory.end,
            previous: None,
        }
    }

    /// An error of this chunk at `offset` from the block's start.
    fn fault<T>(&self, offset: usize, problem: String) -> Result<T, BlockError> {
        Err(BlockError::Chunk { chunk: self.index, offset, problem })
    }

    /// Takes `needed` bytes of the directory at `offset`.
    fn take(
        &self,
        part: &'static str,
        offset: usize,
        needed: usize,
    ) -> Result<&'a [u8], BlockError> {
        let directory = &self.block[..self.directory_end];
        match directory[offset..].get(..needed) {
            Some(bytes) => Ok(bytes),
            None => Err(truncated(part, offset, needed as u64, directory)),
        }
    }

    /// Reads and checks the next entry; its payload's bytes are there, its checksum holds.
    pub(crate) fn next_chunk(&mut self) -> Result<Chunk, BlockError> {
        let fixed = self.take("chunk entry", self.entry, CHUNK_ENTRY_BYTES)?;
        let column = self.column(fixed)?;
        let decoded_bytes = self.check_values(fixed, column)?;
        let nodes = usize::from(fixed[at::NODES]);
        let sections = u32::from_le_bytes(array_at(fixed, at::SECTIONS)) as usize;
        if !(1..=PLAN_NODES_MAX).contains(&nodes) {
            let problem = format!("plan has {nodes} nodes, it has 1 to {PLAN_NODES_MAX}");
            return self.fault(self.entry + at::NODES, problem);
        }
        if sections > CHUNK_SECTIONS_MAX {
            let problem =
                format!("chunk has {sections} sections, the limit is {CHUNK_SECTIONS_MAX}");
            return self.fault(self.entry + at::SECTIONS, problem);
        }
        let nodes_start = self.entry + CHUNK_ENTRY_BYTES;
        let lengths_start = nodes_start + nodes * NODE_BYTES;
        let node_bytes = self.take("plan", nodes_start, nodes * NODE_BYTES)?;
        let plan = match Plan::parse(node_bytes, sections) {
            Ok(plan) => plan,
            Err(fault) => return self.fault(nodes_start + fault.offset, fault.problem),
        };
        self.check_root(&plan, column, nodes_start)?;
        let payload_start = self.section;
        let sections = self.sections(lengths_start, sections)?;
        let section_bytes: Vec<u64> = sections.iter().map(|range| range.len() as u64).collect();
        if let Err(fault) = plan.check_places(&section_bytes) {
            return self.fault(nodes_start + fault.offset, fault.problem);
        }
        self.check_key(&plan, nodes_start)?;
        let payload = payload_start..self.section;
        let payload_crc = u32::from_le_bytes(array_at(fixed, at::PAYLOAD_CRC));
        self.check_payload(&payload, payload_crc)?;
        for section in &sections {
            self.check_zero(section.end..section.end.next_multiple_of(SECTION_ALIGN_BYTES))?;
        }
        self.entry = lengths_start + sections.len() * SECTION_ENTRY_BYTES;
        self.previous = Some(column);
        self.index += 1;
        Ok(Chunk { column, plan, decoded_bytes, payload_crc, payload, sections })
    }

    /// The entry's column, in its place.
    fn column(&self, fixed: &[u8]) -> Result<Column, BlockError> {
        let id = u16::from_le_bytes(array_at(fixed, at::COLUMN));
        let offset = self.entry + at::COLUMN;
        let Some(column) = Column::from_id(id) else {
            return self.fault(offset, format!("column {id} is not known, known are 1 to 8"));
        };
        match self.previous {
            Some(previous) if previous == column => {
                self.fault(offset, format!("column {id} ({}) stands here twice", column.name()))
            }
            Some(previous) if previous > column => {
                let before = previous.id();
                let problem = format!("column {id} follows column {before}, order is ascending");
                self.fault(offset, problem)
            }
            _ => self.check_missing(Some(column), offset).map(|()| column),
        }
    }

    /// Refuses a mandatory column that should have come between the last one and `next`.
    fn check_missing(&self, next: Option<Column>, offset: usize) -> Result<(), BlockError> {
        let missing = Column::ALL.into_iter().find(|&column| {
            column.is_mandatory()
                && self.previous.is_none_or(|previous| column > previous)
                && next.is_none_or(|next| column < next)
        });
        match missing {
            None => Ok(()),
            Some(column) => {
                let (id, name) = (column.id(), column.name());
                self.fault(offset, format!("mandatory column {id} ({name}) is missing"))
            }
        }
    }

    /// Type, reserved bytes and decoded length of the entry; gives the decoded length.
    fn check_values(&self, fixed: &[u8], column: Column) -> Result<u64, BlockError> {
        let value_type = column.value_type();
        let code = fixed[at::VALUE_TYPE];
        if code != value_type.code() {
            let (name, expected) = (column.name(), value_type.code());
            let problem = format!("column {name} has value type {code}, it must be {expected}");
            return self.fault(self.entry + at::VALUE_TYPE, problem);
        }
        let reserved = u32::from_le_bytes(array_at(fixed, at::RESERVED));
        if reserved != 0 {
            let problem = format!("reserved field is {reserved:#010x}, it must be 0");
            return self.fault(self.entry + at::RESERVED, problem);
        }
        let decoded_bytes = u64::from_le_bytes(array_at(fixed, at::DECODED_BYTES));
        let expected = u64::from(self.rows) * value_type.width_bytes() as u64;
        if decoded_bytes != expected {
            let problem = format!(
                "decoded length is {decoded_bytes} bytes, {} rows take {expected}",
                self.rows
            );
            return self.fault(self.entry + at::DECODED_BYTES, problem);
        }
        Ok(decoded_bytes)
    }

    /// The root gives one value of the column's type for each row.
    fn check_root(&self, plan: &Plan, column: Column, offset: usize) -> Result<(), BlockError> {
        let root = plan.root();
        let expected = column.value_type();
        if root.value_type != expected {
            let (found, expected) = (root.value_type.code(), expected.code());
            let problem = format!("plan gives value type {found}, the column has {expected}");
            return self.fault(offset + node_at::VALUE_TYPE, problem);
        }
        if root.values != self.rows {
            let problem = format!("plan gives {} values for {} rows", root.values, self.rows);
            return self.fault(offset + node_at::VALUES, problem);
        }
        Ok(())
    }

    /// Lays the sections out from the current position on and moves it behind them.
    fn sections(&mut self, lengths: usize, count: usize) -> Result<Vec<Range<usize>>, BlockError> {
        let bytes = self.take("section lengths", lengths, count * SECTION_ENTRY_BYTES)?;
        let mut sections = Vec::with_capacity(count);
        for (index, length) in bytes.as_chunks::<SECTION_ENTRY_BYTES>().0.iter().enumerate() {
            let length = u64::from_le_bytes(*length);
            let left = self.block.len() - self.section;
            // The block's length is a multiple of the alignment, so the padding fits too.
            if length > left as u64 {
                let problem = format!(
                    "section {index} has {length} bytes, the block has {left} from byte {}",
                    self.section
                );
                return self.fault(lengths + index * SECTION_ENTRY_BYTES, problem);
            }
            let end = self.section + length as usize;
            sections.push(self.section..end);
            self.section = end.next_multiple_of(SECTION_ALIGN_BYTES);
        }
        Ok(sections)
    }

    /// A keyed plan names the object column, which is not keyed itself.
    fn check_key(&mut self, plan: &Plan, offset: usize) -> Result<(), BlockError> {
        let Some((key, node)) = plan.key_column() else {
            return Ok(());
        };
        let object = Column::Object.id();
        if key == object && self.index > 0 {
            return Ok(());
        }
        let offset = offset + node * NODE_BYTES + node_at::PARAMETER_U32;
        self.fault(offset, format!("keyed plan names key column {key}, not {object}, or is it"))
    }

    /// The payload's checksum holds.
    fn check_payload(&self, payload: &Range<usize>, stored: u32) -> Result<(), BlockError> {
        let computed = crc32c::crc32c(&self.block[payload.clone()]);
        if stored != computed {
            return Err(BlockError::Checksum {
                part: format!("payload of chunk {}", self.index),
                offset: payload.start,
                stored,
                computed,
            });
        }
        Ok(())
    }

    /// After the last chunk: nothing mandatory is missing, directory and block end here.
    pub(crate) fn finish(self) -> Result<(), BlockError> {
        self.check_missing(None, self.entry)?;
        let end = self.entry.next_multiple_of(SECTION_ALIGN_BYTES);
        if end != self.directory_end {
            let problem = format!(
                "directory entries end at byte {}, the directory must end at {end}, not {}",
                self.entry, self.directory_end
            );
            return self.fault(self.entry, problem);
        }
        self.check_zero(self.entry..end)?;
        if self.section != self.block.len() {
            let (end, length) = (self.section, self.block.len());
            let problem = format!("sections end at byte {end}, the block has {length}");
            return self.fault(end, problem);
        }
        Ok(())
    }

    /// Refuses padding that is not zero.
    fn check_zero(&self, padding: Range<usize>) -> Result<(), BlockError> {
        let start = padding.start;
        match self.block[padding].iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(index) => {
                let offset = start + index;
                let problem = format!("padding is {:#04x}, it must be 0", self.block[offset]);
                self.fault(offset, problem)
            }
        }
    }
}
