//! Which tree does the next batch of one column take?
//!
//! Explored at the first batch, repeated every `EXPLORATION_BATCHES`, the outcome taking effect
//! eight batches later; corrected at the next batch when the ratio falls, by a few trees that
//! batches have shown to be good. A function of the batches and the seed alone.

use std::cmp::Reverse;

use crate::assemble::ChunkBytes;
use crate::column::ValueType;
use crate::divisor::encode::common;
use crate::grouping::Grouping;
use crate::planner::candidates::{CANDIDATES_MAX, candidates};
use crate::planner::edges::Edges;
use crate::planner::statistics::{ONE_Q16, Statistics};
use crate::tile::SEGMENT_ROWS;
use crate::tree::Tree;
use crate::tree_encode::{Keys, encode_tree};
use crate::values::{PatternTask, Values};
use crate::word::Word;

/// Rows of a sample at most: one segment, so that keyed trees show what they can.
pub(super) const SAMPLE_ROWS: usize = SEGMENT_ROWS;
/// Batches from one exploration to the next.
pub(super) const EXPLORATION_BATCHES: u64 = 64;
/// Batches until an exploration takes effect, so that it may run beside them.
pub(super) const EFFECT_BATCHES: u64 = 8;
/// Trees tried at most when a tree is corrected.
pub(super) const CORRECTION_TREES_MAX: usize = 16;
/// A ratio below this share of the one at selection asks for a correction: 7/8.
const FALL_Q16: u64 = ONE_Q16 * 7 / 8;

const _: () = assert!(EFFECT_BATCHES < EXPLORATION_BATCHES);
const _: () = assert!(CORRECTION_TREES_MAX <= CANDIDATES_MAX);

/// The optimizer of one column.
#[derive(Clone, Debug)]
pub struct ColumnPlanner {
    seed: u64,
    /// Batches planned so far.
    batch: u64,
    tree: Tree,
    /// Ratio of the tree on the sample, or the first batch, that chose it.
    selected_q16: u64,
    /// A tree that takes effect at a batch, with its ratio.
    pending: Option<(u64, Tree, u64)>,
    /// True if the last batch fell short.
    is_fallen: bool,
    /// Trees that explorations and corrections have chosen, the latest first.
    winners: Vec<Tree>,
    edges: Edges,
}

