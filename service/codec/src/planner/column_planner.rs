//! The planner of one column: selects the tree of each batch.
//!
//! It explores at the first batch, with immediate effect, and at every `EXPLORATION_BATCHES`-th
//! batch, with effect `EFFECT_BATCHES` batches later. With aim `small` it also explores batches 1,
//! 2, 4, 8 and so on, with immediate effect. Between explorations it corrects the tree if the last
//! batch compressed worse than expected, if the root does not apply, or if a small part of the next
//! batch compresses differently. A correction tries a few trees: the earlier winners, those
//! with the best ratios on a small part, and those whose [`Edges`] rank highest. The result depends
//! only on the batches, the aim and the seed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use crate::assemble::ChunkShape;
use crate::planner::aim::{Aim, has_codes};
use crate::planner::candidates::{CANDIDATES_MAX, entropy_coded};
use crate::planner::column_batch::{
    ColumnBatch, PatternBatch, SAMPLE_ROWS, candidates_for, part_of, ratio_on,
};
use crate::planner::edges::Edges;
use crate::planner::statistics::{ONE_Q16, ratio_q16};
use crate::tree::Tree;
use crate::value_type::ValueType;
use crate::values::{Values, with_patterns};
use crate::word::Word;

/// Batches from one exploration to the next.
pub(super) const EXPLORATION_BATCHES: u64 = 64;
/// Number of batches until an exploration takes effect, so that it can run concurrently with them.
pub(super) const EFFECT_BATCHES: u64 = 8;
/// Maximum number of trees that a correction tries on a whole sample.
pub(super) const CORRECTION_TREES_MAX: usize = 16;
/// A correction follows a batch whose ratio is below 7/8 of the tree's ratio at its selection.
const FALL_Q16: u64 = ONE_Q16 * 7 / 8;
/// A correction follows if the ratio on a part is at most 4/5, or at least 5/4, of the ratio on an
/// earlier part.
const CHANGE: [u64; 2] = [4, 5];
/// Minimum number of rows between checks of a part, so that small batches are not all checked.
const CHECK_ROWS: usize = SAMPLE_ROWS / 2;
/// Maximum number of checks to skip after corrections that changed nothing.
const PATIENCE_MAX: u64 = 16;

const _: () = assert!(EFFECT_BATCHES < EXPLORATION_BATCHES);
const _: () = assert!(CORRECTION_TREES_MAX <= CANDIDATES_MAX);
// The list of a correction has room for trees other than raw, const and the winners.
const _: () = assert!(2 + CORRECTION_TREES_MAX / 2 < CORRECTION_TREES_MAX);

/// The planner of one column.
#[derive(Clone, Debug)]
pub struct ColumnPlanner {
    seed: u64,
    pub(super) aim: Aim,
    /// Batches planned so far.
    batch: u64,
    tree: Tree,
    /// Ratio of the tree on the sample that selected it.
    selected_q16: u64,
    /// Batch at which the explored tree takes effect, the tree and its ratio.
    pending: Option<(u64, Tree, u64)>,
    /// True if the ratio of the last batch fell below the threshold `FALL_Q16`.
    is_fallen: bool,
    /// Ratio of the tree on a part of the batch that selected it, or of the first batch that was
    /// checked.
    part_q16: Option<u64>,
    /// Batch of the next check of a part.
    next_check: u64,
    /// Number of checks to skip after the next correction that changes nothing.
    patience: u64,
    /// Trees that explorations and corrections selected, the latest first.
    winners: Vec<Tree>,
    edges: Edges,
}

impl ColumnPlanner {
    /// A planner without history; `seed` selects samples.
    pub fn new(seed: u64, aim: Aim) -> Self {
        Self {
            seed,
            aim,
            batch: 0,
            tree: Tree::Raw,
            selected_q16: ONE_Q16,
            pending: None,
            is_fallen: false,
            part_q16: None,
            next_check: 0,
            patience: 1,
            winners: Vec::new(),
            edges: Edges::default(),
        }
    }

