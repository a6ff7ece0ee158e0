//! Recomputes the checksums of a changed block, as far as its directory can be parsed.
//!
//! It follows FORMAT.md and shares no code with the reader of shoal-codec, so that a wrong offset
//! in the reader makes tests fail.

/// Bytes of an ordinary header.
pub const HEADER: usize = 128;
/// Offset of the length of the directory.
pub const DIRECTORY_BYTES: usize = 24;
/// Offset of the length of the block.
pub const BLOCK_BYTES: usize = 32;
/// Offset of the number of rows.
pub const ROWS: usize = 80;
/// Offset of the number of columns.
pub const COLUMNS: usize = 84;
/// Offset of the length of a compact block.
pub const COMPACT_BLOCK_BYTES: usize = 12;
/// Offset of the length of a compact header.
pub const COMPACT_HEADER_BYTES: usize = 36;

/// The field of 16 bits at `offset`, if the bytes reach so far.
#[must_use]
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// The field of 32 bits at `offset`, if the bytes reach so far.
#[must_use]
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// The field of 64 bits at `offset`, if the bytes reach so far.
#[must_use]
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Overwrites the field at `offset`.
///
/// # Panics
/// When the bytes end before the end of the field.
pub fn set<const N: usize>(bytes: &mut [u8], offset: usize, field: [u8; N]) {
    bytes[offset..offset + N].copy_from_slice(&field);
}

/// Recomputes all checksums of a block in any form: payload, directory and header.
pub fn seal(bytes: &mut [u8]) {
    match u16_at(bytes, 8) {
        Some(2) => return seal_compact(bytes),
        _ if bytes.get(12).is_some_and(|flags| flags & 4 != 0) => return seal_first_form(bytes),
        _ => {}
    }
    seal_payloads(bytes);
    if let Some(length) = u32_at(bytes, DIRECTORY_BYTES)
        && let Some(directory) = bytes.get(HEADER..HEADER.saturating_add(length as usize))
    {
        let crc = crc32c::crc32c(directory);
        set(bytes, 28, crc.to_le_bytes());
    }
    if bytes.len() >= HEADER {
        let crc = crc32c::crc32c(&bytes[..124]);
        set(bytes, 124, crc.to_le_bytes());
    }
}

/// Recomputes the checksums of a compact block, unless its header is too short.
pub fn seal_compact(bytes: &mut [u8]) {
    let Some(header) = bytes.get(COMPACT_HEADER_BYTES).map(|bytes| usize::from(*bytes)) else {
        return;
    };
    if header > bytes.len() || header < 41 {
        return;
    }
    let crc = crc32c::crc32c(&bytes[header..]);
    set(bytes, 32, crc.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..header - 4]);
    set(bytes, header - 4, crc.to_le_bytes());
}

/// Recomputes the checksums of a compact block of the first form.
fn seal_first_form(bytes: &mut [u8]) {
    if bytes.len() >= HEADER {
        let crc = crc32c::crc32c(&bytes[HEADER..]);
        set(bytes, 28, crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..124]);
        set(bytes, 124, crc.to_le_bytes());
    }
}

/// Recomputes the checksums of the payloads that the directory lists; stops at an invalid entry.
fn seal_payloads(bytes: &mut [u8]) -> Option<()> {
    let columns = u16_at(bytes, COLUMNS)?;
    let mut entry = HEADER;
    let mut section = HEADER.checked_add(u32_at(bytes, DIRECTORY_BYTES)? as usize)?;
    for _ in 0..columns {
        let nodes = usize::from(*bytes.get(entry + 3)?);
        let sections = u32_at(bytes, entry + 16)? as usize;
        let lengths = entry + 24 + nodes * 24;
        let start = section;
        for index in 0..sections {
            let length = u64_at(bytes, lengths + index * 8)?;
            let end = section.checked_add(usize::try_from(length).ok()?)?;
            section = end.checked_next_multiple_of(64)?;
            if section > bytes.len() {
                return None;
            }
        }
        let crc = crc32c::crc32c(bytes.get(start..section)?);
        // A block may end within the entry.
        bytes.get_mut(entry + 20..entry + 24)?.copy_from_slice(&crc.to_le_bytes());
        entry = lengths + sections * 8;
    }
    Some(())
}
