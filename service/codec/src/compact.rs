//! Compact blocks (FORMAT.md, sections 11 and 12). They have no padding, a short header, short
//! directory entries and squeezed per-tile sections.
//!
//! A compact block stands for exactly one ordinary block. Readers expand it before anything else,
//! so all other rules, encodings and devices see ordinary blocks only.

mod body;
mod code_lengths;
mod directory;
mod entry;
mod field_values;
mod first_form;
mod short_header;
mod squeeze;

use bytes::Bytes;

use crate::block::{check_length, read, within};
use crate::chunk::{Checksums, Chunk};
use crate::columns::Column;
use crate::compact::body::Body;
use crate::compact::directory::{Directory, Stored};
use crate::compact::entry::Columns;
pub(crate) use crate::compact::short_header::ShortHeader;
use crate::error::BlockError;
use crate::header::{
    BlockHeader, FLAG_COMPACT, VERSION_MAJOR, VERSION_MINOR_TABLE, VERSION_MINOR_TEXT, at,
};
use crate::limits::{BLOCK_BYTES_MAX, Budget, HEADER_BYTES, SECTION_ALIGN_BYTES};
use crate::plan::PlanNode;
use crate::table_decode::check_header;
use crate::tile::tiles;

/// The length of a compact block of the first form is a multiple of this many bytes.
pub(crate) const FIRST_FORM_ALIGN_BYTES: usize = 8;

/// Form of a compact block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Major version 1, with a header of 128 bytes. It is read but no longer written.
    First,
    /// Major version 2, with a short header and shorter entries and fields.
    Second,
}

/// Replaces a block by its compact form if that is smaller and expands to the same bytes; otherwise
/// leaves it unchanged. A block that is already compact is left unchanged.
///
/// # Errors
/// If a reader would refuse the block; it is unchanged then.
pub fn compact(block: &mut Vec<u8>) -> Result<(), BlockError> {
    let bytes = Bytes::copy_from_slice(block);
    let header = BlockHeader::parse(&bytes)?;
    if header.is_compact() {
        return Ok(());
    }
    let budget = Budget { scratch_bytes_max: usize::MAX, ..Budget::default() };
    let (header, chunks) = read(&bytes, &budget, Checksums::Stored, |header| {
        if header.is_table() { check_header(header) } else { Ok(()) }
    })?;
    let minors = chunks.iter().flat_map(|chunk| {
        let encodings = chunk.plan.nodes().iter().map(|node| node.encoding.version_minor());
        encodings.chain([Column::version_minor(chunk.id)])
    });
    let minor = minors.max().unwrap_or(0);
    if header.flags_optional != 0 || header.version_minor != version_minor(&header, minor) {
        return Ok(());
    }
    let mut body = Vec::with_capacity(bytes.len());
    let mut columns = Columns::new(header.is_table());
    chunks.iter().for_each(|chunk| columns.put(chunk, &mut body));
    if chunks.iter().all(|chunk| put_sections(chunk, &bytes, &mut body)) {
        let compact = ShortHeader::put_before(&header, &body);
        if compact.len() < block.len() {
            debug_assert!(stands_for(&compact, &bytes), "it comes back byte for byte");
            *block = compact;
        }
    }
    Ok(())
}

/// Appends the sections of a chunk. Returns false if a section would not expand to the same bytes.
fn put_sections(chunk: &Chunk, bytes: &[u8], body: &mut Vec<u8>) -> bool {
    let (values, mut sections) = (chunk.values(), chunk.sections.iter());
    chunk.plan.nodes().iter().all(|node| {
        let mut own = sections.by_ref().take(node.sections.into()).enumerate();
        own.all(|(index, range)| {
            let (section, start) = (&bytes[range.clone()], body.len());
            let length = section.len() as u64;
            let stored = Stored::of(Form::Second, node, index, length, values as u32);
            stored.put(section, values, body);
            stored.comes_back(&body[start..], section, values)
        })
    })
}

/// True if a compact block expands to exactly `bytes`.
fn stands_for(compact: &[u8], bytes: &Bytes) -> bool {
    let expanded = expanded(Bytes::copy_from_slice(compact), &Budget::default());
    expanded.is_ok_and(|(expanded, _)| expanded == bytes)
}

/// Minor version that a writer puts in the header of a block whose encodings and columns require
/// minor version `chunks`.
fn version_minor(header: &BlockHeader, chunks: u16) -> u16 {
    let of_tables = if header.is_table() { VERSION_MINOR_TABLE } else { 0 };
    let of_text = if header.has_text() { VERSION_MINOR_TEXT } else { 0 };
    chunks.max(of_tables).max(of_text)
}