    /// Returns the tree for the next batch. `keys` has the key of each row; without keys, no keyed
    /// tree is chosen. Call [`ColumnPlanner::observe`] when the batch is encoded.
    pub fn plan(&mut self, values: &Values, keys: Option<&[u64]>) -> Tree {
        let value_type = values.value_type();
        with_patterns!(values.patterns(), |patterns| {
            self.plan_patterns(value_type, patterns, keys)
        })
    }

    /// [`ColumnPlanner::plan`] on bit patterns.
    pub(crate) fn plan_patterns<T: Word>(
        &mut self,
        value_type: ValueType,
        values: &[T],
        keys: Option<&[u64]>,
    ) -> Tree {
        match self.plan_by(&mut PatternBatch::new(value_type, values, keys)) {
            Ok(tree) => tree,
            Err(never) => match never {},
        }
    }

    /// [`ColumnPlanner::plan`] for a batch in any memory.
    ///
    /// # Errors
    /// Those of the batch; drop the planner then.
    pub fn plan_by<B: ColumnBatch>(&mut self, batch: &mut B) -> Result<Tree, B::Error> {
        let sample = self.sample(batch.extent().1);
        if let Some((_, tree, ratio_q16)) = self.pending.take_if(|(at, ..)| *at <= self.batch) {
            self.select(tree, ratio_q16);
        }
        if self.batch == 0 || self.aim.explores_early() && self.batch.is_power_of_two() {
            let (tree, ratio_q16) = self.explore(batch, sample)?;
            self.select(tree, ratio_q16);
        } else if self.batch.is_multiple_of(EXPLORATION_BATCHES) {
            let (tree, ratio_q16) = self.explore(batch, sample)?;
            self.pending = Some((self.batch + EFFECT_BATCHES, tree, ratio_q16));
        // Checking the root is cheap; without the check a whole batch could stay raw.
        } else if self.is_fallen
            || !batch.holds(&self.tree)?
            || self.has_changed(batch, sample.clone())?
        {
            let (tree, ratio_q16) = self.correct(batch, sample.clone())?;
            self.patience = if tree == self.tree { self.patience * 2 } else { 1 };
            self.patience = self.patience.min(PATIENCE_MAX);
            self.next_check = self.batch + self.patience;
            self.select(tree, ratio_q16);
            self.part_q16 = match part_of(sample) {
                Some(part) => Some(ratio_on(batch, part, &self.tree)?),
                None => None,
            };
        }
        self.is_fallen = false;
        self.batch += 1;
        Ok(self.tree.clone())
    }

    /// True if the tree's ratio on a part of this batch differs by the factor `CHANGE` from
    /// `part_q16`.
    fn has_changed<B: ColumnBatch>(
        &mut self,
        batch: &mut B,
        sample: Range<usize>,
    ) -> Result<bool, B::Error> {
        if self.batch < self.next_check {
            return Ok(false);
        }
        self.next_check = self.batch + (CHECK_ROWS / batch.extent().1.max(1)).max(1) as u64;
        let Some(part) = part_of(sample) else {
            return Ok(false);
        };
        let now_q16 = ratio_on(batch, part, &self.tree)?;
        let then_q16 = *self.part_q16.get_or_insert(now_q16);
        let [less, more] = CHANGE;
        let (least, most) = (now_q16.min(then_q16), now_q16.max(then_q16));
        Ok(least.saturating_mul(more) <= most.saturating_mul(less))
    }

    /// Reports the raw and encoded bytes of the batch that was planned last.
    pub fn observe(&mut self, raw_bytes: usize, encoded_bytes: usize) {
        let ratio_q16 = ratio_q16(raw_bytes, encoded_bytes);
        self.edges.learn(&self.tree, ratio_q16);
        // Both factors have at most 64 bits, so the product fits 128 bits.
        let least = (u128::from(self.selected_q16) * u128::from(FALL_Q16)) >> 16;
        self.is_fallen = u128::from(ratio_q16) < least;
    }

