//! Which tree does a text mean?
//!
//! Reads what `Display` of a tree writes, spaces between tokens allowed: a name, parameters behind
//! points, subtrees in brackets. Trees above the greatest depth are refused while they are read, so
//! that no text costs more than its length.

use std::str::FromStr;

use crate::encoding::Encoding;
use crate::limits::PLAN_DEPTH_MAX;
use crate::tree::{DivisorChoice, Tree};
use crate::word::Mode;

/// Why a text is no tree.
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

/// A place in a text.
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

    /// Takes a character if it comes next.
    fn takes(&mut self, wanted: char) -> bool {
        self.skip_spaces();
        let is_next = self.rest().starts_with(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// The letters, digits and underscores that come next.
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
        let Some(encoding) = Encoding::ALL.into_iter().find(|known| known.name() == name) else {
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
                    return self.fault("`,` or `)` is due");
                }
            }
        }
        let tree = node(encoding, &parameters, children);
        tree.map_or_else(
            || {
                self.at = start;
                self.fault(&format!("{name} does not take these parameters and subtrees"))
            },
            Ok,
        )
    }
}

/// The node, if its parameters and children are such as it takes.
fn node(encoding: Encoding, parameters: &[&str], children: Vec<Tree>) -> Option<Tree> {
    // Signs are read by Rust, but no tree writes them.
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = parameters.iter().all(is_number).then_some(parameters);
    let mode = match parameters {
        [] => Some(Mode::Plain),
        ["z"] => Some(Mode::Zigzag),
        _ => None,
    };
    let mut children = children.into_iter().map(Box::new);
    let (first, second, third) = (children.next(), children.next(), children.next());
    if third.is_some() {
        return None;
    }
    let tree = match (encoding, first, second) {
        (Encoding::Delta, Some(child), None) => Tree::Delta(mode?, child),
        (Encoding::Delta2, Some(child), None) => Tree::Delta2(mode?, child),
        (Encoding::KeyedDelta, Some(first), Some(second)) => Tree::KeyedDelta(mode?, first, second),
        (Encoding::KeyedDelta2, Some(first), Some(second)) => {
            Tree::KeyedDelta2(mode?, first, second)
        }
        (Encoding::Divisor, Some(child), None) => Tree::Divisor(divisor(numbers?)?, child),
        (Encoding::FloatToInt, Some(child), None) => {
            let decimals = match numbers? {
                [] => None,
                [decimals] => Some(decimals.parse().ok()?),
                _ => return None,
            };
            Tree::FloatToInt(decimals, child)
        }
        (Encoding::Dict, Some(codes), exceptions) => match numbers? {
            [entries] => Tree::Dict(entries.parse().ok()?, codes, exceptions),
            _ => return None,
        },
        (plain, first, second) if parameters.is_empty() => return without(plain, first, second),
        _ => return None,
    };
    Some(tree)
}

/// A node of an encoding without parameters.
fn without(
    encoding: Encoding,
    first: Option<Box<Tree>>,
    second: Option<Box<Tree>>,
) -> Option<Tree> {
    Some(match (encoding, first, second) {
        (Encoding::Raw, None, None) => Tree::Raw,
        (Encoding::Afl, None, None) => Tree::Afl,
        (Encoding::Const, None, None) => Tree::Const,
        (Encoding::Gfc, None, None) => Tree::Gfc,
        (Encoding::Scale, Some(child), None) => Tree::Scale(child),
        (Encoding::Patch, Some(child), None) => Tree::Patch(child),
        (Encoding::Group, Some(child), None) => Tree::Group(child),
        (Encoding::Rle, Some(values), Some(lengths)) => Tree::Rle(values, lengths),
        _ => return None,
    })
}

/// Divisor and remainder, or neither; `None` if it is not so written.
fn divisor(numbers: &[&str]) -> Option<Option<DivisorChoice>> {
    let (divisor, remainder) = match numbers {
        [] => return Some(None),
        [divisor] => (divisor, &"0"),
        [divisor, remainder] => (divisor, remainder),
        _ => return None,
    };
    let choice =
        DivisorChoice { divisor: divisor.parse().ok()?, remainder: remainder.parse().ok()? };
    (choice.divisor >= 2 && choice.remainder < choice.divisor).then_some(Some(choice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
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
            ("rle(afl; afl)", 7, "`,` or `)`"),
            ("patch(afl", 9, "`,` or `)`"),
            ("patch(afl) afl", 11, "follows"),
            ("scale(scale(scale(scale(afl))))", 24, "more than 4 levels"),
        ] {
            let error = text.parse::<Tree>().unwrap_err();
            assert_eq!(error.offset, offset, "{text}: {error}");
            assert!(error.problem.contains(problem), "{text}: {error}");
        }
        let spaced = " divisor . 100 ( afl )".parse::<Tree>();
        assert!(spaced.is_err(), "parameters stand at their name");
        let tree: Tree = "rle ( scale(afl) ,patch(afl)) ".parse().unwrap();
        assert_eq!(tree.to_string(), "rle(scale(afl), patch(afl))");
    }
}
