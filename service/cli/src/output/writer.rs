//! The interface of a form of output: header, rows chunk by chunk, end.

use std::io::{self, BufWriter, Write};

use shoal_client::{AnswerRow, v1};

use super::terminal::TerminalText;

/// Buffered standard output.
pub type Stdout = BufWriter<TerminalText<io::Stdout>>;

/// Buffered standard output; the caller flushes it.
#[must_use]
pub fn stdout() -> Stdout {
    BufWriter::new(TerminalText::stdout())
}

/// Writes one answer.
pub trait AnswerWriter {
    /// Takes the header; comes first, once.
    ///
    /// # Errors
    /// Whatever writing gives.
    fn begin(&mut self, header: &v1::AnswerHeader, out: &mut dyn Write) -> io::Result<()>;

    /// Takes the next rows.
    ///
    /// # Errors
    /// Whatever writing gives.
    fn rows(&mut self, rows: Vec<AnswerRow>, out: &mut dyn Write) -> io::Result<()>;

    /// Completes the output; comes last, once.
    ///
    /// # Errors
    /// Whatever writing gives.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}
