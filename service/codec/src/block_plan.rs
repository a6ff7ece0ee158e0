//! Which tree does each column of a block take?
//!
//! A plan for blocks of fixes: the object column, and one tree for each other column. It is a
//! wish; columns that it does not suit stay raw. `BlockPlan::fixes` is what suits positions of
//! moving objects when nothing is known of them; a planner finds better ones.

use crate::column::Column;
use crate::tree::{Tree, patched, scaled};
use crate::word::Mode;

/// Trees by column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPlan {
    /// In order of [`Column::ALL`].
    trees: [Tree; Column::ALL.len()],
}

impl BlockPlan {
    /// Every column raw: format version 1.0.
    pub fn raw() -> Self {
        Self { trees: [const { Tree::Raw }; Column::ALL.len()] }
    }

    /// Fixes of moving objects in order of arrival, at most 65,535 objects in a block.
    pub fn fixes() -> Self {
        let keyed = || Tree::KeyedDelta2(Mode::Zigzag, Box::new(patched()), Box::new(scaled()));
        let ids = Tree::Dict(u32::MAX, Box::new(patched()), None);
        let times = Tree::Delta(Mode::Zigzag, Box::new(patched()));
        Self::raw()
            .with(Column::Object, ids)
            .with(Column::Time, times)
            .with(Column::X, keyed())
            .with(Column::Y, keyed())
            .with(Column::Speed, keyed())
            .with(Column::Heading, keyed())
            .with(Column::Altitude, keyed())
            .with(Column::State, Tree::Dict(256, Box::new(Tree::Afl), None))
    }

    /// The same plan with another tree for one column.
    #[must_use]
    pub fn with(mut self, column: Column, tree: Tree) -> Self {
        self.trees[index(column)] = tree;
        self
    }

    /// The tree of one column.
    pub fn tree(&self, column: Column) -> &Tree {
        &self.trees[index(column)]
    }
}

/// Place of a column in order of identifier, which begins at 1.
fn index(column: Column) -> usize {
    usize::from(column.id()) - 1
}
