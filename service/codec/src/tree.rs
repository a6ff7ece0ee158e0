//! Trees of encodings: depth and number of nodes, and writing and parsing of the text form.
//!
//! In text, a tree is a name, parameters that each follow a point, and subtrees in brackets, with
//! optional spaces between tokens. The parser checks the depth limit while it reads, so its cost is
//! linear in the length of the text.

use std::fmt;
use std::str::FromStr;
use std::vec;

use crate::encoding::Encoding;
pub use crate::encoding::Tree;
pub use crate::encoding::divisor::DivisorChoice;
use crate::limits::PLAN_DEPTH_MAX;
use crate::word::Mode;

impl Tree {
    /// True if it works in grouped order, so that encoding needs keys.
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
}

impl fmt::Display for Tree {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.encoding().name())?;
        self.write_parameters(out)?;
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

/// A parameter or a child of a node.
pub(crate) trait TreeField: Sized {
    /// Takes the field from the text of a node; `None` if the next item of the text is not such a
    /// field.
    fn take(text: &mut NodeText<'_>) -> Option<Self>;

    /// Writes a parameter as it follows the name.
    fn write(&self, _out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// The child, unless it is a parameter or absent.
    fn child(&self) -> Option<&Tree> {
        None
    }
}

/// Parameters and subtrees of a node that no field has taken yet.
pub(crate) struct NodeText<'a> {
    parameters: vec::IntoIter<&'a str>,
    children: vec::IntoIter<Tree>,
}

impl NodeText<'_> {
    /// True if all parameters and subtrees are taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.parameters.len() + self.children.len() == 0
    }

    /// Takes a numeric parameter: `Some(None)` if there is none, `None` if the text is not a
    /// number.
    fn number<N: FromStr>(&mut self) -> Option<Option<N>> {
        let Some(text) = self.parameters.next() else {
            return Some(None);
        };
        // `parse` accepts signs, which no tree has.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok())?.map(Some)
    }
}

impl TreeField for Box<Tree> {
    fn take(text: &mut NodeText<'_>) -> Option<Self> {
        text.children.next().map(Self::new)
    }

    fn child(&self) -> Option<&Tree> {
        Some(self)
    }
}

impl TreeField for Option<Box<Tree>> {
    fn take(text: &mut NodeText<'_>) -> Option<Self> {
        Some(<Box<Tree> as TreeField>::take(text))
    }

    fn child(&self) -> Option<&Tree> {
        self.as_deref()
    }
}

impl TreeField for Mode {
    fn take(text: &mut NodeText<'_>) -> Option<Self> {
        match text.parameters.next() {
            None => Some(Self::Plain),
            Some("z") => Some(Self::Zigzag),
            Some(_) => None,
        }
    }

    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if *self == Self::Zigzag { ".z" } else { "" })
    }
}

impl TreeField for u32 {
    fn take(text: &mut NodeText<'_>) -> Option<Self> {
        text.number()?
    }

    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, ".{self}")
    }
}

impl TreeField for Option<u8> {
    fn take(text: &mut NodeText<'_>) -> Option<Self> {
        text.number()
    }

    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map_or(Ok(()), |number| write!(out, ".{number}"))
    }
}

impl TreeField for Option<DivisorChoice> {
    fn take(text: &mut NodeText<'_>) -> Option<Self> {
        let Some(divisor) = text.number()? else {
            return Some(None);
        };
        let choice = DivisorChoice { divisor, remainder: text.number()?.unwrap_or(0) };
        (choice.divisor >= 2 && choice.remainder < choice.divisor).then_some(Some(choice))
    }

    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            None => Ok(()),
            Some(DivisorChoice { divisor, remainder: 0 }) => write!(out, ".{divisor}"),
            Some(DivisorChoice { divisor, remainder }) => write!(out, ".{divisor}.{remainder}"),
        }
    }
}

