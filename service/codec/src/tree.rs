//! Which encodings is a column asked to take?
//!
//! A `Tree` is a wish: encodings and their order, with parameters where the wish is precise. The
//! encoder finds everything else in the values, and a wish that does not apply to them is refused
//! whole. Its text form is `divisor(keyed_delta.z(patch(afl), scale(afl)))`.

use std::fmt;

use crate::column::ValueType;
use crate::divisor::encode::{Division, choice_of};
use crate::encoding::Encoding;
use crate::word::Mode;

/// A tree of encodings to try on a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tree {
    /// Values as they are.
    Raw,
    /// The smallest width for each group of 32 values.
    Afl,
    /// One value everywhere.
    Const,
    /// Floats as differences in whole bytes.
    Gfc,
    /// Differences within a tile.
    Delta(Mode, Box<Tree>),
    /// Differences of differences within a tile.
    Delta2(Mode, Box<Tree>),
    /// Distances from the least value of a tile.
    Scale(Box<Tree>),
    /// Quotients by this divisor and remainder, or by the greatest that fits all values.
    Divisor(Option<DivisorChoice>, Box<Tree>),
    /// Decimal floats with so many decimals, or with as many as needed.
    FloatToInt(Option<u8>, Box<Tree>),
    /// A few exceptions apart: high bits, or values that a given divisor or number of decimals
    /// below does not fit.
    Patch(Box<Tree>),
    /// Runs: values, lengths.
    Rle(Box<Tree>, Box<Tree>),
    /// Codes into a dictionary of at most so many entries; with a second child the most frequent
    /// values only.
    Dict(u32, Box<Tree>, Option<Box<Tree>>),
    /// Rows grouped by key.
    Group(Box<Tree>),
    /// Differences along each key: residuals, heads.
    KeyedDelta(Mode, Box<Tree>, Box<Tree>),
    /// Differences of differences along each key: residuals, heads.
    KeyedDelta2(Mode, Box<Tree>, Box<Tree>),
}

/// A divisor that a plan gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DivisorChoice {
    /// 2 or more.
    pub divisor: u32,
    /// Below the divisor.
    pub remainder: u32,
}

impl DivisorChoice {
    /// True if values of this type may be divided so.
    pub fn suits(self, value_type: ValueType) -> bool {
        !value_type.is_float() && Division::new(self, value_type).is_some()
    }

    /// What values that share the divisor leave, if it is one that values of this type may be
    /// divided by; `value` is any of them, sign-extended if the type is signed.
    pub fn shared(divisor: u64, value: u64, value_type: ValueType) -> Option<Self> {
        choice_of(divisor, value, value_type)
    }
}

impl Tree {
    /// The encoding of its root.
    pub fn encoding(&self) -> Encoding {
        match self {
            Self::Raw => Encoding::Raw,
            Self::Afl => Encoding::Afl,
            Self::Const => Encoding::Const,
            Self::Gfc => Encoding::Gfc,
            Self::Delta(..) => Encoding::Delta,
            Self::Delta2(..) => Encoding::Delta2,
            Self::Scale(_) => Encoding::Scale,
            Self::Divisor(..) => Encoding::Divisor,
            Self::FloatToInt(..) => Encoding::FloatToInt,
            Self::Patch(_) => Encoding::Patch,
            Self::Rle(..) => Encoding::Rle,
            Self::Dict(..) => Encoding::Dict,
            Self::Group(_) => Encoding::Group,
            Self::KeyedDelta(..) => Encoding::KeyedDelta,
            Self::KeyedDelta2(..) => Encoding::KeyedDelta2,
        }
    }

    /// Its subtrees.
    pub fn children(&self) -> Vec<&Self> {
        match self {
            Self::Raw | Self::Afl | Self::Const | Self::Gfc => Vec::new(),
            Self::Delta(_, child)
            | Self::Delta2(_, child)
            | Self::Scale(child)
            | Self::Divisor(_, child)
            | Self::FloatToInt(_, child)
            | Self::Patch(child)
            | Self::Group(child)
            | Self::Dict(_, child, None) => vec![child],
            Self::Rle(first, second)
            | Self::Dict(_, first, Some(second))
            | Self::KeyedDelta(_, first, second)
            | Self::KeyedDelta2(_, first, second) => vec![first, second],
        }
    }

    /// True if it works in grouped order, so that encoding takes the keys.
    pub fn is_keyed(&self) -> bool {
        self.encoding().is_keyed() || self.children().into_iter().any(Self::is_keyed)
    }

    /// Levels of the tree, 1 for a leaf.
    pub fn depth(&self) -> usize {
        1 + self.children().into_iter().map(Self::depth).max().unwrap_or(0)
    }

    /// Nodes of the tree.
    pub fn nodes(&self) -> usize {
        1 + self.children().into_iter().map(Self::nodes).sum::<usize>()
    }

    /// Text of its own parameters, as it follows the name.
    fn parameters(&self) -> String {
        match self {
            Self::Delta(mode, _)
            | Self::Delta2(mode, _)
            | Self::KeyedDelta(mode, ..)
            | Self::KeyedDelta2(mode, ..) => match mode {
                Mode::Plain => String::new(),
                Mode::Zigzag => ".z".to_owned(),
            },
            Self::Divisor(Some(choice), _) if choice.remainder == 0 => {
                format!(".{}", choice.divisor)
            }
            Self::Divisor(Some(choice), _) => format!(".{}.{}", choice.divisor, choice.remainder),
            Self::FloatToInt(Some(decimals), _) => format!(".{decimals}"),
            Self::Dict(entries, ..) => format!(".{entries}"),
            _ => String::new(),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.encoding().name(), self.parameters())?;
        let children = self.children();
        for (index, child) in children.iter().enumerate() {
            write!(out, "{}{child}", if index == 0 { "(" } else { ", " })?;
        }
        if children.is_empty() { Ok(()) } else { write!(out, ")") }
    }
}

/// `patch(afl)`.
pub(crate) fn patched() -> Tree {
    Tree::Patch(Box::new(Tree::Afl))
}

/// `scale(afl)`.
pub(crate) fn scaled() -> Tree {
    Tree::Scale(Box::new(Tree::Afl))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_every_node() {
        let keyed = Tree::KeyedDelta(Mode::Zigzag, Box::new(patched()), Box::new(scaled()));
        let tree = Tree::Divisor(None, Box::new(keyed));
        assert_eq!(tree.to_string(), "divisor(keyed_delta.z(patch(afl), scale(afl)))");
        assert_eq!((tree.depth(), tree.nodes(), tree.is_keyed()), (4, 6, true));
        let dict = Tree::Dict(256, Box::new(Tree::Afl), None);
        assert_eq!(dict.to_string(), "dict.256(afl)");
        assert!(!Tree::Delta(Mode::Plain, Box::new(dict)).is_keyed());
    }
}
