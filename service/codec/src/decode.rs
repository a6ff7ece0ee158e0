//! How do the chunks of a block become rows in memory?
//!
//! Column after column; time, x and y are checked against the header's range and box on the way.
//! The plan's encoding does the work, this file only joins columns with chunks.

use std::ops::Range;

use crate::block::Block;
use crate::chunk::Chunk;
use crate::column::Column;
use crate::columns::FixColumns;
use crate::error::BlockError;
use crate::plan::Encoding;
use crate::raw::decode::{decode, decode_within};

/// Decodes `rows` of `block` into `out`; on error `out` holds nothing of use.
pub(crate) fn decode_rows(
    block: &Block,
    rows: Range<usize>,
    out: &mut FixColumns,
) -> Result<(), BlockError> {
    if rows.start > rows.end || rows.end > block.rows() {
        let Range { start, end } = rows;
        return Err(BlockError::RowRange { start, end, rows: block.rows() });
    }
    let header = block.header();
    let base_time_ms = header.base_time_ms;
    let times = [header.time_min_offset_ms, header.time_max_offset_ms];
    let reader = RowReader { block, rows };
    decode(reader.section(Column::Object), &mut out.object, u64::from_le_bytes);
    // Offsets are checked before they are added, so the sum stays in the range of i64.
    let to_time = |offset_ms: u32| base_time_ms + i64::from(offset_ms);
    reader.within(Column::Time, times, u32::from_le_bytes, to_time, &mut out.time_ms)?;
    let same = |quanta: i32| quanta;
    reader.within(Column::X, [header.x_min, header.x_max], i32::from_le_bytes, same, &mut out.x)?;
    reader.within(Column::Y, [header.y_min, header.y_max], i32::from_le_bytes, same, &mut out.y)?;
    reader.optional(Column::Speed, &mut out.speed_mm_s, u32::from_le_bytes);
    reader.optional(Column::Heading, &mut out.heading_cdeg, u16::from_le_bytes);
    reader.optional(Column::Altitude, &mut out.altitude_mm, i32::from_le_bytes);
    reader.optional(Column::State, &mut out.state, u32::from_le_bytes);
    Ok(())
}

/// Reads a range of rows of one block.
struct RowReader<'a> {
    block: &'a Block,
    rows: Range<usize>,
}

impl RowReader<'_> {
    /// Bytes of the rows in a raw chunk.
    fn bytes_of(&self, chunk: &Chunk) -> &[u8] {
        match chunk.plan.root().encoding {
            Encoding::Raw => {
                let width = chunk.column.value_type().width_bytes();
                let section = &self.block.bytes()[chunk.sections[0].clone()];
                &section[self.rows.start * width..self.rows.end * width]
            }
        }
    }

    /// Bytes of the rows in a mandatory column.
    fn section(&self, column: Column) -> &[u8] {
        let (_, chunk) = self.block.chunk(column).expect("parse refuses blocks without it");
        self.bytes_of(chunk)
    }

    /// Decodes a mandatory column whose values must lie between `limits`, both included.
    fn within<W: Copy + Ord + Into<i64>, T, const N: usize>(
        &self,
        column: Column,
        limits: [W; 2],
        read: impl Fn([u8; N]) -> W + Copy,
        convert: impl Fn(W) -> T + Copy,
        out: &mut Vec<T>,
    ) -> Result<(), BlockError> {
        let (index, chunk) = self.block.chunk(column).expect("parse refuses blocks without it");
        let outside = match decode_within(self.bytes_of(chunk), limits, read, convert, out) {
            Ok(()) => return Ok(()),
            Err(outside) => outside,
        };
        Err(BlockError::RowOutside {
            chunk: index,
            offset: chunk.sections[0].start,
            column: column.name(),
            row: self.rows.start + outside.index,
            value: outside.value.into(),
            min: limits[0].into(),
            max: limits[1].into(),
        })
    }

    /// Decodes an optional column, or makes it absent as it is in the block.
    fn optional<T, const N: usize>(
        &self,
        column: Column,
        out: &mut Option<Vec<T>>,
        read: impl Fn([u8; N]) -> T + Copy,
    ) {
        match self.block.chunk(column) {
            Some((_, chunk)) => {
                decode(self.bytes_of(chunk), out.get_or_insert_default(), read);
            }
            None => *out = None,
        }
    }
}
