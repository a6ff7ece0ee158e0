//! The header of a block: 128 bytes at the offsets of FORMAT.md, section 2, or the short one of a
//! compact block.
//!
//! Fields have fixed width and are little-endian. The header has its own CRC32C, so base time and
//! sequence can be rewritten without changing other bytes. This file checks only the header.

use crate::compact::ShortHeader;
use crate::error::BlockError;
use crate::limits::{BLOCK_PREFIX_BYTES, DIRECTORY_BYTES_MAX, HEADER_BYTES, SECTION_ALIGN_BYTES};
use crate::space::{SpaceKind, SpaceTag};
use crate::wire::{array_at, put};

/// First eight bytes of every block. A byte with the high bit set and a CR LF pair let a reader
/// detect a transfer that treated the block as text.
pub const MAGIC: [u8; 8] = *b"\x89SHOAL\r\n";
/// Major version of blocks.
pub const VERSION_MAJOR: u16 = 1;
/// Major version of compact blocks with a short header (FORMAT.md, section 11).
pub const VERSION_MAJOR_COMPACT: u16 = 2;
/// Least minor version of a table; encodings and text can require a greater one. Blocks of fixes
/// have the minor version of their encodings and columns.
pub const VERSION_MINOR_TABLE: u16 = 1;
/// Required flag reserved for blocks that need state carried from earlier blocks; refused here.
pub const FLAG_CROSS_BLOCK_STATE: u32 = 1;
/// Required flag of tables: typed columns other than fixes (FORMAT.md, section 4.1).
pub const FLAG_TABLE: u32 = 2;
/// Required flag of compact blocks of major version 1 (FORMAT.md, section 12).
pub const FLAG_COMPACT: u32 = 4;
/// Required flag of tables with text columns (FORMAT.md, section 4.2).
pub const FLAG_TEXT: u32 = 8;
/// Least minor version of tables with text columns.
pub const VERSION_MINOR_TEXT: u16 = 4;
/// Least minor version of blocks with validities.
pub const VERSION_MINOR_VALIDITY: u16 = 5;
/// Required flags that this reader supports.
pub const FLAGS_REQUIRED_KNOWN: u32 = FLAG_TABLE | FLAG_COMPACT | FLAG_TEXT;

