//! The short header of compact blocks (FORMAT.md, section 11.1). Fields that a sender rewrites have
//! fixed places; most others are numbers of variable length.

use crate::compact::body::{Body, put_number, put_signed};
use crate::error::BlockError;
use crate::header::{BlockHeader, FLAG_TABLE, FLAG_TEXT, MAGIC, VERSION_MAJOR_COMPACT, truncated};
use crate::limits::BLOCK_PREFIX_BYTES;
use crate::space::{SpaceKind, SpaceTag};
use crate::table;
use crate::wire::{array_at, put};

/// Byte offsets of the fields with fixed places.
mod at {
    pub(super) const VERSION_MAJOR: usize = 8;
    pub(super) const VERSION_MINOR: usize = 10;
    pub(super) const BLOCK_BYTES: usize = 12;
    pub(super) const SEQUENCE: usize = 16;
    pub(super) const BASE_TIME_MS: usize = 24;
    pub(super) const BODY_CRC: usize = 32;
    pub(super) const HEADER_BYTES: usize = 36;
    pub(super) const NUMBERS: usize = 37;
}

/// Bytes of the checksum, which ends the header.
const CRC_BYTES: usize = 4;
/// Mask of the kind of space; the bits for origins and quantum are above it.
const KIND_MASK: u8 = 3;
/// This flag is set if the origins are stored; otherwise they are 0.
const HAS_ORIGINS: u8 = 4;
/// Shift of the quantum's bits. They hold `decimals` + 1 if the quantum is 10^-`decimals`, and 0 if
/// the quantum is stored as a double.
const DECIMALS_SHIFT: u32 = 3;
/// Maximum decimals of the quantum. 10^22 is the greatest power of ten that a double holds exactly.
const DECIMALS_MAX: u8 = 22;
/// Minor version that is written.
const VERSION_MINOR: u16 = 0;

/// A parsed short header.
pub(crate) struct ShortHeader {
    /// Its fields; the directory's length and checksum are 0.
    pub(crate) header: BlockHeader,
    /// Its length.
    pub(crate) header_bytes: usize,
    /// CRC32C of all bytes after the header.
    pub(crate) body_crc: u32,
}

impl ShortHeader {
    /// Creates the compact block with this body; `header` is the header of the expanded block.
    pub(crate) fn put_before(header: &BlockHeader, body: &[u8]) -> Vec<u8> {
        let mut out = vec![0; at::NUMBERS];
        put(&mut out, 0, MAGIC);
        put(&mut out, at::VERSION_MAJOR, VERSION_MAJOR_COMPACT.to_le_bytes());
        put(&mut out, at::VERSION_MINOR, VERSION_MINOR.to_le_bytes());
        put(&mut out, at::SEQUENCE, header.sequence.to_le_bytes());
        put(&mut out, at::BASE_TIME_MS, header.base_time_ms.to_le_bytes());
        put(&mut out, at::BODY_CRC, crc32c::crc32c(body).to_le_bytes());
        put_numbers(header, &mut out);
        let header_bytes = out.len() + CRC_BYTES;
        let byte = u8::try_from(header_bytes).expect("its numbers are bounded");
        put(&mut out, at::HEADER_BYTES, [byte]);
        let block_bytes = u32::try_from(header_bytes + body.len()).expect("a block is bounded");
        put(&mut out, at::BLOCK_BYTES, block_bytes.to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out.extend_from_slice(body);
        out
    }

    /// Reads and checks the header at the start of a block. The caller has checked magic and major
    /// version.
    ///
    /// # Errors
    /// In this order: too short, checksum, required flags, field rules.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, BlockError> {
        let Some(fixed) = bytes.get(..at::NUMBERS) else {
            return Err(truncated("header", 0, at::NUMBERS as u64, bytes));
        };
        let header_bytes = usize::from(fixed[at::HEADER_BYTES]);
        if header_bytes < at::NUMBERS + CRC_BYTES {
            let problem = format!("header has {header_bytes} bytes, which is too short");
            return Err(BlockError::Header { offset: at::HEADER_BYTES, problem });
        }
        let Some(whole) = bytes.get(..header_bytes) else {
            return Err(truncated("header", 0, header_bytes as u64, bytes));
        };
        let end = header_bytes - CRC_BYTES;
        let (stored, computed) =
            (u32::from_le_bytes(array_at(whole, end)), crc32c::crc32c(&whole[..end]));
        if stored != computed {
            return Err(BlockError::Checksum {
                part: "header".into(),
                offset: 0,
                stored,
                computed,
            });
        }
        let header = read(&whole[..end])?;
        let body_crc = u32::from_le_bytes(array_at(whole, at::BODY_CRC));
        Ok(Self { header, header_bytes, body_crc })
    }

    /// Sets base time and sequence of a whole block.
    pub(crate) fn rewrite(self, block: &mut [u8], base_time_ms: i64, sequence: u64) {
        put(block, at::SEQUENCE, sequence.to_le_bytes());
        put(block, at::BASE_TIME_MS, base_time_ms.to_le_bytes());
        let end = self.header_bytes - CRC_BYTES;
        let crc = crc32c::crc32c(&block[..end]);
        put(block, end, crc.to_le_bytes());
    }

    /// Returns the length that the first bytes of a block state, without any check.
    pub(crate) fn block_bytes(prefix: &[u8; BLOCK_PREFIX_BYTES]) -> u32 {
        u32::from_le_bytes(array_at(prefix, at::BLOCK_BYTES))
    }
}

