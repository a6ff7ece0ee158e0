//! Splits a line of CSV into fields (RFC 4180).
//!
//! A field that begins with a quote ends with one, and a doubled quote within it is a quote. A quote
//! elsewhere is text. Unlike the crate `csv`, which reads on from an unclosed quote to the end of
//! the file and accepts text after a closing quote, this makes both an error of one line, so that a
//! damaged quote costs no other row.

use memchr::memchr;

use crate::CsvFault;

/// A field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Field<'line> {
    /// Its bytes, without quotes around them.
    pub(super) bytes: &'line [u8],
    /// True if a quote within it is doubled.
    pub(super) is_doubled: bool,
}

/// The end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineSplit {
    /// The number of fields.
    Fields(usize),
    /// The last field has no closing quote: it may go on in the next line.
    Open,
}

/// Calls `field` with the index and content of each field of a line.
///
/// # Errors
/// [`CsvFault::AfterQuote`].
pub(super) fn split_quoted<'line>(
    line: &'line [u8],
    delimiter: u8,
    mut field: impl FnMut(usize, Field<'line>),
) -> Result<LineSplit, CsvFault> {
    let (mut rest, mut count) = (line, 0);
    loop {
        let trimmed = skip_blanks(rest, delimiter);
        let after = if let Some(quoted) = trimmed.strip_prefix(b"\"") {
            let Some((content, after)) = closed(quoted) else { return Ok(LineSplit::Open) };
            field(count, content);
            let after = skip_blanks(after, delimiter);
            match after.split_first() {
                None => None,
                Some((byte, after)) if *byte == delimiter => Some(after),
                Some(_) => return Err(CsvFault::AfterQuote),
            }
        } else {
            let end = memchr(delimiter, rest);
            field(count, Field { bytes: &rest[..end.unwrap_or(rest.len())], is_doubled: false });
            end.map(|end| &rest[end + 1..])
        };
        count += 1;
        match after {
            Some(after) => rest = after,
            None => return Ok(LineSplit::Fields(count)),
        }
    }
}

/// The content of a field from its opening quote on, and what follows its closing quote.
fn closed(quoted: &[u8]) -> Option<(Field<'_>, &[u8])> {
    let (mut end, mut is_doubled) = (0, false);
    loop {
        end += memchr(b'"', &quoted[end..])?;
        if quoted.get(end + 1) != Some(&b'"') {
            return Some((Field { bytes: &quoted[..end], is_doubled }, &quoted[end + 1..]));
        }
        (end, is_doubled) = (end + 2, true);
    }
}

/// Without the blanks at the start, unless they separate fields.
fn skip_blanks(text: &[u8], delimiter: u8) -> &[u8] {
    let is_text = |byte: &u8| *byte == delimiter || !matches!(byte, b' ' | b'\t' | b'\r');
    &text[text.iter().position(is_text).unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Result<(LineSplit, Vec<String>), String> {
        let mut fields = Vec::new();
        let split = split_quoted(line.as_bytes(), b',', |index, field| {
            assert_eq!(index, fields.len());
            let mark = if field.is_doubled { "+" } else { "" };
            fields.push(format!("{}{mark}", String::from_utf8_lossy(field.bytes)));
        });
        split.map(|split| (split, fields)).map_err(|fault| fault.to_string())
    }

    #[test]
    fn quotes_count_only_around_a_field() {
        for (line, expected) in [
            ("1,\"a,b\",,\"\"", vec!["1", "a,b", "", ""]),
            ("5\" pipe,x\"y\"", vec!["5\" pipe", "x\"y\""]),
            ("\"a \"\"b\"\" c\",2", vec!["a \"\"b\"\" c+", "2"]),
            (" \"1\" , \"2\"\r", vec!["1", "2"]),
            ("", vec![""]),
            (",", vec!["", ""]),
        ] {
            let expected = (LineSplit::Fields(expected.len()), expected);
            let (split, fields) = split(line).unwrap();
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            assert_eq!((split, fields), expected, "{line}");
        }
        assert_eq!(split("1,\"a,b").unwrap().0, LineSplit::Open);
        assert_eq!(split("1,\"a\"\"").unwrap().0, LineSplit::Open);
        assert!(split("\"a\"b,2").unwrap_err().contains("quote"));
    }
}
