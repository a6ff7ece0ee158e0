//! What must a form of output be able to do?
//!
//! Begin with the header, take rows chunk by chunk, end. Writers hold no more than a chunk, the
//! table excepted, whose rows the default limit bounds.

use std::io::{self, BufWriter, Write};

use shoal_proto::v1;

use crate::client::answer::AnswerRow;

/// Buffered standard output.
pub type Stdout = BufWriter<io::Stdout>;

/// Standard output, to be flushed by who writes last.
#[must_use]
pub fn stdout() -> Stdout {
    BufWriter::new(io::stdout())
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
