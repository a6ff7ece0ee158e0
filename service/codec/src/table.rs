//! Tables: blocks of typed columns other than fixes, with required flag bit 1 (FORMAT.md,
//! section 4.1).
//!
//! Columns are numbered from 256 on, have any type and decode one by one; their meaning is the
//! user's. Checks are those of blocks.

use std::ops::Range;

use bytes::Bytes;

use crate::assemble::{ChunkBytes, ChunkShape, assemble, directory_bytes};
use crate::block::{read, within};
use crate::chunk::TableChunk;
use crate::chunk_rules::TABLE_COLUMN_MIN;
use crate::column_decode::segments_of;
use crate::column_encode::{Source, encode_column, refused};
use crate::compact::expanded;
use crate::decode::sections_of;
use crate::error::BlockError;
use crate::grouping::Grouping;
use crate::header::{BlockHeader, FLAG_TABLE, VERSION_MAJOR, VERSION_MINOR_TABLE, at};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, Budget, DIRECTORY_BYTES_MAX};
use crate::space::{SpaceKind, SpaceTag};
use crate::tree::Tree;
use crate::tree_encode::{EncodedTree, Keys};
use crate::values::Values;

/// The space of every table.
const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Planar, origin_x: 0.0, origin_y: 0.0, quantum: 1.0 };

/// A column to write.
#[derive(Clone, Copy, Debug)]
pub struct TableColumn<'a> {
    /// Its number, 256 or more; columns ascend.
    pub id: u16,
    /// Its values; all columns are equally long.
    pub values: &'a Values,
    /// The tree to try.
    pub tree: &'a Tree,
}

/// The outcome of one column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOutcome {
    /// Its number.
    pub id: u16,
    /// True if it took its tree, false if it is raw.
    pub is_planned: bool,
    /// Bytes of its directory entry and its padded sections.
    pub encoded_bytes: usize,
}

/// A table whose structure and checksums hold; no value is decoded yet.
#[derive(Clone, Debug)]
pub struct Table {
    bytes: Bytes,
    stored_bytes: usize,
    header: BlockHeader,
    chunks: Vec<TableChunk>,
}

/// Replaces `out` with the table of `columns`; column `key`, which precedes them, orders keyed
/// trees. A column whose tree does not apply or does not make it smaller stays raw, and so do the
/// largest entries of a directory that would be too long.
///
/// # Errors
/// Columns of unequal length, out of order or below 256; a key that is no integer column; more
/// rows or bytes than the default [`Budget`]. `out` is empty then.
pub fn encode_table(
    columns: &[TableColumn<'_>],
    key: Option<u16>,
    sequence: u64,
    out: &mut Vec<u8>,
) -> Result<Vec<TableOutcome>, BlockError> {
    out.clear();
    check_columns(columns)?;
    let grouping = match key {
        None => None,
        Some(key) => Some(grouping_of(columns, key)?),
    };
    let planned = |column: &TableColumn<'_>| {
        let is_after_key = key.is_some_and(|key| column.id > key);
        let keys = grouping.as_ref().filter(|_| is_after_key);
        let keys = keys.zip(key).map(|(grouping, column)| Keys { grouping, column });
        let is_raw = *column.tree == Tree::Raw;
        if is_raw { None } else { encode_column(column.values, column.tree, keys).ok() }
    };
    let encoded = columns.iter().map(planned).collect();
    assemble_table(columns, encoded, sequence, out)
}

