//! Decoding of one column: tiles to rows.
//!
//! Tiles of unkeyed columns are decoded into a buffer in the L1 cache and appended. Tiles of keyed
//! columns are decoded into a whole segment, from which the rows are taken.

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
    /// Grouped order of all segments that the rows touch, if the plan is keyed.
    pub(crate) grouping: Option<&'a Grouping>,
}

/// Rows of the segments that contain `rows`, in a column of `total` rows.
pub(crate) fn segments_of(rows: &Range<usize>, total: usize) -> Range<usize> {
    if rows.is_empty() {
        return rows.start / SEGMENT_ROWS * SEGMENT_ROWS..rows.start / SEGMENT_ROWS * SEGMENT_ROWS;
    }
    let end = rows.end.next_multiple_of(SEGMENT_ROWS).min(total);
    rows.start / SEGMENT_ROWS * SEGMENT_ROWS..end
}

impl ColumnReader<'_> {
    /// Replaces `out` with `rows`, converted. Before conversion `check` receives the values of each
    /// tile, and a function from the index of a value to its row.
    ///
    /// # Errors
    /// Those of the tree and of `check`.
    pub(crate) fn rows<T: Word, V, E: From<Fault>>(
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

    /// Decodes the tiles of an unkeyed column, in row order.
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

    /// Decodes segments in grouped order, then takes the values in row order. In grouped order the
    /// rows of one key are adjacent, so most reads are close to an earlier one.
    fn grouped<T: Word, V, E: From<Fault>>(
        &self,
        tree: &TileTree<'_, T>,
        rows: Range<usize>,
        convert: impl Fn(T) -> V,
        check: impl Fn(&[T], &dyn Fn(usize) -> usize) -> Result<(), E>,
        out: &mut Vec<V>,
    ) -> Result<(), E> {
        let grouping = self.grouping.expect("keyed columns are decoded with their keys");
        let segments = segments_of(&rows, self.plan.root().values as usize);
        out.clear();
        out.reserve(rows.len());
        let mut grouped = vec![T::default(); segments.len().min(SEGMENT_ROWS)];
        let mut buffer = [T::default(); TILE_VALUES];
        for segment in segments.clone().step_by(SEGMENT_ROWS) {
            let grouped = &mut grouped[..SEGMENT_ROWS.min(segments.end - segment)];
            for (tile, values) in (segment / TILE_VALUES..).zip(grouped.chunks_mut(TILE_VALUES)) {
                tree.tile(TileContext { tile, heads: Some(grouping.heads()) }, values)?;
            }
            let end = rows.end.min(segment + grouped.len());
            for start in (rows.start.max(segment)..end).step_by(TILE_VALUES) {
                let places = grouping.places(start..end.min(start + TILE_VALUES));
                let values = &mut buffer[..places.len()];
                take(grouped, places, values);
                check(values, &|index| start + index)?;
                out.extend(values.iter().map(|value| convert(*value)));
            }
        }
        Ok(())
    }
}

/// Writes the values at positions `places` of the segment `grouped` to `out`.
fn take<T: Word>(grouped: &[T], places: &[u16], out: &mut [T]) {
    // In a whole segment every 16-bit number is a valid position, so no bound is checked.
    if let Some(segment) = grouped.as_array::<SEGMENT_ROWS>() {
        for (value, place) in out.iter_mut().zip(places) {
            *value = segment[usize::from(*place)];
        }
    } else {
        for (value, place) in out.iter_mut().zip(places) {
            *value = grouped[usize::from(*place)];
        }
    }
}
