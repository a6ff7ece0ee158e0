//! Parsed blocks.
//!
//! `Block::parse` checks everything but the values, from the header to the last checksum, and
//! allocates no more than the bytes present justify. `decode.rs` checks values against the
//! header's time range and box.

use std::ops::Range;

use bytes::Bytes;

use crate::chunk::{Checksums, Chunk, ChunkReader};
use crate::columns::{Column, ColumnSet, FixColumns};
use crate::compact::{FIRST_FORM_ALIGN_BYTES, expanded};
use crate::decode::decode_rows;
use crate::encoding::Encoding;
use crate::error::BlockError;
use crate::header::{BlockHeader, FLAG_TABLE, VERSION_MAJOR_COMPACT, at, truncated};
use crate::limits::{Budget, HEADER_BYTES, SCRATCH_KEYED_ROW_BYTES, SECTION_ALIGN_BYTES};
use crate::text::Part;
use crate::tile::{SEGMENT_ROWS, TILE_VALUES};

/// A block whose structure and checksums hold; no row is decoded yet. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub struct Block {
    bytes: Bytes,
    header: BlockHeader,
    chunks: Vec<Chunk>,
}

impl Block {
    /// Parses exactly one block and checks header, budgets, directory, plans, sections, padding
    /// and all checksums.
    ///
    /// # Errors
    /// If FORMAT.md, section 7, refuses the block. Errors name the byte offset, and the chunk if
    /// there is one.
    pub fn parse(bytes: Bytes, budget: &Budget) -> Result<Self, BlockError> {
        let (bytes, checksums) = expanded(bytes, budget)?;
        let (header, chunks) = read(&bytes, budget, checksums, check_fixes)?;
        Ok(Self { bytes, header, chunks })
    }

    /// Its header.
    pub fn header(&self) -> &BlockHeader {
        &self.header
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.header.rows as usize
    }

    /// All its bytes, expanded if the block was compact; section ranges of [`Block::chunks`] index
    /// into them.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its chunks in order of column.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Its chunks with their columns, in order of column.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (Column, &Chunk)> {
        let column = |chunk: &Chunk| chunk.column().expect("the rules of fixes name known columns");
        self.chunks.iter().map(move |chunk| (column(chunk), chunk))
    }

    /// Granularity of decoding, in rows: adjacent ranges that start and end at its multiples (or at
    /// the end of the block) decode no value twice. It is 1 if all columns are raw, the rows of a
    /// segment if a column is keyed, else the rows of a tile.
    pub fn grain_rows(&self) -> usize {
        let plans = || self.chunks.iter().map(|chunk| &chunk.plan);
        if plans().any(|plan| plan.key_column().is_some()) {
            SEGMENT_ROWS
        } else if plans().any(|plan| plan.root().encoding != Encoding::Raw) {
            TILE_VALUES
        } else {
            1
        }
    }

    /// The chunk of one column and its number, if the block has the column.
    pub(crate) fn chunk(&self, column: Column) -> Option<(usize, &Chunk)> {
        self.chunks.iter().enumerate().find(|(_, chunk)| chunk.id == column.id())
    }

    /// Decodes `rows` (counted from 0 in the block) into `out`. Replaces its contents and reuses
    /// its allocations; `out` then has the optional columns of the block.
    ///
    /// # Errors
    /// [`BlockError::RowRange`] if the block lacks some of the rows, [`BlockError::RowOutside`] if
    /// a row lies outside the header's time range or box, [`BlockError::Chunk`] if a column's
    /// bytes break a rule of their encodings. `out` has no rows then.
    pub fn decode_rows(&self, rows: Range<usize>, out: &mut FixColumns) -> Result<(), BlockError> {
        self.decode_columns(rows, ColumnSet::ALL, out)
    }

    /// As [`Block::decode_rows`] for the columns of a set. Other columns of `out` are unchanged, so
    /// all columns must be decoded for the same rows before `out` is consistent.
    ///
    /// # Errors
    /// As [`Block::decode_rows`]. Only these columns are checked, and the object column if one of
    /// them is keyed.
    pub fn decode_columns(
        &self,
        rows: Range<usize>,
        columns: ColumnSet,
        out: &mut FixColumns,
    ) -> Result<(), BlockError> {
        let result = decode_rows(self, rows, columns, out);
        if result.is_err() {
            out.clear();
        }
        result
    }

    /// Decodes all rows into new columns.
    ///
    /// # Errors
    /// As [`Block::decode_rows`].
    pub fn decode(&self) -> Result<FixColumns, BlockError> {
        let mut columns = FixColumns::new();
        self.decode_rows(0..self.rows(), &mut columns)?;
        Ok(columns)
    }
}

