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
/// The first bytes of gzip.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// A first line with this states the separator.
const SEPARATOR: &[u8] = b"sep=";
/// Mark at the begin of a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the faults of the reader advise on a command line, and here.
const HINTS: [(&str, &str); 3] = [
    ("--time-format '%d/%m/%Y %H:%M'", "the parameter time_format: %d/%m/%Y %H:%M"),
    ("--time-unit", "the parameter time_unit"),
    (" (--fleet NAME --fleet-create named)", ""),
];

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct CsvLines {
    options: FixFileOptions,
    /// Everything up to the names of the columns; empty until a part of the body was read.
    header: Vec<u8>,
    /// Bytes that are not read yet.
    held: Vec<u8>,
    /// Lines before `held`.
    lines: u64,
    scan: Scan,
}

/// Where rows end in the held bytes, which are looked at once.
#[derive(Debug, Default)]
struct Scan {
    place: Place,
    /// The separator, once it is known; until then each usual one counts.
    separator: Option<u8>,
    scanned: usize,
    /// The end of the last complete row.
    end: usize,
    /// The end of the header, once it has arrived.
    header_end: Option<usize>,
}

/// Where in a row a byte is. A quote within an unquoted field is text.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    FieldStart,
    Plain,
    Quoted,
    /// After a quote in a quoted field, which ends it unless another one follows.
    QuoteEnd,
}

impl Scan {
    /// Looks at the bytes that were added to `held`.
    fn advance(&mut self, held: &[u8]) {
        for (at, byte) in held.iter().enumerate().skip(self.scanned) {
            self.place = match (self.place, byte) {
                (Place::Quoted, b'"') => Place::QuoteEnd,
                (Place::Quoted, _) | (Place::FieldStart | Place::QuoteEnd, b'"') => Place::Quoted,
                (_, b'\n') => {
                    self.end_row(held, at + 1);
                    Place::FieldStart
                }
                (_, byte) if self.is_separator(*byte) => Place::FieldStart,
                (Place::FieldStart, b' ' | b'\t') => Place::FieldStart,
                _ => Place::Plain,
            };
        }
        self.scanned = held.len();
    }

    fn is_separator(&self, byte: u8) -> bool {
        self.separator.map_or(b",;\t|".contains(&byte), |separator| separator == byte)
    }

    fn end_row(&mut self, held: &[u8], end: usize) {
        if self.header_end.is_none() {
            let row = &held[self.end..end];
            let row = row.strip_prefix(BYTE_ORDER_MARK).unwrap_or(row);
            let is_before = row.trim_ascii().is_empty() || row.starts_with(SEPARATOR);
            self.header_end = (!is_before).then_some(end);
        }
        self.end = end;
    }

    /// Notes that the bytes up to an end were removed.
    fn remove(&mut self, end: usize) {
        if end > self.end {
            // A row that is no row: what follows begins another one.
            self.place = Place::FieldStart;
        }
        self.scanned -= end;
        self.end = self.end.saturating_sub(end);
    }
}

