//! What do the first 128 bytes of a block say?
//!
//! Fixed width, little-endian, guarded by a CRC32C of its own, so that base time and sequence can
//! be rewritten without touching anything else. Offsets are FORMAT.md, section 2. It checks what
//! the header alone can show; the directory and the payload are read by `chunk.rs`, `block.rs`.

use crate::error::BlockError;
use crate::limits::{DIRECTORY_BYTES_MAX, HEADER_BYTES, SECTION_ALIGN_BYTES};
use crate::space::{SpaceKind, SpaceTag};
use crate::wire::{array_at, put};

/// First eight bytes of every block: a byte with the high bit set, a name, a CR LF pair, so that
/// text transfers that damage bytes are noticed at once.
pub const MAGIC: [u8; 8] = *b"\x89SHOAL\r\n";
/// Major version that this package writes and reads.
pub const VERSION_MAJOR: u16 = 1;
/// Minor version of blocks whose plans are all `raw`.
pub const VERSION_MINOR_RAW: u16 = 0;
/// Minor version of all other blocks that this package writes.
pub const VERSION_MINOR: u16 = 1;
/// Required flag reserved for blocks that need state carried from earlier blocks; refused here.
pub const FLAG_CROSS_BLOCK_STATE: u32 = 1;
/// Required flag of tables: typed columns that are no fixes (FORMAT.md, section 4.1).
pub const FLAG_TABLE: u32 = 2;
/// Required flags that this reader knows.
pub const FLAGS_REQUIRED_KNOWN: u32 = FLAG_TABLE;

/// Byte offsets of the header's fields.
pub(crate) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION_MAJOR: usize = 8;
    pub(crate) const VERSION_MINOR: usize = 10;
    pub(crate) const FLAGS_REQUIRED: usize = 12;
    pub(crate) const FLAGS_OPTIONAL: usize = 16;
    pub(crate) const HEADER_BYTES: usize = 20;
    pub(crate) const DIRECTORY_BYTES: usize = 24;
    pub(crate) const DIRECTORY_CRC: usize = 28;
    pub(crate) const BLOCK_BYTES: usize = 32;
    pub(crate) const SEQUENCE: usize = 40;
    pub(crate) const BASE_TIME: usize = 48;
    pub(crate) const TIME_MIN: usize = 56;
    pub(crate) const TIME_MAX: usize = 60;
    pub(crate) const X_MIN: usize = 64;
    pub(crate) const X_MAX: usize = 68;
    pub(crate) const Y_MIN: usize = 72;
    pub(crate) const Y_MAX: usize = 76;
    pub(crate) const ROWS: usize = 80;
    pub(crate) const COLUMNS: usize = 84;
    pub(crate) const SPACE_KIND: usize = 86;
    pub(crate) const ORIGIN_X: usize = 88;
    pub(crate) const ORIGIN_Y: usize = 96;
    pub(crate) const QUANTUM: usize = 104;
    pub(crate) const RESERVED: usize = 112;
    pub(crate) const CRC: usize = 124;
}

const _: () = assert!(at::CRC + 4 == HEADER_BYTES);

/// The parsed header of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockHeader {
    /// Major version.
    pub version_major: u16,
    /// Minor version.
    pub version_minor: u16,
    /// Flags that a reader must know to read on.
    pub flags_required: u32,
    /// Flags that a reader may ignore.
    pub flags_optional: u32,
    /// Bytes of the directory, padding included.
    pub directory_bytes: u32,
    /// CRC32C of the directory, padding included.
    pub directory_crc: u32,
    /// Bytes of the whole block.
    pub block_bytes: u64,
    /// Number the sender gave the block.
    pub sequence: u64,
    /// Unix milliseconds that the block's times are counted from.
    pub base_time_ms: i64,
    /// Least event time, milliseconds after the base.
    pub time_min_offset_ms: u32,
    /// Greatest event time, milliseconds after the base.
    pub time_max_offset_ms: u32,
    /// Least x in quanta.
    pub x_min: i32,
    /// Greatest x in quanta.
    pub x_max: i32,
    /// Least y in quanta.
    pub y_min: i32,
    /// Greatest y in quanta.
    pub y_max: i32,
    /// Rows of the block.
    pub rows: u32,
    /// Columns of the block, one chunk each.
    pub columns: u16,
    /// Space whose quanta the block holds.
    pub space: SpaceTag,
}

