//! The sizes in the header of a Parquet page.
//!
//! The header is a structure of Thrift's compact protocol (`thrift-compact-protocol.md` of Apache
//! Thrift; `PageHeader` in `parquet.thrift` of Apache Parquet). All other fields are skipped.

/// Depth of nested values; a header has two levels.
const DEPTH_MAX: usize = 8;

/// Types of fields of the compact protocol; that of a Boolean is its value.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Numbers of fields: the size of the page, the part for pages of version 2, and in that the sizes
/// of its two lists of levels and whether the values are compressed.
const UNCOMPRESSED_PAGE_SIZE: i64 = 2;
const DATA_PAGE_HEADER_V2: i64 = 8;
const DEFINITION_LEVELS_BYTE_LENGTH: i64 = 5;
const REPETITION_LEVELS_BYTE_LENGTH: i64 = 6;
const IS_COMPRESSED: i64 = 7;

/// The sizes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Bytes of the page when it is decompressed.
    pub(super) bytes: u64,
    /// Bytes at its beginning that are not compressed.
    pub(super) levels_bytes: usize,
    /// Whether the rest is compressed, if the column is.
    pub(super) is_compressed: bool,
}

impl PageHeader {
    /// The sizes that a header states; `None` if the bytes are no header. A field that is used
    /// here has one value of its type, since readers differ in what they make of others.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (mut bytes_stated, mut v2) = (None, None);
        let mut rest = Rest(bytes);
        rest.fields(|field, kind, rest| match (field, kind) {
            (UNCOMPRESSED_PAGE_SIZE, I32) => once(&mut bytes_stated, rest.size()?),
            (DATA_PAGE_HEADER_V2, STRUCT) => once(&mut v2, rest.v2()?),
            (UNCOMPRESSED_PAGE_SIZE | DATA_PAGE_HEADER_V2, _) => None,
            _ => rest.skip(kind, DEPTH_MAX),
        })?;
        let (levels_bytes, is_compressed) = v2.unwrap_or((0, true));
        Some(Self { bytes: bytes_stated?, levels_bytes, is_compressed })
    }
}

/// Sets a value that was not set before.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
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

    /// A size of 32 bits.
    fn size(&mut self) -> Option<u64> {
        u64::try_from(i32::try_from(self.integer()?).ok()?).ok()
    }

    /// Reads the part for pages of version 2: the bytes of the levels, and whether the values are
    /// compressed.
    fn v2(&mut self) -> Option<(usize, bool)> {
        let (mut definition, mut repetition, mut compressed) = (None, None, None);
        self.fields(|field, kind, rest| match (field, kind) {
            (DEFINITION_LEVELS_BYTE_LENGTH, I32) => once(&mut definition, rest.size()?),
            (REPETITION_LEVELS_BYTE_LENGTH, I32) => once(&mut repetition, rest.size()?),
            (IS_COMPRESSED, TRUE | FALSE) => once(&mut compressed, kind == TRUE),
            (DEFINITION_LEVELS_BYTE_LENGTH | REPETITION_LEVELS_BYTE_LENGTH, _)
            | (IS_COMPRESSED, _) => None,
            _ => rest.skip(kind, DEPTH_MAX),
        })?;
        let levels = usize::try_from(definition? + repetition?).ok()?;
        Some((levels, compressed.unwrap_or(true)))
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
                0 => i16::try_from(self.integer()?).ok()?.into(),
                step => number + i64::from(step),
            };
            field(number, head & 0xf, self)?;
        }
    }

    /// Skips a value of a field.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            TRUE | FALSE => Some(()),
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
        if matches!(kind, TRUE | FALSE) { self.bytes(1) } else { self.skip(kind, depth) }
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
        let stated = |bytes, levels_bytes, is_compressed| {
            Some(PageHeader { bytes, levels_bytes, is_compressed })
        };
        assert_eq!(PageHeader::parse(&data), stated(300, 0, true));
        for end in 0..data.len() {
            assert_eq!(PageHeader::parse(&data[..end]), None, "cut at {end}");
        }
        // Fields in the long form, and a page of version 2 that is not compressed.
        let data = [0x05, 0x04, 0x14, 0x0c, 0x10, 0x05, 0x0a, 0x06, 0x15, 0x04, 0x12, 0x00, 0x00];
        assert_eq!(PageHeader::parse(&data), stated(10, 5, false));
    }

    #[test]
    fn headers_that_readers_may_understand_differently_are_none() {
        for (what, bytes) in [
            ("a size below 0", &[0x25, 0x01, 0x00][..]),
            ("a size of 64 bits", &[0x26, 0x04, 0x00]),
            ("two sizes", &[0x25, 0x04, 0x05, 0x04, 0x06, 0x00]),
            ("no size", &[0x15, 0x00, 0x00]),
            ("a number beyond 16 bits", &[0x25, 0x04, 0x05, 0x84, 0x80, 0x08, 0x06, 0x00]),
            ("two levels", &[0x25, 0x04, 0x6c, 0x55, 0x02, 0x05, 0x0a, 0x02, 0x15, 0x02, 0, 0]),
            ("too deep", &[0x1c; 100]),
        ] {
            assert_eq!(PageHeader::parse(bytes), None, "{what}");
        }
    }
}
