//! Columns of strings, and the parts in which a block stores them (FORMAT.md, section 4.2).
//!
//! A part is a column of numbers with a tree of its own, so that codecs and devices handle no
//! strings. A [`Text`] is valid UTF-8, and strings begin and end at character boundaries;
//! [`Text::new`] checks both.

use std::collections::HashMap;

use crate::chunk_rules::Rule;
use crate::values::Values;

/// Part of a column that a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Part {
    /// The values of a column of numbers.
    Numbers = 0,
    /// Index of each row's string among the stored strings, if rows share strings.
    Indexes = 1,
    /// Bytes of each stored string.
    Lengths = 2,
    /// The stored strings, one after another.
    Bytes = 3,
}

impl Part {
    /// The part with this wire code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Numbers, Self::Indexes, Self::Lengths, Self::Bytes].get(usize::from(code)).copied()
    }

    /// Its code on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Indexes => "indexes",
            Self::Lengths => "lengths",
            Self::Bytes => "bytes",
        }
    }

    /// The part that must follow in the same column.
    const fn next(self) -> Option<Self> {
        match self {
            Self::Numbers | Self::Bytes => None,
            Self::Indexes => Some(Self::Lengths),
            Self::Lengths => Some(Self::Bytes),
        }
    }
}

/// Checks that `part` of column `id` may follow the previous chunk. Returns true if the part is the
/// first of its column; it then has a value for each row.
pub(crate) fn check_order(previous: Option<(u16, Part)>, id: u16, part: Part) -> Rule<bool> {
    let open = previous.and_then(|(id, part)| part.next().map(|next| (id, next)));
    match open {
        Some(expected) if expected == (id, part) => Ok(false),
        Some((id, expected)) => {
            Err(format!("column {id} is text without {}, which must follow", expected.name()))
        }
        None if part == Part::Bytes => {
            Err(format!("column {id} begins with bytes: their lengths must precede them"))
        }
        None => Ok(true),
    }
}

/// Checks that the column of the last chunk lacks no part.
pub(crate) fn check_end(previous: Option<(u16, Part)>) -> Rule {
    match previous.and_then(|(id, part)| part.next().map(|next| (id, next))) {
        Some((id, next)) => Err(format!("column {id} is text without {}", next.name())),
        None => Ok(()),
    }
}

/// A column of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    bytes: String,
    /// Offset of the end of each string.
    ends: Vec<u32>,
}

