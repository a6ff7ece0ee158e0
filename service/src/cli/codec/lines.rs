//! Where does a line of CSV end, and where its fields?
//!
//! Quotes are not taken off: a field is the bytes between two separators, and separators and line
//! ends between two quotes belong to the field. So a line put together again is the line.

use std::io::BufRead;

use super::header::LineEnd;

/// Bytes of one line at most.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

/// Reads lines and remembers how they ended.
pub(crate) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
    next_number: u64,
    end: Option<LineEnd>,
    last_has_end: bool,
}

impl<R: BufRead> Lines<R> {
    /// Reads from the first line on.
    pub(crate) fn new(reader: R) -> Self {
        let line = Vec::new();
        Self { reader, line, number: 0, next_number: 1, end: None, last_has_end: true }
    }

    /// Number of the line that was read last, from 1; of a line with line ends between quotes, its
    /// first.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The line that was read last, without its end.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// How the lines end; the first line decides.
    pub(crate) fn end(&self) -> LineEnd {
        self.end.unwrap_or(LineEnd::Lf)
    }

    /// Whether the line that was read last had an end.
    pub(crate) fn last_has_end(&self) -> bool {
        self.last_has_end
    }

    /// Reads the next line; false at the end of the text.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub(crate) fn next(&mut self) -> Result<bool, String> {
        self.line.clear();
        self.number = self.next_number;
        let mut is_quoted = false;
        loop {
            let start = self.line.len();
            let limit = (LINE_BYTES_MAX + 1 - start) as u64;
            let read = std::io::Read::take(&mut self.reader, limit)
                .read_until(b'\n', &mut self.line)
                .map_err(|error| error.to_string())?;
            if read == 0 {
                break;
            }
            if self.line.len() > LINE_BYTES_MAX {
                return Err(format!("the line has more than {LINE_BYTES_MAX} bytes"));
            }
            self.next_number += 1;
            let quotes = self.line[start..].iter().filter(|byte| **byte == b'"').count();
            is_quoted ^= !quotes.is_multiple_of(2);
            if !is_quoted {
                break;
            }
        }
        if is_quoted {
            return Err("a quote is not closed".to_owned());
        }
        if self.line.is_empty() {
            return Ok(false);
        }
        self.take_end()?;
        Ok(true)
    }

    /// Takes the end off the line.
    fn take_end(&mut self) -> Result<(), String> {
        let found = if self.line.ends_with(b"\r\n") { LineEnd::CrLf } else { LineEnd::Lf };
        self.last_has_end = self.line.ends_with(b"\n");
        if !self.last_has_end {
            return Ok(());
        }
        match *self.end.get_or_insert(found) {
            LineEnd::CrLf if found == LineEnd::Lf => {
                Err("the line ends in LF, those before it in CR LF".to_owned())
            }
            // Where lines end in LF, a CR before it belongs to the last field.
            end => {
                self.line.truncate(self.line.len() - end.bytes().len());
                Ok(())
            }
        }
    }
}

/// The fields of a line.
pub(crate) fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    line.split(move |byte| {
        is_quoted ^= *byte == b'"';
        *byte == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let mut lines = Lines::new(text.as_bytes());
        let mut all = Vec::new();
        while lines.next().map_err(|problem| format!("{}: {problem}", lines.number()))? {
            all.push(String::from_utf8(lines.line().to_vec()).unwrap());
        }
        Ok(all)
    }

    #[test]
    fn lines_end_where_no_quote_is_open() {
        assert_eq!(read("a,b\n1,2\n\n3,4").unwrap(), ["a,b", "1,2", "", "3,4"]);
        assert_eq!(read("a\r\nb\r\n").unwrap(), ["a", "b"]);
        assert_eq!(read("a\nb\r\nc\n").unwrap(), ["a", "b\r", "c"]);
        assert_eq!(read("a\n\"x\ny\",2\n").unwrap(), ["a", "\"x\ny\",2"]);
        assert_eq!(read("").unwrap(), Vec::<String>::new());
        assert!(read("a\r\nb\nc").unwrap_err().starts_with("2: the line ends in LF"));
        assert!(read("a\n\"x\ny\n").unwrap_err().starts_with("2: a quote is not closed"));
    }

    #[test]
    fn fields_keep_their_quotes() {
        let split = |line: &str| -> Vec<String> {
            fields(line.as_bytes(), b',').map(|f| String::from_utf8_lossy(f).into()).collect()
        };
        assert_eq!(split("1,,\"a,b\",\"\"\"\""), ["1", "", "\"a,b\"", "\"\"\"\""]);
        assert_eq!(split(""), [""]);
    }
}
