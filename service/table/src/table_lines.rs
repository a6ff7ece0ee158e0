//! Splits a CSV table into lines and fields without changing their bytes.
//!
//! Fields keep their quotes; separators and line ends within a quoted field belong to it. Empty
//! lines belong to the last field of the line before them, if it has several. Joining fields and
//! separators therefore restores the text.

use std::io::Read;

use memchr::memchr;

use crate::limits::TABLE_LINE_BYTES_MAX;
use crate::line_reader::{BOM, LineReader};
use crate::{LineEnd, TableError};

/// Reads the lines of one file. All lines must end as the first does.
pub(crate) struct TableLines<R> {
    file: String,
    lines: LineReader<R>,
    separator: u8,
    /// True if empty lines belong to the line before them.
    joins_empty_lines: bool,
    end: Option<LineEnd>,
}

impl<R: Read> TableLines<R> {
    /// Reads a text; `file` is its name in errors.
    pub(crate) fn new(file: &str, input: R, separator: u8) -> Self {
        let lines = LineReader::quoted(input, TABLE_LINE_BYTES_MAX, separator);
        Self { file: file.to_owned(), lines, separator, joins_empty_lines: false, end: None }
    }

    /// The fields of the current line.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        fields(self.line(), self.separator)
    }

    /// The line end of the first line, which all lines must have.
    pub(crate) fn end(&self) -> LineEnd {
        self.end.unwrap_or(LineEnd::Lf)
    }

    /// True if the current line has a line end; only the last line of a file may lack it.
    pub(crate) fn has_end(&self) -> bool {
        self.lines.has_end()
    }

    /// The current line without its end. A carriage return belongs to the last field if lines end
    /// in LF alone.
    pub(crate) fn line(&self) -> &[u8] {
        let line = self.lines.line();
        let is_cut = self.has_end() && self.end == Some(LineEnd::CrLf);
        if is_cut { &line[..line.len() - 1] } else { line }
    }

    /// Reads the next line; returns false at the end of the text.
    ///
    /// # Errors
    /// [`TableError::Input`] with the number of the line.
    pub(crate) fn next_line(&mut self) -> Result<bool, TableError> {
        let mut read = self.lines.next_line();
        if let (Ok(true), None) = (&read, self.end) {
            // An empty line is a row of a table with one column.
            self.joins_empty_lines = fields(self.lines.line(), self.separator).nth(1).is_some();
        }
        if self.joins_empty_lines && matches!(read, Ok(true)) {
            let is_crlf = self.lines.line().ends_with(b"\r");
            let end = self.end.unwrap_or(if is_crlf { LineEnd::CrLf } else { LineEnd::Lf });
            read = self.lines.extend_by_empty_lines(end.bytes()).map(|()| true);
        }
        match read {
            Ok(true) if self.has_end() => {
                let is_crlf = self.lines.line().ends_with(b"\r");
                let found = if is_crlf { LineEnd::CrLf } else { LineEnd::Lf };
                if *self.end.get_or_insert(found) == LineEnd::CrLf && !is_crlf {
                    return Err(self.fault("the line ends in LF, those before it in CR LF"));
                }
                Ok(true)
            }
            Ok(is_line) => Ok(is_line),
            Err(fault) => Err(self.fault(&fault.to_string())),
        }
    }

    /// An error of the current line.
    pub(crate) fn fault(&self, problem: &str) -> TableError {
        TableError::input(&self.file, format!("line {}: {problem}", self.lines.number()))
    }

    /// Checks the number of fields of the current line.
    ///
    /// # Errors
    /// [`TableError::Input`] with the line.
    pub(crate) fn check_fields(&self, found: usize, expected: usize) -> Result<(), TableError> {
        if found == expected {
            return Ok(());
        }
        Err(self.fault(&format!("{found} fields, the head line has {expected}")))
    }
}

/// The fields of a line. A quote begins a quoted field only as its first byte; two quotes within a
/// quoted field do not end it.
fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let has_quote = memchr(b'"', line).is_some();
    let (mut is_open, mut is_start, mut has_just_closed) = (false, true, false);
    let mut bom_left = if line.starts_with(BOM) { BOM.len() } else { 0 };
    line.split(move |byte| {
        if !has_quote {
            return *byte == separator;
        }
        if bom_left > 0 {
            bom_left -= 1;
            return false;
        }
        if *byte == b'"' {
            let opens = is_start || has_just_closed;
            (has_just_closed, is_open) = (is_open, !is_open && opens);
            is_start = false;
            return false;
        }
        is_start = *byte == separator && !is_open;
        has_just_closed = false;
        is_start
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let mut lines = TableLines::new("t", text.as_bytes(), b',');
        let mut all = Vec::new();
        while lines.next_line().map_err(|error| error.to_string())? {
            all.push(String::from_utf8(lines.line().to_vec()).unwrap());
        }
        Ok(all)
    }

    #[test]
    fn lines_end_outside_quotes() {
        assert_eq!(read("a,b\n1,2\n\n3,4").unwrap(), ["a,b", "1,2\n", "3,4"]);
        assert_eq!(read("a,b\r\n\r\n1,2\r\n").unwrap(), ["a,b\r\n", "1,2"]);
        assert_eq!(read("a\n\n1\n\n").unwrap(), ["a", "", "1", ""]);
        assert_eq!(
            read("a,b\n1,5\" PIPE\n2,\"x\"\"\n\"\n").unwrap(),
            ["a,b", "1,5\" PIPE", "2,\"x\"\"\n\""]
        );
        assert_eq!(read("a\r\nb\r\n").unwrap(), ["a", "b"]);
        assert_eq!(read("a\nb\r\nc\n").unwrap(), ["a", "b\r", "c"]);
        assert_eq!(read("a\n\"x\ny\",2\n").unwrap(), ["a", "\"x\ny\",2"]);
        assert_eq!(read("").unwrap(), Vec::<String>::new());
        assert!(read("a\r\nb\nc").unwrap_err().starts_with("t: line 2: the line ends in LF"));
        assert!(read("a\n\"x\ny\n").unwrap_err().starts_with("t: line 2: a quote is not closed"));
    }

    #[test]
    fn fields_keep_their_quotes() {
        let split = |line: &str| -> Vec<String> {
            fields(line.as_bytes(), b',').map(|f| String::from_utf8_lossy(f).into()).collect()
        };
        assert_eq!(split("1,,\"a,b\",\"\"\"\""), ["1", "", "\"a,b\"", "\"\"\"\""]);
        assert_eq!(split("5\" a,b\"\",\"\"\",\",c"), ["5\" a", "b\"\"", "\"\"\",\"", "c"]);
        assert_eq!(split(""), [""]);
    }
}
