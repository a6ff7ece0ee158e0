//! Planning of a stream of tables, with a planner for each column, or for each part of a column of
//! strings.
//!
//! Strings are divided into parts before planning, so that the CPU and a device encode the same
//! columns of numbers.

use std::borrow::Cow;

use crate::assemble::ChunkBytes;
use crate::block::within;
use crate::column_encode::encode_column;
use crate::error::BlockError;
use crate::limits::TEXT_BYTES_MAX;
use crate::planner::aim::Aim;
use crate::planner::candidates::text_trees;
use crate::planner::column_planner::ColumnPlanner;
use crate::table::{TableColumn, TableOutcome, encode_table};
use crate::table_decode::TableValues;
use crate::text::{Part, Text};
use crate::tree::Tree;
use crate::values::Values;

/// The planners of one column of a table.
#[derive(Clone, Debug)]
pub struct TablePlanner {
    aim: Aim,
    /// Indexed by part; a column of numbers uses only one.
    parts: [ColumnPlanner; 4],
}

impl TablePlanner {
    /// Planners without history; `seed` selects samples.
    pub fn new(seed: u64, aim: Aim) -> Self {
        let parts = std::array::from_fn(|_| ColumnPlanner::new(seed, aim));
        Self { aim, parts }
    }
}

/// A column of numbers, or a part of a column of strings, to plan and encode.
#[derive(Debug)]
pub struct PlannedChunk<'a> {
    /// Number of the column.
    pub id: u16,
    /// Which part it is.
    pub part: Part,
    /// Its values.
    pub values: Cow<'a, Values>,
    /// Chooses its tree.
    pub planner: &'a mut ColumnPlanner,
    /// True if the key column may order this chunk. The chunk must have a value for each row and
    /// must not be the key itself.
    pub takes_key: bool,
}

/// Divides the columns of a table into chunks. With `is_keyed` the first column, of integers,
/// orders keyed trees of the others.
///
/// # Errors
/// Strings with more bytes than a block holds.
///
/// # Panics
/// If the number of planners differs.
pub fn planned_chunks<'a>(
    planners: &'a mut [TablePlanner],
    columns: &'a [(u16, &TableValues)],
    is_keyed: bool,
) -> Result<Vec<PlannedChunk<'a>>, BlockError> {
    assert_eq!(planners.len(), columns.len(), "a planner a column");
    let mut text_bytes = 0;
    let mut chunks = Vec::with_capacity(columns.len());
    for (index, (TablePlanner { aim, parts }, (id, column))) in
        planners.iter_mut().zip(columns).enumerate()
    {
        let (id, is_keyed) = (*id, is_keyed && index > 0);
        match column {
            TableValues::Numbers(values) => {
                let [planner, ..] = parts;
                let (part, values) = (Part::Numbers, Cow::Borrowed(values));
                chunks.push(PlannedChunk { id, part, values, planner, takes_key: is_keyed });
            }
            TableValues::Text(text) => {
                text_bytes += text.as_str().len() as u64;
                within("text bytes", text_bytes, TEXT_BYTES_MAX as u64)?;
                let (mut planners, mut takes_key) = (parts.iter_mut().enumerate(), is_keyed);
                for (part, values) in parts_of(text, *aim) {
                    let is_of = |(code, _): &(usize, _)| *code == usize::from(part.code());
                    let (_, planner) = planners.find(is_of).expect("parts ascend");
                    let values = Cow::Owned(values);
                    chunks.push(PlannedChunk { id, part, values, planner, takes_key });
                    takes_key = false;
                }
            }
        }
    }
    Ok(chunks)
}

/// Plans the columns of a table, replaces `out` with the table and reports the outcome to the
/// planners. With `is_keyed` the first column, of integers, orders keyed trees of the others.
///
/// # Errors
/// As [`encode_table`] and [`planned_chunks`].
///
/// # Panics
/// If the number of planners differs, or the key has floats or strings.
pub fn encode_planned_table(
    planners: &mut [TablePlanner],
    columns: &[(u16, &TableValues)],
    is_keyed: bool,
    sequence: u64,
    out: &mut Vec<u8>,
) -> Result<Vec<TableOutcome>, BlockError> {
    out.clear();
    let mut chunks = planned_chunks(planners, columns, is_keyed)?;
    let key = chunks.first().filter(|_| is_keyed);
    let (key, keys) = key.map(|chunk| (chunk.id, chunk.values.keys())).unzip();
    let mut trees: Vec<Tree> = Vec::with_capacity(chunks.len());
    for chunk in &mut chunks {
        // The key column itself is not keyed.
        let keys = keys.as_deref().filter(|_| chunk.takes_key);
        trees.push(chunk.planner.plan(&chunk.values, keys));
    }
    let outcomes = encode_table(&with_trees(&chunks, &trees), key, sequence, out)?;
    observe_table(&mut chunks, &outcomes);
    Ok(outcomes)
}

/// The chunks with their trees, to be encoded.
pub fn with_trees<'a>(chunks: &'a [PlannedChunk<'_>], trees: &'a [Tree]) -> Vec<TableColumn<'a>> {
    let column = |(chunk, tree): (&'a PlannedChunk<'_>, &'a Tree)| TableColumn {
        id: chunk.id,
        part: chunk.part,
        values: &chunk.values,
        tree,
    };
    chunks.iter().zip(trees).map(column).collect()
}

/// Reports the outcome of a table to the planners of its chunks.
pub fn observe_table(chunks: &mut [PlannedChunk<'_>], outcomes: &[TableOutcome]) {
    for (chunk, outcome) in chunks.iter_mut().zip(outcomes) {
        let raw_bytes = chunk.values.len() * chunk.values.value_type().width_bytes();
        chunk.planner.observe(raw_bytes, outcome.encoded_bytes);
    }
}

/// Divides a text into parts. They store each distinct string once if that takes fewer bytes by
/// estimate, else a string for each row.
fn parts_of(text: &Text, aim: Aim) -> Vec<(Part, Values)> {
    let by_row = text.parts_by_row();
    match text.parts_by_index() {
        Some(by_index) if estimate(&by_index, aim) < estimate(&by_row, aim) => by_index,
        _ => by_row,
    }
}

/// Estimated bytes of the parts if each is encoded with the best of a few usual trees.
fn estimate(parts: &[(Part, Values)], aim: Aim) -> usize {
    let numbers = [Tree::Afl, Tree::Rle(Box::new(Tree::Afl), Box::new(Tree::Afl))];
    let bytes: Vec<Tree> = text_trees(aim).into_iter().take(1).chain([Tree::Afl]).collect();
    let least = |(part, values): &(Part, Values)| {
        let trees = if *part == Part::Bytes { &bytes[..] } else { &numbers };
        let encoded = trees.iter().filter_map(|tree| encode_column(values, tree, None).ok());
        let bytes = encoded.map(|encoded| aim.bytes(&ChunkBytes::new(0, *part, encoded).shape));
        bytes.min().expect("afl applies to all values")
    };
    parts.iter().map(least).sum()
}
