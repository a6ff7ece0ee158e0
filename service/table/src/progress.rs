//! Progress of a long call, reported to a callback of the caller.

use std::io::{self, Read};

/// Receives progress; called after every read of a file and every group of rows.
pub type ProgressFn<'a> = &'a dyn Fn(ProgressEvent);

/// One report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressEvent {
    /// A stage begins.
    Begin {
        /// The stage.
        stage: Stage,
        /// Its length: bytes of the input file, or rows of binary columns.
        total: u64,
    },
    /// This number of bytes or rows was processed since the previous report.
    Advance(u64),
}

/// The current stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reads a text to infer the types of its columns.
    InferTypes,
    /// Reads and encodes rows.
    Encode,
    /// Decodes and writes rows.
    Decode,
}

/// Reports every byte that is read.
pub(crate) struct CountedRead<'a, R> {
    input: R,
    progress: ProgressFn<'a>,
}

impl<'a, R> CountedRead<'a, R> {
    pub(crate) fn new(input: R, progress: ProgressFn<'a>) -> Self {
        Self { input, progress }
    }
}

impl<R: Read> Read for CountedRead<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        (self.progress)(ProgressEvent::Advance(bytes as u64));
        Ok(bytes)
    }
}