/// [`encode_table`] of columns that were encoded elsewhere, on a device for instance, each with its
/// tree; `None` for a column to which it does not apply.
///
/// # Errors
/// As there.
///
/// # Panics
/// If the number of columns differs.
pub fn assemble_table(
    columns: &[TableColumn<'_>],
    encoded: Vec<Option<EncodedTree>>,
    sequence: u64,
    out: &mut Vec<u8>,
) -> Result<Vec<TableOutcome>, BlockError> {
    out.clear();
    let rows = check_columns(columns)?;
    assert_eq!(columns.len(), encoded.len(), "an encoded column each");
    let mut chunks: Vec<ChunkBytes> =
        columns.iter().zip(encoded).map(|(column, encoded)| smallest(column, encoded)).collect();
    loop {
        let value = directory_bytes(chunks.iter().map(|chunk| &chunk.shape)) as u64;
        if value <= DIRECTORY_BYTES_MAX as u64 {
            break;
        }
        let nodes_of = |index: &usize| chunks[*index].shape.plan.nodes().len();
        let largest = (0..chunks.len()).max_by_key(nodes_of).expect("no chunk, no directory");
        if !chunks[largest].shape.is_planned() {
            let limit = DIRECTORY_BYTES_MAX as u64;
            return Err(BlockError::Budget { unit: "directory bytes", value, limit });
        }
        chunks[largest] = smallest(&columns[largest], None);
    }
    let bytes: usize = chunks.iter().map(|chunk| chunk.shape.bytes()).sum();
    within("bytes", bytes as u64, BLOCK_BYTES_MAX as u64 - 4096)?;
    assemble(header(rows, columns.len(), sequence), &chunks, out);
    let outcome = |chunk: &ChunkBytes| TableOutcome {
        id: chunk.id,
        is_planned: chunk.shape.is_planned(),
        encoded_bytes: chunk.shape.bytes(),
    };
    Ok(chunks.iter().map(outcome).collect())
}

/// The encoded column if that makes it smaller, else raw.
fn smallest(column: &TableColumn<'_>, encoded: Option<EncodedTree>) -> ChunkBytes {
    let TableColumn { id, values, .. } = *column;
    let raw_bytes = ChunkShape::raw(values.value_type(), values.len() as u32).bytes();
    let planned = encoded.map(|encoded| ChunkBytes::new(id, encoded));
    planned.filter(|planned| planned.shape.bytes() < raw_bytes).unwrap_or_else(|| {
        let encoded = encode_column(values, &Tree::Raw, None).expect("raw always applies");
        ChunkBytes::new(id, encoded)
    })
}

/// Checks that columns ascend and are equally long; returns their length.
fn check_columns(columns: &[TableColumn<'_>]) -> Result<u32, BlockError> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    within("rows", rows as u64, BLOCK_ROWS_MAX.into())?;
    let mut previous = TABLE_COLUMN_MIN - 1;
    for (chunk, column) in columns.iter().enumerate() {
        let (id, length) = (column.id, column.values.len());
        let problem = if id <= previous {
            format!("column {id} follows {previous}: columns ascend from {TABLE_COLUMN_MIN}")
        } else if length != rows {
            format!("column {id} has {length} values, the first one {rows}")
        } else {
            previous = id;
            continue;
        };
        return Err(BlockError::Chunk { chunk, offset: 0, problem });
    }
    Ok(rows as u32)
}

/// Order of the rows by the key column.
fn grouping_of(columns: &[TableColumn<'_>], key: u16) -> Result<Grouping, BlockError> {
    match columns.iter().enumerate().find(|(_, column)| column.id == key) {
        Some((_, column)) if !column.values.value_type().is_float() => {
            Ok(Grouping::new(&column.values.keys()))
        }
        found => {
            let chunk = found.map_or(0, |(chunk, _)| chunk);
            let problem = format!("key column {key} is no integer column of the table");
            Err(BlockError::Chunk { chunk, offset: 0, problem })
        }
    }
}

/// The header of a table; lengths and checksums come later.
fn header(rows: u32, columns: usize, sequence: u64) -> BlockHeader {
    BlockHeader {
        version_major: VERSION_MAJOR,
        version_minor: VERSION_MINOR_TABLE,
        flags_required: FLAG_TABLE,
        flags_optional: 0,
        directory_bytes: 0,
        directory_crc: 0,
        block_bytes: 0,
        sequence,
        base_time_ms: 0,
        time_min_offset_ms: 0,
        time_max_offset_ms: 0,
        x_min: 0,
        x_max: 0,
        y_min: 0,
        y_max: 0,
        rows,
        columns: u16::try_from(columns).expect("column numbers have 16 bits"),
        space: SPACE,
    }
}

impl Table {
    /// Parses exactly one table and checks everything but the values.
    ///
    /// # Errors
    /// What FORMAT.md, section 7, refuses; a block of fixes.
    pub fn parse(bytes: Bytes, budget: &Budget) -> Result<Self, BlockError> {
        let stored_bytes = bytes.len();
        let bytes = expanded(bytes, budget)?;
        let (header, chunks) = read(&bytes, budget, true, check_header)?;
        Ok(Self { bytes, stored_bytes, header, chunks })
    }

    /// Its header.
    pub fn header(&self) -> &BlockHeader {
        &self.header
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.header.rows as usize
    }

    /// Length of the bytes that were parsed.
    pub fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// All its bytes, expanded if the table was compact.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its chunks in order of column.
    pub fn chunks(&self) -> &[TableChunk] {
        &self.chunks
    }

    /// Decodes `rows` of column `id`; `None` if the table has no such column.
    ///
    /// # Errors
    /// [`BlockError::RowRange`], or what FORMAT.md, section 6, refuses in the column or its key.
    pub fn decode(&self, id: u16, rows: Range<usize>) -> Result<Option<Values>, BlockError> {
        self.check_rows(&rows)?;
        let Some(index) = self.chunks.iter().position(|chunk| chunk.id == id) else {
            return Ok(None);
        };
        let key = self.chunks[index].plan.key_column();
        let grouping = key.map(|(key, _)| self.grouping(key, &rows)).transpose()?;
        self.values(index, rows, grouping.as_ref()).map(Some)
    }

    /// Decodes `rows` of all columns, in order; the order of rows is computed once for adjacent
    /// columns that share it.
    ///
    /// # Errors
    /// As [`Table::decode`].
    pub fn decode_all(&self, rows: Range<usize>) -> Result<Vec<Values>, BlockError> {
        self.check_rows(&rows)?;
        let mut order: Option<(u16, Grouping)> = None;
        let mut columns = Vec::with_capacity(self.chunks.len());
        for (index, chunk) in self.chunks.iter().enumerate() {
            let key = chunk.plan.key_column().map(|(key, _)| key);
            if let Some(key) = key
                && order.as_ref().is_none_or(|(ordered, _)| *ordered != key)
            {
                order = Some((key, self.grouping(key, &rows)?));
            }
            let grouping = order.as_ref().filter(|_| key.is_some()).map(|(_, grouping)| grouping);
            columns.push(self.values(index, rows.clone(), grouping)?);
        }
        Ok(columns)
    }

    /// Checks that the table has these rows.
    fn check_rows(&self, rows: &Range<usize>) -> Result<(), BlockError> {
        if rows.start > rows.end || rows.end > self.rows() {
            let Range { start, end } = *rows;
            return Err(BlockError::RowRange { start, end, rows: self.rows() });
        }
        Ok(())
    }

    /// Grouped order of the segments that `rows` touch, by column `key`.
    fn grouping(&self, key: u16, rows: &Range<usize>) -> Result<Grouping, BlockError> {
        let key = self.chunks.iter().position(|chunk| chunk.id == key);
        let key = key.expect("parse refuses missing keys");
        let segments = segments_of(rows, self.rows());
        let start = segments.start;
        let keys = self.values(key, segments, None)?.keys();
        Ok(Grouping::of_segments(start, &keys))
    }

    /// Rows of one chunk.
    fn values(
        &self,
        index: usize,
        rows: Range<usize>,
        grouping: Option<&Grouping>,
    ) -> Result<Values, BlockError> {
        let chunk = &self.chunks[index];
        let sections = sections_of(&self.bytes, &chunk.sections);
        let source = Source { plan: &chunk.plan, sections: &sections, grouping, rows };
        let mut values = Values::empty(chunk.value_type);
        values.fill(&source).map_err(|fault| refused(index, fault))?;
        Ok(values)
    }
}

/// Checks that a table states no time, no box, and the space of tables.
fn check_header(header: &BlockHeader) -> Result<(), BlockError> {
    let limits = [header.x_min, header.x_max, header.y_min, header.y_max];
    let times = [header.time_min_offset_ms, header.time_max_offset_ms];
    let rules = [
        (header.is_table(), at::flags_required, "the block is no table"),
        (header.base_time_ms == 0, at::base_time_ms, "a table has base time 0"),
        (times == [0; 2], at::time_min_offset_ms, "a table has no times"),
        (limits == [0; 4], at::x_min, "a table has no box"),
        (header.space == SPACE, at::space_kind, "a table is planar from 0, 0 in steps of 1"),
    ];
    match rules.into_iter().find(|(holds, ..)| !holds) {
        None => Ok(()),
        Some((_, offset, problem)) => {
            Err(BlockError::Header { offset, problem: problem.to_owned() })
        }
    }
}
