//! The rights that a token can grant, and sets of rights.
//!
//! Token files, claims and errors use the same names of rights.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A right on fleets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Right {
    /// Report and remove positions.
    Report,
    /// Query the current state.
    Query,
    /// Subscribe to regions.
    Subscribe,
    /// Query the history.
    History,
    /// Create, clear and delete fleets, and erase objects from the history; if the token covers all
    /// fleets, also copy logs and promote.
    Admin,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Report, Self::Query, Self::Subscribe, Self::History, Self::Admin];

    /// The name in token files, claims and errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Query => "query",
            Self::Subscribe => "subscribe",
            Self::History => "history",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|right| right.name() == text);
        found.ok_or_else(|| {
            format!("`{text}` is no right: use report, query, subscribe, history or admin")
        })
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Every right.
    #[must_use]
    pub fn all() -> Self {
        Right::ALL.into_iter().collect()
    }

    /// Whether a right is in the set.
    #[must_use]
    pub fn has(self, right: Right) -> bool {
        self.0 & (1 << right as u8) != 0
    }

    /// Whether the set has none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The rights of the set.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.has(*right))
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | 1 << right as u8))
    }
}

impl Serialize for Rights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Rights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Right>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let rights: Rights = [Right::Query, Right::Admin].into_iter().collect();
        for right in Right::ALL {
            assert_eq!(rights.has(right), matches!(right, Right::Query | Right::Admin));
            assert_eq!(right.name().parse::<Right>().unwrap(), right);
        }
        assert_eq!(serde_json::to_string(&rights).unwrap(), r#"["query","admin"]"#);
        assert_eq!(serde_json::from_str::<Rights>(r#"["admin","query"]"#).unwrap(), rights);
        assert!(serde_json::from_str::<Rights>(r#"["root"]"#).is_err());
        assert!("Admin".parse::<Right>().unwrap_err().contains("Admin"));
    }
}
