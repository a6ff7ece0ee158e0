//! Assembly of encoded columns into a block: directory, sections, padding, checksums (FORMAT.md,
//! sections 1 to 4).
//!
//! `assemble` writes columns that this package encoded. For columns encoded elsewhere, for instance
//! on a device, `BlockFrame::open` reserves the payload, the caller fills it in, and
//! `BlockFrame::seal` writes header and directory.

use crate::columns::{Column, ColumnSet, FixColumns};
use crate::compact;
use crate::encode::{ColumnOutcome, header_of, time_range, within_limits};
use crate::encoding::Encoding;
use crate::error::BlockError;
use crate::header::{BlockHeader, FLAG_TEXT, VERSION_MINOR_TEXT};
use crate::limits::{
    CHUNK_ENTRY_BYTES, HEADER_BYTES, NODE_BYTES, SECTION_ALIGN_BYTES, SECTION_ENTRY_BYTES,
};
use crate::plan::{Plan, PlanNode};
use crate::space::SpaceTag;
use crate::text::Part;
use crate::tree_encode::{EncodedTree, NotApplicable};
use crate::value_type::ValueType;

/// Plan and lengths of an encoded column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkShape {
    /// Its nodes.
    pub plan: Plan,
    /// Bytes of each section, without padding.
    pub section_bytes: Vec<u64>,
}

impl ChunkShape {
    /// Creates the shape of a chunk from nodes in pre-order and the lengths of their sections.
    ///
    /// # Errors
    /// If readers would refuse the plan.
    pub fn new(nodes: Vec<PlanNode>, section_bytes: Vec<u64>) -> Result<Self, NotApplicable> {
        let plan = Plan::built(nodes);
        match plan.check(&section_bytes) {
            Ok(()) => Ok(Self { plan, section_bytes }),
            Err(fault) => NotApplicable::because(fault.problem),
        }
    }

    /// Shape of a chunk with plan `raw`.
    pub fn raw(value_type: ValueType, rows: u32) -> Self {
        let section_bytes = vec![u64::from(rows) * value_type.width_bytes() as u64];
        Self { plan: Plan::raw(value_type, rows), section_bytes }
    }

    /// Bytes of its directory entry and its padded sections; the encoder compares them to choose
    /// between a tree and raw.
    pub fn bytes(&self) -> usize {
        self.entry_bytes() + self.payload_bytes()
    }

    /// Estimated bytes in a compact block.
    pub(crate) fn compact_bytes(&self) -> usize {
        compact::estimated_bytes(self.plan.nodes(), &self.section_bytes)
    }

    /// Bytes of its padded sections.
    pub fn payload_bytes(&self) -> usize {
        self.section_bytes.iter().map(padded).sum()
    }

    /// Byte offset of each section from the start of the chunk's payload.
    pub fn section_places(&self) -> Vec<usize> {
        let mut end = 0;
        let place = |bytes: &u64| {
            let start = end;
            end += padded(bytes);
            start
        };
        self.section_bytes.iter().map(place).collect()
    }

    /// True if its plan is not `raw`.
    pub fn is_planned(&self) -> bool {
        self.plan.root().encoding != Encoding::Raw
    }

    /// The outcome of a column of `rows` rows that is encoded with this shape.
    pub(crate) fn outcome(&self, column: Column, rows: usize) -> ColumnOutcome {
        ColumnOutcome {
            column,
            is_planned: self.is_planned(),
            raw_bytes: rows * column.value_type().width_bytes(),
            encoded_bytes: self.bytes(),
        }
    }

    /// Bytes of its directory entry.
    fn entry_bytes(&self) -> usize {
        let nodes = self.plan.nodes().len();
        let sections = self.section_bytes.len();
        CHUNK_ENTRY_BYTES + nodes * NODE_BYTES + sections * SECTION_ENTRY_BYTES
    }

    /// Appends the directory entry of a part of column `id`.
    fn write_entry(&self, id: u16, part: Part, payload_crc: u32, out: &mut Vec<u8>) {
        let (nodes, root) = (self.plan.nodes(), self.plan.root());
        let decoded_bytes = u64::from(root.values) * root.value_type.width_bytes() as u64;
        out.extend_from_slice(&id.to_le_bytes());
        out.push(root.value_type.code());
        out.push(u8::try_from(nodes.len()).expect("a plan has at most 16 nodes"));
        out.extend_from_slice(&[part.code(), 0, 0, 0]);
        out.extend_from_slice(&decoded_bytes.to_le_bytes());
        let count = u32::try_from(self.section_bytes.len()).expect("at most 64 sections");
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&payload_crc.to_le_bytes());
        for node in nodes {
            node.write(out);
        }
        for bytes in &self.section_bytes {
            out.extend_from_slice(&bytes.to_le_bytes());
        }
    }
}

/// Bytes of a section with its padding.
fn padded(bytes: &u64) -> usize {
    (*bytes as usize).next_multiple_of(SECTION_ALIGN_BYTES)
}

/// Bytes of a directory with its padding.
pub(crate) fn directory_bytes<'a>(shapes: impl Iterator<Item = &'a ChunkShape>) -> usize {
    shapes.map(ChunkShape::entry_bytes).sum::<usize>().next_multiple_of(SECTION_ALIGN_BYTES)
}

