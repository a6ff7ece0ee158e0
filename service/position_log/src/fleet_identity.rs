//! The fleet that a file belongs to: an id that is never reused, and a name for messages.

use std::fmt;

use crate::error::{HeaderFault, LogError};
use crate::limits::FLEET_NAME_BYTES_MAX;
use crate::wire::{put, u128_at};

/// A fleet. A fleet that is dropped and created again under its name has another id, so that files
/// of the former are recognised. The id alone decides: files of one fleet may have different names,
/// because a fleet that was renamed has another folder at a follower than at its leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetIdentity {
    /// Drawn at random when the fleet is created.
    pub id: u128,
    /// The name of its folder when the file was written, 1 to 64 bytes.
    pub name: String,
}

/// Bytes of an encoded identity.
pub(crate) const IDENTITY_BYTES: usize = 16 + 1 + 7 + FLEET_NAME_BYTES_MAX;

impl FleetIdentity {
    /// Checks the length of the name.
    ///
    /// # Errors
    /// [`LogError::Input`].
    pub fn new(id: u128, name: &str) -> Result<Self, LogError> {
        if name.is_empty() || name.len() > FLEET_NAME_BYTES_MAX {
            return Err(LogError::Input(format!(
                "a fleet's name has {} bytes, it must have 1 to {FLEET_NAME_BYTES_MAX}",
                name.len()
            )));
        }
        Ok(Self { id, name: name.to_owned() })
    }

    /// Fails unless a file of the fleet `self` is one of the fleet `expected`. `file` is its path,
    /// `name` the name that it must have in its folder.
    pub(crate) fn check(
        &self,
        expected: Option<&Self>,
        file: &str,
        name: impl FnOnce() -> String,
    ) -> Result<(), LogError> {
        match expected {
            Some(expected) if expected.id != self.id => Err(LogError::Fleet {
                file: file.to_owned(),
                found: self.to_string(),
                expected: expected.to_string(),
                name: name(),
            }),
            _ => Ok(()),
        }
    }

    /// Writes [`IDENTITY_BYTES`] at `at`; the bytes there are 0 before.
    pub(crate) fn encode(&self, bytes: &mut [u8], at: usize) {
        put(bytes, at, &self.id.to_le_bytes());
        bytes[at + 16] = self.name.len() as u8;
        put(bytes, at + 24, self.name.as_bytes());
    }

    pub(crate) fn parse(bytes: &[u8], at: usize) -> Result<Self, HeaderFault> {
        let length = usize::from(bytes[at + 16]);
        let name = &bytes[at + 24..at + IDENTITY_BYTES];
        let name = name.get(..length).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or(HeaderFault::Damaged("the name of the fleet is not valid"))?;
        Ok(Self { id: u128_at(bytes, at), name: name.to_owned() })
    }
}

impl fmt::Display for FleetIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:032x})", self.name, self.id)
    }
}
