//! Encoding of tables: blocks of typed columns other than fixes, with required flag bit 1
//! (FORMAT.md, sections 4.1 and 4.2).
//!
//! Columns are numbered from 256 on and have any type; their meaning is the user's. A column of
//! strings has two or three parts, each encoded as a column of its own.

use crate::assemble::{ChunkBytes, ChunkShape, assemble, directory_bytes};
use crate::block::within;
use crate::chunk_rules::{Rule, TABLE_COLUMN_MIN};
use crate::column_encode::encode_column;
use crate::error::BlockError;
use crate::grouping::Grouping;
use crate::header::{BlockHeader, FLAG_TABLE, VERSION_MAJOR, VERSION_MINOR_TABLE};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, DIRECTORY_BYTES_MAX};
use crate::space::{SpaceKind, SpaceTag};
use crate::text::{Part, check_end, check_order};
use crate::tree::Tree;
use crate::tree_encode::{EncodedTree, Keys};
use crate::value_type::ValueType;
use crate::values::Values;

/// The space of every table.
pub(crate) const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Planar, origin_x: 0.0, origin_y: 0.0, quantum: 1.0 };

/// A column to write, or a part of a column of strings.
#[derive(Clone, Copy, Debug)]
pub struct TableColumn<'a> {
    /// Its number, 256 or more; columns ascend.
    pub id: u16,
    /// Which part it is; the parts of a column follow each other.
    pub part: Part,
    /// Its values; all columns, and the first parts of strings, are equally long.
    pub values: &'a Values,
    /// The tree to try.
    pub tree: &'a Tree,
}

impl<'a> TableColumn<'a> {
    /// A column of numbers.
    pub fn numbers(id: u16, values: &'a Values, tree: &'a Tree) -> Self {
        Self { id, part: Part::Numbers, values, tree }
    }
}

/// The outcome of one column or part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOutcome {
    /// Its number.
    pub id: u16,
    /// Which part it is.
    pub part: Part,
    /// True if it is encoded with its tree, false if it is raw.
    pub is_planned: bool,
    /// Bytes of its directory entry and its padded sections.
    pub encoded_bytes: usize,
}

/// Replaces `out` with the table of `columns`. Column `key`, which must precede the columns that it
/// orders, gives the keys of keyed trees. A column stays raw if its tree does not apply or does not
/// make it smaller. If the directory would be too long, the columns with the most nodes stay raw.
///
/// # Errors
/// If columns have unequal lengths, are out of order or have a number below 256; if the parts of a
/// column do not have the numbers and lengths of text; if the key is not an integer column; if rows
/// or bytes exceed the default [`crate::Budget`]. `out` is empty then.
pub fn encode_table(
    columns: &[TableColumn<'_>],
    key: Option<u16>,
    sequence: u64,
    out: &mut Vec<u8>,
) -> Result<Vec<TableOutcome>, BlockError> {
    out.clear();
    let rows = check_columns(columns)?;
    let grouping = match key {
        None => None,
        Some(key) => Some(grouping_of(columns, key)?),
    };
    let planned = |column: &TableColumn<'_>| {
        let is_after_key = key.is_some_and(|key| column.id > key);
        // Only parts of text with a value for each row have keys.
        let is_rows = column.values.len() == rows as usize && column.part != Part::Bytes;
        let keys = grouping.as_ref().filter(|_| is_after_key && is_rows);
        let keys = keys.zip(key).map(|(grouping, column)| Keys { grouping, column });
        let is_raw = *column.tree == Tree::Raw;
        if is_raw { None } else { encode_column(column.values, column.tree, keys).ok() }
    };
    let encoded = columns.iter().map(planned).collect();
    assemble_table(columns, encoded, sequence, out)
}

