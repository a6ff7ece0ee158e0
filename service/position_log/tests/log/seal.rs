//! Recomputes the checksums of changed files, by the offsets of LOG.md.

const PAGE: usize = 4096;
const FRAME_HEADER: usize = 128;

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(crate) fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn set_crc(bytes: &mut [u8], range: std::ops::Range<usize>, at: usize) -> u32 {
    let crc = crc32c::crc32c(&bytes[range]);
    set(bytes, at, &crc.to_le_bytes());
    crc
}

/// Recomputes the header of a segment and, of each frame that follows without a gap, the checksum
/// of its payload, the chain and the checksum of its header. Returns the last frame's checksum.
pub(crate) fn seal_segment(bytes: &mut [u8], previous_crc: u32) -> u32 {
    if bytes.len() < PAGE {
        return previous_crc;
    }
    set(bytes, 80, &previous_crc.to_le_bytes());
    set_crc(bytes, 0..PAGE - 4, PAGE - 4);
    let (mut at, mut crc) = (PAGE, previous_crc);
    while at + PAGE <= bytes.len() && &bytes[at..at + 8] == b"\x89SHFRM\r\n" {
        let frame = &mut bytes[at..];
        let end = FRAME_HEADER + u32_at(frame, 80) as usize;
        if end <= frame.len() {
            set_crc(frame, FRAME_HEADER..end, 84);
        }
        set(frame, 88, &crc.to_le_bytes());
        crc = set_crc(frame, 0..FRAME_HEADER - 4, FRAME_HEADER - 4);
        at = at.saturating_add(end.next_multiple_of(PAGE));
    }
    crc
}

/// Recomputes header and sections of a checkpoint.
pub(crate) fn seal_checkpoint(bytes: &mut [u8]) {
    const SECTION_HEADER: usize = 64;
    if bytes.len() < PAGE {
        return;
    }
    set_crc(bytes, 0..PAGE - 4, PAGE - 4);
    let (mut at, mut headers_crc) = (PAGE, 0);
    while at + SECTION_HEADER <= bytes.len() {
        let section = &mut bytes[at..];
        let end = SECTION_HEADER.saturating_add(u32_at(section, 24) as usize);
        let is_end = section[8] == 3;
        if is_end && section.len() >= SECTION_HEADER + 12 {
            set(section, SECTION_HEADER + 8, &u32::to_le_bytes(headers_crc));
        }
        if end <= section.len() {
            set_crc(section, SECTION_HEADER..end, 12);
        }
        set_crc(section, 0..SECTION_HEADER - 4, SECTION_HEADER - 4);
        headers_crc = crc32c::crc32c_append(headers_crc, &section[..SECTION_HEADER]);
        at = at.saturating_add(end.next_multiple_of(SECTION_HEADER));
        if is_end {
            return;
        }
    }
}
