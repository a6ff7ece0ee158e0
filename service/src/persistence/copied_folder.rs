//! The folder in which a follower receives a copy of a leader's fleet. The complete copy replaces
//! the folder of the fleet (LOG.md, section 10.2).
//!
//! The next start removes an incomplete copy, `fleets/NAME.copying`. Its rename to
//! `fleets/NAME.copied` commits the copy; after a crash, the next start repeats the remaining
//! steps.

use std::fmt::Write as _;

use shoal_position_log::{FleetIdentity, LogError, Storage, TextFile};

use crate::error::ServiceError;

/// The suffixes of the folder.
pub(super) const COPYING: &str = "copying";
pub(super) const COPIED: &str = "copied";

/// The fleet of a copy, and what to do with the folder that the copy replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyRecord {
    /// Its identity.
    pub(super) id: u128,
    /// Its description in the list of fleets.
    pub(super) description: Vec<u8>,
    /// Suffix for the replaced folder; `None` removes that folder.
    pub(super) aside: Option<String>,
}

fn path(root: &str) -> String {
    format!("{root}/copy")
}

impl CopyRecord {
    /// Loads the record of a folder; `None` if the folder is not a copy or is already installed.
    pub(super) fn load(storage: &dyn Storage, root: &str) -> Result<Option<Self>, LogError> {
        TextFile(&path(root)).read(storage, |text| {
            Self::parse(text).ok_or_else(|| format!("{text:?} does not describe a copy"))
        })
    }

    pub(super) fn store(&self, storage: &dyn Storage, root: &str) -> Result<(), LogError> {
        TextFile(&path(root)).store(storage, &self.text())
    }

    /// Removes the record, once the copy has taken the place of the fleet.
    pub(super) fn remove(storage: &dyn Storage, root: &str) -> Result<(), LogError> {
        let path = path(root);
        let failed = |operation| LogError::storage(operation, storage.display(&path));
        storage.remove(&path).map_err(failed("remove"))?;
        storage.sync_dir(root).map_err(failed("sync the folder of"))
    }

    fn text(&self) -> String {
        let mut text = format!("id {:032x}\ndescription ", self.id);
        for byte in &self.description {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
        if let Some(aside) = &self.aside {
            let _ = writeln!(text, "aside {aside}");
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let id = u128::from_str_radix(lines.next()?.strip_prefix("id ")?, 16).ok()?;
        let digits = lines.next()?.strip_prefix("description ")?;
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let description = (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        let aside = match lines.next() {
            Some(line) => Some(line.strip_prefix("aside ")?.to_owned()),
            None => None,
        };
        lines.next().is_none().then_some(Self { id, description, aside })
    }

    pub(super) fn identity(&self, name: &str) -> Result<FleetIdentity, ServiceError> {
        Ok(FleetIdentity::new(self.id, name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        for aside in [None, Some("diverged-0f".to_owned())] {
            let record = CopyRecord { id: u128::MAX - 1, description: vec![0, 255, 16], aside };
            assert_eq!(CopyRecord::parse(&record.text()), Some(record));
        }
        for wrong in ["", "id x\n", "id 1\ndescription 1\n", "id 1\ndescription 11\nbeside x\n"] {
            assert_eq!(CopyRecord::parse(wrong), None, "{wrong}");
        }
    }
}
