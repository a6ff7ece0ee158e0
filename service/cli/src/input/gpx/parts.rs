//! A text in parts of bounded length.

use std::io::{self, BufRead, Read};

use memchr::memchr_iter;

/// Maximum bytes of a part: a tag or a text.
const PART_BYTES_MAX: u64 = 1 << 20;

/// The text of an input as UTF-8. It counts lines, and fails if a part is too long. Bytes that are
/// not UTF-8 are characters of Latin-1, which older programs write.
pub(super) struct Parts<R> {
    input: R,
    text: Vec<u8>,
    /// Bytes of `text` that were read.
    read: usize,
    /// The begin of a character whose end is not read yet.
    incomplete: Vec<u8>,
    /// The current line, from 1.
    pub(super) line: u64,
    /// Bytes of the current part.
    bytes: u64,
}

impl<R: BufRead> Parts<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, text: Vec::new(), read: 0, incomplete: Vec::new(), line: 1, bytes: 0 }
    }

    /// Begins the next part.
    pub(super) fn next_part(&mut self) {
        self.bytes = 0;
    }

    /// Reads and decodes the next bytes.
    fn refill(&mut self) -> io::Result<()> {
        (self.text, self.read) = (Vec::new(), 0);
        let bytes = self.input.fill_buf()?;
        let (count, is_at_end) = (bytes.len(), bytes.is_empty());
        self.incomplete.extend_from_slice(bytes);
        self.input.consume(count);
        let bytes = std::mem::take(&mut self.incomplete);
        let mut rest = bytes.as_slice();
        let latin = |bytes: &[u8], text: &mut Vec<u8>| {
            for byte in bytes {
                text.extend_from_slice(char::from(*byte).encode_utf8(&mut [0; 2]).as_bytes());
            }
        };
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, other) = rest.split_at(error.valid_up_to());
            self.text.extend_from_slice(valid);
            let Some(wrong) = error.error_len().or(is_at_end.then_some(other.len())) else {
                self.incomplete.extend_from_slice(other);
                return Ok(());
            };
            latin(&other[..wrong], &mut self.text);
            rest = &other[wrong..];
        }
        self.text.extend_from_slice(rest);
        Ok(())
    }
}

impl<R: BufRead> Read for Parts<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Parts<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.bytes > PART_BYTES_MAX {
            let problem = format!("a tag or a text is longer than {PART_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        if self.read == self.text.len() {
            self.refill()?;
            // A read of a part of one character gives no text.
            while self.text.is_empty() && !self.incomplete.is_empty() {
                self.refill()?;
            }
        }
        Ok(&self.text[self.read..])
    }

    fn consume(&mut self, amount: usize) {
        let bytes = &self.text[self.read..self.read + amount];
        self.line += memchr_iter(b'\n', bytes).count() as u64;
        self.bytes += amount as u64;
        self.read += amount;
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn bytes_that_are_not_utf_8_are_latin_1() {
        let bytes = b"a\xc3\xa9\nb\xe9c\n\xf0\x9f\x9a\x8c\xe2\x82";
        for capacity in [1, 2, 3, 64] {
            let mut parts = Parts::new(BufReader::with_capacity(capacity, &bytes[..]));
            let mut text = String::new();
            parts.read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), parts.line), ("aé\nbéc\n🚌â\u{82}", 3), "{capacity}");
        }
    }
}
