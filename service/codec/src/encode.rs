//! How do columns become a block?
//!
//! A pure function of columns, space and sequence: the same input gives the same bytes. Every
//! column takes plan `raw` in format version 1.0. What is written is within the default budget.

use crate::block::within;
use crate::chunk::ChunkEntry;
use crate::column::{Column, ColumnSet};
use crate::columns::FixColumns;
use crate::error::BlockError;
use crate::header::{BlockHeader, VERSION_MAJOR, VERSION_MINOR};
use crate::limits::{
    BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, CHUNK_ENTRY_BYTES, HEADER_BYTES, NODE_BYTES,
    SECTION_ALIGN_BYTES, SECTION_ENTRY_BYTES, TIME_SPAN_MS_MAX,
};
use crate::plan::Plan;
use crate::raw::encode::encode as encode_raw;
use crate::space::SpaceTag;

/// Bytes that a block of `rows` rows and these columns takes at most, any values, any plan
/// (FORMAT.md, section 8): raw sections, each padded, a directory, a header. With plan `raw` it is
/// the exact size. `usize::MAX` if that cannot be counted.
pub(crate) fn encoded_size_max(rows: usize, columns: ColumnSet) -> usize {
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

/// Replaces `out` with the block of `columns`; empty on error.
pub(crate) fn encode(
    columns: &FixColumns,
    space: &SpaceTag,
    sequence: u64,
    out: &mut Vec<u8>,
) -> Result<(), BlockError> {
    out.clear();
    columns.check()?;
    space.check()?;
    within("rows", columns.len() as u64, BLOCK_ROWS_MAX.into())?;
    let set = columns.column_set();
    let block_bytes = encoded_size_max(columns.len(), set);
    within("bytes", block_bytes as u64, BLOCK_BYTES_MAX as u64)?;
    let (base_time_ms, time_max_offset_ms) = time_range(&columns.time_ms)?;

    let directory_bytes = directory_bytes(set);
    out.reserve(block_bytes);
    out.resize(HEADER_BYTES + directory_bytes, 0);
    let mut directory = Vec::with_capacity(directory_bytes);
    for column in set.iter() {
        write_chunk(columns, column, base_time_ms, out).write(&mut directory);
    }
    directory.resize(directory_bytes, 0);
    out[HEADER_BYTES..HEADER_BYTES + directory_bytes].copy_from_slice(&directory);

    let [x_min, x_max] = bounds(&columns.x).unwrap_or([0, 0]);
    let [y_min, y_max] = bounds(&columns.y).unwrap_or([0, 0]);
    let header = BlockHeader {
        version_major: VERSION_MAJOR,
        version_minor: VERSION_MINOR,
        flags_required: 0,
        flags_optional: 0,
        directory_bytes: u32::try_from(directory_bytes).expect("at most 16 KiB"),
        directory_crc: crc32c::crc32c(&directory),
        block_bytes: out.len() as u64,
        sequence,
        base_time_ms,
        time_min_offset_ms: 0,
        time_max_offset_ms,
        x_min,
        x_max,
        y_min,
        y_max,
        rows: u32::try_from(columns.len()).expect("within the row limit"),
        columns: u16::try_from(set.len()).expect("at most eight columns"),
        space: *space,
    };
    out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    debug_assert_eq!(out.len(), block_bytes, "the size is known before writing");
    Ok(())
}

/// Base time (the least event time) and greatest offset from it; zeros without rows.
fn time_range(times_ms: &[i64]) -> Result<(i64, u32), BlockError> {
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

/// Appends the payload of one column, padded; gives its directory entry.
fn write_chunk(
    columns: &FixColumns,
    column: Column,
    base_time_ms: i64,
    out: &mut Vec<u8>,
) -> ChunkEntry {
    let start = out.len();
    // The offset fits: the span of all times was checked to.
    let to_offset = |time_ms: i64| (time_ms.wrapping_sub(base_time_ms) as u32).to_le_bytes();
    match column {
        Column::Object => encode_raw(&columns.object, out, u64::to_le_bytes),
        Column::Time => encode_raw(&columns.time_ms, out, to_offset),
        Column::X => encode_raw(&columns.x, out, i32::to_le_bytes),
        Column::Y => encode_raw(&columns.y, out, i32::to_le_bytes),
        Column::Speed => encode_optional(&columns.speed_mm_s, out, u32::to_le_bytes),
        Column::Heading => encode_optional(&columns.heading_cdeg, out, u16::to_le_bytes),
        Column::Altitude => encode_optional(&columns.altitude_mm, out, i32::to_le_bytes),
        Column::State => encode_optional(&columns.state, out, u32::to_le_bytes),
    }
    let section_bytes = (out.len() - start) as u64;
    out.resize(out.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
    let rows = u32::try_from(columns.len()).expect("within the row limit");
    ChunkEntry {
        column,
        plan: Plan::raw(column.value_type(), rows),
        decoded_bytes: section_bytes,
        section_bytes: vec![section_bytes],
        payload_crc: crc32c::crc32c(&out[start..]),
    }
}

/// Appends an optional column that is present.
fn encode_optional<T: Copy, const N: usize>(
    values: &Option<Vec<T>>,
    out: &mut Vec<u8>,
    write: impl Fn(T) -> [u8; N] + Copy,
) {
    let values = values.as_deref().expect("the column set has present columns only");
    encode_raw(values, out, write);
}
