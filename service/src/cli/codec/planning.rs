//! Which tree does a column take in the next block?
//!
//! The smallest of a list of trees, tried on the column's first segment and kept until a block
//! becomes clearly larger than that promised; then the next block is tried anew. No randomness and
//! no clock: the same rows give the same trees.

use shoal_codec::{Grouping, Keys, Mode, Tree, ValueType, Values, encode_column};

/// Rows that trees are tried on: one segment of keyed order.
const SAMPLE_ROWS: usize = 65_536;
/// A tree is kept while a block's ratio is at least this share of the one it was chosen with.
const RATIO_KEPT: f64 = 0.9;
/// Bytes of a directory entry that a node costs, about: its 24 and those of two sections.
const NODE_COST_BYTES: usize = 40;

/// Chooses trees for one column, block after block.
#[derive(Debug, Default)]
pub(crate) struct ColumnPlanner {
    chosen: Option<Chosen>,
}

#[derive(Debug)]
struct Chosen {
    tree: Tree,
    /// Raw over encoded bytes of the first block with it.
    ratio: Option<f64>,
}

impl ColumnPlanner {
    /// The tree for the next block of values, with those of the key column if there is one.
    pub(crate) fn tree(&mut self, values: &Values, keys: Option<(&Values, u16)>) -> Tree {
        let choose = || Chosen { tree: smallest(values, keys), ratio: None };
        self.chosen.get_or_insert_with(choose).tree.clone()
    }

    /// Takes note of what the block became; a tree that does clearly worse than at first goes.
    pub(crate) fn observe(&mut self, raw_bytes: usize, encoded_bytes: usize) {
        let ratio = raw_bytes as f64 / encoded_bytes.max(1) as f64;
        if let Some(chosen) = &mut self.chosen
            && ratio < *chosen.ratio.get_or_insert(ratio) * RATIO_KEPT
        {
            self.chosen = None;
        }
    }
}

/// The tree that makes a sample smallest; of equal ones the first.
fn smallest(values: &Values, keys: Option<(&Values, u16)>) -> Tree {
    let rows = values.len().min(SAMPLE_ROWS);
    let sample = values.slice(0, rows);
    let grouping = keys.map(|(keys, _)| Grouping::new(&keys.slice(0, rows).keys()));
    let keys = grouping.as_ref().zip(keys).map(|(grouping, (_, column))| Keys { grouping, column });
    let size = |tree: &Tree| {
        // A tree that does not apply to the values is never the smallest.
        encode_column(&sample, tree, keys).map_or(usize::MAX, |encoded| {
            let sections: usize = encoded.sections.iter().map(Vec::len).sum();
            sections + NODE_COST_BYTES * encoded.plan.nodes().len()
        })
    };
    let trees = candidates(values.value_type(), keys.is_some());
    trees.into_iter().min_by_key(size).unwrap_or(Tree::Raw)
}

/// Every tree that is tried on values of a type.
fn candidates(value_type: ValueType, is_keyed: bool) -> Vec<Tree> {
    let mut trees = vec![Tree::Raw, Tree::Const];
    let mut integers = unkeyed();
    if is_keyed {
        integers.extend(keyed());
    }
    let around: fn(Box<Tree>) -> Tree = match value_type {
        ValueType::F32 | ValueType::F64 => {
            trees.push(Tree::Gfc);
            |tree| Tree::FloatToInt(None, tree)
        }
        _ => |tree| Tree::Divisor(None, tree),
    };
    trees.extend(integers.iter().cloned());
    trees.extend(integers.into_iter().map(|tree| around(Box::new(tree))));
    trees
}

fn patched() -> Box<Tree> {
    Box::new(Tree::Patch(Box::new(Tree::Afl)))
}

fn scaled() -> Box<Tree> {
    Box::new(Tree::Scale(Box::new(Tree::Afl)))
}

fn runs() -> Box<Tree> {
    Box::new(Tree::Rle(patched(), patched()))
}

/// Trees in the order of the rows.
fn unkeyed() -> Vec<Tree> {
    let zigzag = Mode::Zigzag;
    vec![
        Tree::Afl,
        *patched(),
        *scaled(),
        Tree::Scale(patched()),
        Tree::Delta(zigzag, patched()),
        Tree::Delta(zigzag, runs()),
        Tree::Delta(Mode::Plain, runs()),
        Tree::Delta(Mode::Plain, patched()),
        *runs(),
        Tree::Rle(Box::new(Tree::Delta(zigzag, patched())), patched()),
        Tree::Dict(u32::MAX, patched(), None),
        Tree::Dict(u32::MAX, runs(), None),
        Tree::Dict(255, Box::new(Tree::Afl), Some(scaled())),
        Tree::Delta(zigzag, Box::new(Tree::Dict(255, Box::new(Tree::Afl), Some(patched())))),
        Tree::Delta2(zigzag, patched()),
    ]
}

/// Trees along each key.
fn keyed() -> Vec<Tree> {
    let zigzag = Mode::Zigzag;
    vec![
        Tree::KeyedDelta(zigzag, patched(), scaled()),
        Tree::KeyedDelta(zigzag, runs(), scaled()),
        Tree::KeyedDelta2(zigzag, patched(), scaled()),
        Tree::Group(runs()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The finaliser of MurmurHash3: no order is left.
    fn mixed(row: u32) -> u32 {
        let row = (row ^ (row >> 16)).wrapping_mul(0x85eb_ca6b);
        let row = (row ^ (row >> 13)).wrapping_mul(0xc2b2_ae35);
        row ^ (row >> 16)
    }

    #[test]
    fn trees_follow_the_values_when_these_change() {
        let steps = Values::U32((0..5_000).map(|row| 1_000 * row).collect());
        let flat = Values::U32(vec![7; 5_000]);
        let mut planner = ColumnPlanner::default();
        assert_eq!(planner.tree(&flat, None), Tree::Const);
        planner.observe(20_000, 100);
        assert_eq!(planner.tree(&steps, None), Tree::Const, "one block too late");
        planner.observe(20_000, 20_048);
        let tree = planner.tree(&steps, None).to_string();
        assert!(tree.contains("delta"), "{tree}");
        let wild = Values::U32((0..5_000).map(mixed).collect());
        assert_eq!(ColumnPlanner::default().tree(&wild, None), Tree::Raw);
    }

    #[test]
    fn keys_are_used_where_rows_of_objects_interleave() {
        let ids: Vec<u32> = (0..60_000).map(|row| mixed(row) % 64).collect();
        let value = |(row, id): (u32, &u32)| mixed(*id).wrapping_add(row / 64 + mixed(row) % 4);
        let values = Values::U32((0..).zip(&ids).map(value).collect());
        let keys = Values::U32(ids);
        assert!(ColumnPlanner::default().tree(&values, Some((&keys, 256))).is_keyed());
        assert!(!ColumnPlanner::default().tree(&values, None).is_keyed());
    }
}
