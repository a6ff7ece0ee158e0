//! Errors of blocks.
//!
//! Every message has the number found and the limit or rule that it breaks. Errors in the
//! directory or the payload also name the chunk (0-based, in block order) and the byte offset from
//! the block's start. Offsets of header fields are those of FORMAT.md, section 2.

use thiserror::Error;

/// A block that cannot be written or read.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The bytes end early.
    #[error("{part} at byte {offset} needs {needed} bytes, the block has {present} from there")]
    Truncated {
        /// Which part of the format.
        part: &'static str,
        /// Byte at which the part begins.
        offset: usize,
        /// Bytes it takes.
        needed: u64,
        /// Bytes present from `offset` on.
        present: usize,
    },
    /// Not a block.
    #[error("no block begins here: magic is {found:02x?}, expected {expected:02x?}")]
    Magic {
        /// The first eight bytes.
        found: [u8; 8],
        /// The magic.
        expected: [u8; 8],
    },
    /// The block has a newer or unknown major version.
    #[error("block has format version {major}.{minor}, this reader knows versions up to {known}")]
    Version {
        /// Major version found.
        major: u16,
        /// Minor version found.
        minor: u16,
        /// The greatest supported major version.
        known: u16,
    },
    /// The block needs a feature that this reader lacks.
    #[error("block requires flags {required:#010x}, of which {unknown:#010x} are not known here")]
    RequiredFlags {
        /// All required flags of the block.
        required: u32,
        /// The unsupported ones.
        unknown: u32,
    },
    /// A checksum differs from the bytes it covers.
    #[error(
        "CRC32C of {part} at byte {offset} is {computed:#010x}, the block states {stored:#010x}"
    )]
    Checksum {
        /// Header, directory or a chunk's payload ("payload of chunk 3").
        part: String,
        /// Offset of the first byte that the checksum covers.
        offset: usize,
        /// The checksum in the block.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A header field breaks a rule.
    #[error("header byte {offset}: {problem}")]
    Header {
        /// Offset of the field.
        offset: usize,
        /// Value found and rule broken.
        problem: String,
    },
    /// A chunk's directory entry, plan, sections or padding break a rule.
    #[error("chunk {chunk}, byte {offset}: {problem}")]
    Chunk {
        /// Which chunk, from 0 in block order.
        chunk: usize,
        /// Offset of the offending field from the block's start.
        offset: usize,
        /// Value found and rule broken.
        problem: String,
    },
    /// The body of a compact block breaks a rule.
    #[error("compact block, byte {offset}: {problem}")]
    Compact {
        /// Byte offset from the start of the compact block.
        offset: usize,
        /// Value found and rule broken.
        problem: String,
    },
    /// A number exceeds the limit of the caller or of the format.
    #[error("block has {value} {unit}, the limit is {limit}")]
    Budget {
        /// Unit of both numbers: rows, bytes, scratch bytes, text bytes.
        unit: &'static str,
        /// The number found.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// A row contradicts the time range or the box of the header.
    #[error(
        "chunk {chunk}, byte {offset}: row {row} has {column} {value}, \
         the header states {min} to {max}"
    )]
    RowOutside {
        /// Which chunk, from 0 in block order.
        chunk: usize,
        /// Offset of the section that holds the value.
        offset: usize,
        /// Name of the column.
        column: &'static str,
        /// Row, from 0 in the block.
        row: usize,
        /// Value found (time: milliseconds after the base).
        value: i64,
        /// Least value stated.
        min: i64,
        /// Greatest value stated.
        max: i64,
    },
    /// The caller requested rows that the block does not have.
    #[error("rows {start}..{end} are outside a block of {rows} rows")]
    RowRange {
        /// First row requested.
        start: usize,
        /// One past the last row requested.
        end: usize,
        /// Rows of the block.
        rows: usize,
    },
    /// Columns to encode are not equally long.
    #[error("column {column} has {length} values, column object has {rows}")]
    ColumnLength {
        /// Name of the column.
        column: &'static str,
        /// Its length.
        length: usize,
        /// Length of the object column.
        rows: usize,
    },
    /// Event times to encode lie too far apart for one block.
    #[error(
        "event times span {span_ms} ms, one block holds at most {limit_ms} ms: split the batch"
    )]
    TimeSpan {
        /// Greatest minus least event time.
        span_ms: u64,
        /// The limit.
        limit_ms: u32,
    },
    /// Base time plus offset exceeds the range of i64.
    #[error("base time {base_time_ms} ms plus offset {offset_ms} ms is beyond the range of i64")]
    TimeOverflow {
        /// Base time.
        base_time_ms: i64,
        /// Greatest offset of the block.
        offset_ms: u32,
    },
    /// A field of the space is invalid.
    #[error("space has {field} {value}: origins are finite, the quantum is finite and above 0")]
    Space {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}