impl CsvLines {
    /// A body that is read in this way.
    pub(super) fn new(options: FixFileOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Adds bytes from the front of a part of the body; true if there is enough to be read.
    pub(super) fn add(&mut self, bytes: &mut &[u8]) -> bool {
        let room = HELD_BYTES.saturating_sub(self.held.len());
        let (taken, rest) = bytes.split_at(bytes.len().min(room));
        *bytes = rest;
        self.held.extend_from_slice(taken);
        self.scan.advance(&self.held);
        self.held.len() >= HELD_BYTES
    }

    /// Whether there is a line after the header to be read.
    pub(super) fn has_line(&self) -> bool {
        match self.scan.header_end {
            None => false,
            Some(_) if !self.header.is_empty() => self.scan.end > 0,
            Some(header_end) => self.scan.end > header_end,
        }
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
        if self.header.is_empty() && self.held.starts_with(GZIP) {
            return Err(Problem::field("body", "it is gzip: send Content-Encoding: gzip with it"));
        }
        let is_long = self.held.len() - self.scan.end > CSV_LINE_BYTES_MAX;
        let end = match self.scan.end {
            _ if is_end => self.held.len(),
            // What follows cannot be a row, and the reader says so.
            _ if is_long => self.held.len(),
            _ if self.scan.header_end.is_none() => 0,
            end => end,
        };
        if end == 0 && !(is_end && self.header.is_empty()) {
            return Ok(());
        }
        let before = self.lines - lines(&self.header);
        let mut text = self.header.clone();
        text.extend(self.held.drain(..end));
        self.scan.remove(end);
        if self.header.is_empty() {
            let header_end = self.scan.header_end.unwrap_or(text.len());
            self.header.extend_from_slice(&text[..header_end]);
        }
        self.lines = before + lines(&text);
        let wrong = |error: &CsvError| {
            let mut fault = error.fault.to_string();
            for (flags, words) in HINTS {
                fault = fault.replace(flags, words);
            }
            Problem::field(&error.field, fault).on_line(before + error.line)
        };
        let reader = CsvReader::from_plain(Cursor::new(text), Path::new("body"), &self.options);
        let mut reader = reader.map_err(|error| match error {
            TableError::Csv(error) => wrong(&error),
            error => Problem::field("body", error),
        })?;
        self.scan.separator = Some(reader.delimiter());
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
                Some(Err(error)) => return Err(wrong(&error)),
                None => return Ok(()),
            }
        }
    }
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    /// Reads a text in pieces of random lengths.
    fn read(text: &[u8], seed: u64) -> (Vec<v1::Fix>, Result<(), Problem>) {
        let options = FixFileOptions { is_strict: true, ..FixFileOptions::default() };
        let (mut lines, mut rows, mut random) =
            (CsvLines::new(options), Vec::new(), Random::new(seed));
        let mut rest = text;
        while !rest.is_empty() {
            let (mut piece, tail) = rest.split_at(rest.len().min(1 + random.below(40) as usize));
            rest = tail;
            lines.add(&mut piece);
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
        let text = "\n\nsep=;\n\"name\nof bus\";id;t_ms;lon;lat;speed_kmh\n\
            \"a\nb;\";7;1700000000000;1,5;2;36\n5\" pipe;\"8\";1700000000001;1,5;2;\n\n\
            \"c\n\"\"d\"\"\n\";9;1700000000002;3;4;\n y;10;1700000000002;3;4;";
        for seed in 0..300 {
            let (rows, read) = read(text.as_bytes(), seed);
            read.unwrap();
            let names: Vec<_> = rows.iter().map(|fix| fix.name.as_str()).collect();
            assert_eq!(names, ["7", "8", "9", "10"], "{seed}");
            assert_eq!((rows[0].x, rows[0].speed_mps, rows[1].speed_mps), (1.5, Some(10.0), None));
        }
    }

    #[test]
    fn a_header_of_any_form_is_found() {
        for header in ["\u{feff}id,t_ms,x,y\n", "\r\n\r\nid,t_ms,x,y\r\n", "\"a\nb\",id,t_ms,x,y\n"]
        {
            let rows = header.matches("a\nb").map(|_| "0,").collect::<String>();
            let text = format!("{header}{rows}7,1700000000000,1,2\n{rows}8,1700000000000,1,2");
            for seed in 0..50 {
                let (rows, read) = read(text.as_bytes(), seed);
                read.unwrap();
                assert_eq!(rows.len(), 2, "{header:?} {seed}");
            }
        }
    }

    #[test]
    fn a_wrong_line_is_named_by_its_place_in_the_whole_body() {
        let row = "7,1700000000000,1,2\n";
        let text = format!("id,t_ms,x,y\n{}8,soon,1,2\n{row}", row.repeat(9));
        for seed in 0..100 {
            let (rows, read) = read(text.as_bytes(), seed);
            let problem = read.unwrap_err();
            let place = (problem.line(), problem.named(), rows.len());
            assert_eq!(place, (Some(11), Some("t_ms"), 9), "{seed}");
        }
        for (text, field) in [
            (&b""[..], (Some(1), "header")),
            (b"id,t_ms,x\n1,2,3", (Some(1), "header")),
            (b"id,t_ms,x,y\n1,1700000000000,2\n", (Some(2), "line")),
            (b"\x1f\x8b\x08 and more", (None, "body")),
        ] {
            let (_, read) = read(text, 1);
            let problem = read.unwrap_err();
            assert_eq!((problem.line(), problem.named().unwrap()), field, "{text:?}");
        }
    }

    #[test]
    fn faults_advise_what_a_request_can_do() {
        for (text, advice) in [
            ("id,time,x,y\n1,1/2/26 5:00,1,2\n", "the parameter time_format"),
            ("id,time,x,y\n1,12,1,2\n", "the parameter time_unit"),
            ("id,time,x,y\n1,,1,2\n", "the parameter time_format"),
            ("id,time,x,y\ntruck,1700000000000,1,2\n", "a fleet with names takes texts"),
        ] {
            let (mut lines, mut rows) = (CsvLines::new(FixFileOptions::default()), Vec::new());
            lines.add(&mut text.as_bytes());
            let problem = lines.read(true, false, &mut rows).unwrap_err();
            let text = serde_json::to_string(&problem).unwrap();
            assert!(text.contains(advice) && !text.contains("--"), "{text}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        for start in ["id,t_ms,x,y\n\"", "id,t_ms,x,y\n", "\"", ""] {
            let (mut lines, mut rows) = (CsvLines::default(), Vec::new());
            lines.add(&mut start.as_bytes());
            let refused = (0..40).any(|_| {
                lines.add(&mut &[b'7'; 4 << 10][..]);
                lines.read(false, true, &mut rows).is_err()
            });
            assert!(refused && rows.is_empty(), "{start}");
        }
    }
}
