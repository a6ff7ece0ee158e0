//! The arithmetic of a tree: levels, nodes and the leaf that each inner key comes from.
//!
//! Inner nodes are numbered bottom up and left to right; level 0 lies above the leaves. A node has
//! F places. Place 0 is the left padding key; place c + 1 has the greatest key of child c; child
//! F - 1 needs none, because a request in the node is not above the node's greatest key. The last
//! child of a level has no bound either, so a request above all keys ends in the last leaf.

use crate::key::Key;

/// Levels of inner nodes at most: 8^10 leaves are more than places that 32 bits number.
pub const LEVELS_MAX: usize = 10;

/// The number of levels and nodes of a tree with so many leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    leaves: usize,
    /// Children of a node; a power of two.
    fan_out: usize,
    levels: usize,
    /// By level: the number of its first node; the number of all nodes behind the last.
    firsts: [usize; LEVELS_MAX + 1],
}

impl Shape {
    /// The shape of a tree of `leaves` leaves, at least 1.
    ///
    /// # Panics
    /// When places of keys would not fit in 32 bits.
    #[must_use]
    pub fn new<K: Key>(leaves: usize) -> Self {
        let fan_out = K::NODE_KEYS;
        let leaves = leaves.max(1);
        assert!(
            leaves < u32::MAX as usize / fan_out - fan_out,
            "{leaves} leaves have places of 32 bits"
        );
        let mut shape = Self { leaves, fan_out, levels: 0, firsts: [0; LEVELS_MAX + 1] };
        let mut nodes = leaves;
        while nodes > 1 {
            nodes = nodes.div_ceil(fan_out);
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

    /// The leaf whose greatest key has a place of an inner node, given by its number: level, node
    /// and place follow from the number alone. `None` for padding and for children without bound.
    #[must_use]
    pub fn leaf_of_key(&self, number: usize) -> Option<usize> {
        let (node, place) = (number / self.fan_out, number % self.fan_out);
        let level = (1..self.levels).filter(|level| self.firsts[*level] <= node).count();
        self.leaf_of(level, node - self.firsts[level], place)
    }

    /// As [`Shape::leaf_of_key`], for a place of a node of a level.
    #[must_use]
    pub fn leaf_of(&self, level: usize, node: usize, place: usize) -> Option<usize> {
        let spanned = self.leaves_of_child(level);
        // Up to this child, children of the level span so many leaves.
        let leaf = ((node * self.fan_out + place) * spanned).checked_sub(1)?;
        (place > 0 && leaf + 1 < self.leaves).then_some(leaf)
    }

    /// Leaves below one child of a node of a level.
    #[must_use]
    pub fn leaves_of_child(&self, level: usize) -> usize {
        self.fan_out.pow(level as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_cover_all_leaves() {
        for (leaves, levels, nodes) in
            [(0, 0, 0), (1, 0, 0), (2, 1, 1), (16, 1, 1), (17, 2, 3), (256, 2, 17), (257, 3, 20)]
        {
            let shape = Shape::new::<u64>(leaves);
            assert_eq!((shape.levels(), shape.nodes()), (levels, nodes), "{leaves} leaves");
        }
    }

    #[test]
    fn keys_come_from_the_last_leaf_of_their_child() {
        // 300 leaves: level 0 has 19 nodes, level 1 has 2, level 2 has 1.
        let shape = Shape::new::<u64>(300);
        assert_eq!((shape.levels(), shape.first_of(1), shape.first_of(2)), (3, 19, 21));
        let of = |node: usize, place: usize| shape.leaf_of_key(16 * node + place);
        assert_eq!((of(0, 0), of(0, 1), of(0, 15)), (None, Some(0), Some(14)));
        assert_eq!((of(18, 1), of(18, 11), of(18, 12)), (Some(288), Some(298), None));
        assert_eq!((of(19, 1), of(20, 1), of(20, 2)), (Some(15), Some(271), Some(287)));
        assert_eq!((of(20, 3), of(21, 1), of(21, 2)), (None, Some(255), None));
    }
}
