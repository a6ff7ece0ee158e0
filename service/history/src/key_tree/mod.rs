//! The layout of a tree over sorted keys, which a device builds over the keys of its runs.
//!
//! A CSB+-tree whose inner nodes are computed from the sorted leaves, after Liu, Xi, Huang, Jia and
//! Miao (South China University of Technology). The children of a node lie together and their
//! numbers follow from the node's by arithmetic, so nodes have no pointers.

mod key;
mod tree_shape;

pub use key::{FAN_OUT, LEAF_BYTES, ObjectTime, TreeKey};
pub use tree_shape::{LEVELS_MAX, TreeShape};