    /// Selects a tree for the following batches and puts it first among the winners.
    fn select(&mut self, tree: Tree, ratio_q16: u64) {
        self.winners.retain(|winner| *winner != tree);
        self.winners.insert(0, tree.clone());
        self.winners.truncate(CORRECTION_TREES_MAX / 2);
        (self.tree, self.selected_q16, self.part_q16) = (tree, ratio_q16, None);
    }

    /// One segment of the batch, selected by seed and batch number.
    fn sample(&self, rows: usize) -> Range<usize> {
        let segments = rows.div_ceil(SAMPLE_ROWS).max(1) as u64;
        let mixed = (self.seed ^ self.batch).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let start = ((mixed >> 32) % segments) as usize * SAMPLE_ROWS;
        start..rows.min(start + SAMPLE_ROWS)
    }

    /// The best of all candidates, and its ratio.
    fn explore<B: ColumnBatch>(
        &mut self,
        batch: &mut B,
        sample: Range<usize>,
    ) -> Result<(Tree, u64), B::Error> {
        let trees = candidates_for(batch, sample.clone(), self.aim)?;
        self.best(batch, sample, trees)
    }

    /// Returns the best of: earlier winners, the candidates with the best ratios on a part, and the
    /// candidates whose edges rank highest.
    fn correct<B: ColumnBatch>(
        &mut self,
        batch: &mut B,
        sample: Range<usize>,
    ) -> Result<(Tree, u64), B::Error> {
        let mut trees = vec![Tree::Raw, Tree::Const];
        let is_new = |tree: &Tree| ![Tree::Raw, Tree::Const].contains(tree);
        trees.extend(self.winners.iter().filter(|tree| is_new(tree)).cloned());
        let mut others = candidates_for(batch, sample.clone(), self.aim)?;
        others.retain(|tree| !trees.contains(tree));
        // Sorts are stable, so an earlier candidate precedes a later one of equal rank.
        if let Some(part) = part_of(sample.clone()) {
            let mut ranked = Vec::with_capacity(others.len());
            for tree in others {
                ranked.push((ratio_on(batch, part.clone(), &tree)?, tree));
            }
            ranked.sort_by_key(|(ratio_q16, _)| Reverse(*ratio_q16));
            others = ranked.into_iter().map(|(_, tree)| tree).collect();
            let left = CORRECTION_TREES_MAX - trees.len();
            trees.extend(others.drain(..others.len().min(left / 2)));
        }
        others.sort_by_cached_key(|tree| Reverse(self.edges.rank(tree)));
        trees.extend(others);
        trees.truncate(CORRECTION_TREES_MAX);
        self.best(batch, sample, trees)
    }

    /// Tries `trees` and returns the one of least cost; on a tie, the first in the list. Trees with
    /// codes are tried last, in order of their lower bound, and skipped if the bound shows that
    /// they cannot win.
    fn best<B: ColumnBatch>(
        &mut self,
        batch: &mut B,
        sample: Range<usize>,
        trees: Vec<Tree>,
    ) -> Result<(Tree, u64), B::Error> {
        let raw_bytes = sample.len() * batch.extent().0.width_bytes();
        let mut trial = Trial { aim: self.aim, raw_bytes, best: None };
        let (coded, fixed): (Vec<_>, Vec<_>) =
            trees.into_iter().enumerate().partition(|(_, tree)| has_codes(tree));
        let mut bounds = HashMap::new();
        for (place, tree) in fixed {
            let (shape, bound) = match self.aim.entropy_leaf() {
                None => (batch.shape(sample.clone(), &tree)?, None),
                Some(_) => batch.shape_and_bound(sample.clone(), &tree)?,
            };
            if let Some(ratio_q16) = shape.as_ref().map(|shape| trial.ratio_q16(shape)) {
                // Only trees without codes update the edges, because how many with codes are tried
                // depends on whether bounds are known.
                self.edges.learn(&tree, ratio_q16);
            }
            let both = bound.zip(self.aim.entropy_leaf());
            bounds.extend(both.map(|(bound, leaf)| (entropy_coded(&tree, &leaf), bound)));
            trial.add(place, tree, shape);
        }
        let bound = |tree: &Tree| bounds.get(tree).copied().unwrap_or(0);
        let mut coded: Vec<_> =
            coded.into_iter().map(|(place, tree)| (bound(&tree), place, tree)).collect();
        coded.sort_unstable_by_key(|(bound, place, _)| (*bound, *place));
        for (bound, place, tree) in coded {
            if !trial.excludes(&tree, bound) {
                let shape = batch.shape(sample.clone(), &tree)?;
                trial.add(place, tree, shape);
            }
        }
        Ok(trial.best.map_or((Tree::Raw, ONE_Q16), |best| (best.tree, best.ratio_q16)))
    }
}

