//! The sections of a checkpoint that contain a fleet's names: consecutive numbers with their names
//! (LOG.md, section 9.1).

use crate::limits::NAME_BYTES_MAX;

/// Maximum count of numbers in a section.
pub(super) const SECTION_NUMBERS: u64 = 1 << 16;
/// Bytes before the names: the first number, and the count of numbers.
const HEADER_BYTES: usize = 16;

/// Encodes the names of consecutive numbers from `first_number` on; an empty name means that the
/// number has none.
pub(super) fn encode<'a>(first_number: u64, names: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut body = vec![0; HEADER_BYTES];
    body[..8].copy_from_slice(&first_number.to_le_bytes());
    let mut count = 0_u64;
    for name in names {
        body.extend((name.len() as u16).to_le_bytes());
        body.extend(name.as_bytes());
        count += 1;
    }
    body[8..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    body
}

/// Decodes a section: calls `each` with every number and its name, which is empty if the number has
/// none. Returns the number before the first one if the section has no numbers, else 0: numbers up
/// to it are skipped.
///
/// # Errors
/// Describes what is wrong with the section, or returns the error of `each`. `each` may have been
/// called for some numbers before.
pub(super) fn decode<'a>(
    body: &'a [u8],
    mut each: impl FnMut(u64, &'a str) -> Result<(), String>,
) -> Result<u64, String> {
    let (header, mut rest) =
        body.split_first_chunk::<HEADER_BYTES>().ok_or("a section of names is cut")?;
    let (words, _) = header.as_chunks::<8>();
    let [first, count] = [words[0], words[1]].map(u64::from_le_bytes);
    if first == 0 || count > SECTION_NUMBERS || first.checked_add(count).is_none() {
        return Err(format!("a section of {count} names from number {first}"));
    }
    for number in first..first + count {
        let (length, after) = rest.split_first_chunk().ok_or("a section of names is cut")?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (name, after) = after.split_at_checked(length).ok_or("a section of names is cut")?;
        if length > NAME_BYTES_MAX {
            return Err(format!("a name of {length} bytes"));
        }
        each(number, std::str::from_utf8(name).map_err(|_| "a name is not UTF-8")?)?;
        rest = after;
    }
    match (rest.is_empty(), count) {
        (true, 0) => Ok(first - 1),
        (true, _) => Ok(0),
        (false, _) => Err("a section of names has more bytes".to_owned()),
    }
}

/// Counts the names of a section, without empty ones.
///
/// # Errors
/// As [`decode`].
pub(crate) fn count(body: &[u8]) -> Result<u64, String> {
    let mut names = 0;
    decode(body, |_, name| {
        names += u64::from(!name.is_empty());
        Ok(())
    })?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8]) -> Result<Vec<(u64, String)>, String> {
        let mut names = Vec::new();
        decode(body, |number, name| {
            names.push((number, name.to_owned()));
            Ok(())
        })?;
        Ok(names)
    }

    #[test]
    fn names_are_read_as_written_and_cuts_are_found() {
        let long = "n".repeat(256);
        let names = ["a", "", "Käthe", &long];
        let body = encode(7, names.into_iter());
        let expected: Vec<_> = (7..).zip(names.map(str::to_owned)).collect();
        assert_eq!(read(&body).unwrap(), expected);
        for length in 0..body.len() {
            assert!(read(&body[..length]).is_err(), "{length} bytes");
        }
        assert!(read(&[&body[..], &[0]].concat()).is_err());
        for (place, byte) in [(0, 0), (10, 2), (16, 3), (17, 2), (23, 0xff)] {
            let mut wrong = body.clone();
            wrong[place] = byte;
            assert!(read(&wrong).is_err(), "byte {place}");
        }
    }
}
