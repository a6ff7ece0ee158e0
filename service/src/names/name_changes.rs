//! Changes of a name table that the log does not contain yet, in the log's format.

use std::fmt;

use shoal_position_log::{LoggedNames, ObjectIds, push_name};

/// New names and forgotten numbers, in the form of a record of the log.
#[derive(Clone, Default, PartialEq)]
pub struct NameChanges {
    first_number: u64,
    count: u32,
    texts: Vec<u8>,
    /// The forgotten numbers, ascending.
    forgotten: Vec<u64>,
}

impl NameChanges {
    /// Adds the name of the next number.
    pub(super) fn push(&mut self, number: u64, name: &str) {
        if self.count == 0 {
            self.first_number = number;
        }
        debug_assert_eq!(self.first_number + u64::from(self.count), number);
        push_name(&mut self.texts, name);
        self.count += 1;
    }

    /// Adds numbers whose names were removed.
    pub(super) fn forget(&mut self, numbers: &[u64]) {
        self.forgotten.extend(numbers);
        self.forgotten.sort_unstable();
        self.forgotten.dedup();
    }

    /// The number of the first new name; `None` without new names.
    pub(super) fn first_new(&self) -> Option<u64> {
        (self.count > 0).then_some(self.first_number)
    }

    /// The number of the last new name; `None` without new names.
    pub(crate) fn last_new(&self) -> Option<u64> {
        (self.count > 0).then(|| self.first_number + u64::from(self.count) - 1)
    }

    /// Whether there is nothing to log.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.forgotten.is_empty()
    }

    /// Bytes of the new names and the forgotten numbers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.texts.len() + self.forgotten.len() * size_of::<u64>()) as u64
    }

    /// The changes as part of a log record.
    #[must_use]
    pub fn logged(&self) -> LoggedNames<'_> {
        let Self { first_number, count, texts, forgotten } = self;
        let forgotten = ObjectIds::Ids(forgotten);
        LoggedNames { first_number: *first_number, count: *count, texts, forgotten }
    }
}

impl From<LoggedNames<'_>> for NameChanges {
    fn from(logged: LoggedNames<'_>) -> Self {
        Self {
            first_number: logged.first_number,
            count: logged.count,
            texts: logged.texts.to_vec(),
            forgotten: logged.forgotten.iter().collect(),
        }
    }
}

// Names must not appear in text logs.
impl fmt::Debug for NameChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.logged().fmt(f)
    }
}
