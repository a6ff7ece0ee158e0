//! Decodes the chunks of a block to rows in memory, column after column, for all columns or some.
//!
//! Time, x and y are checked against the header's range and box.

use std::ops::Range;

use crate::block::Block;
use crate::chunk::Chunk;
use crate::column_decode::{ColumnReader, segments_of};
use crate::columns::{AttributeVisitor, Column, ColumnSet, FixColumns};
use crate::error::BlockError;
use crate::grouping::Grouping;
use crate::section::{Fault, Section};
use crate::values::Native;
use crate::word::Word;

/// Decodes `rows` of `columns` of `block` into `out`. Other columns of `out` are unchanged; on
/// error `out` is undefined.
pub(crate) fn decode_rows(
    block: &Block,
    rows: Range<usize>,
    columns: ColumnSet,
    out: &mut FixColumns,
) -> Result<(), BlockError> {
    if rows.start > rows.end || rows.end > block.rows() {
        let Range { start, end } = rows;
        return Err(BlockError::RowRange { start, end, rows: block.rows() });
    }
    let header = block.header();
    let base_time_ms = header.base_time_ms;
    let times = [header.time_min_offset_ms.into(), header.time_max_offset_ms.into()];
    let grouping = objects(block, &rows, columns, &mut out.object)?;
    let reader = RowReader { block, grouping, rows, columns };
    // Offsets are checked before they are added, so the sum stays in the range of i64.
    let to_time = |offset_ms: u32| base_time_ms + i64::from(offset_ms);
    reader.within(Column::Time, times, false, to_time, &mut out.time_ms)?;
    let quanta = |pattern: u32| pattern as i32;
    let [x_limits, y_limits] = [[header.x_min, header.x_max], [header.y_min, header.y_max]]
        .map(|box_| box_.map(i64::from));
    reader.within(Column::X, x_limits, true, quanta, &mut out.x)?;
    reader.within(Column::Y, y_limits, true, quanta, &mut out.y)?;
    out.visit_attributes(&reader)
}

/// Decodes the objects of `rows` if requested; returns the grouped order of the segments that
/// `rows` touch if a requested column is keyed.
fn objects(
    block: &Block,
    rows: &Range<usize>,
    columns: ColumnSet,
    out: &mut Vec<u64>,
) -> Result<Option<Grouping>, BlockError> {
    let is_keyed = !rows.is_empty()
        && block
            .columns()
            .any(|(column, chunk)| columns.contains(column) && chunk.plan.key_column().is_some());
    let is_wanted = columns.contains(Column::Object);
    if !is_keyed && !is_wanted {
        return Ok(None);
    }
    let whole = if is_keyed { segments_of(rows, block.rows()) } else { rows.clone() };
    let reader = RowReader { block, grouping: None, rows: whole.clone(), columns };
    let mut keys = Vec::new();
    let out = if is_wanted { out } else { &mut keys };
    reader.plain(Column::Object, |pattern: u64| pattern, out)?;
    let grouping = is_keyed.then(|| Grouping::of_segments(whole.start, out));
    out.truncate(rows.end - whole.start);
    out.drain(..rows.start - whole.start);
    Ok(grouping)
}

/// The sections of a chunk.
pub(crate) fn sections_of<'a>(bytes: &'a [u8], ranges: &[Range<usize>]) -> Vec<Section<'a>> {
    let section =
        |range: &Range<usize>| Section { bytes: &bytes[range.clone()], offset: range.start };
    ranges.iter().map(section).collect()
}

/// Reads a range of rows of one block.
struct RowReader<'a> {
    block: &'a Block,
    grouping: Option<Grouping>,
    rows: Range<usize>,
    /// The columns that are wanted.
    columns: ColumnSet,
}

/// A rule that the values of a chunk break; the caller adds the chunk.
enum Refusal {
    Fault(Fault),
    Outside { row: usize, value: i64 },
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl RowReader<'_> {
    /// Decodes a chunk; `check` is that of [`ColumnReader::rows`].
    fn chunk<T: Word, V: Copy + Default>(
        &self,
        chunk: &Chunk,
        convert: impl Fn(T) -> V,
        check: impl Fn(&[T], &dyn Fn(usize) -> usize) -> Result<(), Refusal>,
        out: &mut Vec<V>,
    ) -> Result<(), Refusal> {
        let sections = sections_of(self.block.bytes(), &chunk.sections);
        let grouping = self.grouping.as_ref();
        let reader = ColumnReader { plan: &chunk.plan, sections: &sections, grouping };
        reader.rows(self.rows.clone(), convert, check, out)
    }

    /// Decodes a mandatory column whose values have no limits.
    fn plain<T: Word, V: Copy + Default>(
        &self,
        column: Column,
        convert: impl Fn(T) -> V,
        out: &mut Vec<V>,
    ) -> Result<(), BlockError> {
        let (index, chunk) = self.block.chunk(column).expect("parse refuses blocks without it");
        let result = self.chunk(chunk, convert, |_, _| Ok(()), out);
        result.map_err(|refusal| named(refusal, index, column, chunk, [0, 0]))
    }

    /// Decodes a mandatory column, if it is wanted, whose values must lie between `limits`, both
    /// included.
    fn within<T: Word, V: Copy + Default>(
        &self,
        column: Column,
        limits: [i64; 2],
        is_signed: bool,
        convert: impl Fn(T) -> V,
        out: &mut Vec<V>,
    ) -> Result<(), BlockError> {
        if !self.columns.contains(column) {
            return Ok(());
        }
        let (index, chunk) = self.block.chunk(column).expect("parse refuses blocks without it");
        // Patterns are compared by their distance from the least value. This takes one comparison
        // and is correct for signed and unsigned types.
        let least = T::low(limits[0] as u64);
        let span = T::low((limits[1] - limits[0]) as u64);
        let check = |values: &[T], row_of: &dyn Fn(usize) -> usize| {
            let farthest = values.iter().map(|value| value.minus(least)).max();
            if farthest.is_none_or(|farthest| farthest <= span) {
                return Ok(());
            }
            let outside = values.iter().position(|value| value.minus(least) > span);
            let at = outside.expect("the farthest is one of them");
            let value = values[at].extend(is_signed) as i64;
            Err(Refusal::Outside { row: row_of(at), value })
        };
        let result = self.chunk(chunk, convert, check, out);
        result.map_err(|refusal| named(refusal, index, column, chunk, limits))
    }
}

impl AttributeVisitor for RowReader<'_> {
    type Error = BlockError;

    /// Decodes an attribute that is wanted, or removes it if the block lacks it.
    fn visit<N: Native>(
        &self,
        column: Column,
        values: &mut Option<Vec<N>>,
    ) -> Result<(), BlockError> {
        if !self.columns.contains(column) {
            return Ok(());
        }
        if self.block.chunk(column).is_none() {
            *values = None;
            return Ok(());
        }
        self.plain(column, N::of_pattern, values.get_or_insert_default())
    }
}

/// Converts a refusal to an error that names the chunk.
fn named(
    refusal: Refusal,
    index: usize,
    column: Column,
    chunk: &Chunk,
    limits: [i64; 2],
) -> BlockError {
    match refusal {
        Refusal::Fault(Fault { offset, problem }) => {
            BlockError::Chunk { chunk: index, offset, problem }
        }
        Refusal::Outside { row, value } => BlockError::RowOutside {
            chunk: index,
            offset: chunk.sections.first().map_or(chunk.payload.start, |section| section.start),
            column: column.name(),
            row,
            value,
            min: limits[0],
            max: limits[1],
        },
    }
}
