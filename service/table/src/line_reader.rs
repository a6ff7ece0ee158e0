//! Splits bytes into lines and numbers them.
//!
//! A line is one slice of the buffer and is never copied out. The buffer grows with the bytes that
//! are present, up to the limit of a line.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use memchr::{memchr, memchr_iter};

use crate::CsvFault;
use crate::limits::READ_BUFFER_BYTES;

/// Reads lines; their numbers begin at 1.
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    line_bytes_max: usize,
    /// True if a line feed between two quotes does not end a line.
    has_quotes: bool,
    buffer: Vec<u8>,
    /// Range of buffered bytes after the current line.
    unread: Range<usize>,
    line: Range<usize>,
    number: u64,
    next_number: u64,
    has_end: bool,
    is_at_end: bool,
    /// True if the unread bytes begin within a line that was too long.
    is_skipping: bool,
}

impl<R: Read> LineReader<R> {
    /// Reads lines of at most `line_bytes_max` bytes; every line feed ends a line.
    pub fn new(input: R, line_bytes_max: usize) -> Self {
        Self {
            input,
            line_bytes_max,
            has_quotes: false,
            buffer: vec![0; READ_BUFFER_BYTES],
            unread: 0..0,
            line: 0..0,
            number: 0,
            next_number: 1,
            has_end: true,
            is_at_end: false,
            is_skipping: false,
        }
    }

    /// As `new`, but a line feed between two quotes (`"`) does not end a line.
    pub(crate) fn quoted(input: R, line_bytes_max: usize) -> Self {
        Self { has_quotes: true, ..Self::new(input, line_bytes_max) }
    }

    /// Number of the current line, or of the line that could not be read. A line that contains
    /// quoted line feeds has the number of its first line.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The current line without its line feed.
    pub fn line(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }

    /// True if the current line ends in a line feed; the last line of a file may not.
    pub(crate) fn has_end(&self) -> bool {
        self.has_end
    }

    /// Reads the next line that is not blank; returns false at the end of the input.
    ///
    /// # Errors
    /// As [`next_line`](Self::next_line).
    pub fn next_filled(&mut self) -> Result<bool, CsvFault> {
        while self.next_line()? {
            if !self.line().trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next line; returns false at the end of the input.
    ///
    /// # Errors
    /// [`CsvFault::TooLong`], after which the next line can be read; [`CsvFault::OpenQuote`] and
    /// [`CsvFault::Unreadable`], which end the text.
    pub fn next_line(&mut self) -> Result<bool, CsvFault> {
        let first_number = self.next_number;
        let (mut part, mut searched, mut is_open) = (0, 0, false);
        let is_odd = |bytes: &[u8]| memchr_iter(b'"', bytes).count() % 2 == 1;
        self.skip()?;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(found) = memchr(b'\n', &unread[searched..]) {
                searched += found;
                is_open ^= self.has_quotes && is_odd(&unread[part..searched]);
                self.next_number += 1;
                if !is_open {
                    return self.take(first_number, searched, true);
                }
                searched += 1;
                part = searched;
                continue;
            }
            searched = unread.len();
            if searched > self.line_bytes_max {
                self.is_skipping = true;
                self.next_number += 1;
                return self.take(first_number, searched, false);
            }
            if self.is_at_end {
                is_open ^= self.has_quotes && is_odd(&unread[part..]);
                if is_open {
                    self.number = first_number;
                    return Err(CsvFault::OpenQuote);
                }
                if searched == 0 {
                    return Ok(false);
                }
                self.next_number += 1;
                return self.take(first_number, searched, false);
            }
            if let Err(fault) = self.refill() {
                self.number = first_number;
                return Err(fault);
            }
        }
    }

    /// Makes the next `bytes` bytes the current line.
    fn take(&mut self, number: u64, bytes: usize, has_end: bool) -> Result<bool, CsvFault> {
        (self.number, self.has_end) = (number, has_end);
        self.line = self.unread.start..self.unread.start + bytes;
        self.unread.start = self.line.end + usize::from(has_end);
        if bytes > self.line_bytes_max {
            return Err(CsvFault::TooLong { limit_bytes: self.line_bytes_max });
        }
        Ok(true)
    }

    /// Skips the rest of a line that was too long.
    fn skip(&mut self) -> Result<(), CsvFault> {
        while self.is_skipping {
            let end = memchr(b'\n', &self.buffer[self.unread.clone()]);
            self.unread.start = end.map_or(self.unread.end, |end| self.unread.start + end + 1);
            self.is_skipping = end.is_none() && !self.is_at_end;
            if self.is_skipping {
                self.refill()?;
            }
        }
        Ok(())
    }

    /// Moves the unread bytes to the front of the buffer and appends bytes from the input.
    fn refill(&mut self) -> Result<(), CsvFault> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(bytes) => {
                    self.is_at_end = bytes == 0;
                    self.unread.end += bytes;
                    return Ok(());
                }
                Err(source) if source.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(CsvFault::Unreadable { source }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_quoted_line_grows_the_buffer_and_a_longer_one_is_skipped() {
        let limit = 2 * READ_BUFFER_BYTES;
        let quoted = |bytes: usize| format!("\"{}\"", "a\n".repeat(bytes / 2));
        let text = format!("{}\n1\n", quoted(limit - 2));
        let mut lines = LineReader::quoted(text.as_bytes(), limit);
        assert!(lines.next_line().unwrap() && lines.line().len() == limit);
        assert!(lines.next_line().unwrap() && lines.line() == b"1");
        assert_eq!((lines.number(), lines.has_end()), (limit as u64 / 2 + 1, true));
        assert!(!lines.next_line().unwrap());

        let text = format!("{}\n1", "a".repeat(3 * limit));
        let mut lines = LineReader::quoted(text.as_bytes(), limit);
        assert!(matches!(lines.next_line(), Err(CsvFault::TooLong { .. })));
        assert!(lines.next_line().unwrap() && lines.line() == b"1");
        assert_eq!((lines.number(), lines.has_end()), (2, false));
    }
}
