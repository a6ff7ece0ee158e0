//! The names that a cycle assigns to numbers, and the numbers whose names it forgets (LOG.md,
//! section 6.1).
//!
//! The name of a row's object is in the record of the row or in an earlier record.

use std::fmt;

use crate::error::LogError;
use crate::limits::{NAME_BYTES_MAX, RECORD_ALIGN_BYTES};
use crate::record::{ObjectIds, put_padded};
use crate::wire::{put, u16_at, u32_at, u64_at};

/// Bytes of the header before the names.
const HEADER_BYTES: usize = 24;
/// Bytes of the length before each name.
const LENGTH_BYTES: usize = 2;

/// The names that a cycle adds, and the numbers whose names it forgets.
#[derive(Clone, Copy, PartialEq)]
pub struct LoggedNames<'a> {
    /// The number of the first name. The other names have the consecutive numbers after it.
    pub first_number: u64,
    /// Number of names.
    pub count: u32,
    /// The names as [`push_name`] encodes them.
    pub texts: &'a [u8],
    /// Numbers whose names this cycle forgets, ascending. An earlier record contains their names.
    pub forgotten: ObjectIds<'a>,
}

impl Default for LoggedNames<'_> {
    fn default() -> Self {
        Self { first_number: 0, count: 0, texts: &[], forgotten: ObjectIds::Ids(&[]) }
    }
}

/// Appends a name of 1 to 256 bytes to encoded names.
///
/// # Panics
/// If it has more than 65,535 bytes.
pub fn push_name(texts: &mut Vec<u8>, name: &str) {
    let length = u16::try_from(name.len()).expect("callers check the length of names");
    texts.extend(length.to_le_bytes());
    texts.extend(name.as_bytes());
}

impl<'a> LoggedNames<'a> {
    /// The names in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut rest = self.texts;
        std::iter::from_fn(move || {
            let (name, after) = next_name(rest).ok()??;
            rest = after;
            Some(name)
        })
    }

    /// Bytes of the encoded names.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let texts = self.texts.len().next_multiple_of(RECORD_ALIGN_BYTES);
        HEADER_BYTES + texts + self.forgotten.len() * 8
    }

    /// Checks that the names follow the rules of the format.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        self.fault().map_or(Ok(()), |reason| Err(LogError::Input(reason)))
    }

    fn fault(&self) -> Option<String> {
        let (mut rest, mut count) = (self.texts, 0_u32);
        loop {
            match next_name(rest) {
                Ok(Some((_, after))) => (rest, count) = (after, count + 1),
                Ok(None) => break,
                Err(reason) => return Some(reason),
            }
        }
        if count != self.count {
            return Some(format!("{count} names where {} are stated", self.count));
        }
        let last = self.first_number.checked_add(u64::from(count));
        if (self.first_number == 0 && count > 0) || last.is_none() {
            return Some(format!("{count} names from number {}", self.first_number));
        }
        let mut last = 0;
        for number in self.forgotten.iter() {
            if number <= last {
                return Some(format!("forgotten number {number} is misplaced"));
            }
            last = number;
        }
        None
    }

    /// Writes the names to the start of `out`, whatever it contains, and returns their encoded
    /// length.
    pub(crate) fn encode(&self, out: &mut [u8]) -> usize {
        put(out, 0, &self.first_number.to_le_bytes());
        put(out, 8, &self.count.to_le_bytes());
        put(out, 12, &(self.texts.len() as u32).to_le_bytes());
        put(out, 16, &(self.forgotten.len() as u32).to_le_bytes());
        put(out, 20, &[0; 4]);
        let mut at = put_padded(out, HEADER_BYTES, self.texts);
        for number in self.forgotten.iter() {
            put(out, at, &number.to_le_bytes());
            at += 8;
        }
        at
    }

    /// Parses the names at the start of `bytes`; returns them and their encoded length.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<(Self, usize), String> {
        let names = Self::of_checked(bytes).ok_or("the names exceed their record")?;
        names.0.fault().map_or(Ok(names), Err)
    }

    /// As [`Self::parse`], without checking the names.
    pub(crate) fn of_checked(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let header = bytes.get(..HEADER_BYTES)?;
        let (text_bytes, forgotten) = (u32_at(header, 12) as usize, u32_at(header, 16) as usize);
        let texts_end = HEADER_BYTES.checked_add(text_bytes)?;
        let from = texts_end.checked_next_multiple_of(RECORD_ALIGN_BYTES)?;
        let end = from.checked_add(forgotten.checked_mul(8)?)?;
        let names = Self {
            first_number: u64_at(header, 0),
            count: u32_at(header, 8),
            texts: bytes.get(HEADER_BYTES..texts_end)?,
            forgotten: ObjectIds::Encoded(bytes.get(from..end)?),
        };
        Some((names, end))
    }
}

/// Returns the first of the encoded names and the bytes after it; `None` if `bytes` is empty.
fn next_name(bytes: &[u8]) -> Result<Option<(&str, &[u8])>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let cut = || "the names end within one".to_owned();
    let (_, rest) = bytes.split_at_checked(LENGTH_BYTES).ok_or_else(cut)?;
    let length = usize::from(u16_at(bytes, 0));
    if !(1..=NAME_BYTES_MAX).contains(&length) {
        return Err(format!("a name has {length} bytes"));
    }
    let (name, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
    let name = std::str::from_utf8(name).map_err(|_| "a name is not UTF-8")?;
    Ok(Some((name, rest)))
}

// `Debug` omits the names: they must not appear in text logs.
impl fmt::Debug for LoggedNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LoggedNames");
        debug.field("first_number", &self.first_number).field("count", &self.count);
        debug.field("forgotten", &self.forgotten.len()).finish_non_exhaustive()
    }
}
