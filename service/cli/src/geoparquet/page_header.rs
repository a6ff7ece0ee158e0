//! The sizes in the header of a Parquet page.
//!
//! The header is a structure of Thrift's compact protocol (`thrift-compact-protocol.md` of Apache
//! Thrift; `PageHeader` in `parquet.thrift` of Apache Parquet). All other fields are skipped.

/// Depth of nested values; a header has two levels.
const DEPTH_MAX: usize = 8;

/// Types of fields of the compact protocol.
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Numbers of fields: the size of the page, the part for pages of version 2, and in that the sizes
/// of its two lists of levels.
const UNCOMPRESSED_PAGE_SIZE: i64 = 2;
const DATA_PAGE_HEADER_V2: i64 = 8;
const DEFINITION_LEVELS_BYTE_LENGTH: i64 = 5;
const REPETITION_LEVELS_BYTE_LENGTH: i64 = 6;

/// The sizes of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Bytes of the page when it is decompressed.
    pub(super) bytes: u64,
    /// Bytes at its beginning that are not compressed.
    pub(super) levels_bytes: usize,
}

impl PageHeader {
    /// The sizes that a header states; `None` if the bytes are no header.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (mut header, mut rest) = (Self::default(), Rest(bytes));
        rest.fields(|field, kind, rest| match (field, kind) {
            (UNCOMPRESSED_PAGE_SIZE, I32) => {
                header.bytes = u64::try_from(rest.integer()?).ok()?;
                Some(())
            }
            (DATA_PAGE_HEADER_V2, STRUCT) => rest.fields(|field, kind, rest| match (field, kind) {
                (DEFINITION_LEVELS_BYTE_LENGTH | REPETITION_LEVELS_BYTE_LENGTH, I32) => {
                    header.levels_bytes += usize::try_from(rest.integer()?).ok()?;
                    Some(())
                }
                _ => rest.skip(kind, DEPTH_MAX),
            }),
            _ => rest.skip(kind, DEPTH_MAX),
        })?;
        Some(header)
    }
}

/// The bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.0.split_off(..usize::try_from(count).ok()?).map(drop)
    }

    fn natural(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let zigzag = self.natural()?;
        Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    /// Reads the fields of a structure: number, type, and value.
    fn fields(&mut self, mut field: impl FnMut(i64, u8, &mut Self) -> Option<()>) -> Option<()> {
        let mut number = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            number = match head >> 4 {
                0 => self.integer()?,
                step => number + i64::from(step),
            };
            field(number, head & 0xf, self)?;
        }
    }

    /// Skips a value of a field.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // The type of a Boolean is its value.
            1 | 2 => Some(()),
            3 => self.bytes(1),
            4..=6 => self.natural().map(drop),
            7 => self.bytes(8),
            8 => {
                let length = self.natural()?;
                self.bytes(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.natural()? } else { u64::from(head >> 4) };
                (0..count).try_for_each(|_| self.skip_element(head & 0xf, depth))
            }
            11 => {
                let count = self.natural()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0xf, depth)
                })
            }
            STRUCT => self.fields(|_, kind, rest| rest.skip(kind, depth)),
            _ => None,
        }
    }

    /// Skips an element of a list or map; there a Boolean is a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        if matches!(kind, 1 | 2) { self.bytes(1) } else { self.skip(kind, depth) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_among_all_kinds_of_fields() {
        // type 0, 300 bytes, 20 compressed, a structure of a double, a list of Booleans, a list of
        // two structures, a map and a text.
        let data = [
            &[0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0x28, 0x2c][..],
            &[0x17, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x19, 0x21, 1, 0],
            &[0x19, 0x2c, 0x15, 0x02, 0x00, 0x00],
            &[0x1b, 0x01, 0x58, 0x02, 0x01, b'x'],
            &[0x18, 0x02, b'a', b'b', 0x00, 0x00],
        ]
        .concat();
        assert_eq!(PageHeader::parse(&data), Some(PageHeader { bytes: 300, levels_bytes: 0 }));
        for end in 0..data.len() {
            assert_eq!(PageHeader::parse(&data[..end]), None, "cut at {end}");
        }
        // Fields in the long form, and the levels of a page of version 2.
        let data = [0x05, 0x04, 0x14, 0x0c, 0x10, 0x05, 0x0a, 0x06, 0x15, 0x04, 0x00, 0x00];
        assert_eq!(PageHeader::parse(&data), Some(PageHeader { bytes: 10, levels_bytes: 5 }));
        // Sizes below 0, and values nested too deeply.
        assert_eq!(PageHeader::parse(&[0x25, 0x01, 0x00]), None);
        assert_eq!(PageHeader::parse(&[0x1c; 100]), None);
    }
}
