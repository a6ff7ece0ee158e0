//! A file whose ids are parts of names: a text comes before each.

use super::fix_source::{FixSource, IdKind, SourceRow, SourceSummary};
use crate::error::CliError;

/// Puts a text before the names of the objects of a file. Numbers stay as they are.
pub(super) struct Prefixed {
    source: Box<dyn FixSource>,
    prefix: String,
}

impl Prefixed {
    pub(super) fn new(source: Box<dyn FixSource>, prefix: String) -> Self {
        Self { source, prefix }
    }
}

impl FixSource for Prefixed {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        let mut row = self.source.next_row(ids)?;
        // An empty name stays empty, and is refused.
        if let (IdKind::Names, Ok(row)) = (ids, &mut row)
            && !row.fix.name.is_empty()
        {
            row.fix.name.insert_str(0, &self.prefix);
        }
        Some(row)
    }

    fn check_space(&self, is_geographic: bool) -> Result<(), CliError> {
        self.source.check_space(is_geographic)
    }

    fn summary(&self) -> SourceSummary {
        self.source.summary()
    }
}
