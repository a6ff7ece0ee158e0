//! Where does a line end, and how long may it be?
//!
//! One buffer of fixed size holds at least one whole line of legal length, so a line is always one
//! slice and is never copied out. A longer line is refused and passed over without being stored.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use super::error::CsvFault;
use crate::limits::{CSV_BUFFER_BYTES, CSV_LINE_BYTES_MAX};

/// Cuts bytes into lines and numbers them from 1.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer that no line has taken yet.
    unread: Range<usize>,
    /// The line found last.
    line: Range<usize>,
    number: u64,
    ended: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        let buffer = vec![0; CSV_BUFFER_BYTES];
        Self { input, buffer, unread: 0..0, line: 0..0, number: 0, ended: false }
    }

    /// Number of the line found last.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The line found last, without its end (`\n` or `\r\n`).
    pub(crate) fn line(&self) -> &[u8] {
        let line = &self.buffer[self.line.clone()];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Finds the next line that is not blank; false at the end.
    pub(crate) fn find_filled(&mut self) -> Result<bool, CsvFault> {
        while self.find()? {
            if !self.line().trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the next line; false at the end.
    fn find(&mut self) -> Result<bool, CsvFault> {
        let mut searched_bytes = 0;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(found) = end_of_line(&unread[searched_bytes..]) {
                return self.take(searched_bytes + found, 1);
            }
            searched_bytes = unread.len();
            if searched_bytes > CSV_LINE_BYTES_MAX {
                return self.pass_over();
            }
            if self.ended {
                return if searched_bytes == 0 { Ok(false) } else { self.take(searched_bytes, 0) };
            }
            self.refill()?;
        }
    }

    /// Makes the next bytes the line found, and passes over its end.
    fn take(&mut self, length_bytes: usize, end_bytes: usize) -> Result<bool, CsvFault> {
        self.number += 1;
        self.line = self.unread.start..self.unread.start + length_bytes;
        self.unread.start = self.line.end + end_bytes;
        if length_bytes > CSV_LINE_BYTES_MAX {
            return Err(TOO_LONG);
        }
        Ok(true)
    }

    /// Drops a line beyond the limit, up to and with its end.
    fn pass_over(&mut self) -> Result<bool, CsvFault> {
        self.number += 1;
        loop {
            if let Some(found) = end_of_line(&self.buffer[self.unread.clone()]) {
                self.unread.start += found + 1;
                return Err(TOO_LONG);
            }
            self.unread.start = self.unread.end;
            if self.ended {
                return Err(TOO_LONG);
            }
            self.refill()?;
        }
    }

    /// Moves the unread bytes to the front and reads more behind them.
    fn refill(&mut self) -> Result<(), CsvFault> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        loop {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(bytes) => {
                    self.ended = bytes == 0;
                    self.unread.end += bytes;
                    return Ok(());
                }
                Err(source) if source.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(CsvFault::Unreadable { source }),
            }
        }
    }
}

const TOO_LONG: CsvFault = CsvFault::TooLong { limit_bytes: CSV_LINE_BYTES_MAX };

/// Position of the first line feed, eight bytes at a time ("determine if a word has a byte equal to
/// n", S. Anderson, Bit Twiddling Hacks).
fn end_of_line(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let differing = u64::from_le_bytes(*word) ^ (LOW * u64::from(b'\n'));
        let equal = differing.wrapping_sub(LOW) & !differing & HIGH;
        if equal != 0 {
            return Some(index * 8 + equal.trailing_zeros() as usize / 8);
        }
    }
    let rest_start = words.len() * 8;
    rest.iter().position(|&byte| byte == b'\n').map(|found| rest_start + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_line_is_found_at_every_place() {
        for length in 0..40 {
            let mut bytes = vec![0x8a; length];
            assert_eq!(end_of_line(&bytes), None);
            for place in (0..length).rev() {
                bytes[place] = b'\n';
                assert_eq!(end_of_line(&bytes), Some(place));
            }
        }
    }
}
