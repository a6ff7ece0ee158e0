//! Directory entries: a column's plan and the place of its payload.
//!
//! An entry is 24 bytes, the plan's nodes and the lengths of the sections (FORMAT.md, section 4).
//! It has no offsets, because sections follow each other from the payload's start; they cannot
//! overlap.
//! A chunk is a column or a part of a text column; `chunk_rules.rs` has their rules.

use std::ops::Range;

use crate::block::within;
use crate::chunk_rules::{ChunkRules, Rule};
use crate::columns::Column;
use crate::error::BlockError;
use crate::header::{BlockHeader, truncated};
use crate::limits::{
    BLOCK_ROWS_MAX, Budget, CHUNK_ENTRY_BYTES, CHUNK_SECTIONS_MAX, NODE_BYTES, PLAN_NODES_MAX,
    SECTION_ALIGN_BYTES, SECTION_ENTRY_BYTES,
};
use crate::plan::{Plan, at as node_at};
use crate::text::Part;
use crate::value_type::ValueType;
use crate::wire::array_at;

/// Byte offsets of a chunk entry's fields.
mod at {
    pub(super) const COLUMN: usize = 0;
    pub(super) const VALUE_TYPE: usize = 2;
    pub(super) const NODES: usize = 3;
    pub(super) const PART: usize = 4;
    pub(super) const RESERVED: usize = 5;
    pub(super) const DECODED_BYTES: usize = 8;
    pub(super) const SECTIONS: usize = 16;
    pub(super) const PAYLOAD_CRC: usize = 20;
}

const _: () = assert!(at::PAYLOAD_CRC + 4 == CHUNK_ENTRY_BYTES);

/// Offset of an entry's number of sections.
pub(crate) const SECTIONS_AT: usize = at::SECTIONS;
/// Offset of an entry's checksum.
pub(crate) const PAYLOAD_CRC_AT: usize = at::PAYLOAD_CRC;

/// A column of a block, or a part of a text column: its plan and the places of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Number of the column.
    pub id: u16,
    /// Part of the column.
    pub part: Part,
    /// Type of its values.
    pub value_type: ValueType,
    /// Encodings from sections to values.
    pub plan: Plan,
    /// Bytes of all values of the column, decoded.
    pub decoded_bytes: u64,
    /// CRC32C of the payload, padding included.
    pub payload_crc: u32,
    /// Byte range of all sections with their padding, from the block's start.
    pub payload: Range<usize>,
    /// Byte range of each section without its padding, from the block's start, in pre-order of the
    /// nodes.
    pub sections: Vec<Range<usize>>,
}

impl Chunk {
    /// Number of values. It equals the rows of the block, except in some parts of text.
    pub fn values(&self) -> usize {
        self.plan.root().values as usize
    }

    /// Its column of fixes; `None` for a column of a table, which has only a number.
    pub fn column(&self) -> Option<Column> {
        Column::from_id(self.id)
    }
}

/// Source of the payload checksums in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksums {
    /// The writer of the block stored them; the reader checks them.
    Stored,
    /// The reader computed them when it expanded a compact block; they need no check.
    Computed,
}

/// Reads entries one after another.
pub(crate) struct ChunkReader<'a> {
    /// Bytes of the whole block.
    block: &'a [u8],
    /// End of the directory.
    directory_end: usize,
    /// Rows that the header states.
    rows: u32,
    /// Number of the next chunk.
    index: usize,
    /// Offset of the next entry from the block's start.
    entry: usize,
    /// Offset of the next section from the block's start.
    section: usize,
    /// Bytes of strings that the budget still allows.
    text_bytes: usize,
    checksums: Checksums,
    /// Rules of the columns, and the columns read so far.
    rules: ChunkRules,
}

impl<'a> ChunkReader<'a> {
    /// Starts at the first entry. The directory lies inside the block.
    pub(crate) fn new(
        block: &'a [u8],
        directory: &Range<usize>,
        header: &BlockHeader,
        budget: &Budget,
        checksums: Checksums,
    ) -> Self {
        Self {
            block,
            directory_end: directory.end,
            rows: header.rows,
            index: 0,
            entry: directory.start,
            section: directory.end,
            text_bytes: budget.text_bytes_max,
            checksums,
            rules: ChunkRules::new(header.is_table(), header.has_text()),
        }
    }

    /// An error of this chunk at `offset` from the block's start.
    fn fault<T>(&self, offset: usize, problem: String) -> Result<T, BlockError> {
        Err(BlockError::Chunk { chunk: self.index, offset, problem })
    }

    /// Returns the `needed` bytes of the directory at `offset`; fails if they pass its end.
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