impl ColumnPlanner {
    /// Knows nothing; `seed` chooses samples.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            batch: 0,
            tree: Tree::Raw,
            selected_q16: ONE_Q16,
            pending: None,
            is_fallen: false,
            winners: Vec::new(),
            edges: Edges::default(),
        }
    }

    /// The tree for the next batch, whose values are given; `keys` are those of its rows, if keyed
    /// trees may be chosen. [`ColumnPlanner::observe`] follows when the batch is encoded.
    pub fn plan(&mut self, values: &Values, keys: Option<&[u64]>) -> Tree {
        struct Task<'a>(&'a mut ColumnPlanner, Option<&'a [u64]>);
        impl PatternTask for Task<'_> {
            type Output = Tree;
            fn run<T: Word>(self, value_type: ValueType, patterns: &[T]) -> Tree {
                self.0.plan_patterns(value_type, patterns, self.1)
            }
        }
        values.with_patterns(Task(self, keys))
    }

    /// [`ColumnPlanner::plan`] on bit patterns.
    pub(crate) fn plan_patterns<T: Word>(
        &mut self,
        value_type: ValueType,
        values: &[T],
        keys: Option<&[u64]>,
    ) -> Tree {
        let sample = self.sample(value_type, values, keys);
        if let Some((batch, tree, ratio_q16)) = self.pending.take() {
            if batch <= self.batch {
                self.select(tree, ratio_q16);
            } else {
                self.pending = Some((batch, tree, ratio_q16));
            }
        }
        if self.batch == 0 {
            let (tree, ratio_q16) = self.explore(&sample);
            self.select(tree, ratio_q16);
        } else if self.batch.is_multiple_of(EXPLORATION_BATCHES) {
            let (tree, ratio_q16) = self.explore(&sample);
            self.pending = Some((self.batch + EFFECT_BATCHES, tree, ratio_q16));
        } else if self.is_fallen || !still_applies(&self.tree, value_type, values) {
            let (tree, ratio_q16) = self.correct(&sample);
            self.select(tree, ratio_q16);
        }
        self.is_fallen = false;
        self.batch += 1;
        self.tree.clone()
    }

    /// Tells what the batch that was planned last came to: bytes of its values, and encoded.
    pub fn observe(&mut self, raw_bytes: usize, encoded_bytes: usize) {
        let ratio_q16 = ratio_q16(raw_bytes, encoded_bytes);
        self.edges.learn(&self.tree, ratio_q16);
        // Ratios are at most 2^64 / 2^16: products fit 128 bits.
        let least = (u128::from(self.selected_q16) * u128::from(FALL_Q16)) >> 16;
        self.is_fallen = u128::from(ratio_q16) < least;
    }

    /// Takes a tree from now on.
    fn select(&mut self, tree: Tree, ratio_q16: u64) {
        self.winners.retain(|winner| *winner != tree);
        self.winners.insert(0, tree.clone());
        self.winners.truncate(CORRECTION_TREES_MAX / 2);
        (self.tree, self.selected_q16) = (tree, ratio_q16);
    }

    /// One segment of the batch, chosen by seed and batch number.
    fn sample<'a, T: Word>(
        &self,
        value_type: ValueType,
        values: &'a [T],
        keys: Option<&'a [u64]>,
    ) -> Sample<'a, T> {
        let segments = values.len().div_ceil(SAMPLE_ROWS).max(1) as u64;
        let mixed = (self.seed ^ self.batch).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let start = ((mixed >> 32) % segments) as usize * SAMPLE_ROWS;
        let end = values.len().min(start + SAMPLE_ROWS);
        Sample { value_type, values: &values[start..end], keys: keys.map(|keys| &keys[start..end]) }
    }

    /// The best of all candidates, and its ratio.
    fn explore<T: Word>(&mut self, sample: &Sample<'_, T>) -> (Tree, u64) {
        let trees = sample.candidates();
        self.best(sample, trees)
    }

    /// The best of earlier winners and of the candidates whose edges rank highest.
    fn correct<T: Word>(&mut self, sample: &Sample<'_, T>) -> (Tree, u64) {
        let mut others = sample.candidates();
        others.retain(|tree| !self.winners.contains(tree));
        // The sort is stable: of equal ranks the candidate that stands earlier is tried.
        others.sort_by_key(|tree| Reverse(self.edges.rank(tree)));
        let mut trees = vec![Tree::Raw, Tree::Const];
        let is_new = |tree: &Tree| ![Tree::Raw, Tree::Const].contains(tree);
        trees.extend(self.winners.iter().filter(|tree| is_new(tree)).cloned());
        trees.extend(others.into_iter().filter(is_new));
        trees.truncate(CORRECTION_TREES_MAX);
        self.best(sample, trees)
    }

    /// Tries trees; the fewest bytes win, a little less for each level, the first of equals.
    fn best<T: Word>(&mut self, sample: &Sample<'_, T>, trees: Vec<Tree>) -> (Tree, u64) {
        let raw_bytes = sample.values.len() * T::BYTES;
        let grouping = sample.keys.map(Grouping::new);
        let keys = grouping.as_ref().map(|grouping| Keys { grouping, column: 1 });
        let mut best: Option<(usize, Tree, u64)> = None;
        for tree in trees {
            let Ok(encoded) = encode_tree(sample.value_type, sample.values, &tree, keys) else {
                continue;
            };
            let bytes = ChunkBytes { id: 1, encoded }.bytes();
            let ratio_q16 = ratio_q16(raw_bytes, bytes);
            self.edges.learn(&tree, ratio_q16);
            let cost = bytes + bytes / 512 * tree.depth();
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, tree, ratio_q16));
            }
        }
        best.map_or((Tree::Raw, ONE_Q16), |(_, tree, ratio_q16)| (tree, ratio_q16))
    }
}

/// False if the root can hold some but not all of the values: cheap to see, and dear to find out
/// by a batch that stays raw.
fn still_applies<T: Word>(tree: &Tree, value_type: ValueType, values: &[T]) -> bool {
    match tree {
        Tree::Const => values.windows(2).all(|pair| pair[0] == pair[1]),
        Tree::Divisor(None, _) => common(value_type, values).is_some(),
        _ => true,
    }
}

/// What trees are tried on.
struct Sample<'a, T> {
    value_type: ValueType,
    values: &'a [T],
    keys: Option<&'a [u64]>,
}

impl<T: Word> Sample<'_, T> {
    fn candidates(&self) -> Vec<Tree> {
        let statistics = Statistics::of(self.value_type, self.values);
        candidates(&statistics, self.value_type.is_float(), self.keys.is_some())
    }
}

/// Raw to encoded bytes in Q16.
fn ratio_q16(raw_bytes: usize, encoded_bytes: usize) -> u64 {
    (raw_bytes as u64) * ONE_Q16 / (encoded_bytes.max(1) as u64)
}
