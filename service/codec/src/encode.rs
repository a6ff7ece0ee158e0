//! Encoding of columns into a block within the default budget.
//!
//! The output depends only on columns, plan, space and sequence. A column stays raw if its tree
//! does not apply or does not make it smaller.

use crate::assemble::{ChunkBytes, ChunkShape, assemble};
use crate::block::within;
use crate::block_plan::BlockPlan;
use crate::codec::{BlockCodec, CpuCodec};
use crate::columns::{Column, ColumnSet, FixColumns};
use crate::error::BlockError;
use crate::grouping::Grouping;
use crate::header::{BlockHeader, VERSION_MAJOR};
use crate::limits::{
    BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, CHUNK_ENTRY_BYTES, HEADER_BYTES, NODE_BYTES,
    SECTION_ALIGN_BYTES, SECTION_ENTRY_BYTES, TIME_SPAN_MS_MAX,
};
use crate::space::SpaceTag;
use crate::text::Part;
use crate::tree::Tree;
use crate::tree_encode::{Keys, encode_tree};
use crate::value_type::ValueType;
use crate::values::with_patterns;
use crate::word::Word;

/// Outcome of the encoding of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnOutcome {
    /// The column.
    pub column: Column,
    /// True if the column is encoded with its tree, false if it is raw.
    pub is_planned: bool,
    /// Bytes of its values.
    pub raw_bytes: usize,
    /// Bytes of its directory entry and its padded sections.
    pub encoded_bytes: usize,
}

/// Returns the maximum bytes of a block of `rows` rows and these columns, for any values and plan
/// (FORMAT.md, section 8). This is the sum of header, directory and padded raw sections, so it is
/// the exact size with plan `raw`. `usize::MAX` on overflow.
pub fn encoded_size_max(rows: usize, columns: ColumnSet) -> usize {
    columns
        .iter()
        .map(|column| rows.saturating_mul(column.value_type().width_bytes()))
        .map(|bytes| bytes.checked_next_multiple_of(SECTION_ALIGN_BYTES).unwrap_or(usize::MAX))
        .fold(HEADER_BYTES + directory_bytes(columns), usize::saturating_add)
}

/// Bytes of a directory of raw chunks, padding included.
fn directory_bytes(columns: ColumnSet) -> usize {
    let entry_bytes = CHUNK_ENTRY_BYTES + NODE_BYTES + SECTION_ENTRY_BYTES;
    (columns.len() * entry_bytes).next_multiple_of(SECTION_ALIGN_BYTES)
}

impl BlockCodec for CpuCodec {
    fn encode_planned(
        &self,
        columns: &FixColumns,
        plan: &BlockPlan,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<ColumnOutcome>, BlockError> {
        out.clear();
        let set = within_limits(columns, space)?;
        let times = time_range(&columns.time_ms)?;

        let is_keyed = set.iter().any(|column| plan.tree(column).is_keyed());
        let grouping = is_keyed.then(|| Grouping::new(&columns.object));
        let chunk = |column: Column| {
            let (id, tree) = (Column::Object.id(), plan.tree(column));
            let keys = grouping.as_ref().map(|grouping| Keys { grouping, column: id });
            with_patterns!(columns.patterns(column, times.0), |patterns| {
                smallest(column.id(), column.value_type(), patterns, tree, keys)
            })
        };
        let chunks: Vec<ChunkBytes> = set.iter().map(chunk).collect();

        let header = header_of(columns, times, space, sequence);
        assemble(header, &chunks, out);
        debug_assert!(
            out.len() <= encoded_size_max(columns.len(), set),
            "the bound of every block"
        );
        let outcome =
            |(column, chunk): (Column, &ChunkBytes)| chunk.shape.outcome(column, columns.len());
        Ok(set.iter().zip(&chunks).map(outcome).collect())
    }
}

/// Checks that a block can hold `columns`; returns which are present.
pub(crate) fn within_limits(
    columns: &FixColumns,
    space: &SpaceTag,
) -> Result<ColumnSet, BlockError> {
    columns.check()?;
    space.check()?;
    within("rows", columns.len() as u64, BLOCK_ROWS_MAX.into())?;
    let set = columns.column_set();
    let bytes_max = encoded_size_max(columns.len(), set);
    within("bytes", bytes_max as u64, BLOCK_BYTES_MAX as u64)?;
    Ok(set)
}

/// The header of a block of `columns`. The assembly fills in lengths and the directory's checksum.
pub(crate) fn header_of(
    columns: &FixColumns,
    (base_time_ms, time_max_offset_ms): (i64, u32),
    space: &SpaceTag,
    sequence: u64,
) -> BlockHeader {
    let [x_min, x_max] = bounds(&columns.x).unwrap_or([0, 0]);
    let [y_min, y_max] = bounds(&columns.y).unwrap_or([0, 0]);
    BlockHeader {
        version_major: VERSION_MAJOR,
        version_minor: 0,
        flags_required: 0,
        flags_optional: 0,
        directory_bytes: 0,
        directory_crc: 0,
        block_bytes: 0,
        sequence,
        base_time_ms,
        time_min_offset_ms: 0,
        time_max_offset_ms,
        x_min,
        x_max,
        y_min,
        y_max,
        rows: u32::try_from(columns.len()).expect("within the row limit"),
        columns: u16::try_from(columns.column_set().len()).expect("a set has at most 16 columns"),
        space: *space,
    }
}

/// Base time (the least event time) and greatest offset from it; zeros without rows.
pub(crate) fn time_range(times_ms: &[i64]) -> Result<(i64, u32), BlockError> {
    let Some([min, max]) = bounds(times_ms) else {
        return Ok((0, 0));
    };
    let span_ms = max.abs_diff(min);
    match u32::try_from(span_ms) {
        Ok(offset_ms) => Ok((min, offset_ms)),
        Err(_) => Err(BlockError::TimeSpan { span_ms, limit_ms: TIME_SPAN_MS_MAX }),
    }
}

/// Least and greatest value, `None` without values.
fn bounds<T: Copy + Ord>(values: &[T]) -> Option<[T; 2]> {
    let first = *values.first()?;
    let (mut min, mut max) = (first, first);
    for &value in values {
        min = min.min(value);
        max = max.max(value);
    }
    Some([min, max])
}

/// The column encoded with its tree if that is smaller, else raw.
pub(crate) fn smallest<T: Word>(
    id: u16,
    value_type: ValueType,
    values: &[T],
    tree: &Tree,
    keys: Option<Keys<'_>>,
) -> ChunkBytes {
    let raw_bytes = ChunkShape::raw(value_type, values.len() as u32).bytes();
    if *tree != Tree::Raw
        && let Ok(encoded) = encode_tree(value_type, values, tree, keys)
    {
        let planned = ChunkBytes::new(id, Part::Numbers, encoded);
        if planned.shape.bytes() < raw_bytes {
            return planned;
        }
    }
    let encoded = encode_tree(value_type, values, &Tree::Raw, None).expect("raw always applies");
    ChunkBytes::new(id, Part::Numbers, encoded)
}
