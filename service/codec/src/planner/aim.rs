//! What a planner aims at: the speed of decoding, or the size.
//!
//! The aim decides which trees are tried, and what a tree must save to be preferred.

use std::fmt;
use std::str::FromStr;

use crate::tree::Tree;

/// The aim of a planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aim {
    /// Values of fixed width only: the fastest to encode and decode.
    #[default]
    Fast,
    /// Codes of variable length where they save more than a tenth.
    Balanced,
    /// The fewest bytes.
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

    /// Bytes that a tree must save to be preferred to one that decodes faster.
    pub(super) fn penalty(self, tree: &Tree, bytes: usize) -> usize {
        let share = match self {
            Self::Fast | Self::Small => return 0,
            Self::Balanced => 10,
        };
        if has_codes(tree) { bytes / share } else { 0 }
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
fn has_codes(tree: &Tree) -> bool {
    let is_code = matches!(tree, Tree::Huffman | Tree::Lzw(..) | Tree::Stateless(..));
    is_code || tree.children().into_iter().any(has_codes)
}