impl Text {
    /// Creates a column of strings from their bytes, one after another, and the length in bytes of
    /// each.
    ///
    /// # Errors
    /// If `bytes` are not UTF-8, if `lengths` do not add up to their number, or if a string ends
    /// within a character.
    pub fn new(bytes: Vec<u8>, lengths: &[u32]) -> Result<Self, String> {
        let bytes = String::from_utf8(bytes).map_err(|error| {
            format!("byte {} of the text is not UTF-8", error.utf8_error().valid_up_to())
        })?;
        let mut end = 0_u64;
        let mut ends = Vec::with_capacity(lengths.len());
        for (string, length) in lengths.iter().enumerate() {
            end += u64::from(*length);
            // An end beyond the bytes is not a boundary, so every accepted end fits its type.
            if !bytes.is_char_boundary(end as usize) {
                return Err(format!("string {string} ends at byte {end}, not at a character"));
            }
            ends.push(end as u32);
        }
        if end != bytes.len() as u64 || u32::try_from(end).is_err() {
            return Err(format!("lengths add up to {end} bytes, the text has {}", bytes.len()));
        }
        Ok(Self { bytes, ends })
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All strings, one after another.
    pub fn as_str(&self) -> &str {
        &self.bytes
    }

    /// The string of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn get(&self, row: usize) -> &str {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start as usize..self.ends[row] as usize]
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Bytes of each string.
    pub fn lengths(&self) -> impl Iterator<Item = u32> {
        let starts = std::iter::once(&0).chain(&self.ends);
        self.ends.iter().zip(starts).map(|(end, start)| end - start)
    }

    /// All strings and their lengths.
    pub fn into_parts(self) -> (String, Vec<u32>) {
        let lengths = self.lengths().collect();
        (self.bytes, lengths)
    }

    /// The parts with a stored string for each row, in the order of their chunks.
    pub fn parts_by_row(&self) -> Vec<(Part, Values)> {
        let bytes = self.bytes.as_bytes().to_vec();
        let lengths = self.lengths().collect();
        vec![(Part::Lengths, Values::U32(lengths)), (Part::Bytes, Values::U8(bytes))]
    }

    /// The parts with each distinct string once, in order of first appearance; `None` if more than
    /// half as many strings as rows are distinct, because indexes then save no bytes.
    pub fn parts_by_index(&self) -> Option<Vec<(Part, Values)>> {
        let limit = self.len() / 2;
        let mut numbers = HashMap::new();
        let mut indexes = Vec::with_capacity(self.len());
        let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
        for string in self.iter() {
            let number = *numbers.entry(string).or_insert(lengths.len() as u32);
            if number as usize == lengths.len() {
                if lengths.len() == limit {
                    return None;
                }
                lengths.push(string.len() as u32);
                bytes.extend_from_slice(string.as_bytes());
            }
            indexes.push(number);
        }
        Some(vec![
            (Part::Indexes, Values::U32(indexes)),
            (Part::Lengths, Values::U32(lengths)),
            (Part::Bytes, Values::U8(bytes)),
        ])
    }

    /// The strings with these indexes. Fails with the first index that has no string, or with the
    /// total bytes if they exceed `bytes_max`.
    pub(crate) fn gather(&self, indexes: &[u32], bytes_max: u64) -> Result<Self, GatherFault> {
        let length = |index: &u32| match self.ends.get(*index as usize) {
            Some(_) => Ok(self.get(*index as usize).len() as u64),
            None => Err(GatherFault::Index(*index)),
        };
        let total = indexes.iter().map(length).try_fold(0_u64, |sum, length| Ok(sum + length?))?;
        if total > bytes_max {
            return Err(GatherFault::Bytes(total));
        }
        let mut text = Self {
            bytes: String::with_capacity(total as usize),
            ends: Vec::with_capacity(indexes.len()),
        };
        for index in indexes {
            text.bytes.push_str(self.get(*index as usize));
            text.ends.push(text.bytes.len() as u32);
        }
        Ok(text)
    }
}

/// Why strings are not gathered.
pub(crate) enum GatherFault {
    /// The first index that has no string.
    Index(u32),
    /// Total bytes, which exceed the budget.
    Bytes(u64),
}

impl<'a> FromIterator<&'a str> for Text {
    /// Concatenates strings to a column.
    ///
    /// # Panics
    /// If they have more than 2^32 - 1 bytes, many times what a block holds.
    fn from_iter<I: IntoIterator<Item = &'a str>>(strings: I) -> Self {
        let mut text = Self::default();
        for string in strings {
            text.bytes.push_str(string);
            text.ends.push(u32::try_from(text.bytes.len()).expect("at most 2^32 - 1 bytes"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_cut_bytes_at_characters() {
        let text = Text::new("näher".as_bytes().to_vec(), &[1, 2, 0, 3]).unwrap();
        assert_eq!(text.iter().collect::<Vec<_>>(), ["n", "ä", "", "her"]);
        assert_eq!(text, ["n", "ä", "", "her"].into_iter().collect());
        assert_eq!(text.into_parts(), ("näher".to_owned(), vec![1, 2, 0, 3]));
        for (bytes, lengths, problem) in [
            (&b"ab\xff"[..], &[3][..], "byte 2 of the text is not UTF-8"),
            ("ä".as_bytes(), &[1, 1], "string 0 ends at byte 1"),
            (b"abc", &[1, 1], "add up to 2 bytes, the text has 3"),
            (b"abc", &[2, 2], "string 1 ends at byte 4"),
            (b"", &[u32::MAX, u32::MAX], "string 0 ends at byte 4294967295"),
            (b"x", &[], "add up to 0"),
        ] {
            let error = Text::new(bytes.to_vec(), lengths).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn equal_strings_are_stored_once() {
        let text: Text = ["b", "", "b", "bus", "", "b"].into_iter().collect();
        let parts = [
            (Part::Indexes, Values::U32(vec![0, 1, 0, 2, 1, 0])),
            (Part::Lengths, Values::U32(vec![1, 0, 3])),
            (Part::Bytes, Values::U8(b"bbus".to_vec())),
        ];
        assert_eq!(text.parts_by_index().unwrap(), parts);
        let text: Text = ["a", "b", "c", "a"].into_iter().collect();
        assert!(text.parts_by_index().is_none(), "3 of 4 are distinct");
    }

    #[test]
    fn gathered_strings_are_checked() {
        let text: Text = ["ab", "c"].into_iter().collect();
        let all = text.gather(&[1, 0, 0], 5).ok().unwrap();
        assert_eq!(all.iter().collect::<Vec<_>>(), ["c", "ab", "ab"]);
        assert!(matches!(text.gather(&[1, 0, 0], 4), Err(GatherFault::Bytes(5))));
        assert!(matches!(text.gather(&[0, 2], 9), Err(GatherFault::Index(2))));
    }
}