/// Renders the header's numbers: the fields, their byte offsets, reading and writing.
macro_rules! fields {
    ($($(#[$doc:meta])* $offset:literal $field:ident: $type:ty,)+) => {
        /// The parsed header of a block.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct BlockHeader {
            $($(#[$doc])* pub $field: $type,)+
            /// Space of the coordinates.
            pub space: SpaceTag,
        }

        /// Byte offsets of the header's fields.
        #[allow(non_upper_case_globals, reason = "offsets bear the names of their fields")]
        pub(crate) mod at {
            $(pub(crate) const $field: usize = $offset;)+
            pub(crate) const magic: usize = 0;
            pub(crate) const header_bytes: usize = 20;
            pub(crate) const space_kind: usize = 86;
            pub(crate) const origin_x: usize = 88;
            pub(crate) const origin_y: usize = 96;
            pub(crate) const quantum: usize = 104;
            pub(crate) const reserved: usize = 112;
            pub(crate) const header_crc: usize = 124;
        }

        impl BlockHeader {
            /// Reads all fields.
            fn read(raw: &[u8; HEADER_BYTES], space: SpaceTag) -> Self {
                Self { $($field: <$type>::from_le_bytes(array_at(raw, at::$field)),)+ space }
            }

            /// Writes the numbers.
            fn write(&self, raw: &mut [u8; HEADER_BYTES]) {
                $(put(raw, at::$field, self.$field.to_le_bytes());)+
            }
        }
    };
}

fields! {
    /// Major version.
    8 version_major: u16,
    /// Minor version.
    10 version_minor: u16,
    /// Flags of features that a reader must support.
    12 flags_required: u32,
    /// Flags that a reader may ignore.
    16 flags_optional: u32,
    /// Bytes of the directory, padding included; 0 in a short header.
    24 directory_bytes: u32,
    /// CRC32C of the directory, padding included; 0 in a short header.
    28 directory_crc: u32,
    /// Bytes of the whole block.
    32 block_bytes: u64,
    /// Number that the sender gives the block.
    40 sequence: u64,
    /// Base of the block's times, Unix milliseconds.
    48 base_time_ms: i64,
    /// Least event time, milliseconds after the base.
    56 time_min_offset_ms: u32,
    /// Greatest event time, milliseconds after the base.
    60 time_max_offset_ms: u32,
    /// Least x in quanta.
    64 x_min: i32,
    /// Greatest x in quanta.
    68 x_max: i32,
    /// Least y in quanta.
    72 y_min: i32,
    /// Greatest y in quanta.
    76 y_max: i32,
    /// Rows of the block.
    80 rows: u32,
    /// Number of chunks: one for each column, or for each part of a text column.
    84 columns: u16,
}

const _: () = assert!(at::header_crc + 4 == HEADER_BYTES);

impl BlockHeader {
    /// True if the block is a table: [`crate::Table`] reads it, [`crate::Block`] refuses it.
    pub fn is_table(&self) -> bool {
        self.flags_required & FLAG_TABLE != 0
    }

    /// True if the block has text columns.
    pub fn has_text(&self) -> bool {
        self.flags_required & FLAG_TEXT != 0
    }

    /// True if the block is in its compact form, which readers expand.
    pub fn is_compact(&self) -> bool {
        self.flags_required & FLAG_COMPACT != 0 || self.version_major == VERSION_MAJOR_COMPACT
    }

    /// Reads and checks a header from the first bytes of a block.
    ///
    /// # Errors
    /// In this order: magic, major version, too short, checksum, required flags, field rules.
    pub fn parse(bytes: &[u8]) -> Result<Self, BlockError> {
        match check_identity(bytes)? {
            VERSION_MAJOR_COMPACT => ShortHeader::parse(bytes).map(|short| short.header),
            _ => Self::parse_fixed(bytes),
        }
    }

    /// Reads and checks a header of 128 bytes.
    fn parse_fixed(bytes: &[u8]) -> Result<Self, BlockError> {
        let Some(raw) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(truncated("header", 0, HEADER_BYTES as u64, bytes));
        };
        check_integrity(raw)?;
        let space_kind = u16::from_le_bytes(array_at(raw, at::space_kind));
        let Some(kind) = SpaceKind::from_code(space_kind) else {
            let problem = format!("space kind is {space_kind}, known are 1 and 2");
            return Err(BlockError::Header { offset: at::space_kind, problem });
        };
        let float = |offset| f64::from_le_bytes(array_at(raw, offset));
        let [origin_x, origin_y] = [at::origin_x, at::origin_y].map(float);
        let space = SpaceTag { kind, origin_x, origin_y, quantum: float(at::quantum) };
        let header = Self::read(raw, space);
        check_fixed_fields(raw)?;
        header.check()?;
        Ok(header)
    }

    /// Checks the rules that relate fields to each other or limit their values.
    pub(crate) fn check(&self) -> Result<(), BlockError> {
        self.space.check()?;
        let directory_bytes = self.directory_bytes as usize;
        if directory_bytes > DIRECTORY_BYTES_MAX
            || !directory_bytes.is_multiple_of(SECTION_ALIGN_BYTES)
        {
            let problem = format!(
                "directory has {directory_bytes} bytes, it must have a multiple of \
                 {SECTION_ALIGN_BYTES} up to {DIRECTORY_BYTES_MAX}"
            );
            return Err(BlockError::Header { offset: at::directory_bytes, problem });
        }
        let ranges = [
            (
                "time",
                at::time_min_offset_ms,
                self.time_min_offset_ms.into(),
                self.time_max_offset_ms.into(),
            ),
            ("x", at::x_min, i64::from(self.x_min), i64::from(self.x_max)),
            ("y", at::y_min, self.y_min.into(), self.y_max.into()),
        ];
        for (name, offset, min, max) in ranges {
            if min > max || (self.rows == 0 && (min, max) != (0, 0)) {
                let rule = if self.rows == 0 { "0 to 0 without rows" } else { "least first" };
                let problem = format!("{name} ranges from {min} to {max}, it must be {rule}");
                return Err(BlockError::Header { offset, problem });
            }
        }
        check_time(self.base_time_ms, self.time_max_offset_ms)
    }

    /// Least event time, Unix milliseconds.
    pub fn time_min_ms(&self) -> i64 {
        self.base_time_ms + i64::from(self.time_min_offset_ms)
    }

    /// Greatest event time, Unix milliseconds.
    pub fn time_max_ms(&self) -> i64 {
        self.base_time_ms + i64::from(self.time_max_offset_ms)
    }

    /// Its bytes, checksum included.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut raw = [0; HEADER_BYTES];
        put(&mut raw, at::magic, MAGIC);
        self.write(&mut raw);
        put(&mut raw, at::header_bytes, (HEADER_BYTES as u32).to_le_bytes());
        put(&mut raw, at::space_kind, self.space.kind.code().to_le_bytes());
        put(&mut raw, at::origin_x, self.space.origin_x.to_le_bytes());
        put(&mut raw, at::origin_y, self.space.origin_y.to_le_bytes());
        put(&mut raw, at::quantum, self.space.quantum.to_le_bytes());
        let crc = crc32c::crc32c(&raw[..at::header_crc]);
        put(&mut raw, at::header_crc, crc.to_le_bytes());
        raw
    }
}

/// The error for a part that does not fit between `offset` and the end of `bytes`.
pub(crate) fn truncated(
    part: &'static str,
    offset: usize,
    needed: u64,
    bytes: &[u8],
) -> BlockError {
    BlockError::Truncated { part, offset, needed, present: bytes.len().saturating_sub(offset) }
}

/// Checks magic and major version; returns the latter.
fn check_identity(bytes: &[u8]) -> Result<u16, BlockError> {
    let Some(prefix) = bytes.first_chunk::<BLOCK_PREFIX_BYTES>() else {
        return Err(truncated("header", 0, BLOCK_PREFIX_BYTES as u64, bytes));
    };
    let found: [u8; 8] = array_at(prefix, at::magic);
    if found != MAGIC {
        return Err(BlockError::Magic { found, expected: MAGIC });
    }
    let major = u16::from_le_bytes(array_at(prefix, at::version_major));
    if !(VERSION_MAJOR..=VERSION_MAJOR_COMPACT).contains(&major) {
        let minor = u16::from_le_bytes(array_at(prefix, at::version_minor));
        return Err(BlockError::Version { major, minor, known: VERSION_MAJOR_COMPACT });
    }
    Ok(major)
}

/// Returns the number of bytes that [`BlockHeader::parse`] needs: those of the header, or those of
/// the whole block if it is compact with a short header. The length in `prefix` is not checked.
///
/// # Errors
/// [`BlockError::Magic`] or [`BlockError::Version`].
pub fn bytes_to_header(prefix: &[u8; BLOCK_PREFIX_BYTES]) -> Result<usize, BlockError> {
    match check_identity(prefix)? {
        VERSION_MAJOR_COMPACT => Ok(ShortHeader::block_bytes(prefix) as usize),
        _ => Ok(HEADER_BYTES),
    }
}

/// Checks the checksum and the required flags.
fn check_integrity(raw: &[u8; HEADER_BYTES]) -> Result<(), BlockError> {
    let stored = u32::from_le_bytes(array_at(raw, at::header_crc));
    let computed = crc32c::crc32c(&raw[..at::header_crc]);
    if stored != computed {
        return Err(BlockError::Checksum { part: "header".into(), offset: 0, stored, computed });
    }
    let required = u32::from_le_bytes(array_at(raw, at::flags_required));
    let unknown = required & !FLAGS_REQUIRED_KNOWN;
    if unknown != 0 {
        return Err(BlockError::RequiredFlags { required, unknown });
    }
    Ok(())
}

/// Checks the fields that have only one valid value in this major version.
fn check_fixed_fields(raw: &[u8; HEADER_BYTES]) -> Result<(), BlockError> {
    let header_bytes = u32::from_le_bytes(array_at(raw, at::header_bytes));
    if header_bytes as usize != HEADER_BYTES {
        let problem = format!("header has {header_bytes} bytes, version 1 has {HEADER_BYTES}");
        return Err(BlockError::Header { offset: at::header_bytes, problem });
    }
    match raw[at::reserved..at::header_crc].iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(index) => {
            let offset = at::reserved + index;
            let problem = format!("reserved byte is {:#04x}, it must be 0", raw[offset]);
            Err(BlockError::Header { offset, problem })
        }
    }
}