/// The text is not a valid tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("character {offset} of the tree: {problem}")]
pub struct TreeTextError {
    /// Byte of the text, counted from 0.
    pub offset: usize,
    /// What is wrong there.
    pub problem: String,
}

impl FromStr for Tree {
    type Err = TreeTextError;

    fn from_str(text: &str) -> Result<Self, TreeTextError> {
        let mut reader = Reader { text, at: 0 };
        let tree = reader.tree(1)?;
        reader.skip_spaces();
        match reader.at == text.len() {
            true => Ok(tree),
            false => reader.fault("something follows the tree"),
        }
    }
}

/// A position in a text.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn fault<T>(&self, problem: &str) -> Result<T, TreeTextError> {
        Err(TreeTextError { offset: self.at, problem: problem.to_owned() })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().bytes().take_while(|byte| *byte == b' ').count();
    }

    /// Takes the next character if it is `wanted`.
    fn takes(&mut self, wanted: char) -> bool {
        self.skip_spaces();
        let is_next = self.rest().starts_with(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes the next letters, digits and underscores.
    fn word(&mut self) -> &'a str {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = self.rest().bytes().take_while(|byte| is_part(byte)).count();
        let word = &self.rest()[..length];
        self.at += length;
        word
    }

    /// A subtree on level `level`.
    fn tree(&mut self, level: usize) -> Result<Tree, TreeTextError> {
        self.skip_spaces();
        if level > PLAN_DEPTH_MAX {
            return self.fault(&format!("more than {PLAN_DEPTH_MAX} levels"));
        }
        let start = self.at;
        let name = self.word();
        let Some(encoding) = Encoding::ALL.iter().find(|encoding| encoding.name() == name) else {
            self.at = start;
            return self.fault("no encoding has this name");
        };
        let mut parameters = Vec::new();
        while self.rest().starts_with('.') {
            self.at += 1;
            parameters.push(self.word());
        }
        let mut children = Vec::new();
        if self.takes('(') {
            loop {
                children.push(self.tree(level + 1)?);
                if self.takes(')') {
                    break;
                }
                if !self.takes(',') {
                    return self.fault("expected `,` or `)`");
                }
            }
        }
        let (parameters, children) = (parameters.into_iter(), children.into_iter());
        Tree::from_text(*encoding, NodeText { parameters, children }).map_or_else(
            || {
                self.at = start;
                self.fault(&format!("{name} does not take these parameters and subtrees"))
            },
            Ok,
        )
    }
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

    #[test]
    fn errors_name_the_offset_and_the_problem() {
        for (text, offset, problem) in [
            ("", 0, "no encoding"),
            ("lz4", 0, "no encoding"),
            ("scale", 0, "does not take"),
            ("scale(afl, afl)", 0, "does not take"),
            ("afl(afl)", 0, "does not take"),
            ("delta.q(afl)", 0, "does not take"),
            ("divisor.1(afl)", 0, "does not take"),
            ("divisor.100.100(afl)", 0, "does not take"),
            ("patch(dict(afl))", 6, "does not take"),
            ("patch(dict.4294967296(afl))", 6, "does not take"),
            ("rle(afl; afl)", 7, "expected `,` or `)`"),
            ("patch(afl", 9, "expected `,` or `)`"),
            ("patch(afl) afl", 11, "follows"),
            ("scale(scale(scale(scale(afl))))", 24, "more than 4 levels"),
        ] {
            let error = text.parse::<Tree>().unwrap_err();
            assert_eq!(error.offset, offset, "{text}: {error}");
            assert!(error.problem.contains(problem), "{text}: {error}");
        }
        let spaced = " divisor . 100 ( afl )".parse::<Tree>();
        assert!(spaced.is_err(), "no spaces before parameters");
        let tree: Tree = "rle ( scale(afl) ,patch(afl)) ".parse().unwrap();
        assert_eq!(tree.to_string(), "rle(scale(afl), patch(afl))");
    }
}
