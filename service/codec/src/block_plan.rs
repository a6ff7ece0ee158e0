//! Plans for blocks of fixes. A plan has a tree for each column; a column stays raw if its tree
//! does not apply.

use crate::columns::Column;
use crate::planner::{Aim, entropy_coded};
use crate::tree::{Tree, patched, scaled};
use crate::word::Mode;

/// Trees by column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPlan {
    /// In order of [`Column::ALL`].
    trees: [Tree; Column::ALL.len()],
}

impl BlockPlan {
    /// Every column is raw, which gives format version 1.0.
    pub fn raw() -> Self {
        Self { trees: [const { Tree::Raw }; Column::ALL.len()] }
    }

    /// The usual plan for fixes of moving objects in order of arrival, with at most 65,535 objects
    /// in a block.
    pub fn fixes() -> Self {
        let keyed = || Tree::KeyedDelta2(Mode::Zigzag, Box::new(patched()), Box::new(scaled()));
        let ids = Tree::Dict(u32::MAX, Box::new(patched()), None);
        let times = Tree::Delta(Mode::Zigzag, Box::new(patched()));
        Self { trees: Column::ALL.map(|_| keyed()) }
            .with(Column::Object, ids)
            .with(Column::Time, times)
            .with(Column::State, Tree::Dict(256, Box::new(Tree::Afl), None))
    }

    /// [`BlockPlan::fixes`] with the Huffman leaf of `aim`, if it has one, in place of packed
    /// values.
    pub fn fixes_for(aim: Aim) -> Self {
        let Self { trees } = Self::fixes();
        match aim.entropy_leaf() {
            None => Self { trees },
            Some(leaf) => Self { trees: trees.map(|tree| entropy_coded(&tree, &leaf)) },
        }
    }

    /// The same plan with another tree for one column.
    #[must_use]
    pub fn with(mut self, column: Column, tree: Tree) -> Self {
        self.trees[column.index()] = tree;
        self
    }

    /// The tree of one column.
    pub fn tree(&self, column: Column) -> &Tree {
        &self.trees[column.index()]
    }
}
