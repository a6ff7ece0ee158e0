//! Splits bytes into lines and numbers them.
//!
//! A line is one slice of the buffer and is never copied out. The buffer grows with the bytes that
//! are present, up to the limit of a line.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2};

use crate::CsvFault;
use crate::limits::READ_BUFFER_BYTES;

/// The byte order mark of UTF-8, which may be before the first field.
pub(crate) const BOM: &[u8] = "\u{feff}".as_bytes();

/// Reads lines; their numbers begin at 1.
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    line_bytes_max: usize,
    /// The byte between two fields, if a line feed within a quoted field does not end a line.
    separator: Option<u8>,
    buffer: Vec<u8>,
    /// Range of buffered bytes after the current line.
    unread: Range<usize>,
    line: Range<usize>,
    number: u64,
    next_number: u64,
    has_end: bool,
    /// True if the current line has a quote; not known of lines with quoted line feeds.
    has_quote: bool,
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
            separator: None,
            buffer: vec![0; READ_BUFFER_BYTES],
            unread: 0..0,
            line: 0..0,
            number: 0,
            next_number: 1,
            has_end: true,
            has_quote: false,
            is_at_end: false,
            is_skipping: false,
        }
    }

    /// As `new`, but a line feed within a quoted field does not end a line.
    pub(crate) fn quoted(input: R, line_bytes_max: usize, separator: u8) -> Self {
        Self { separator: Some(separator), ..Self::new(input, line_bytes_max) }
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

    /// True if the current line, before it was extended, may have a quote (`"`).
    pub(crate) fn may_have_quote(&self) -> bool {
        self.has_quote
    }

    /// Reads the next line that has more than blanks; returns false at the end of the input.
    /// `delimiter` is no blank: a line of tabs is a row of empty fields if tabs separate fields.
    ///
    /// # Errors
    /// As [`next_line`](Self::next_line).
    pub fn next_filled(&mut self, delimiter: u8) -> Result<bool, CsvFault> {
        let is_text = |byte: &u8| *byte == delimiter || !byte.is_ascii_whitespace();
        while self.next_line()? {
            if self.line().iter().any(is_text) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends the next line, with the line feed before it, to the current one; returns false and
    /// changes nothing at the end of the input or beyond the limit of a line.
    ///
    /// # Errors
    /// [`CsvFault::Unreadable`], which ends the text.
    pub(crate) fn extend(&mut self) -> Result<bool, CsvFault> {
        if !self.has_end {
            return Ok(false);
        }
        let bytes = self.line.len();
        // The current line is unread again while the buffer moves.
        self.unread.start = self.line.start;
        let mut searched = bytes + 1;
        let found = loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(found) = memchr(b'\n', &unread[searched..]) {
                break Some((searched + found, true));
            }
            searched = unread.len();
            if searched > self.line_bytes_max {
                break None;
            }
            if self.is_at_end {
                break (searched > bytes + 1).then_some((searched, false));
            }
            self.refill()?;
        };
        let found = found.filter(|(end, _)| *end <= self.line_bytes_max);
        let (end, has_end) = found.unwrap_or((bytes, true));
        self.set_line(end, has_end);
        self.next_number += u64::from(found.is_some());
        Ok(found.is_some())
    }

    /// Appends the lines after the current one that are empty, with the line ends before them; `end`
    /// ends lines.
    ///
    /// # Errors
    /// As [`extend`](Self::extend).
    pub(crate) fn extend_by_empty_lines(&mut self, end: &[u8]) -> Result<(), CsvFault> {
        while self.has_end && self.next_starts_with(end)? && self.extend()? {}
        Ok(())
    }

    /// True if the bytes after the current line begin with `bytes`.
    fn next_starts_with(&mut self, bytes: &[u8]) -> Result<bool, CsvFault> {
        while self.unread.len() < bytes.len() && !self.is_at_end {
            // The current line stays in the buffer while its bytes move.
            let line = self.line.len();
            self.unread.start = self.line.start;
            self.refill()?;
            self.set_line(line, true);
        }
        Ok(self.buffer[self.unread.clone()].starts_with(bytes))
    }

    /// Shortens the current line to its first line, of `bytes` bytes; what was appended is read
    /// again.
    pub(crate) fn shorten(&mut self, bytes: usize) {
        if bytes == self.line.len() {
            return;
        }
        self.unread.start = self.line.start;
        self.set_line(bytes, true);
        self.next_number = self.number + 1;
    }

    /// Reads the next line; returns false at the end of the input.
    ///
    /// # Errors
    /// [`CsvFault::TooLong`], after which the next line can be read; [`CsvFault::OpenQuote`] and
    /// [`CsvFault::Unreadable`], which end the text.
    pub fn next_line(&mut self) -> Result<bool, CsvFault> {
        let first_number = self.next_number;
        let (mut part, mut searched, mut is_open) = (0, 0, false);
        let separator = self.separator;
        let is_open_after = |is_open: bool, bytes: &[u8]| {
            separator.is_some_and(|separator| is_open_after(is_open, bytes, separator))
        };
        self.skip()?;
        self.has_quote = separator.is_some();
        loop {
            let unread = &self.buffer[self.unread.clone()];
            let rest = &unread[searched..];
            let found = if self.has_quote {
                memchr(b'\n', rest)
            } else {
                memchr2(b'\n', b'"', rest).and_then(|found| {
                    self.has_quote = rest[found] == b'"';
                    if self.has_quote { memchr(b'\n', rest) } else { Some(found) }
                })
            };
            if let Some(found) = found {
                searched += found;
                is_open = is_open_after(is_open, &unread[part..searched]);
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
                is_open = is_open_after(is_open, &unread[part..]);
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
        self.number = number;
        self.set_line(bytes, has_end);
        if bytes > self.line_bytes_max {
            return Err(CsvFault::TooLong { limit_bytes: self.line_bytes_max });
        }
        Ok(true)
    }

    /// Makes the next `bytes` bytes the current line, and what follows unread.
    fn set_line(&mut self, bytes: usize, has_end: bool) {
        self.has_end = has_end;
        self.line = self.unread.start..self.unread.start + bytes;
        self.unread.start = self.line.end + usize::from(has_end);
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

/// Whether a quoted field is open after some bytes of a line. A quote opens a field at its start
/// only, and two quotes within a quoted field are one of its text (RFC 4180).
fn is_open_after(mut is_open: bool, bytes: &[u8], separator: u8) -> bool {
    let mut closed_at = None;
    for at in memchr_iter(b'"', bytes) {
        if is_open {
            (is_open, closed_at) = (false, Some(at));
        } else {
            let is_start = at == 0
                || bytes[at - 1] == separator
                || (at == BOM.len() && bytes.starts_with(BOM));
            is_open = is_start || closed_at == Some(at - 1);
        }
    }
    is_open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_quoted_line_grows_the_buffer_and_a_longer_one_is_skipped() {
        let limit = 2 * READ_BUFFER_BYTES;
        let quoted = |bytes: usize| format!("\"{}\"", "a\n".repeat(bytes / 2));
        let text = format!("{}\n1\n", quoted(limit - 2));
        let mut lines = LineReader::quoted(text.as_bytes(), limit, b',');
        assert!(lines.next_line().unwrap() && lines.line().len() == limit);
        assert!(lines.next_line().unwrap() && lines.line() == b"1");
        assert_eq!((lines.number(), lines.has_end()), (limit as u64 / 2 + 1, true));
        assert!(!lines.next_line().unwrap());

        let text = format!("{}\n1", "a".repeat(3 * limit));
        let mut lines = LineReader::quoted(text.as_bytes(), limit, b',');
        assert!(matches!(lines.next_line(), Err(CsvFault::TooLong { .. })));
        assert!(lines.next_line().unwrap() && lines.line() == b"1");
        assert_eq!((lines.number(), lines.has_end()), (2, false));
    }

    #[test]
    fn empty_lines_are_appended_wherever_the_buffer_ends() {
        for fill in READ_BUFFER_BYTES - 8..READ_BUFFER_BYTES + 2 {
            for end in ["\n", "\r\n"] {
                let first = "a".repeat(fill);
                let text = format!("{first}{end}{end}{end}b{end}{end}");
                let mut lines = LineReader::new(text.as_bytes(), 2 * READ_BUFFER_BYTES);
                for expected in [format!("{first}{end}{end}{end}"), format!("b{end}{end}")] {
                    assert!(lines.next_line().unwrap());
                    lines.extend_by_empty_lines(end.as_bytes()).unwrap();
                    assert_eq!([lines.line(), b"\n"].concat(), expected.as_bytes());
                }
                assert!(!lines.next_line().unwrap());
            }
        }
    }

    #[test]
    fn a_line_is_extended_by_the_next_ones_and_shortened_again() {
        let limit = READ_BUFFER_BYTES / 2;
        let long = "x".repeat(limit);
        let text =
            format!("{}\n", "a".repeat(READ_BUFFER_BYTES - 9)) + "bc\nd\ne\n" + &long + "\nf";
        let mut lines = LineReader::new(text.as_bytes(), READ_BUFFER_BYTES - 2);
        assert!(lines.next_line().unwrap() && lines.next_line().unwrap());
        for appended in ["bc\nd", "bc\nd\ne"] {
            assert!(lines.extend().unwrap());
            assert_eq!((lines.line(), lines.number()), (appended.as_bytes(), 2));
        }
        lines.shorten(2);
        assert_eq!(lines.line(), b"bc");
        for (line, number) in [("d", 3), ("e", 4), (long.as_str(), 5)] {
            assert!(lines.next_line().unwrap());
            assert_eq!((lines.line(), lines.number()), (line.as_bytes(), number));
        }
        assert!(lines.extend().unwrap() && lines.line().ends_with(b"\nf"));
        assert!(!lines.extend().unwrap() && lines.line().ends_with(b"\nf"));
        lines.shorten(limit + 2);
        lines.shorten(limit);
        assert!(lines.next_line().unwrap() && lines.line() == b"f" && lines.number() == 6);
        assert!(!lines.next_line().unwrap());

        let text = format!("a\n{}\nb\n", "x".repeat(limit));
        let mut lines = LineReader::new(text.as_bytes(), limit);
        assert!(lines.next_line().unwrap());
        assert!(!lines.extend().unwrap() && lines.line() == b"a");
        assert!(lines.next_line().unwrap() && lines.line().len() == limit);
        assert!(lines.next_line().unwrap() && lines.line() == b"b" && lines.number() == 3);
    }
}
