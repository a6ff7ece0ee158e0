//! Rows of results as text for the terminal, and the comparison of their answers.

use serde::Serialize;

use crate::error::BenchmarkError;

/// One column of the printed table: right-aligned, `width` characters.
pub(crate) struct Column<R: ?Sized> {
    pub(crate) title: &'static str,
    pub(crate) width: usize,
    pub(crate) cell: fn(&R) -> String,
}

/// A measured row: one backend's run of one case.
pub(crate) trait ResultRow: Serialize + 'static {
    /// The printed columns. The answer hash follows them.
    const COLUMNS: &'static [Column<Self>];

    /// The name of the backend.
    fn backend(&self) -> &'static str;

    /// The experiment and the case.
    fn case(&self) -> String;

    /// The hash of the answers, equal for all backends.
    fn answer_hash(&self) -> &str;

    /// Prints the row.
    fn print(&self) {
        for column in Self::COLUMNS {
            print!("{:>width$} ", (column.cell)(self), width = column.width);
        }
        println!(" {}", self.answer_hash());
    }
}

/// Prints the titles of an experiment's table.
pub(crate) fn print_titles<R: ResultRow>(experiment: &str) {
    println!("\n## {experiment}");
    for column in R::COLUMNS {
        print!("{:>width$} ", column.title, width = column.width);
    }
    println!(" hash");
}

/// Checks that all rows of one workload have the same answers.
pub(crate) fn agree<R: ResultRow>(rows: &[R]) -> Result<(), BenchmarkError> {
    match rows.iter().find(|row| row.answer_hash() != rows[0].answer_hash()) {
        None => Ok(()),
        Some(row) => Err(BenchmarkError::Disagreement {
            case: row.case(),
            backend: row.backend().into(),
            answers: row.answer_hash().into(),
            other: rows[0].backend().into(),
            others: rows[0].answer_hash().into(),
        }),
    }
}
