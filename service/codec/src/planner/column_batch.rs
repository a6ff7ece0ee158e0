//! The interface through which a planner tries trees on a batch, in host or device memory.
//!
//! A trial encodes one segment of a batch, or a part of the segment that is small enough to check
//! in every batch. Results are integers that do not depend on the implementation, so plans do not
//! depend on it either.

use std::convert::Infallible;
use std::ops::Range;

use crate::assemble::{ChunkBytes, ChunkShape};
use crate::encoding::divisor::common;
use crate::entropy::LeafEntropy;
use crate::grouping::Grouping;
use crate::planner::aim::Aim;
use crate::planner::candidates::candidates;
use crate::planner::statistics::{Statistics, ratio_q16};
use crate::text::Part;
use crate::tile::{SEGMENT_ROWS, TILE_VALUES};
use crate::tree::Tree;
use crate::tree_encode::{Keys, encode_tree_watched};
use crate::value_type::ValueType;
use crate::word::Word;

/// Maximum rows of a sample: one segment, the unit in which keyed trees work.
pub(super) const SAMPLE_ROWS: usize = SEGMENT_ROWS;
/// Rows of a part at most.
const PART_ROWS_MAX: usize = 4 * TILE_VALUES;
/// A part has at most 1/`PART_SHARE` of the rows of its sample.
const PART_SHARE: usize = 8;

/// One column of a batch to plan.
pub trait ColumnBatch {
    /// Failure of the implementation.
    type Error;

    /// Type and number of the values.
    fn extent(&self) -> (ValueType, usize);

    /// True if keyed trees are allowed.
    fn has_keys(&self) -> bool;

    /// Statistics of some rows.
    ///
    /// # Errors
    /// Those of the implementation.
    fn statistics(&mut self, rows: Range<usize>) -> Result<Statistics, Self::Error>;

    /// Plan and lengths of a chunk of some rows with exactly this tree; `None` if it does not
    /// apply. `rows` begin at the start of a segment and do not pass its end.
    ///
    /// # Errors
    /// Those of the implementation.
    fn shape(&mut self, rows: Range<usize>, tree: &Tree)
    -> Result<Option<ChunkShape>, Self::Error>;

    /// Returns [`ColumnBatch::shape`] and, if the implementation computes it, a lower bound of the
    /// bytes that Huffman codes take in place of the packed leaves. The planner uses the bound only
    /// to skip trees that cannot win, so plans do not depend on it.
    ///
    /// # Errors
    /// Those of the implementation.
    fn shape_and_bound(
        &mut self,
        rows: Range<usize>,
        tree: &Tree,
    ) -> Result<(Option<ChunkShape>, Option<usize>), Self::Error> {
        Ok((self.shape(rows, tree)?, None))
    }

    /// For a tree whose root is `const` or a `divisor` without parameter, returns whether the root
    /// applies to the whole batch. True for other trees.
    ///
    /// # Errors
    /// Those of the implementation.
    fn holds(&mut self, tree: &Tree) -> Result<bool, Self::Error>;
}

/// Returns the rows of a part: whole tiles from the start of `sample`. `None` if the sample is too
/// small for one tile.
pub(super) fn part_of(sample: Range<usize>) -> Option<Range<usize>> {
    let tiles = (sample.len() / PART_SHARE).min(PART_ROWS_MAX) / TILE_VALUES;
    (tiles > 0).then(|| sample.start..sample.start + tiles * TILE_VALUES)
}

/// Trees to try on a sample.
pub(super) fn candidates_for<B: ColumnBatch>(
    batch: &mut B,
    sample: Range<usize>,
    aim: Aim,
) -> Result<Vec<Tree>, B::Error> {
    let statistics = batch.statistics(sample)?;
    Ok(candidates(&statistics, batch.extent().0, batch.has_keys(), aim))
}

/// Ratio of raw to encoded bytes of some rows in Q16; 0 if the tree does not apply.
pub(super) fn ratio_on<B: ColumnBatch>(
    batch: &mut B,
    rows: Range<usize>,
    tree: &Tree,
) -> Result<u64, B::Error> {
    let raw_bytes = rows.len() * batch.extent().0.width_bytes();
    let shape = batch.shape(rows, tree)?;
    Ok(shape.map_or(0, |shape| ratio_q16(raw_bytes, shape.bytes())))
}

/// A column of bit patterns in host memory.
pub(super) struct PatternBatch<'a, T> {
    value_type: ValueType,
    values: &'a [T],
    keys: Option<&'a [u64]>,
    /// Rows of the last keyed trial and their order.
    grouping: Option<(Range<usize>, Grouping)>,
}

impl<'a, T> PatternBatch<'a, T> {
    pub(super) fn new(value_type: ValueType, values: &'a [T], keys: Option<&'a [u64]>) -> Self {
        Self { value_type, values, keys, grouping: None }
    }
}

impl<T: Word> ColumnBatch for PatternBatch<'_, T> {
    type Error = Infallible;

    fn extent(&self) -> (ValueType, usize) {
        (self.value_type, self.values.len())
    }

    fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn statistics(&mut self, rows: Range<usize>) -> Result<Statistics, Infallible> {
        Ok(Statistics::of(self.value_type, &self.values[rows]))
    }

    fn shape(&mut self, rows: Range<usize>, tree: &Tree) -> Result<Option<ChunkShape>, Infallible> {
        Ok(self.watched(rows, tree, None).0)
    }

    fn shape_and_bound(
        &mut self,
        rows: Range<usize>,
        tree: &Tree,
    ) -> Result<(Option<ChunkShape>, Option<usize>), Infallible> {
        Ok(self.watched(rows, tree, Some(LeafEntropy::default())))
    }

    fn holds(&mut self, tree: &Tree) -> Result<bool, Infallible> {
        Ok(match tree {
            Tree::Const => self.values.windows(2).all(|pair| pair[0] == pair[1]),
            Tree::Divisor(None, _) => common(self.value_type, self.values).is_some(),
            _ => true,
        })
    }
}

impl<T: Word> PatternBatch<'_, T> {
    /// Encodes some rows with a tree; returns the shape, and the lower bound if `entropy` is given.
    fn watched(
        &mut self,
        rows: Range<usize>,
        tree: &Tree,
        entropy: Option<LeafEntropy>,
    ) -> (Option<ChunkShape>, Option<usize>) {
        let is_grouped = self.grouping.as_ref().is_some_and(|(grouped, _)| *grouped == rows);
        if !is_grouped && tree.is_keyed() {
            let group = |keys: &[u64]| (rows.clone(), Grouping::new(&keys[rows.clone()]));
            self.grouping = self.keys.map(group);
        }
        let grouping = self.grouping.as_ref().map(|(_, grouping)| grouping);
        let keys = grouping.map(|grouping| Keys { grouping, column: 1 });
        let values = &self.values[rows];
        match encode_tree_watched(self.value_type, values, tree, keys, entropy) {
            Ok((encoded, entropy)) => {
                let shape = ChunkBytes::new(1, Part::Numbers, encoded).shape;
                (Some(shape), entropy.map(|entropy| entropy.bytes()))
            }
            Err(_) => (None, None),
        }
    }
}
