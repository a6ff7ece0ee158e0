//! What are trees tried on, and how many bytes do they come to there?
//!
//! One segment of a batch, and a small part of that which is cheap enough to look at for every
//! batch. It keeps no outcome.

use crate::assemble::ChunkBytes;
use crate::column::ValueType;
use crate::grouping::Grouping;
use crate::planner::candidates::candidates;
use crate::planner::statistics::{Statistics, ratio_q16};
use crate::tile::{SEGMENT_ROWS, TILE_VALUES};
use crate::tree::Tree;
use crate::tree_encode::{Keys, encode_tree};
use crate::word::Word;

/// Rows of a sample at most: one segment, so that keyed trees show what they can.
pub(super) const SAMPLE_ROWS: usize = SEGMENT_ROWS;
/// Rows of a part at most.
const PART_ROWS_MAX: usize = 4 * TILE_VALUES;
/// A part has at most this share of its sample.
const PART_SHARE: usize = 8;

/// Rows of one column of a batch.
pub(super) struct Sample<'a, T> {
    value_type: ValueType,
    values: &'a [T],
    keys: Option<&'a [u64]>,
}

impl<'a, T: Word> Sample<'a, T> {
    pub(super) fn new(value_type: ValueType, values: &'a [T], keys: Option<&'a [u64]>) -> Self {
        Self { value_type, values, keys }
    }

    /// Trees worth a trial on it.
    pub(super) fn candidates(&self) -> Vec<Tree> {
        let statistics = Statistics::of(self.value_type, self.values);
        candidates(&statistics, self.value_type.is_float(), self.keys.is_some())
    }

    /// Whole tiles from its start, a small share of it; `None` if it has too few.
    pub(super) fn part(&self) -> Option<Trial<'a, T>> {
        let tiles = (self.values.len() / PART_SHARE).min(PART_ROWS_MAX) / TILE_VALUES;
        let rows = tiles * TILE_VALUES;
        let keys = self.keys.map(|keys| &keys[..rows]);
        (rows > 0).then(|| Trial::of(&Self::new(self.value_type, &self.values[..rows], keys)))
    }
}

/// A sample with its rows grouped by key, once for all trees.
pub(super) struct Trial<'a, T> {
    value_type: ValueType,
    values: &'a [T],
    grouping: Option<Grouping>,
}

impl<'a, T: Word> Trial<'a, T> {
    /// On all of a sample.
    pub(super) fn of(sample: &Sample<'a, T>) -> Self {
        let grouping = sample.keys.map(Grouping::new);
        Self { value_type: sample.value_type, values: sample.values, grouping }
    }

    /// Bytes of the values.
    pub(super) fn raw_bytes(&self) -> usize {
        self.values.len() * T::BYTES
    }

    /// Bytes that a block takes for them with a tree; `None` if it does not apply.
    pub(super) fn bytes(&self, tree: &Tree) -> Option<usize> {
        let keys = self.grouping.as_ref().map(|grouping| Keys { grouping, column: 1 });
        let encoded = encode_tree(self.value_type, self.values, tree, keys).ok()?;
        Some(ChunkBytes { id: 1, encoded }.bytes())
    }

    /// Raw to encoded bytes in Q16; 0 if the tree does not apply.
    pub(super) fn ratio_q16(&self, tree: &Tree) -> u64 {
        self.bytes(tree).map_or(0, |bytes| ratio_q16(self.raw_bytes(), bytes))
    }
}
