//! What a planner aims at: the speed of decoding, or the size.
//!
//! The aim decides which trees are tried, and what a tree must save to be preferred.

use std::fmt;
use std::str::FromStr;

use crate::assemble::ChunkShape;
use crate::tree::Tree;

/// The aim of a planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aim {
    /// Values of fixed width only: the fastest to encode and decode.
    #[default]
    Fast,
    /// Codes of variable length where they save more than a tenth.
    Balanced,
    /// The fewest bytes; blocks are compact.
    Small,
}

/// A name without an [`Aim`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the aim is {0:?}, it must be fast, balanced or small")]
pub struct UnknownAim(String);

impl Aim {
    /// Every aim.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Balanced, Self::Small];

    /// Its name in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Balanced => "balanced",
            Self::Small => "small",
        }
    }

    /// What trees compete by: bytes, a small penalty for each level, and what a tree must save to
    /// be preferred to one that decodes faster.
    pub(super) fn cost(self, tree: &Tree, shape: &ChunkShape) -> usize {
        self.cost_of_bytes(tree, self.bytes(shape))
    }

    /// Bytes that a chunk takes in a block of this aim.
    pub(super) fn bytes(self, shape: &ChunkShape) -> usize {
        match self {
            Self::Fast | Self::Balanced => shape.bytes(),
            Self::Small => shape.compact_bytes(),
        }
    }

    /// The cost of a tree that takes so many bytes; it grows with them.
    pub(super) fn cost_of_bytes(self, tree: &Tree, bytes: usize) -> usize {
        let penalty = if self == Self::Balanced && has_codes(tree) { bytes / 10 } else { 0 };
        bytes + bytes / 512 * tree.depth() + penalty
    }

    /// The leaf with Huffman codes, if any is tried: larger groups take fewer bytes, smaller ones
    /// decode on more lanes of a device.
    pub(crate) fn entropy_leaf(self) -> Option<Tree> {
        match self {
            Self::Fast => None,
            Self::Balanced => Some(Tree::Huffman),
            Self::Small => Some(Tree::HuffmanLong),
        }
    }

    /// True if the first batches are explored more often, at once: files have few.
    pub(super) fn explores_early(self) -> bool {
        self == Self::Small
    }

    /// True if blocks are written in their compact form.
    pub fn is_compact(self) -> bool {
        self == Self::Small
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Aim {
    type Err = UnknownAim;

    fn from_str(name: &str) -> Result<Self, UnknownAim> {
        let found = Self::ALL.into_iter().find(|aim| aim.name() == name);
        found.ok_or_else(|| UnknownAim(name.to_owned()))
    }
}

/// True if a node has values of variable length: Huffman codes, strings, indexes among bytes.
pub(super) fn has_codes(tree: &Tree) -> bool {
    let is_code =
        matches!(tree, Tree::Huffman | Tree::HuffmanLong | Tree::Lzw(..) | Tree::Stateless(..));
    is_code || tree.children().into_iter().any(has_codes)
}
