//! The bounds file of a log: it distinguishes lost segments from a log that has not begun (LOG.md,
//! section 4.1).
//!
//! It is written when a log is opened or closed, and before segments are retired. No
//! acknowledgement waits for it, so the log may reach further than the file states.

use crate::error::LogError;
use crate::segment::LogFile;
use crate::storage::Storage;
use crate::text_file::TextFile;

const NAME: &str = "bounds";

/// Contents of the bounds file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBounds {
    /// The first segment; 0 if the log has not begun.
    pub first_segment: u64,
    /// The log is durable up to this epoch at least.
    pub durable_epoch: u64,
}

fn path(folder: &str) -> String {
    format!("{folder}/{NAME}")
}

impl LogBounds {
    /// Reads the bounds of the log in a folder; `None` if the file does not exist.
    pub(crate) fn load(storage: &dyn Storage, folder: &str) -> Result<Option<Self>, LogError> {
        TextFile(&path(folder)).read(storage, |text| {
            Self::parse(text).ok_or_else(|| format!("{text:?} is no text of this file"))
        })
    }

    /// Durably replaces the bounds file.
    pub(crate) fn store(self, storage: &dyn Storage, folder: &str) -> Result<(), LogError> {
        let Self { first_segment, durable_epoch } = self;
        let text = format!("first {first_segment}\ndurable {durable_epoch}\n");
        TextFile(&path(folder)).store(storage, &text)
    }

    fn parse(text: &str) -> Option<Self> {
        let (first, durable) = text.strip_suffix('\n')?.split_once('\n')?;
        let number = |line: &str, key| line.strip_prefix(key)?.parse().ok();
        let (first_segment, durable_epoch) =
            (number(first, "first ")?, number(durable, "durable ")?);
        Some(Self { first_segment, durable_epoch })
    }
}

/// Creates the folder and the bounds of a new log. A log that has begun is left unchanged.
///
/// # Errors
/// [`LogError::Storage`], after which the call can be repeated.
pub fn create_log(storage: &dyn Storage, folder: &str) -> Result<(), LogError> {
    let failed = |operation| LogError::storage(operation, storage.display(folder));
    storage.create_dir(folder).map_err(failed("create"))?;
    let names = storage.list(folder).map_err(failed("list"))?;
    let is_begun = names
        .iter()
        .any(|name| name == NAME || matches!(LogFile::parse(name), Some(LogFile::Segment(_))));
    if is_begun { Ok(()) } else { LogBounds::default().store(storage, folder) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::SimulatedDisk;

    #[test]
    fn bounds_read_back() {
        let disk = SimulatedDisk::new(1);
        create_log(&disk, "log").unwrap();
        assert_eq!(LogBounds::load(&disk, "log").unwrap(), Some(LogBounds::default()));
        let bounds = LogBounds { first_segment: 7, durable_epoch: u64::MAX };
        bounds.store(&disk, "log").unwrap();
        create_log(&disk, "log").unwrap();
        assert_eq!(LogBounds::load(&disk, "log").unwrap(), Some(bounds));
        for wrong in
            ["", "first 1", "first 1\ndurable", "first -1\ndurable 2\n", "first 1\ndurable 2\nx"]
        {
            assert_eq!(LogBounds::parse(wrong), None, "{wrong}");
        }
    }
}
