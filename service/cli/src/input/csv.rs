//! CSV files as position reports.

use std::path::Path;

use shoal_client::v1;
use shoal_service::csv_fix::to_wire;
use shoal_table::{CsvReader, FixField, NamedCsvRow};

use super::fix_source::{FixSource, IdKind, SourceRow, SourceSummary};

/// The rows of a CSV file.
pub(super) struct CsvFixes(pub(super) CsvReader);

impl FixSource for CsvFixes {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        let read = match ids {
            IdKind::Numbers => self.0.next_row()?.map(|row| to_wire(&row)),
            IdKind::Names => self.0.next_named_row()?.map(|NamedCsvRow { name, row }| v1::Fix {
                object: 0,
                name,
                ..to_wire(&row)
            }),
        };
        let place = self.0.line();
        Some(read.map(|fix| SourceRow { fix, place }).map_err(|error| error.to_string()))
    }

    fn summary(&self) -> SourceSummary {
        SourceSummary {
            file: Path::display(self.0.file()).to_string(),
            place: "line",
            notes: self.0.describe(),
            names: FixField::ALL.map(|field| self.0.column_name(field).to_owned()),
            dropped: self.0.dropped().clone(),
        }
    }
}
