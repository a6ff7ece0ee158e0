//! Decoding of one column: tiles to rows.
//!
//! Each tile is decoded into a buffer in the first-level cache; unkeyed tiles are appended in row
//! order, keyed ones scattered to their rows.

use std::ops::Range;

use crate::grouping::Grouping;
use crate::plan::Plan;
use crate::section::{Fault, Section};
use crate::tile::{SEGMENT_ROWS, TILE_VALUES, full_count};
use crate::tree_decode::{NodeReader, TileContext, TileTree};
use crate::word::Word;

/// A column to decode.
pub(crate) struct ColumnReader<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sections: &'a [Section<'a>],
    /// Order of the key column's rows, of all segments that the rows touch, if the plan is keyed.
    pub(crate) grouping: Option<&'a Grouping>,
}

/// Whole segments that hold `rows` of `total` rows.
pub(crate) fn segments_of(rows: &Range<usize>, total: usize) -> Range<usize> {
    if rows.is_empty() {
        return rows.start / SEGMENT_ROWS * SEGMENT_ROWS..rows.start / SEGMENT_ROWS * SEGMENT_ROWS;
    }
    let end = rows.end.next_multiple_of(SEGMENT_ROWS).min(total);
    rows.start / SEGMENT_ROWS * SEGMENT_ROWS..end
}

impl ColumnReader<'_> {
    /// Replaces `out` with `rows`, converted. `check` sees each tile's values and the row of
    /// each before they are converted.
    ///
    /// # Errors
    /// Those of the tree and of `check`.
    pub(crate) fn rows<T: Word, V: Copy + Default, E: From<Fault>>(
        &self,
        rows: Range<usize>,
        convert: impl Fn(T) -> V,
        check: impl Fn(&[T], &dyn Fn(usize) -> usize) -> Result<(), E>,
        out: &mut Vec<V>,
    ) -> Result<(), E> {
        let mut reader = NodeReader::new(self.plan.nodes(), self.sections);
        let tree = TileTree::<T>::open(&mut reader)?;
        if rows.is_empty() {
            out.clear();
            return Ok(());
        }
        match self.plan.key_column() {
            None => self.in_order(&tree, rows, convert, check, out),
            Some(_) => self.grouped(&tree, rows, convert, check, out),
        }
    }

    /// Tiles in row order.
    fn in_order<T: Word, V, E: From<Fault>>(
        &self,
        tree: &TileTree<'_, T>,
        rows: Range<usize>,
        convert: impl Fn(T) -> V,
        check: impl Fn(&[T], &dyn Fn(usize) -> usize) -> Result<(), E>,
        out: &mut Vec<V>,
    ) -> Result<(), E> {
        let total = self.plan.root().values as usize;
        out.clear();
        out.reserve(rows.len());
        let mut buffer = [T::default(); TILE_VALUES];
        for tile in rows.start / TILE_VALUES..rows.end.div_ceil(TILE_VALUES) {
            let first = tile * TILE_VALUES;
            let values = &mut buffer[..full_count(total, tile)];
            tree.tile(TileContext { tile, heads: None }, values)?;
            let start = rows.start.max(first);
            let wanted = &values[start - first..rows.end.min(first + values.len()) - first];
            check(wanted, &|index| start + index)?;
            out.extend(wanted.iter().map(|value| convert(*value)));
        }
        Ok(())
    }

    /// Tiles in grouped order, segment after segment.
    fn grouped<T: Word, V: Copy + Default, E: From<Fault>>(
        &self,
        tree: &TileTree<'_, T>,
        rows: Range<usize>,
        convert: impl Fn(T) -> V,
        check: impl Fn(&[T], &dyn Fn(usize) -> usize) -> Result<(), E>,
        out: &mut Vec<V>,
    ) -> Result<(), E> {
        let grouping = self.grouping.expect("keyed columns are decoded with their keys");
        let total = self.plan.root().values as usize;
        // Every row is overwritten, so old values need not be cleared.
        out.resize(rows.len(), V::default());
        let segments = segments_of(&rows, total);
        let mut buffer = [T::default(); TILE_VALUES];
        let mut places = [0_usize; TILE_VALUES];
        for tile in segments.start / TILE_VALUES..segments.end.div_ceil(TILE_VALUES) {
            let count = full_count(total, tile);
            let values = &mut buffer[..count];
            let context = TileContext { tile, heads: Some(grouping.heads()) };
            tree.tile(context, values)?;
            if segments == rows {
                let (segment, order) = grouping.tile_order(tile, count);
                check(values, &|index| segment + usize::from(order[index]))?;
                let values = values.iter().map(|value| convert(*value));
                to_rows(values, order, &mut out[segment - rows.start..]);
                continue;
            }
            let mut kept = 0;
            for (index, row) in grouping.tile_rows(tile, count).enumerate() {
                values[kept] = values[index];
                places[kept] = row;
                kept += usize::from(rows.contains(&row));
            }
            check(&values[..kept], &|index| places[index])?;
            for (value, row) in values[..kept].iter().zip(places) {
                out[row - rows.start] = convert(*value);
            }
        }
        Ok(())
    }
}

/// Scatters values to their rows of a segment that begins with `out`.
#[inline(always)]
fn to_rows<V>(values: impl Iterator<Item = V>, order: &[u16], out: &mut [V]) {
    // In a whole segment every 16-bit number is a row, so no bound is checked.
    if let Some(segment) = out.first_chunk_mut::<SEGMENT_ROWS>() {
        for (value, row) in values.zip(order) {
            segment[usize::from(*row)] = value;
        }
    } else {
        for (value, row) in values.zip(order) {
            out[usize::from(*row)] = value;
        }
    }
}
