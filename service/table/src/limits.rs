//! Limits of tables and CSV files; their relations are asserted at compile time.

use shoal_codec::limits;

/// Maximum columns of a table: a directory must hold as many entries of the largest size.
pub const COLUMNS_MAX: usize = 60;

/// Maximum decimals of an integer column. 10^18 fits `i64`, 10^19 does not.
pub const PRECISION_MAX: u8 = 18;

/// Maximum bytes of the text of a header.
pub const HEADER_TEXT_BYTES_MAX: usize = 1 << 20;

/// Maximum bytes of one text column in a group of rows. This is the maximum number of rows of a
/// block, because each byte is a row if the column is stored as a block of bytes.
pub const TEXT_BYTES_MAX: usize = limits::BLOCK_ROWS_MAX as usize;

/// Maximum bytes of all text columns in a group of rows.
pub const TEXTS_BYTES_MAX: usize = limits::TEXT_BYTES_MAX;

/// Maximum bytes of one line of a CSV table.
pub const TABLE_LINE_BYTES_MAX: usize = 64 << 20;

/// Maximum bytes of one line of a file of fixes; a longer line is an error, and the next one is
/// read.
pub const CSV_LINE_BYTES_MAX: usize = 64 << 10;

/// Maximum columns of a file of fixes.
pub const CSV_COLUMNS_MAX: usize = 256;

/// Bytes of a file that are read at a time.
pub const READ_BUFFER_BYTES: usize = 256 << 10;

/// Maximum distinct values of a column that are counted.
pub const DISTINCT_MAX: usize = 65_536;

/// Maximum characters of untrusted text in a message.
pub(crate) const TEXT_SHOWN_MAX: usize = 40;

/// Maximum groups of rows queued between the codec's thread and the one that reads or writes.
pub(crate) const GROUPS_IN_FLIGHT: usize = 2;

// A line of a table fits a group.
const _: () = assert!(TABLE_LINE_BYTES_MAX <= TEXTS_BYTES_MAX);
// A line of fixes fits into the buffer, which therefore never grows.
const _: () = assert!(READ_BUFFER_BYTES > CSV_LINE_BYTES_MAX + 2);
