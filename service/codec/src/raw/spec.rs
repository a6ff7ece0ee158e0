//! What does plan `raw` look like in bytes?
//!
//! One leaf node, one section of `value count * width` bytes, values little-endian in row order,
//! nothing between them (FORMAT.md, section 6). Frozen: it never changes once released.

/// Identifier of the encoding in a plan node.
pub const ENCODING_ID: u16 = 1;
/// Children of a raw node.
pub const CHILDREN: u8 = 0;
/// Sections of a raw node.
pub const SECTIONS: u8 = 1;
/// Bytes of a row with every column: 8 + 4 + 4 + 4 + 4 + 2 + 4 + 4.
pub const ROW_BYTES_MAX: usize = 34;