impl BlockHeader {
    /// True if the block is a table: [`crate::Table`] reads it, [`crate::Block`] refuses it.
    pub fn is_table(&self) -> bool {
        self.flags_required & FLAG_TABLE != 0
    }

    /// Reads and checks a header from the first bytes of a block.
    ///
    /// # Errors
    /// In this order: too short, magic, major version, checksum, required flags, field rules.
    pub fn parse(bytes: &[u8]) -> Result<Self, BlockError> {
        let Some(raw) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(truncated("header", 0, HEADER_BYTES as u64, bytes));
        };
        check_identity(raw)?;
        let space_kind = u16::from_le_bytes(array_at(raw, at::SPACE_KIND));
        let Some(kind) = SpaceKind::from_code(space_kind) else {
            let problem = format!("space kind is {space_kind}, known are 1 and 2");
            return Err(BlockError::Header { offset: at::SPACE_KIND, problem });
        };
        let header = Self {
            version_major: u16::from_le_bytes(array_at(raw, at::VERSION_MAJOR)),
            version_minor: u16::from_le_bytes(array_at(raw, at::VERSION_MINOR)),
            flags_required: u32::from_le_bytes(array_at(raw, at::FLAGS_REQUIRED)),
            flags_optional: u32::from_le_bytes(array_at(raw, at::FLAGS_OPTIONAL)),
            directory_bytes: u32::from_le_bytes(array_at(raw, at::DIRECTORY_BYTES)),
            directory_crc: u32::from_le_bytes(array_at(raw, at::DIRECTORY_CRC)),
            block_bytes: u64::from_le_bytes(array_at(raw, at::BLOCK_BYTES)),
            sequence: u64::from_le_bytes(array_at(raw, at::SEQUENCE)),
            base_time_ms: i64::from_le_bytes(array_at(raw, at::BASE_TIME)),
            time_min_offset_ms: u32::from_le_bytes(array_at(raw, at::TIME_MIN)),
            time_max_offset_ms: u32::from_le_bytes(array_at(raw, at::TIME_MAX)),
            x_min: i32::from_le_bytes(array_at(raw, at::X_MIN)),
            x_max: i32::from_le_bytes(array_at(raw, at::X_MAX)),
            y_min: i32::from_le_bytes(array_at(raw, at::Y_MIN)),
            y_max: i32::from_le_bytes(array_at(raw, at::Y_MAX)),
            rows: u32::from_le_bytes(array_at(raw, at::ROWS)),
            columns: u16::from_le_bytes(array_at(raw, at::COLUMNS)),
            space: SpaceTag {
                kind,
                origin_x: f64::from_le_bytes(array_at(raw, at::ORIGIN_X)),
                origin_y: f64::from_le_bytes(array_at(raw, at::ORIGIN_Y)),
                quantum: f64::from_le_bytes(array_at(raw, at::QUANTUM)),
            },
        };
        check_fixed_fields(raw)?;
        header.check()?;
        Ok(header)
    }

    /// Rules between fields.
    fn check(&self) -> Result<(), BlockError> {
        self.space.check()?;
        let directory_bytes = self.directory_bytes as usize;
        if directory_bytes > DIRECTORY_BYTES_MAX
            || !directory_bytes.is_multiple_of(SECTION_ALIGN_BYTES)
        {
            let problem = format!(
                "directory has {directory_bytes} bytes, it has a multiple of \
                 {SECTION_ALIGN_BYTES} up to {DIRECTORY_BYTES_MAX}"
            );
            return Err(BlockError::Header { offset: at::DIRECTORY_BYTES, problem });
        }
        let ranges = [
            ("time", at::TIME_MIN, self.time_min_offset_ms.into(), self.time_max_offset_ms.into()),
            ("x", at::X_MIN, i64::from(self.x_min), i64::from(self.x_max)),
            ("y", at::Y_MIN, self.y_min.into(), self.y_max.into()),
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
        put(&mut raw, at::MAGIC, MAGIC);
        put(&mut raw, at::VERSION_MAJOR, self.version_major.to_le_bytes());
        put(&mut raw, at::VERSION_MINOR, self.version_minor.to_le_bytes());
        put(&mut raw, at::FLAGS_REQUIRED, self.flags_required.to_le_bytes());
        put(&mut raw, at::FLAGS_OPTIONAL, self.flags_optional.to_le_bytes());
        put(&mut raw, at::HEADER_BYTES, (HEADER_BYTES as u32).to_le_bytes());
        put(&mut raw, at::DIRECTORY_BYTES, self.directory_bytes.to_le_bytes());
        put(&mut raw, at::DIRECTORY_CRC, self.directory_crc.to_le_bytes());
        put(&mut raw, at::BLOCK_BYTES, self.block_bytes.to_le_bytes());
        put(&mut raw, at::SEQUENCE, self.sequence.to_le_bytes());
        put(&mut raw, at::BASE_TIME, self.base_time_ms.to_le_bytes());
        put(&mut raw, at::TIME_MIN, self.time_min_offset_ms.to_le_bytes());
        put(&mut raw, at::TIME_MAX, self.time_max_offset_ms.to_le_bytes());
        put(&mut raw, at::X_MIN, self.x_min.to_le_bytes());
        put(&mut raw, at::X_MAX, self.x_max.to_le_bytes());
        put(&mut raw, at::Y_MIN, self.y_min.to_le_bytes());
        put(&mut raw, at::Y_MAX, self.y_max.to_le_bytes());
        put(&mut raw, at::ROWS, self.rows.to_le_bytes());
        put(&mut raw, at::COLUMNS, self.columns.to_le_bytes());
        put(&mut raw, at::SPACE_KIND, self.space.kind.code().to_le_bytes());
        put(&mut raw, at::ORIGIN_X, self.space.origin_x.to_le_bytes());
        put(&mut raw, at::ORIGIN_Y, self.space.origin_y.to_le_bytes());
        put(&mut raw, at::QUANTUM, self.space.quantum.to_le_bytes());
        let crc = crc32c::crc32c(&raw[..at::CRC]);
        put(&mut raw, at::CRC, crc.to_le_bytes());
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

/// Magic, major version, checksum, required flags.
fn check_identity(raw: &[u8; HEADER_BYTES]) -> Result<(), BlockError> {
    let found: [u8; 8] = array_at(raw, at::MAGIC);
    if found != MAGIC {
        return Err(BlockError::Magic { found, expected: MAGIC });
    }
    let major = u16::from_le_bytes(array_at(raw, at::VERSION_MAJOR));
    if major != VERSION_MAJOR {
        let minor = u16::from_le_bytes(array_at(raw, at::VERSION_MINOR));
        return Err(BlockError::Version { major, minor, known: VERSION_MAJOR });
    }
    let stored = u32::from_le_bytes(array_at(raw, at::CRC));
    let computed = crc32c::crc32c(&raw[..at::CRC]);
    if stored != computed {
        return Err(BlockError::Checksum { part: "header".into(), offset: 0, stored, computed });
    }
    let required = u32::from_le_bytes(array_at(raw, at::FLAGS_REQUIRED));
    let unknown = required & !FLAGS_REQUIRED_KNOWN;
    if unknown != 0 {
        return Err(BlockError::RequiredFlags { required, unknown });
    }
    Ok(())
}

/// Fields that have one legal value in this major version.
fn check_fixed_fields(raw: &[u8; HEADER_BYTES]) -> Result<(), BlockError> {
    let header_bytes = u32::from_le_bytes(array_at(raw, at::HEADER_BYTES));
    if header_bytes as usize != HEADER_BYTES {
        let problem = format!("header has {header_bytes} bytes, version 1 has {HEADER_BYTES}");
        return Err(BlockError::Header { offset: at::HEADER_BYTES, problem });
    }
    match raw[at::RESERVED..at::CRC].iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(index) => {
            let offset = at::RESERVED + index;
            let problem = format!("reserved byte is {:#04x}, it must be 0", raw[offset]);
            Err(BlockError::Header { offset, problem })
        }
    }
}

/// Refuses a base time whose greatest offset leaves the range of i64.
pub(crate) fn check_time(base_time_ms: i64, offset_ms: u32) -> Result<(), BlockError> {
    match base_time_ms.checked_add(offset_ms.into()) {
        Some(_) => Ok(()),
        None => Err(BlockError::TimeOverflow { base_time_ms, offset_ms }),
    }
}
