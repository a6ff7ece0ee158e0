//! Compact blocks (FORMAT.md, section 11): a block without padding, with short directory entries
//! and squeezed per-tile sections.
//!
//! A compact block stands for exactly one ordinary block. Readers expand it before anything else,
//! so all other rules, encodings and devices see ordinary blocks only.

use bytes::Bytes;

use crate::block::{check_length, read, within};
use crate::chunk::{Checksums, PAYLOAD_CRC_AT, SECTIONS_AT, TableChunk};
use crate::encoding::Encoding;
use crate::error::BlockError;
use crate::header::{BlockHeader, FLAG_COMPACT, VERSION_MINOR_COMPACT, at, truncated};
use crate::limits::{
    BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, Budget, CHUNK_ENTRY_BYTES, DIRECTORY_BYTES_MAX, HEADER_BYTES,
    PLAN_NODES_MAX, SECTION_ALIGN_BYTES,
};
use crate::plan::PlanNode;
use crate::squeeze::{Body, Layout, put_number};
use crate::text::Part;
use crate::tile::tiles;
use crate::value_type::ValueType;
use crate::wire::put;

/// The length of a compact block is a multiple of this many bytes.
pub(crate) const COMPACT_ALIGN_BYTES: usize = 8;
/// The number of nodes of a short entry has so many bits; the code of the part follows.
const PART_SHIFT: u32 = 5;

const _: () = assert!(PLAN_NODES_MAX < 1 << PART_SHIFT);

/// Replaces a block by its compact form if that is smaller; a compact block stays.
///
/// # Errors
/// What a reader refuses in the block; it is unchanged then.
pub fn compact(block: &mut Vec<u8>) -> Result<(), BlockError> {
    let bytes = Bytes::copy_from_slice(block);
    let header = BlockHeader::parse(&bytes)?;
    if header.is_compact() {
        return Ok(());
    }
    let budget = Budget { scratch_bytes_max: usize::MAX, ..Budget::default() };
    let (mut header, chunks) = read(&bytes, &budget, Checksums::Stored, |_| Ok(()))?;
    let mut body = Vec::with_capacity(bytes.len());
    for chunk in &chunks {
        write_entry(chunk, &mut body);
    }
    for chunk in &chunks {
        let values = chunk.plan.root().values;
        let mut sections = chunk.sections.iter();
        for (layout, range) in layouts(chunk.plan.nodes()).zip(&mut sections) {
            let section = &bytes[range.clone()];
            match layout.filter(|layout| layout.fits(section.len() as u64, values)) {
                Some(layout) => layout.squeeze(section, values as usize, &mut body),
                None => body.extend_from_slice(section),
            }
        }
    }
    body.resize(body.len().next_multiple_of(COMPACT_ALIGN_BYTES), 0);
    if HEADER_BYTES + body.len() >= block.len() {
        return Ok(());
    }
    header.version_minor = header.version_minor.max(VERSION_MINOR_COMPACT);
    header.flags_required |= FLAG_COMPACT;
    header.directory_crc = crc32c::crc32c(&body);
    header.block_bytes = (HEADER_BYTES + body.len()) as u64;
    block.clear();
    block.extend_from_slice(&header.to_bytes());
    block.extend_from_slice(&body);
    Ok(())
}

/// The layout of each section of a plan; `None` for sections that stay as they are.
fn layouts(nodes: &[PlanNode]) -> impl Iterator<Item = Option<Layout>> + '_ {
    nodes.iter().flat_map(|node| {
        let specs = node.encoding.spec().sections.iter();
        specs.take(node.sections.into()).map(|spec| Layout::of(*spec, node))
    })
}

/// Appends the short form of a directory entry.
fn write_entry(chunk: &TableChunk, body: &mut Vec<u8>) {
    let values = chunk.plan.root().values;
    put_number(chunk.id.into(), body);
    body.push(chunk.value_type.code());
    body.push(chunk.plan.nodes().len() as u8 | chunk.part.code() << PART_SHIFT);
    if chunk.part != Part::Numbers {
        put_number(values.into(), body);
    }
    for node in chunk.plan.nodes() {
        put_number(node.encoding.id().into(), body);
        body.push(node.value_type.code());
        body.push(node.children | node.sections << 4);
        put_number((values - node.values).into(), body);
        put_number(node.parameter_u32.into(), body);
        put_number(node.parameter_u64, body);
    }
    chunk.sections.iter().for_each(|section| put_number(section.len() as u64, body));
}

