//! The lines of a report in CSV, as `shoal report` reads them from a file.
//!
//! Lines are held until there are some thousands, or until the sender pauses. They are then read as
//! a file of their own with the header of the first.

use std::io::Cursor;
use std::path::Path;

use shoal_proto::v1;
use shoal_table::{
    CSV_LINE_BYTES_MAX, CsvError, CsvReader, FixFileOptions, NamedCsvRow, TableError,
};

use crate::csv_fix::to_wire;
use crate::http::problem::Problem;

/// Bytes of lines that are read together: some 4,000 rows.
const HELD_BYTES: usize = 128 << 10;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct CsvLines {
    /// The lines up to the one with the names of the columns; empty until they have arrived.
    header: Vec<u8>,
    /// Bytes that are not read yet.
    held: Vec<u8>,
    /// Lines of `header`, and lines before `held`.
    header_lines: u64,
    lines: u64,
}

impl CsvLines {
    /// Adds bytes of the body; true if there is enough to be read.
    pub(super) fn add(&mut self, bytes: &[u8]) -> bool {
        self.held.extend_from_slice(bytes);
        self.held.len() >= HELD_BYTES
    }

    /// Whether there is a line to be read.
    pub(super) fn has_line(&self) -> bool {
        self.complete() > 0
    }

    /// The bytes of complete lines. A first line may state the separator of the header after it.
    fn complete(&self) -> usize {
        let complete = complete(&self.held);
        let is_begun = !self.header.is_empty()
            || self.held.len() > HELD_BYTES
            || self.held[..complete].iter().filter(|byte| **byte == b'\n').count() > 1;
        if is_begun { complete } else { 0 }
    }

    /// Reads the complete lines, or at the end of the body everything.
    ///
    /// # Errors
    /// Names the first wrong line and its column. The rows before it are added.
    pub(super) fn read(
        &mut self,
        is_end: bool,
        is_named: bool,
        rows: &mut Vec<v1::Fix>,
    ) -> Result<(), Problem> {
        let end = if is_end { self.held.len() } else { self.complete() };
        if end == 0 && !(is_end && self.header.is_empty()) {
            return Ok(());
        }
        let mut text = self.header.clone();
        text.extend(self.held.drain(..end));
        let options = FixFileOptions { is_strict: true, ..FixFileOptions::default() };
        let reader = CsvReader::from_reader(Cursor::new(text.clone()), Path::new("body"), &options);
        let mut reader = reader.map_err(|error| match error {
            TableError::Csv(error) => self.wrong(&error),
            error => Problem::field("body", error),
        })?;
        if self.header.is_empty() {
            self.header_lines = reader.line();
            let mut ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            let last = ends.nth(self.header_lines.saturating_sub(1) as usize);
            self.header.extend_from_slice(last.map_or(&text, |(end, _)| &text[..=end]));
        }
        loop {
            let row = match is_named {
                true => reader.next_named_row().map(|row| {
                    row.map(|NamedCsvRow { name, row }| v1::Fix {
                        object: 0,
                        name,
                        ..to_wire(&row)
                    })
                }),
                false => reader.next_row().map(|row| row.map(|row| to_wire(&row))),
            };
            match row {
                Some(Ok(fix)) => rows.push(fix),
                Some(Err(error)) => return Err(self.wrong(&error)),
                None => break,
            }
        }
        let ends = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.lines += ends - if self.lines == 0 { 0 } else { self.header_lines };
        Ok(())
    }

    /// The problem of a line, counted in the whole body.
    fn wrong(&self, error: &CsvError) -> Problem {
        let before = if self.lines == 0 { 0 } else { self.lines - self.header_lines };
        let line = before + error.line;
        Problem::field(&error.field, &error.fault).within(&format!("line {line}"))
    }
}

/// The bytes of complete rows: a line end within quotes does not end a row, unless its line is
/// longer than lines may be.
fn complete(bytes: &[u8]) -> usize {
    let (mut end, mut is_quoted) = (0, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' if !is_quoted => end = at + 1,
            _ => {}
        }
    }
    let last = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    match bytes.len() - end > CSV_LINE_BYTES_MAX {
        // What follows cannot be a row: the reader says so.
        true if last == end => bytes.len(),
        true => last,
        false => end,
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    /// Reads a text in pieces of random lengths.
    fn read(text: &str, seed: u64) -> (Vec<v1::Fix>, Result<(), Problem>) {
        let (mut lines, mut rows, mut random) =
            (CsvLines::default(), Vec::new(), Random::new(seed));
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(rest.len().min(1 + random.below(40) as usize));
            rest = tail;
            lines.add(piece);
            if random.below(3) == 0
                && let Err(problem) = lines.read(false, true, &mut rows)
            {
                return (rows, Err(problem));
            }
        }
        let read = lines.read(true, true, &mut rows);
        (rows, read)
    }

    #[test]
    fn pieces_of_any_length_are_the_same_rows() {
        let text = "sep=;\nname_of_bus;id;t_ms;lon;lat;speed_kmh\n\
            \"a\nb;\";7;1700000000000;1,5;2;36\nx;\"8\";1700000000001;1,5;2;\n\ny;9;1700000000002;3;4;";
        for seed in 0..200 {
            let (rows, read) = read(text, seed);
            read.unwrap();
            let names: Vec<_> = rows.iter().map(|fix| fix.name.as_str()).collect();
            assert_eq!(names, ["7", "8", "9"], "{seed}");
            assert_eq!((rows[0].x, rows[0].speed_mps, rows[1].speed_mps), (1.5, Some(10.0), None));
        }
    }

    #[test]
    fn a_wrong_line_is_named_by_its_place_in_the_whole_body() {
        let row = "7,1700000000000,1,2\n";
        let text = format!("id,t_ms,x,y\n{}8,soon,1,2\n{row}", row.repeat(9));
        for seed in 0..100 {
            let (rows, read) = read(&text, seed);
            let problem = read.unwrap_err();
            assert_eq!((problem.named(), rows.len()), (Some("line 11: t_ms"), 9), "{seed}");
        }
        for (text, field) in [
            ("", "line 1: header"),
            ("id,t_ms,x\n1,2,3", "line 1: header"),
            ("id,t_ms,x,y\n1,1700000000000,2\n", "line 2: line"),
        ] {
            let (_, read) = read(text, 1);
            assert_eq!(read.unwrap_err().named(), Some(field), "{text}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut lines = CsvLines::default();
        lines.add(b"id,t_ms,x,y\n\"");
        let mut rows = Vec::new();
        let refused = (0..40).any(|_| {
            lines.add(&[b'7'; 4 << 10]);
            lines.read(false, true, &mut rows).is_err()
        });
        assert!(refused && rows.is_empty());
    }
}