/// As [`encode_table`], for columns that were encoded elsewhere with their trees, for instance on a
/// device. An encoded column is `None` if its tree does not apply.
///
/// # Errors
/// As [`encode_table`].
///
/// # Panics
/// If `columns` and `encoded` differ in length.
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
        part: chunk.part,
        is_planned: chunk.shape.is_planned(),
        encoded_bytes: chunk.shape.bytes(),
    };
    Ok(chunks.iter().map(outcome).collect())
}

/// The encoded column if that makes it smaller, else raw.
fn smallest(column: &TableColumn<'_>, encoded: Option<EncodedTree>) -> ChunkBytes {
    let TableColumn { id, part, values, .. } = *column;
    let raw_bytes = ChunkShape::raw(values.value_type(), values.len() as u32).bytes();
    let planned = encoded.map(|encoded| ChunkBytes::new(id, part, encoded));
    planned.filter(|planned| planned.shape.bytes() < raw_bytes).unwrap_or_else(|| {
        let encoded = encode_column(values, &Tree::Raw, None).expect("raw always applies");
        ChunkBytes::new(id, part, encoded)
    })
}

/// Checks that columns ascend, their parts are complete, and all are as long as the first; returns
/// its length. Readers check the values of the parts, by the rules of [`crate::Text`].
fn check_columns(columns: &[TableColumn<'_>]) -> Result<u32, BlockError> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    within("rows", rows as u64, BLOCK_ROWS_MAX.into())?;
    let mut previous = None;
    for (chunk, column) in columns.iter().enumerate() {
        check_column(previous, column, rows).map_err(|problem| BlockError::Chunk {
            chunk,
            offset: 0,
            problem,
        })?;
        previous = Some((column.id, column.part));
    }
    let chunk = columns.len().saturating_sub(1);
    check_end(previous).map_err(|problem| BlockError::Chunk { chunk, offset: 0, problem })?;
    Ok(rows as u32)
}

/// Checks that a column or part may follow `previous`.
fn check_column(
    previous: Option<(u16, Part)>,
    &TableColumn { id, part, values, .. }: &TableColumn<'_>,
    rows: usize,
) -> Rule {
    let (is_first, length) = (check_order(previous, id, part)?, values.len());
    let least = previous.map_or(TABLE_COLUMN_MIN, |(id, _)| id.saturating_add(1));
    let value_type = match part {
        Part::Numbers => values.value_type(),
        Part::Indexes | Part::Lengths => ValueType::U32,
        Part::Bytes => ValueType::U8,
    };
    if is_first && id < least {
        let previous = least - 1;
        Err(format!("column {id} follows {previous}: columns ascend from {TABLE_COLUMN_MIN}"))
    } else if is_first && length != rows {
        Err(format!("column {id} has {length} values, the first one {rows}"))
    } else if part == Part::Lengths && length > rows {
        Err(format!("column {id} has {length} strings for {rows} rows"))
    } else if part == Part::Bytes && length > BLOCK_ROWS_MAX as usize {
        Err(format!("column {id} stores {length} bytes of text, the limit is {BLOCK_ROWS_MAX}"))
    } else if values.value_type() != value_type {
        let (name, found) = (part.name(), values.value_type());
        Err(format!("column {id} has {name} of type {found:?}, not {value_type:?}"))
    } else {
        Ok(())
    }
}

/// Order of the rows by the key column.
fn grouping_of(columns: &[TableColumn<'_>], key: u16) -> Result<Grouping, BlockError> {
    match columns.iter().enumerate().find(|(_, column)| column.id == key) {
        Some((_, column))
            if column.part == Part::Numbers && !column.values.value_type().is_float() =>
        {
            Ok(Grouping::new(&column.values.keys()))
        }
        found => {
            let chunk = found.map_or(0, |(chunk, _)| chunk);
            let problem = format!("key column {key} is no integer column of the table");
            Err(BlockError::Chunk { chunk, offset: 0, problem })
        }
    }
}

/// The header of a table; lengths and checksums are filled in by the assembly.
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
