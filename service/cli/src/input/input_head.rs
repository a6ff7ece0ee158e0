//! The first bytes of an input, which tell its format.

use std::io::{self, BufReader, Chain, Cursor, Read};

use shoal_table::{TextInput, looks_like_header};

use super::gtfs_realtime::is_feed;
use super::nmea::looks_like_sentence;

/// Bytes that are looked at.
const HEAD_BYTES: usize = 4_096;
/// Lines with text that are looked at.
const HEAD_LINES: usize = 3;
/// Bytes that are looked at even if the first line is shorter.
const HEAD_BYTES_MIN: usize = 16;

/// The first bytes of files without rows that are taken for tables, and what to say of them.
const BINARY_KINDS: [(&[u8], &str); 10] = [
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF89a", "a GIF image"),
    (b"GIF87a", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, as .xlsx and .kmz are; extract it, or save the table as CSV"),
    (b"\xd0\xcf\x11\xe0", "a document of an old Office program; save the table as CSV"),
    (b"SQLite format 3\0", "an SQLite database; export the table as CSV"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it first"),
    (
        b"PAR1\x15",
        "Parquet within gzip or from a pipe; give the plain file, which is read at places",
    ),
];

/// Format of an input that is read from its begin to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// CSV, and what is no other format.
    Csv,
    /// A feed of GTFS-realtime.
    GtfsRealtime,
    /// Sentences of NMEA 0183.
    Nmea,
    /// XML, of which GPX is read.
    Xml,
    /// JSON.
    Json,
}

/// An input, plain or gzip, whose first bytes were read.
pub(super) struct InputHead {
    /// The format that the first bytes show.
    pub(super) format: Format,
    head: Vec<u8>,
    rest: TextInput<Box<dyn Read + Send>>,
}

/// An input from its begin.
pub(super) type WholeInput = Chain<Cursor<Vec<u8>>, TextInput<Box<dyn Read + Send>>>;

impl InputHead {
    /// Reads the first bytes; no more lines than tell the format, since the next one may come late
    /// from a pipe.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn read(input: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut rest = TextInput::new(input)?;
        let mut head = Vec::new();
        let mut byte = [0];
        let mut format = None;
        while format.is_none() && head.len() < HEAD_BYTES && lines(&head).count() <= HEAD_LINES {
            match rest.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => head.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if byte == *b"\n" && head.len() >= HEAD_BYTES_MIN {
                format = format_of(&head);
            }
        }
        let format = format.or_else(|| format_of(&head)).unwrap_or(Format::Csv);
        Ok(Self { format, head, rest })
    }

    /// What the input is, if its first bytes are those of a file that is no table.
    pub(super) fn binary_kind(&self) -> Option<&'static str> {
        BINARY_KINDS.iter().find(|(magic, _)| self.head.starts_with(magic)).map(|(_, kind)| *kind)
    }

    /// The input from its begin.
    pub(super) fn into_input(self) -> WholeInput {
        Cursor::new(self.head).chain(self.rest)
    }

    /// The input from its begin, with a buffer.
    pub(super) fn into_buffered(self) -> BufReader<WholeInput> {
        BufReader::with_capacity(shoal_table::READ_BUFFER_BYTES, self.into_input())
    }
}

/// The format of an input; `None` if its first lines do not tell it.
fn format_of(head: &[u8]) -> Option<Format> {
    if is_feed(head) {
        return Some(Format::GtfsRealtime);
    }
    let mut lines = lines(head);
    let first = lines.next()?;
    let format = match first {
        [b'<', ..] => Some(Format::Xml),
        [b'{' | 0x1e, ..] => Some(Format::Json),
        _ if looks_like_sentence(first) => Some(Format::Nmea),
        _ if looks_like_header(first) => Some(Format::Csv),
        [b'[', ..] => Some(Format::Json),
        _ => None,
    };
    // The first line of what a receiver writes, or of a log file, may lack its begin.
    format.or_else(|| {
        lines.find_map(|line| match line {
            [b'{', rest @ ..] if rest.trim_ascii_start().first() == Some(&b'"') => {
                Some(Format::Json)
            }
            _ if looks_like_sentence(line) => Some(Format::Nmea),
            _ => None,
        })
    })
}

/// The lines with text that are no comments, without blanks around it.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty() && line[0] != b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_tell_the_format() {
        for (head, format) in [
            ("id,t,lon,lat\n1,2,3,4\n", Some(Format::Csv)),
            ("# by\n\n\u{feff}{\"a\":1}", None),
            ("\u{feff}\n {\"a\":1}", Some(Format::Json)),
            ("itude\":1}\n{\"a\":1}\n", Some(Format::Json)),
            ("id,x,y\n{\"a\"},1,2\n", Some(Format::Csv)),
            ("a,b\n{12-34},1,2\n", None),
            ("M,46.9,M,,*47\n$GPRMC,1\n", Some(Format::Nmea)),
            ("[2026-01-31 12:00:00] !AIVDM,1,1\n", Some(Format::Nmea)),
            ("[id],[t],[lon],[lat]\n", Some(Format::Csv)),
            ("[\n{\"lat\":1,\"lon\":2}]", Some(Format::Json)),
            ("[{\"lat\":1,\"lon\":2}]", Some(Format::Json)),
            ("<?xml version='1.0'?>\n", Some(Format::Xml)),
            ("", None),
        ] {
            assert_eq!(format_of(head.as_bytes()), format, "{head}");
        }
    }

    #[test]
    fn a_pipe_is_read_no_further_than_needed() {
        /// Gives a text, and fails if it is asked for more.
        struct Pipe(Cursor<&'static [u8]>);
        impl Read for Pipe {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match self.0.read(buffer)? {
                    0 => Err(io::Error::other("it waits for the next line")),
                    read => Ok(read),
                }
            }
        }
        for line in ["id,t,longitude,latitude\n", "!AIVDM,1,1,,A,13u?etPv2,0*24\n"] {
            let pipe = Pipe(Cursor::new(line.as_bytes()));
            assert!(InputHead::read(Box::new(pipe)).is_ok(), "{line}");
        }
    }
}