/// The block that `bytes` stand for: themselves, unless they are a compact block; and where its
/// checksums come from.
///
/// # Errors
/// A header that readers refuse; more bytes or rows than the budget; a compact block that does not
/// expand.
pub(crate) fn expanded(bytes: Bytes, budget: &Budget) -> Result<(Bytes, Checksums), BlockError> {
    within("bytes", bytes.len() as u64, budget.bytes_max as u64)?;
    let mut header = BlockHeader::parse(&bytes)?;
    if !header.is_compact() {
        return Ok((bytes, Checksums::Stored));
    }
    check_length(&bytes, &header)?;
    within("rows", header.rows.into(), budget.rows_max.into())?;
    let (stored, computed) = (header.directory_crc, crc32c::crc32c(&bytes[HEADER_BYTES..]));
    if stored != computed {
        let part = "compact body".into();
        return Err(BlockError::Checksum { part, offset: HEADER_BYTES, stored, computed });
    }
    let mut body = Body::new(&bytes, HEADER_BYTES);
    let mut directory = Directory::default();
    for chunk in 0..usize::from(header.columns) {
        directory.read_entry(chunk, header.rows, &mut body)?;
    }
    directory.finish(&header)?;
    let payload = HEADER_BYTES + directory.bytes.len();
    let limit = budget.bytes_max.min(BLOCK_BYTES_MAX) as u64;
    within("expanded bytes", directory.payload_bytes.saturating_add(payload as u64), limit)?;
    if directory.kept_bytes > body.rest() as u64 {
        return Err(truncated("sections", body.at(), directory.kept_bytes, &bytes));
    }
    let mut out = Vec::with_capacity(payload + directory.payload_bytes as usize);
    out.resize(payload, 0);
    directory.read_sections(&mut body, &mut out)?;
    body.finish()?;
    header.flags_required &= !FLAG_COMPACT;
    header.directory_crc = crc32c::crc32c(&directory.bytes);
    header.block_bytes = out.len() as u64;
    out[HEADER_BYTES..payload].copy_from_slice(&directory.bytes);
    out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    Ok((out.into(), Checksums::Computed))
}

/// Length of a section when expanded, and its layout if it is squeezed.
type StoredSection = (u64, Option<Layout>);

/// The directory of the expanded block, and what its sections take.
#[derive(Default)]
struct Directory {
    bytes: Vec<u8>,
    /// Of each chunk: where its entry begins, its values, and its sections.
    chunks: Vec<(usize, u32, Vec<StoredSection>)>,
    /// Bytes of all sections with their padding.
    payload_bytes: u64,
    /// Bytes of the sections that are not squeezed.
    kept_bytes: u64,
}

impl Directory {
    /// Reads the entry of chunk `chunk`.
    fn read_entry(
        &mut self,
        chunk: usize,
        rows: u32,
        body: &mut Body<'_>,
    ) -> Result<(), BlockError> {
        let start = self.bytes.len();
        let offset = body.at();
        let fault = |problem| Err(BlockError::Chunk { chunk, offset, problem });
        let id: u16 = body.small("column")?;
        let [code, counts] = body.take("chunk entry")?;
        let (count, part) = (counts & ((1 << PART_SHIFT) - 1), counts >> PART_SHIFT);
        let Some(value_type) = ValueType::from_code(code) else {
            return fault(format!("column {id} has value type {code}, it must be 1 to 10"));
        };
        if !(1..=PLAN_NODES_MAX).contains(&count.into()) {
            return fault(format!("plan has {count} nodes, it has 1 to {PLAN_NODES_MAX}"));
        }
        // What parts there are, and how many values they may have, is checked after expansion.
        let values = if part == Part::Numbers.code() { rows } else { body.small("values")? };
        if part != Part::Numbers.code() && values > BLOCK_ROWS_MAX {
            return fault(format!("chunk has {values} values, the limit is {BLOCK_ROWS_MAX}"));
        }
        self.bytes.extend_from_slice(&id.to_le_bytes());
        self.bytes.extend_from_slice(&[code, count, part, 0, 0, 0]);
        let decoded_bytes = u64::from(values) * value_type.width_bytes() as u64;
        self.bytes.extend_from_slice(&decoded_bytes.to_le_bytes());
        self.bytes.resize(start + CHUNK_ENTRY_BYTES, 0);
        let mut sections = Vec::new();
        for _ in 0..count {
            let node = read_node(chunk, values, body)?;
            node.write(&mut self.bytes);
            let specs = node.encoding.spec().sections;
            let layout = |index| specs.get(index).and_then(|spec| Layout::of(*spec, &node));
            sections.extend((0..usize::from(node.sections)).map(|index| (0, layout(index))));
        }
        put(&mut self.bytes, start + SECTIONS_AT, (sections.len() as u32).to_le_bytes());
        for (bytes, layout) in &mut sections {
            *bytes = body.number()?;
            *layout = layout.take().filter(|layout| layout.fits(*bytes, values));
            self.bytes.extend_from_slice(&bytes.to_le_bytes());
            let padded = bytes.checked_next_multiple_of(SECTION_ALIGN_BYTES as u64);
            self.payload_bytes = self.payload_bytes.saturating_add(padded.unwrap_or(u64::MAX));
            if layout.is_none() {
                self.kept_bytes = self.kept_bytes.saturating_add(*bytes);
            }
        }
        if self.bytes.len() > DIRECTORY_BYTES_MAX {
            return fault(format!("entries take more than {DIRECTORY_BYTES_MAX} bytes"));
        }
        self.chunks.push((start, values, sections));
        Ok(())
    }