/// Returns the expanded block if `bytes` are a compact block, else `bytes`; and the source of its
/// checksums.
///
/// # Errors
/// If readers refuse the header, if the block exceeds the budget of bytes or rows, or if a compact
/// block does not expand.
pub(crate) fn expanded(bytes: Bytes, budget: &Budget) -> Result<(Bytes, Checksums), BlockError> {
    within("bytes", bytes.len() as u64, budget.bytes_max as u64)?;
    let header = BlockHeader::parse(&bytes)?;
    if !header.is_compact() {
        return Ok((bytes, Checksums::Stored));
    }
    check_length(&bytes, &header)?;
    within("rows", header.rows.into(), budget.rows_max.into())?;
    let expanded = if header.version_major == VERSION_MAJOR {
        expand_first(&bytes, header, budget)?
    } else {
        expand_second(&bytes, budget)?
    };
    Ok((expanded.into(), Checksums::Computed))
}

/// Expands a block of the first form.
fn expand_first(
    bytes: &[u8],
    mut header: BlockHeader,
    budget: &Budget,
) -> Result<Vec<u8>, BlockError> {
    check_body(&bytes[HEADER_BYTES..], HEADER_BYTES, header.directory_crc)?;
    let mut body = Body::new(bytes, HEADER_BYTES);
    let mut directory = Directory::new(Form::First);
    for chunk in 0..usize::from(header.columns) {
        let offset = body.at();
        let entry = first_form::read_entry(chunk, header.rows, &mut body)?;
        directory.push(&entry, offset)?;
    }
    directory.pad();
    let (found, stated) = (directory.bytes.len(), header.directory_bytes);
    if found != stated as usize {
        let problem = format!("directory has {found} bytes, the header states {stated}");
        return Err(BlockError::Header { offset: at::directory_bytes, problem });
    }
    header.flags_required &= !FLAG_COMPACT;
    assemble(header, directory, body, FIRST_FORM_ALIGN_BYTES - 1, budget)
}

/// Expands a block of the second form.
fn expand_second(bytes: &[u8], budget: &Budget) -> Result<Vec<u8>, BlockError> {
    let ShortHeader { mut header, header_bytes, body_crc } = ShortHeader::parse(bytes)?;
    check_body(&bytes[header_bytes..], header_bytes, body_crc)?;
    let mut body = Body::new(bytes, header_bytes);
    let mut directory = Directory::new(Form::Second);
    let mut columns = Columns::new(header.is_table());
    for chunk in 0..usize::from(header.columns) {
        let offset = body.at();
        let entry = columns.read(chunk, header.rows, &mut body)?;
        directory.push(&entry, offset)?;
    }
    directory.pad();
    header.version_major = VERSION_MAJOR;
    header.version_minor = version_minor(&header, directory.version_minor);
    header.directory_bytes = directory.bytes.len() as u32;
    assemble(header, directory, body, 0, budget)
}

/// Checks the checksum of all bytes after the header.
fn check_body(body: &[u8], offset: usize, stored: u32) -> Result<(), BlockError> {
    let computed = crc32c::crc32c(body);
    if stored == computed {
        return Ok(());
    }
    Err(BlockError::Checksum { part: "compact body".into(), offset, stored, computed })
}

/// Builds the block from a directory and the sections in `body`. At most `padding` zero bytes may
/// follow the sections. Fills in checksum and length of the directory in `header`.
fn assemble(
    mut header: BlockHeader,
    mut directory: Directory,
    mut body: Body<'_>,
    padding: usize,
    budget: &Budget,
) -> Result<Vec<u8>, BlockError> {
    let payload = HEADER_BYTES + directory.bytes.len();
    let limit = budget.bytes_max.min(BLOCK_BYTES_MAX) as u64;
    within("expanded bytes", directory.payload_bytes.saturating_add(payload as u64), limit)?;
    if directory.plain_bytes > body.rest().len() as u64 {
        return Err(body.lacks("sections", directory.plain_bytes));
    }
    let mut out = Vec::with_capacity(payload + directory.payload_bytes as usize);
    out.resize(payload, 0);
    directory.read_sections(&mut body, &mut out)?;
    body.finish(padding)?;
    debug_assert!(out.len().is_multiple_of(SECTION_ALIGN_BYTES), "sections are padded");
    header.directory_crc = crc32c::crc32c(&directory.bytes);
    header.block_bytes = out.len() as u64;
    out[HEADER_BYTES..payload].copy_from_slice(&directory.bytes);
    out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    Ok(out)
}

/// Estimated bytes of a chunk in a compact block; a planner that minimizes size compares them.
pub(crate) fn estimated_bytes(nodes: &[PlanNode], section_bytes: &[u64]) -> usize {
    let values = nodes[0].values;
    let mut lengths = section_bytes.iter();
    let mut bytes = entry::plan_bytes(nodes, section_bytes);
    for node in nodes {
        for (index, length) in lengths.by_ref().take(node.sections.into()).enumerate() {
            let stored = Stored::of(Form::Second, node, index, *length, values);
            bytes += stored.estimated_bytes(*length, tiles(values as usize));
        }
    }
    bytes
}
