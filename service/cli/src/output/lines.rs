//! The answer as bare lines for shell pipelines: one id a line, or the count alone.
//!
//! A note that the limit left ids out goes to standard error.

use std::io::{self, Write};

use shoal_client::{AnswerRow, v1};

use super::writer::AnswerWriter;
use crate::logs::note;

/// Writes the ids, for `nearest` each followed by its distance, or only the count.
#[derive(Clone, Debug)]
pub struct LinesWriter {
    count_only: bool,
    rows: u64,
    header: v1::AnswerHeader,
}

impl LinesWriter {
    /// A writer; `count_only` writes the total instead of ids.
    #[must_use]
    pub fn new(count_only: bool) -> Self {
        Self { count_only, rows: 0, header: v1::AnswerHeader::default() }
    }
}

impl AnswerWriter for LinesWriter {
    fn begin(&mut self, header: &v1::AnswerHeader, out: &mut dyn Write) -> io::Result<()> {
        self.header = header.clone();
        if self.count_only {
            writeln!(out, "{}", header.total)?;
        }
        Ok(())
    }

    fn rows(&mut self, rows: Vec<AnswerRow>, out: &mut dyn Write) -> io::Result<()> {
        self.rows += rows.len() as u64;
        for row in rows {
            match row.distance_m {
                Some(distance_m) => writeln!(out, "{}\t{distance_m:.3}", row.label())?,
                None => writeln!(out, "{}", row.label())?,
            }
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        if self.header.truncated && !self.count_only {
            note(&format!("{} of {} ids; --limit 0 writes all", self.rows, self.header.total));
        }
        Ok(())
    }
}
