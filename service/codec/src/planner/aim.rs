//! The aim of a planner: decoding speed or size.
//!
//! The aim decides which trees are tried and how many bytes a slower tree must save.

use std::fmt;
use std::str::FromStr;

use crate::assemble::ChunkShape;
use crate::tree::Tree;

/// The aim of a planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aim {
    /// Only encodings of fixed width, which are the fastest to encode and decode.
    #[default]
    Fast,
    /// Also codes of variable length, where they save more than a tenth of the bytes.
    Balanced,
    /// The fewest bytes; blocks are compact.
    Small,
}

/// The text is not the name of an [`Aim`].
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

    /// Cost by which trees are compared: the number of bytes, plus 1/512 of this number for each
    /// level of the tree, plus a tenth if the aim is `Balanced` and the tree has codes.
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

    /// Cost of `tree` if the chunk takes `bytes` bytes. The cost never falls as `bytes` grows.
    pub(super) fn cost_of_bytes(self, tree: &Tree, bytes: usize) -> usize {
        let penalty = if self == Self::Balanced && has_codes(tree) { bytes / 10 } else { 0 };
        bytes + bytes / 512 * tree.depth() + penalty
    }

    /// Huffman leaf that this aim tries, if any. Large groups take fewer bytes; small groups use
    /// more lanes of a device.
    pub(crate) fn entropy_leaf(self) -> Option<Tree> {
        match self {
            Self::Fast => None,
            Self::Balanced => Some(Tree::Huffman),
            Self::Small => Some(Tree::HuffmanLong),
        }
    }

    /// True if batches 1, 2, 4, 8 and so on are also explored, with immediate effect. This helps
    /// with files, which have few batches.
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

/// True if a node of the tree is a Huffman code, `lzw` or `stateless`.
pub(super) fn has_codes(tree: &Tree) -> bool {
    let is_code =
        matches!(tree, Tree::Huffman | Tree::HuffmanLong | Tree::Lzw(..) | Tree::Stateless(..));
    is_code || tree.children().into_iter().any(has_codes)
}