    /// Reads and checks the next entry and the checksum of its payload.
    pub(crate) fn next_chunk(&mut self) -> Result<Chunk, BlockError> {
        let fixed = self.take("chunk entry", self.entry, CHUNK_ENTRY_BYTES)?;
        let id = u16::from_le_bytes(array_at(fixed, at::COLUMN));
        let part = self.ruled(self.rules.part(fixed[at::PART]), self.entry + at::PART)?;
        let has_rows = self.ruled(self.rules.column(id, part), self.entry + at::COLUMN)?;
        let value_type = self.value_type(fixed, id, part)?;
        let (decoded_bytes, values) = self.check_values(fixed, value_type, has_rows)?;
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
        self.check_root(&plan, value_type, values, nodes_start)?;
        let payload_start = self.section;
        let sections = self.sections(lengths_start, sections)?;
        let section_bytes: Vec<u64> = sections.iter().map(|range| range.len() as u64).collect();
        if let Err(fault) = plan.check_places(&section_bytes) {
            return self.fault(nodes_start + fault.offset, fault.problem);
        }
        if let Some((key, node)) = plan.key_column() {
            let offset = nodes_start + node * NODE_BYTES + node_at::PARAMETER_U32;
            self.ruled(self.rules.key(key), offset)?;
            if !has_rows {
                let problem = format!("{} of text have no key: they are not rows", part.name());
                return self.fault(offset, problem);
            }
        }
        let payload = payload_start..self.section;
        let payload_crc = u32::from_le_bytes(array_at(fixed, at::PAYLOAD_CRC));
        self.check_payload(&payload, payload_crc)?;
        for section in &sections {
            self.check_zero(section.end..section.end.next_multiple_of(SECTION_ALIGN_BYTES))?;
        }
        self.entry = lengths_start + sections.len() * SECTION_ENTRY_BYTES;
        let chunk =
            Chunk { id, part, value_type, plan, decoded_bytes, payload_crc, payload, sections };
        self.rules.seen(&chunk);
        self.index += 1;
        Ok(chunk)
    }

    /// Converts a broken rule of the columns to an error of this chunk at `offset`.
    fn ruled<T>(&self, rule: Rule<T>, offset: usize) -> Result<T, BlockError> {
        rule.or_else(|problem| self.fault(offset, problem))
    }

    /// Value type of the entry; fails if the column has another type.
    fn value_type(&self, fixed: &[u8], id: u16, part: Part) -> Result<ValueType, BlockError> {
        let (code, only) = (fixed[at::VALUE_TYPE], self.rules.value_type(id, part));
        match ValueType::from_code(code) {
            Some(value_type) if only.is_none_or(|only| only == value_type) => Ok(value_type),
            _ => {
                let rule = only.map_or("1 to 10".to_owned(), |only| only.code().to_string());
                let problem = format!("column {id} has value type {code}, it must be {rule}");
                self.fault(self.entry + at::VALUE_TYPE, problem)
            }
        }
    }

    /// Checks reserved bytes and decoded length of the entry; returns the decoded length and the
    /// number of values. This is the number of rows, or what the length implies if the chunk is a
    /// part of text without a value for each row.
    fn check_values(
        &mut self,
        fixed: &[u8],
        value_type: ValueType,
        has_rows: bool,
    ) -> Result<(u64, u32), BlockError> {
        let reserved: [u8; 3] = array_at(fixed, at::RESERVED);
        if reserved != [0; 3] {
            let problem = format!("reserved bytes are {reserved:02x?}, they must be 0");
            return self.fault(self.entry + at::RESERVED, problem);
        }
        let decoded_bytes = u64::from_le_bytes(array_at(fixed, at::DECODED_BYTES));
        let width = value_type.width_bytes() as u64;
        if !has_rows {
            return self.check_stored(decoded_bytes, width);
        }
        let expected = u64::from(self.rows) * width;
        if decoded_bytes != expected {
            let problem = format!(
                "decoded length is {decoded_bytes} bytes, {} rows take {expected}",
                self.rows
            );
            return self.fault(self.entry + at::DECODED_BYTES, problem);
        }
        Ok((decoded_bytes, self.rows))
    }

    /// Checks the decoded length of a part of text without a value for each row: at most as many
    /// lengths as rows, and bytes within the budget.
    fn check_stored(&mut self, decoded_bytes: u64, width: u64) -> Result<(u64, u32), BlockError> {
        let values = decoded_bytes / width;
        let is_bytes = width == 1;
        let limit = if is_bytes { BLOCK_ROWS_MAX } else { self.rows };
        if !decoded_bytes.is_multiple_of(width) || values > limit.into() {
            let unit = if is_bytes { "bytes" } else { "rows" };
            let problem = format!(
                "decoded length is {decoded_bytes} bytes, \
                 {width} for each of at most {limit} {unit}"
            );
            return self.fault(self.entry + at::DECODED_BYTES, problem);
        }
        if is_bytes {
            within("text bytes", values, self.text_bytes as u64)?;
            self.text_bytes -= values as usize;
        }
        Ok((decoded_bytes, values as u32))
    }

    /// Checks that the root gives `values` values of type `expected`.
    fn check_root(
        &self,
        plan: &Plan,
        expected: ValueType,
        values: u32,
        offset: usize,
    ) -> Result<(), BlockError> {
        let root = plan.root();
        if root.value_type != expected {
            let (found, expected) = (root.value_type.code(), expected.code());
            let problem = format!("plan gives value type {found}, the column has {expected}");
            return self.fault(offset + node_at::VALUE_TYPE, problem);
        }
        if root.values != values {
            let problem = format!("plan gives {} values for {values} rows", root.values);
            return self.fault(offset + node_at::VALUES, problem);
        }
        Ok(())
    }

    /// Reads `count` section lengths at `lengths`; returns the byte ranges of the sections and
    /// advances to the end of the last.
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

    /// Checks the payload's checksum.
    fn check_payload(&self, payload: &Range<usize>, stored: u32) -> Result<(), BlockError> {
        if self.checksums == Checksums::Computed {
            return Ok(());
        }
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

    /// Checks after the last chunk that no mandatory column is missing and that directory and
    /// block end here.
    pub(crate) fn finish(self) -> Result<(), BlockError> {
        self.ruled(self.rules.end(), self.entry)?;
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
