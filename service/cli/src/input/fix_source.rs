//! Rows of a file of any format, as fixes of a report.

use shoal_client::v1;
use shoal_service::json::fleet::is_named;
use shoal_table::{DroppedMeasures, FixField};

use crate::error::CliError;

/// How a fleet identifies its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// By numbers.
    Numbers,
    /// By names.
    Names,
}

impl IdKind {
    /// The kind of a fleet.
    #[must_use]
    pub fn of(fleet: &v1::Fleet) -> Self {
        if is_named(fleet) { Self::Names } else { Self::Numbers }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceRow {
    /// The report.
    pub fix: v1::Fix,
    /// The number of its line, row or entity in the file, from 1.
    pub place: u64,
}

/// A file of position reports. Each format has a reader.
pub trait FixSource: Send {
    /// Returns the next row, or the description of one that cannot be read, with file, place, column
    /// and value; `None` at the end.
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>>;

    /// Checks that the positions fit the kind of space of a fleet, if the file states theirs.
    ///
    /// # Errors
    /// [`CliError::Input`].
    fn check_space(&self, is_geographic: bool) -> Result<(), CliError> {
        let _ = is_geographic;
        Ok(())
    }

    /// Says how the rows read so far were understood.
    fn summary(&self) -> SourceSummary;
}

/// Checks that a fleet takes longitude and latitude, which are all that a file's format has.
///
/// # Errors
/// [`CliError::Input`] for a plane.
pub(crate) fn must_be_geographic(file: &str, is_geographic: bool) -> Result<(), CliError> {
    if is_geographic {
        return Ok(());
    }
    let reason = "its positions are longitude and latitude; the fleet is planar".to_owned();
    Err(CliError::Input { file: file.to_owned(), reason })
}

/// How a file was understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSummary {
    /// The file in messages.
    pub file: String,
    /// What the places of rows count: `line`, `row` or `entity`.
    pub place: &'static str,
    /// Columns, units and other assumptions, a line each.
    pub notes: Vec<String>,
    /// The names of the fields in the file.
    pub names: [String; FixField::COUNT],
    /// Measures without which rows were read.
    pub dropped: DroppedMeasures,
}

impl SourceSummary {
    /// The name in the file of a field of the protocol's `Fix`.
    #[must_use]
    pub fn name_of<'field>(&'field self, api_field: &'field str) -> &'field str {
        let field = match api_field {
            "object" | "name" => FixField::Object,
            "time_ms" => FixField::Time,
            "x" => FixField::X,
            "y" => FixField::Y,
            "speed_mps" => FixField::Speed,
            "heading_deg" => FixField::Heading,
            "altitude_m" => FixField::Altitude,
            "state" => FixField::State,
            "valid_s" => FixField::Validity,
            _ => return api_field,
        };
        &self.names[field as usize]
    }
}

/// All rows of a source, the descriptions of those that cannot be read, and its summary.
#[cfg(test)]
pub(super) fn drained(
    source: &mut dyn FixSource,
    ids: IdKind,
) -> (Vec<SourceRow>, Vec<String>, SourceSummary) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    while let Some(row) = source.next_row(ids) {
        match row {
            Ok(row) => rows.push(row),
            Err(fault) => faults.push(fault),
        }
    }
    (rows, faults, source.summary())
}
