//! The arithmetic of a tree: levels, nodes and the leaf that each inner key comes from.
//!
//! Inner nodes are numbered bottom up and left to right; level 0 lies above the leaves. Place 0 of
//! a node is the left padding key; place c + 1 has the greatest key of child c; the last child
//! needs none, because a search reaches the node only if its key is at most the node's greatest
//! key. The last child of a level has no bound either, so a search for a key above all others ends
//! in the last leaf.

use super::key::{FAN_OUT, TreeKey};

/// Most levels of inner nodes: 8^10 leaves need more than the 2^32 places that a tree may have.
pub const LEVELS_MAX: usize = 10;

/// The levels and nodes of a tree with a given number of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    leaves: usize,
    levels: usize,
    /// The number of the first node of each level; after the last level, the number of all nodes.
    firsts: [usize; LEVELS_MAX + 1],
}

impl TreeShape {
    /// The shape of a tree of `leaves` leaves; 0 counts as 1.
    ///
    /// # Panics
    /// If places of keys do not fit in 32 bits.
    #[must_use]
    pub fn new<K: TreeKey>(leaves: usize) -> Self {
        let leaves = leaves.max(1);
        let most = u32::MAX as usize / K::LEAF_KEYS - K::LEAF_KEYS;
        assert!(leaves < most, "{leaves} leaves have places of 32 bits");
        let mut shape = Self { leaves, levels: 0, firsts: [0; LEVELS_MAX + 1] };
        let mut nodes = leaves;
        while nodes > 1 {
            nodes = nodes.div_ceil(FAN_OUT);
            shape.firsts[shape.levels + 1] = shape.firsts[shape.levels] + nodes;
            shape.levels += 1;
        }
        shape
    }

    /// Leaves, at least 1.
    #[must_use]
    pub fn leaves(&self) -> usize {
        self.leaves
    }

    /// Levels of inner nodes.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Inner nodes of all levels.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.firsts[self.levels]
    }

    /// Inner nodes of a level.
    #[must_use]
    pub fn nodes_of(&self, level: usize) -> usize {
        self.firsts[level + 1] - self.firsts[level]
    }

    /// The number of the first node of a level.
    #[must_use]
    pub fn first_of(&self, level: usize) -> usize {
        self.firsts[level]
    }

    /// The leaf whose greatest key is stored at a place of the inner nodes. Places of all nodes are
    /// numbered consecutively. `None` for padding and for children without a bound.
    #[must_use]
    pub fn leaf_of_key(&self, number: usize) -> Option<usize> {
        let (node, place) = (number / FAN_OUT, number % FAN_OUT);
        let level = (1..self.levels).filter(|level| self.firsts[*level] <= node).count();
        self.leaf_of(level, node - self.firsts[level], place)
    }

    /// Same as [`TreeShape::leaf_of_key`], for a place given by level, node and place in the node.
    #[must_use]
    pub fn leaf_of(&self, level: usize, node: usize, place: usize) -> Option<usize> {
        let spanned = self.leaves_of_child(level);
        // The last leaf below child `place - 1`.
        let leaf = ((node * FAN_OUT + place) * spanned).checked_sub(1)?;
        (place > 0 && leaf + 1 < self.leaves).then_some(leaf)
    }

    /// Leaves below one child of a node of a level.
    #[must_use]
    pub fn leaves_of_child(&self, level: usize) -> usize {
        FAN_OUT.pow(level as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_cover_all_leaves() {
        for (leaves, levels, nodes) in
            [(0, 0, 0), (1, 0, 0), (2, 1, 1), (8, 1, 1), (9, 2, 3), (64, 2, 9), (65, 3, 12)]
        {
            let shape = TreeShape::new::<u64>(leaves);
            assert_eq!((shape.levels(), shape.nodes()), (levels, nodes), "{leaves} leaves");
        }
    }

    #[test]
    fn keys_come_from_the_last_leaf_of_their_child() {
        // 75 leaves: level 0 has 10 nodes, level 1 has 2, level 2 has 1.
        let shape = TreeShape::new::<u64>(75);
        assert_eq!((shape.levels(), shape.first_of(1), shape.first_of(2)), (3, 10, 12));
        let of = |node: usize, place: usize| shape.leaf_of_key(FAN_OUT * node + place);
        assert_eq!((of(0, 0), of(0, 1), of(0, 7)), (None, Some(0), Some(6)));
        assert_eq!((of(9, 1), of(9, 2), of(9, 3)), (Some(72), Some(73), None));
        assert_eq!((of(10, 1), of(11, 1), of(11, 2)), (Some(7), Some(71), None));
        assert_eq!((of(12, 1), of(12, 2)), (Some(63), None));
    }
}