/// Refuses a base time if base time plus greatest offset exceeds the range of i64.
pub(crate) fn check_time(base_time_ms: i64, offset_ms: u32) -> Result<(), BlockError> {
    match base_time_ms.checked_add(offset_ms.into()) {
        Some(_) => Ok(()),
        None => Err(BlockError::TimeOverflow { base_time_ms, offset_ms }),
    }
}

/// Shifts the times of `block` to the base `base_time_ms` (Unix milliseconds) and sets its
/// sequence number, in constant time. On error `block` is unchanged.
///
/// # Errors
/// If a reader refuses the header, if `block` has fewer bytes than the header states, or if the new
/// base plus the greatest offset exceeds the range of i64.
pub fn rewrite_prepared(
    block: &mut [u8],
    base_time_ms: i64,
    sequence: u64,
) -> Result<(), BlockError> {
    let header = BlockHeader::parse(block)?;
    if header.block_bytes > block.len() as u64 {
        return Err(truncated("block", 0, header.block_bytes, block));
    }
    if header.block_bytes < block.len() as u64 {
        let problem = format!("block has {} bytes, {} were given", header.block_bytes, block.len());
        return Err(BlockError::Header { offset: at::block_bytes, problem });
    }
    check_time(base_time_ms, header.time_max_offset_ms)?;
    if header.version_major == VERSION_MAJOR_COMPACT {
        ShortHeader::parse(block)?.rewrite(block, base_time_ms, sequence);
        return Ok(());
    }
    put(block, at::base_time_ms, base_time_ms.to_le_bytes());
    put(block, at::sequence, sequence.to_le_bytes());
    let crc = crc32c::crc32c(&block[..at::header_crc]);
    put(block, at::header_crc, crc.to_le_bytes());
    Ok(())
}
