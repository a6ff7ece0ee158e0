//! Names of fleets: `[a-z0-9_-]{1,64}`; an empty name on the wire means `default`.
//!
//! The constructor checks the rule, so every value of this type is valid.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::ServiceError;

/// Name of the fleet that every server has from its start.
pub const DEFAULT: &str = "default";
/// Maximum number of characters of a name.
const NAME_CHARS_MAX: usize = 64;

/// A valid fleet name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FleetName(Arc<str>);

impl FleetName {
    /// Checks the name in a field of a request; empty is refused.
    ///
    /// # Errors
    /// [`ServiceError::FleetName`].
    pub fn new(field: &str, name: &str) -> Result<Self, ServiceError> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed) {
            return Ok(Self(name.into()));
        }
        // The message is bounded, whatever was sent.
        let name = name.chars().take(NAME_CHARS_MAX + 1).collect();
        Err(ServiceError::FleetName { field: field.to_owned(), name })
    }

    /// Checks the name in a field of a request; an empty name means `default`.
    ///
    /// # Errors
    /// [`ServiceError::FleetName`].
    pub fn of_request(field: &str, name: &str) -> Result<Self, ServiceError> {
        Self::new(field, if name.is_empty() { DEFAULT } else { name })
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The current name of one fleet. Clones of a value show the same name, also after a rename; two
/// values are equal if they are clones of one.
#[derive(Clone, Debug)]
pub struct CurrentName(Arc<RwLock<FleetName>>);

impl CurrentName {
    /// A fleet with this name.
    #[must_use]
    pub fn new(name: FleetName) -> Self {
        Self(Arc::new(RwLock::new(name)))
    }

    /// The name.
    #[must_use]
    pub fn get(&self) -> FleetName {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the name.
    pub(crate) fn set(&self, name: FleetName) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = name;
    }
}

impl PartialEq for CurrentName {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CurrentName {}

impl Hash for CurrentName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Display for CurrentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_holds_at_its_borders() {
        for good in ["a", "0", "_-", "bus_austin-7", &"x".repeat(64)] {
            assert_eq!(FleetName::new("name", good).unwrap().as_str(), good);
        }
        for bad in ["", "A", "a b", "ä", "a.b", "a/b", "a\n", &"x".repeat(65)] {
            assert!(FleetName::new("name", bad).is_err(), "{bad:?}");
        }
        assert_eq!(FleetName::of_request("name", "").unwrap().as_str(), DEFAULT);
        let long = FleetName::new("name", &"é".repeat(1 << 20)).unwrap_err().to_string();
        assert!(long.len() < 300);
    }
}