/// The best of the trees tried so far.
struct Trial {
    aim: Aim,
    raw_bytes: usize,
    best: Option<Best>,
}

struct Best {
    /// Cost and, for ties, index in the list.
    rank: (usize, usize),
    tree: Tree,
    ratio_q16: u64,
}

impl Trial {
    fn ratio_q16(&self, shape: &ChunkShape) -> u64 {
        ratio_q16(self.raw_bytes, shape.bytes())
    }

    /// True if a tree that takes at least `bytes` cannot win.
    fn excludes(&self, tree: &Tree, bytes: usize) -> bool {
        let cost = self.aim.cost_of_bytes(tree, bytes);
        self.best.as_ref().is_some_and(|best| cost > best.rank.0)
    }

    /// Adds the tree at index `place` of the list; `shape` is `None` if the tree does not apply.
    fn add(&mut self, place: usize, tree: Tree, shape: Option<ChunkShape>) {
        let Some(shape) = shape else { return };
        let rank = (self.aim.cost(&tree, &shape), place);
        if self.best.as_ref().is_none_or(|best| rank < best.rank) {
            self.best = Some(Best { rank, ratio_q16: self.ratio_q16(&shape), tree });
        }
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;
    use crate::planner::statistics::Statistics;

    /// A batch that knows no bounds.
    struct Unbounded<'a>(PatternBatch<'a, u32>);

    impl ColumnBatch for Unbounded<'_> {
        type Error = std::convert::Infallible;

        fn extent(&self) -> (ValueType, usize) {
            self.0.extent()
        }

        fn has_keys(&self) -> bool {
            self.0.has_keys()
        }

        fn statistics(&mut self, rows: Range<usize>) -> Result<Statistics, Self::Error> {
            self.0.statistics(rows)
        }

        fn shape(
            &mut self,
            rows: Range<usize>,
            tree: &Tree,
        ) -> Result<Option<ChunkShape>, Self::Error> {
            self.0.shape(rows, tree)
        }

        fn holds(&mut self, tree: &Tree) -> Result<bool, Self::Error> {
            self.0.holds(tree)
        }
    }

    #[test]
    fn bounds_do_not_change_plans() {
        let mut random = Random::new(11);
        let mut next = |bits: u32| random.below(1_u32 << bits);
        for aim in Aim::ALL {
            let mut planners = [ColumnPlanner::new(3, aim), ColumnPlanner::new(3, aim)];
            for batch in 0..12 {
                let rows = 6_000;
                let keys: Vec<u64> = (0..rows).map(|_| next(5).into()).collect();
                let mut places = [0_u32; 32];
                let values: Vec<u32> = keys
                    .iter()
                    .enumerate()
                    .map(|(row, key)| match batch % 4 {
                        0 => next(3) * next(9),
                        1 => row as u32 / 7 * 100,
                        _ => {
                            places[*key as usize] += next(1 + (row as u32 % 9));
                            places[*key as usize]
                        }
                    })
                    .collect();
                let pattern = || PatternBatch::new(ValueType::U32, &values, Some(&keys));
                let [bounded, unbounded] = &mut planners;
                let Ok(tree) = bounded.plan_by(&mut pattern());
                let Ok(other) = unbounded.plan_by(&mut Unbounded(pattern()));
                assert_eq!(tree, other, "{aim}, batch {batch}");
                for planner in &mut planners {
                    planner.observe(4 * rows, 4 * rows / (2 + batch as usize % 3));
                }
            }
        }
    }
}