/// Checks that the header is that of a block of fixes, which have no strings.
fn check_fixes(header: &BlockHeader) -> Result<(), BlockError> {
    let required = header.flags_required;
    if header.is_table() {
        return Err(BlockError::RequiredFlags { required, unknown: FLAG_TABLE });
    }
    if header.has_text() {
        let problem = "a block of fixes has no text columns, only tables do".to_owned();
        return Err(BlockError::Header { offset: at::flags_required, problem });
    }
    Ok(())
}

/// Reads header and chunks of a block of fixes or a table and checks everything but the values;
/// `check_header` checks the rules for the header of this kind of block.
pub(crate) fn read(
    bytes: &Bytes,
    budget: &Budget,
    checksums: Checksums,
    check_header: impl FnOnce(&BlockHeader) -> Result<(), BlockError>,
) -> Result<(BlockHeader, Vec<Chunk>), BlockError> {
    within("bytes", bytes.len() as u64, budget.bytes_max as u64)?;
    let header = BlockHeader::parse(bytes)?;
    check_header(&header)?;
    check_length(bytes, &header)?;
    within("rows", header.rows.into(), budget.rows_max.into())?;
    let directory = check_directory(bytes, &header)?;
    let mut reader = ChunkReader::new(bytes, &directory, &header, budget, checksums);
    // The vector grows with the entries read, because the count in the header is not trusted.
    let mut chunks = Vec::new();
    for _ in 0..header.columns {
        chunks.push(reader.next_chunk()?);
    }
    reader.finish()?;
    let scratch = scratch_bytes(&chunks, header.rows);
    within("scratch bytes", scratch, budget.scratch_bytes_max as u64)?;
    Ok((header, chunks))
}

/// Bytes of working memory in addition to output and tile buffers (FORMAT.md, section 6.16).
fn scratch_bytes(chunks: &[Chunk], rows: u32) -> u64 {
    let (mut dictionaries, mut is_keyed) = (0, false);
    let (mut parts, mut parts_max) = (0, 0);
    for Chunk { part, plan, decoded_bytes, .. } in chunks {
        dictionaries += plan.dictionary_bytes();
        is_keyed |= plan.key_column().is_some();
        // The parts of a text column are decoded before its strings, one column after another.
        parts = if *part == Part::Numbers { 0 } else { parts + decoded_bytes };
        parts_max = parts_max.max(parts);
        parts = if *part == Part::Bytes { 0 } else { parts };
    }
    let keys = if is_keyed { u64::from(rows) * SCRATCH_KEYED_ROW_BYTES } else { 0 };
    dictionaries + keys + parts_max
}

/// Refuses a count above its budget.
pub(crate) fn within(unit: &'static str, value: u64, limit: u64) -> Result<(), BlockError> {
    if value > limit { Err(BlockError::Budget { unit, value, limit }) } else { Ok(()) }
}

/// Checks that the bytes are exactly the block that the header states.
pub(crate) fn check_length(bytes: &[u8], header: &BlockHeader) -> Result<(), BlockError> {
    let align = match (header.version_major, header.is_compact()) {
        (VERSION_MAJOR_COMPACT, _) => 1,
        (_, true) => FIRST_FORM_ALIGN_BYTES,
        (_, false) => SECTION_ALIGN_BYTES,
    };
    let (stated, present) = (header.block_bytes, bytes.len() as u64);
    if stated > present {
        return Err(truncated("block", 0, stated, bytes));
    }
    let problem = if stated < present {
        format!("block has {stated} bytes, {present} were given")
    } else if !stated.is_multiple_of(align as u64) {
        format!("block has {stated} bytes, it must have a multiple of {align}")
    } else {
        return Ok(());
    };
    Err(BlockError::Header { offset: at::block_bytes, problem })
}

/// Checks that the directory is present with its checksum; returns its range.
fn check_directory(bytes: &[u8], header: &BlockHeader) -> Result<Range<usize>, BlockError> {
    let directory = HEADER_BYTES..HEADER_BYTES + header.directory_bytes as usize;
    let Some(covered) = bytes.get(directory.clone()) else {
        return Err(truncated("directory", HEADER_BYTES, header.directory_bytes.into(), bytes));
    };
    let (stored, computed) = (header.directory_crc, crc32c::crc32c(covered));
    if stored != computed {
        let part = "directory".into();
        return Err(BlockError::Checksum { part, offset: HEADER_BYTES, stored, computed });
    }
    Ok(directory)
}
