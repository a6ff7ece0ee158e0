//! A CSB+-tree: a map from keys to values whose inner nodes are computed from the sorted leaves.
//!
//! After Liu, Xi, Huang, Jia and Miao (South China University of Technology). The children of a
//! node lie together and their numbers follow from the node's by arithmetic, so nodes have no
//! pointers. The CUDA backend builds and searches the same arrays (`gpu/kernels/index/`).

mod insert;
mod key;
mod range;
mod segmented;
mod shape;
mod tree;

pub use key::{FAN_OUT, Key, LEAF_BYTES, ObjectTime};
pub use range::Range;
pub use segmented::Segmented;
pub use shape::{LEVELS_MAX, Shape};
pub use tree::{BuildError, Tree};
