//! Limits of blocks, plans and their parts, and default budgets. Relations between them are
//! asserted at compile time.

use crate::columns::Column;

/// Maximum rows of a block. A cycle tags each fix with an arrival of 22 bits, and one value of
/// these bits is reserved.
pub const BLOCK_ROWS_MAX: u32 = (1 << 22) - 1;
/// Maximum bytes of a block, which is the size of the largest message on the wire.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of all decoded strings of a block; the strings that one column stores have at most
/// [`BLOCK_ROWS_MAX`] bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 20;
/// Default limit of the bytes of scratch memory for decoding one block.
pub const SCRATCH_BYTES_MAX: usize = 128 << 20;
/// Bytes of working memory for each row if a column is keyed (FORMAT.md, section 6.16).
pub const SCRATCH_KEYED_ROW_BYTES: u64 = 16;
/// Bytes of the fixed-width block header.
pub const HEADER_BYTES: usize = 128;
/// Number of bytes at the start of a block that are enough to compute the length of its header.
pub const BLOCK_PREFIX_BYTES: usize = 16;
/// Every section, and the payload itself, begins at a multiple of this many bytes.
pub const SECTION_ALIGN_BYTES: usize = 64;
/// Bytes of a chunk entry's fixed part in the directory.
pub const CHUNK_ENTRY_BYTES: usize = 24;
/// Bytes of one plan node in the directory.
pub const NODE_BYTES: usize = 24;
/// Bytes of one section length in the directory.
pub const SECTION_ENTRY_BYTES: usize = 8;
/// Nodes in one plan at most.
pub const PLAN_NODES_MAX: usize = 16;
/// Levels of one plan at most; a plan of a single node has one.
pub const PLAN_DEPTH_MAX: usize = 4;
/// Sections of one chunk at most: four for each node.
pub const CHUNK_SECTIONS_MAX: usize = 64;
/// Event times of one block span at most this many milliseconds (49.7 days).
pub const TIME_SPAN_MS_MAX: u32 = u32::MAX;
/// Bytes of the largest directory a reader accepts, its padding included.
pub const DIRECTORY_BYTES_MAX: usize = 16 << 10;

/// Resources that a reader grants one block; checked before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Rows at most.
    pub rows_max: u32,
    /// Encoded bytes at most.
    pub bytes_max: usize,
    /// Maximum bytes of working memory in addition to the output columns (FORMAT.md, section 6.16).
    /// Plan `raw` needs none.
    pub scratch_bytes_max: usize,
    /// Bytes of all decoded strings at most.
    pub text_bytes_max: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            rows_max: BLOCK_ROWS_MAX,
            bytes_max: BLOCK_BYTES_MAX,
            scratch_bytes_max: SCRATCH_BYTES_MAX,
            text_bytes_max: TEXT_BYTES_MAX,
        }
    }
}

/// Bytes of the largest chunk entry: its fixed part, all nodes, all section lengths.
const CHUNK_ENTRY_BYTES_MAX: usize =
    CHUNK_ENTRY_BYTES + PLAN_NODES_MAX * NODE_BYTES + CHUNK_SECTIONS_MAX * SECTION_ENTRY_BYTES;

// The payload is aligned because header and directory both end on the boundary.
const _: () = assert!(HEADER_BYTES.is_multiple_of(SECTION_ALIGN_BYTES));
const _: () = assert!(DIRECTORY_BYTES_MAX.is_multiple_of(SECTION_ALIGN_BYTES));
// All columns with the largest entries fit the directory.
const _: () = assert!(Column::ALL.len() * CHUNK_ENTRY_BYTES_MAX <= DIRECTORY_BYTES_MAX);
// Row counts and byte counts of one block multiply without overflow on 32-bit machines too.
const _: () = assert!(BLOCK_ROWS_MAX as u64 * 8 * (Column::ALL.len() as u64) < u32::MAX as u64);
const _: () = assert!(PLAN_DEPTH_MAX <= PLAN_NODES_MAX);
// Keyed rows of the largest block and its dictionaries fit the default scratch memory.
const _: () = assert!(
    BLOCK_ROWS_MAX as u64 * SCRATCH_KEYED_ROW_BYTES + (1 << 20) <= SCRATCH_BYTES_MAX as u64
);
// The indexes, lengths and bytes of the largest text column fit in addition.
const _: () = assert!(
    BLOCK_ROWS_MAX as u64 * (SCRATCH_KEYED_ROW_BYTES + 4 + 4 + 1) + (1 << 20)
        <= SCRATCH_BYTES_MAX as u64
);
const _: () = assert!(TEXT_BYTES_MAX < u32::MAX as usize, "ends of strings have 32 bits");