/// An encoded column ready to be written.
pub(crate) struct ChunkBytes {
    /// Its column.
    pub(crate) id: u16,
    /// Part of the column.
    pub(crate) part: Part,
    /// Its plan and lengths.
    pub(crate) shape: ChunkShape,
    sections: Vec<Vec<u8>>,
}

impl ChunkBytes {
    /// Creates the bytes of a part of a column from an encoded tree.
    pub(crate) fn new(id: u16, part: Part, encoded: EncodedTree) -> Self {
        let EncodedTree { plan, sections } = encoded;
        let section_bytes = sections.iter().map(|section| section.len() as u64).collect();
        Self { id, part, shape: ChunkShape { plan, section_bytes }, sections }
    }
}

/// Replaces `out` with the block. Lengths and checksums in `header` are filled in here.
pub(crate) fn assemble(header: BlockHeader, chunks: &[ChunkBytes], out: &mut Vec<u8>) {
    let payload = HEADER_BYTES + directory_bytes(chunks.iter().map(|chunk| &chunk.shape));
    out.clear();
    out.reserve(payload + chunks.iter().map(|chunk| chunk.shape.payload_bytes()).sum::<usize>());
    out.resize(payload, 0);
    for section in chunks.iter().flat_map(|chunk| &chunk.sections) {
        out.extend_from_slice(section);
        out.resize(out.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
    }
    seal(header, payload, chunks.iter().map(|chunk| (chunk.id, chunk.part, &chunk.shape)), out);
}

/// Writes header and directory of a block whose payload lies in `out` from `payload` on. The minor
/// version is the greatest of the header's and those that columns, encodings and text parts need.
fn seal<'a>(
    mut header: BlockHeader,
    payload: usize,
    chunks: impl Iterator<Item = (u16, Part, &'a ChunkShape)>,
    out: &mut [u8],
) {
    let mut directory = Vec::with_capacity(payload - HEADER_BYTES);
    let mut start = payload;
    for (id, part, shape) in chunks {
        let encodings = shape.plan.nodes().iter().map(|node| node.encoding.version_minor());
        let least = header.version_minor.max(Column::version_minor(id));
        header.version_minor = encodings.fold(least, u16::max);
        if part != Part::Numbers {
            header.flags_required |= FLAG_TEXT;
            header.version_minor = header.version_minor.max(VERSION_MINOR_TEXT);
        }
        let end = start + shape.payload_bytes();
        shape.write_entry(id, part, crc32c::crc32c(&out[start..end]), &mut directory);
        start = end;
    }
    assert_eq!(start, out.len(), "the block ends with its last chunk");
    directory.resize(payload - HEADER_BYTES, 0);
    header.directory_bytes = u32::try_from(directory.len()).expect("within its limit");
    header.directory_crc = crc32c::crc32c(&directory);
    header.block_bytes = out.len() as u64;
    out[HEADER_BYTES..payload].copy_from_slice(&directory);
    out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
}

/// Frame of a block of fixes whose columns are encoded elsewhere.
#[derive(Debug)]
pub struct BlockFrame<'a> {
    columns: &'a FixColumns,
    set: ColumnSet,
    times: (i64, u32),
}

impl<'a> BlockFrame<'a> {
    /// Checks that a block can hold `columns`.
    ///
    /// # Errors
    /// As `BlockCodec::encode_planned`.
    pub fn new(columns: &'a FixColumns, space: &SpaceTag) -> Result<Self, BlockError> {
        let set = within_limits(columns, space)?;
        Ok(Self { columns, set, times: time_range(&columns.time_ms)? })
    }

    /// Columns that the block will have, in its order.
    pub fn set(&self) -> ColumnSet {
        self.set
    }

    /// Base of the event times, Unix milliseconds.
    pub fn base_time_ms(&self) -> i64 {
        self.times.0
    }

    /// Replaces `out` with zeros, as many as the block has bytes. Returns the offset of the
    /// payload; there the caller writes the padded sections of all chunks one after another.
    pub fn open(&self, shapes: &[ChunkShape], out: &mut Vec<u8>) -> usize {
        assert_eq!(shapes.len(), self.set.len(), "every column has a shape");
        let payload = HEADER_BYTES + directory_bytes(shapes.iter());
        out.clear();
        out.resize(payload + shapes.iter().map(ChunkShape::payload_bytes).sum::<usize>(), 0);
        payload
    }

    /// Writes header and directory around the payload, which the caller has filled in.
    pub fn seal(
        &self,
        shapes: &[ChunkShape],
        space: &SpaceTag,
        sequence: u64,
        out: &mut [u8],
    ) -> Vec<ColumnOutcome> {
        let header = header_of(self.columns, self.times, space, sequence);
        let payload = HEADER_BYTES + directory_bytes(shapes.iter());
        let chunks = self.set.iter().zip(shapes);
        seal(header, payload, chunks.map(|(it, shape)| (it.id(), Part::Numbers, shape)), out);
        let outcome =
            |(column, shape): (Column, &ChunkShape)| shape.outcome(column, self.columns.len());
        self.set.iter().zip(shapes).map(outcome).collect()
    }
}