/// Appends the fields of variable length. Fields that are constant in tables are omitted for
/// tables.
fn put_numbers(header: &BlockHeader, out: &mut Vec<u8>) {
    put_number(header.flags_required.into(), out);
    put_number(header.rows.into(), out);
    put_number(header.columns.into(), out);
    if header.is_table() {
        return;
    }
    put_number(header.time_min_offset_ms.into(), out);
    put_number((header.time_max_offset_ms - header.time_min_offset_ms).into(), out);
    for (least, greatest) in [(header.x_min, header.x_max), (header.y_min, header.y_max)] {
        put_signed(least.into(), out);
        put_number((i64::from(greatest) - i64::from(least)) as u64, out);
    }
    let SpaceTag { kind, origin_x, origin_y, quantum } = header.space;
    let has_origins = [origin_x, origin_y].iter().any(|origin| origin.to_bits() != 0);
    let decimals = (0..=DECIMALS_MAX)
        .find(|decimals| power_of_ten(*decimals).to_bits() == quantum.to_bits())
        .map_or(0, |decimals| decimals + 1);
    let origins = if has_origins { HAS_ORIGINS } else { 0 };
    out.push(kind.code() as u8 | origins | decimals << DECIMALS_SHIFT);
    if has_origins {
        out.extend_from_slice(&origin_x.to_le_bytes());
        out.extend_from_slice(&origin_y.to_le_bytes());
    }
    if decimals == 0 {
        out.extend_from_slice(&quantum.to_le_bytes());
    }
}

/// 10 to the power of -`decimals`, the nearest double.
fn power_of_ten(decimals: u8) -> f64 {
    1.0 / (0..decimals).fold(1.0, |power, _| power * 10.0)
}

/// Reads the fields from a header without its checksum.
fn read(bytes: &[u8]) -> Result<BlockHeader, BlockError> {
    let mut body = Body::new(bytes, at::NUMBERS);
    let flags_required: u32 = body.small("flags")?;
    let unknown = flags_required & !(FLAG_TABLE | FLAG_TEXT);
    if unknown != 0 {
        return Err(BlockError::RequiredFlags { required: flags_required, unknown });
    }
    let mut header = BlockHeader {
        version_major: VERSION_MAJOR_COMPACT,
        version_minor: u16::from_le_bytes(array_at(bytes, at::VERSION_MINOR)),
        flags_required,
        flags_optional: 0,
        directory_bytes: 0,
        directory_crc: 0,
        block_bytes: u32::from_le_bytes(array_at(bytes, at::BLOCK_BYTES)).into(),
        sequence: u64::from_le_bytes(array_at(bytes, at::SEQUENCE)),
        base_time_ms: i64::from_le_bytes(array_at(bytes, at::BASE_TIME_MS)),
        time_min_offset_ms: 0,
        time_max_offset_ms: 0,
        x_min: 0,
        x_max: 0,
        y_min: 0,
        y_max: 0,
        rows: body.small("rows")?,
        columns: body.small("columns")?,
        space: table::SPACE,
    };
    if !header.is_table() {
        header.time_min_offset_ms = body.small("time_min_offset_ms")?;
        let span: u32 = body.small("range of times")?;
        header.time_max_offset_ms = match header.time_min_offset_ms.checked_add(span) {
            Some(greatest) => greatest,
            None => return body.fault("times end above 32 bits".into()),
        };
        (header.x_min, header.x_max) = read_range(&mut body)?;
        (header.y_min, header.y_max) = read_range(&mut body)?;
        header.space = read_space(&mut body)?;
    }
    if !body.rest().is_empty() {
        return body.fault(format!("{} bytes follow the header's fields", body.rest().len()));
    }
    header.check()?;
    Ok(header)
}

/// Reads the least and the greatest value of a coordinate.
fn read_range(body: &mut Body<'_>) -> Result<(i32, i32), BlockError> {
    let least = body.signed()?;
    let span: u32 = body.small("range of coordinates")?;
    let greatest = least.saturating_add(span.into());
    match (i32::try_from(least), i32::try_from(greatest)) {
        (Ok(least), Ok(greatest)) => Ok((least, greatest)),
        _ => body.fault(format!("coordinates from {least} to {greatest} have more than 32 bits")),
    }
}

/// Reads the space.
fn read_space(body: &mut Body<'_>) -> Result<SpaceTag, BlockError> {
    let [code] = body.take("space")?;
    let decimals = code >> DECIMALS_SHIFT;
    let (Some(kind), 0..=23) = (SpaceKind::from_code((code & KIND_MASK).into()), decimals) else {
        return body.fault(format!("space has the code {code:#04x}, which is not known"));
    };
    let mut float = || body.take("space").map(f64::from_le_bytes);
    let (origin_x, origin_y) =
        if code & HAS_ORIGINS != 0 { (float()?, float()?) } else { (0.0, 0.0) };
    let quantum = if decimals == 0 { float()? } else { power_of_ten(decimals - 1) };
    Ok(SpaceTag { kind, origin_x, origin_y, quantum })
}

const _: () = assert!(DECIMALS_MAX == 22, "codes are 1 to 23");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_the_nearest_doubles() {
        for decimals in 0..=DECIMALS_MAX {
            let text = format!("1e-{decimals}");
            assert_eq!(power_of_ten(decimals).to_bits(), text.parse::<f64>().unwrap().to_bits());
        }
    }
}
