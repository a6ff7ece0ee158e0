//! The first bytes of an input, which tell its format.

use std::io::{self, BufReader, Chain, Cursor, Read};

use shoal_table::TextInput;

use super::gtfs_realtime::is_feed;
use super::nmea::looks_like_sentence;

/// Bytes that are looked at.
const HEAD_BYTES: usize = 4_096;
/// Bytes that are looked at even if the first line is shorter.
const HEAD_BYTES_MIN: usize = 16;

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
    head: Vec<u8>,
    rest: TextInput<Box<dyn Read + Send>>,
}

/// An input from its begin.
pub(super) type WholeInput = Chain<Cursor<Vec<u8>>, TextInput<Box<dyn Read + Send>>>;

impl InputHead {
    /// Reads the first bytes; no more than the first line that has text, since the next one may come
    /// late from a pipe.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn read(input: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut rest = TextInput::new(input)?;
        let mut head = Vec::new();
        let mut byte = [0];
        while head.len() < HEAD_BYTES {
            match rest.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => head.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if byte == *b"\n" && head.len() >= HEAD_BYTES_MIN && first_line(&head).is_some() {
                break;
            }
        }
        Ok(Self { head, rest })
    }

    /// The format that the first bytes show.
    pub(super) fn format(&self) -> Format {
        if is_feed(&self.head) {
            return Format::GtfsRealtime;
        }
        match first_line(&self.head).unwrap_or_default() {
            [b'<', ..] => Format::Xml,
            [b'{' | b'[' | 0x1e, ..] => Format::Json,
            line if looks_like_sentence(line) => Format::Nmea,
            _ => Format::Csv,
        }
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

/// The first line with text that is no comment, without blanks before it.
fn first_line(head: &[u8]) -> Option<&[u8]> {
    let text = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.into_iter().find(|line| !line.is_empty() && line[0] != b'#')
}