    /// Pads the directory and checks its length.
    fn finish(&mut self, header: &BlockHeader) -> Result<(), BlockError> {
        self.bytes.resize(self.bytes.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
        if self.bytes.len() == header.directory_bytes as usize {
            return Ok(());
        }
        let (found, stated) = (self.bytes.len(), header.directory_bytes);
        let problem = format!("directory has {found} bytes, the header states {stated}");
        Err(BlockError::Header { offset: at::directory_bytes, problem })
    }

    /// Appends all sections with their padding to `out`, and puts their checksums in the entries.
    fn read_sections(&mut self, body: &mut Body<'_>, out: &mut Vec<u8>) -> Result<(), BlockError> {
        for (entry, values, sections) in &self.chunks {
            let start = out.len();
            for (bytes, layout) in sections {
                match layout {
                    Some(layout) => layout.restore(*values as usize, body, out)?,
                    None => out.extend_from_slice(body.bytes("section", *bytes as usize)?),
                }
                out.resize(out.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
            }
            let crc = crc32c::crc32c(&out[start..]);
            put(&mut self.bytes, entry + PAYLOAD_CRC_AT, crc.to_le_bytes());
        }
        Ok(())
    }
}

/// Reads a node; counts and parameters are checked when the expanded block is read.
fn read_node(chunk: usize, all: u32, body: &mut Body<'_>) -> Result<PlanNode, BlockError> {
    let offset = body.at();
    let fault = |problem| Err(BlockError::Chunk { chunk, offset, problem });
    let id: u16 = body.small("encoding")?;
    let Some(encoding) = Encoding::from_id(id) else {
        return fault(format!("encoding {id} is not supported by this reader"));
    };
    let [code, counts] = body.take("node")?;
    let Some(value_type) = ValueType::from_code(code) else {
        return fault(format!("value type {code} is not 1 to 10"));
    };
    let missing: u32 = body.small("values")?;
    let Some(values) = all.checked_sub(missing) else {
        return fault(format!("node lacks {missing} values of {all} rows"));
    };
    Ok(PlanNode {
        encoding,
        value_type,
        children: counts & 0xf,
        sections: counts >> 4,
        values,
        parameter_u32: body.small("parameter")?,
        parameter_u64: body.number()?,
    })
}

/// Bytes that a chunk takes in a compact block, by estimate: what a planner that aims at the
/// fewest bytes compares.
pub(crate) fn estimated_bytes(nodes: &[PlanNode], section_bytes: &[u64], rows: usize) -> usize {
    /// Bytes of a node and of a section's length, about.
    const NODE_BYTES: usize = 8;
    let tiles = tiles(rows);
    let sections = layouts(nodes).zip(section_bytes).map(|(layout, bytes)| match layout {
        Some(layout) => layout.estimated_bytes(tiles),
        None => *bytes as usize,
    });
    sections.sum::<usize>() + NODE_BYTES * (nodes.len() + section_bytes.len() / 2)
}
