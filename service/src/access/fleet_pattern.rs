//! Patterns of fleet names: the characters of names, and `*` for any number of them.
//!
//! The constructor checks the rule, so every value of this type is valid.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum number of characters of a pattern: the same as for a name.
const PATTERN_BYTES_MAX: usize = 64;

/// A valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FleetPattern(Box<str>);

impl FromStr for FleetPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*');
        if (1..=PATTERN_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed) {
            return Ok(Self(text.into()));
        }
        Err(format!(
            "fleet pattern {text:?} is invalid: use 1 to {PATTERN_BYTES_MAX} characters of a-z, \
             0-9, '_', '-' and '*'"
        ))
    }
}

impl TryFrom<String> for FleetPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<FleetPattern> for String {
    fn from(pattern: FleetPattern) -> Self {
        pattern.0.into()
    }
}

impl fmt::Display for FleetPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FleetPattern {
    /// The pattern of every name.
    #[must_use]
    pub fn any() -> Self {
        Self("*".into())
    }

    /// Whether it matches every name.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether the pattern matches a name. Takes at most the length of the pattern times the length
    /// of the name in steps, without recursion.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut from) = (0, 0);
        // Positions from which to continue if the text after the last star does not match.
        let mut retry = None;
        while from < name.len() {
            if pattern.get(at) == Some(&b'*') {
                retry = Some((at + 1, from));
                at += 1;
            } else if pattern.get(at) == Some(&name[from]) {
                (at, from) = (at + 1, from + 1);
            } else if let Some((after_star, tried)) = retry {
                retry = Some((after_star, tried + 1));
                (at, from) = (after_star, tried + 1);
            } else {
                return false;
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    /// A recursive matcher that follows the rule directly.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            Some((byte, rest)) => name.first() == Some(byte) && naive(rest, &name[1..]),
        }
    }

    #[test]
    fn patterns_match_as_the_rule_says() {
        let mut random = Random::new(1);
        let mut below = |bound: u64| random.below(bound);
        for _ in 0..20_000 {
            let pattern: String =
                (0..=below(5)).map(|_| ['a', 'b', '*'][below(3) as usize]).collect();
            let name: String = (0..below(7)).map(|_| ['a', 'b'][below(2) as usize]).collect();
            let expected = naive(pattern.as_bytes(), name.as_bytes());
            let found = pattern.parse::<FleetPattern>().unwrap().matches(&name);
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn only_characters_of_names_and_stars_are_allowed() {
        for bad in ["", "A", "a?", "a b", &"a".repeat(65)] {
            assert!(bad.parse::<FleetPattern>().is_err(), "{bad:?}");
        }
        assert!(FleetPattern::any().is_any() && FleetPattern::any().matches("x"));
        assert!(!"truck-*".parse::<FleetPattern>().unwrap().is_any());
        assert!(!"truck-*".parse::<FleetPattern>().unwrap().matches("bus-truck-1"));
    }
}
