//! Splits a text into its JSON objects.
//!
//! The objects follow each other, usually one on each line (newline-delimited JSON; RFC 8142 with a
//! record separator before each), or they are the elements of an array or of the member `features`
//! of an object (GeoJSON, RFC 7946). Memory is bounded by one object.
//!
//! An object that is cut is a fault, and the next one is read if it begins its line. In a file whose
//! objects have their rows in a list it may also be an element of the one that is cut. An object
//! within a list that is indented may take the rest of the list with it.

use std::io::{self, BufRead};

use serde_json::Value as Json;

use crate::geoparquet::is_wgs84;

/// Maximum depth of lists and objects within an object that can be parsed.
const DEPTH_MAX: u32 = 128;
/// Maximum bytes of an object.
const ITEM_BYTES_MAX: usize = 4 << 20;
/// Precedes each text of a sequence (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;
/// The member of a `FeatureCollection` with its features.
const FEATURES: &[u8] = b"features";
/// Members that a `FeatureCollection` may have before its features.
const COLLECTION_MEMBERS: [&str; 6] = ["features", "crs", "bbox", "name", "id", "metadata"];

/// Where the next object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// After the last one.
    Sequence,
    /// In an array.
    Array,
    /// In the features of a collection.
    Features,
}

/// Why the text of an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ItemFault {
    /// Something else is where an object should begin.
    #[error("it is no JSON object")]
    NoObject,
    /// A line ends within a text.
    #[error("the line ends within a text")]
    OpenText,
    /// The next object begins before the end of this one.
    #[error("the object is not closed before the next one")]
    NotClosed,
    /// The file ends within the object.
    #[error("the file ends within the object")]
    End,
    /// The file ends within the list.
    #[error("the file ends within the list of objects")]
    EndOfList,
    /// The object is too long.
    #[error("the object is longer than {ITEM_BYTES_MAX} bytes")]
    TooLong,
    /// A collection of features is not in longitude and latitude.
    #[error(
        "the crs of the collection is {0}; positions must be longitude and latitude (OGC:CRS84)"
    )]
    Crs(String),
    /// The input cannot be read further.
    #[error("cannot be read further: {0}")]
    Unreadable(#[from] io::Error),
}

impl ItemFault {
    /// True if nothing after it can be read.
    fn ends_file(&self) -> bool {
        matches!(self, Self::End | Self::EndOfList | Self::Crs(_) | Self::Unreadable(_))
    }
}

/// The place and the text of an object.
pub(super) struct Item<'items> {
    /// The line on which it begins, from 1.
    pub(super) line: u64,
    pub(super) text: Result<&'items [u8], ItemFault>,
}

/// What the scanner has read.
enum Scanned {
    /// An object.
    Object,
    /// The begin of the list of features.
    Features,
}

/// Reads the objects of a text.
pub(super) struct JsonItems<R> {
    input: R,
    list: List,
    item: Vec<u8>,
    /// The current line, from 1.
    line: u64,
    /// True if the next byte is the first of its line.
    is_line_start: bool,
    /// True after a fault within a list, whose rest is then no fault of its own.
    is_after_fault: bool,
    /// Whether objects may have a list with an object at the begin of a line.
    pub(super) may_have_lists: bool,
    is_at_end: bool,
}

impl<R: BufRead> JsonItems<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            list: List::Sequence,
            item: Vec::new(),
            line: 1,
            is_line_start: true,
            is_after_fault: false,
            may_have_lists: true,
            is_at_end: false,
        }
    }

    /// Returns the next object; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Item<'_>> {
        while !self.is_at_end {
            let begun = self.begin();
            let line = self.line;
            let read = match begun {
                Ok(true) => self.object(),
                Ok(false) => break,
                Err(fault) => Err(fault),
            };
            match read {
                Ok(Scanned::Object) => {
                    self.is_after_fault = false;
                    return Some(Item { line, text: Ok(&self.item) });
                }
                Ok(Scanned::Features) => self.list = List::Features,
                Err(fault) => {
                    self.is_after_fault = self.list != List::Sequence;
                    self.is_at_end = fault.ends_file();
                    return Some(Item { line, text: Err(fault) });
                }
            }
        }
        self.is_at_end = true;
        None
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.input.fill_buf() {
                Ok(bytes) => return Ok(bytes.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the byte that was peeked.
    fn take(&mut self, byte: u8) {
        self.input.consume(1);
        self.is_line_start = byte == b'\n';
        self.line += u64::from(self.is_line_start);
    }

    /// Goes to the begin of the next object; false at the end of the text.
    fn begin(&mut self) -> Result<bool, ItemFault> {
        while let Some(byte) = self.peek()? {
            match byte {
                b'{' => return Ok(true),
                // Blanks, what separates objects, and the bytes of a byte order mark.
                b',' | RECORD_SEPARATOR | 0xef | 0xbb | 0xbf => self.take(byte),
                _ if byte.is_ascii_whitespace() => self.take(byte),
                b'[' if self.list == List::Sequence => {
                    self.take(byte);
                    self.list = List::Array;
                }
                b']' if self.list != List::Sequence => {
                    self.take(byte);
                    self.end_list()?;
                }
                _ if self.is_after_fault => self.take(byte),
                _ => return self.skip_other(),
            }
        }
        if self.list == List::Sequence { Ok(false) } else { Err(ItemFault::EndOfList) }
    }

    /// Reads past something that is no object: to the end of the line, or of the element of a list.
    fn skip_other(&mut self) -> Result<bool, ItemFault> {
        let is_list = self.list != List::Sequence;
        while let Some(byte) = self.peek()? {
            if byte == b'\n' || (is_list && matches!(byte, b',' | b'{' | b']')) {
                break;
            }
            self.take(byte);
        }
        Err(ItemFault::NoObject)
    }

    /// Reads past the rest of an object whose list of features has ended.
    fn end_list(&mut self) -> Result<(), ItemFault> {
        let list = std::mem::replace(&mut self.list, List::Sequence);
        if list == List::Features {
            self.item.clear();
            self.item.push(b'{');
            self.rest_of_object()?;
            // The members after the list follow a comma.
            let members = self.item[1..].trim_ascii_start();
            let members = members.strip_prefix(b",").unwrap_or(members);
            check_crs(&[b"{", members].concat())?;
        }
        Ok(())
    }

    /// Reads an object from its brace.
    fn object(&mut self) -> Result<Scanned, ItemFault> {
        self.item.clear();
        self.item.push(b'{');
        self.take(b'{');
        self.rest_of_object()
    }

    /// Reads an object after its brace.
    fn rest_of_object(&mut self) -> Result<Scanned, ItemFault> {
        // A bit for each open bracket of the first levels, set for a list, the innermost last; and the
        // last two bytes outside texts that are no blanks.
        let (mut depth, mut lists, mut last) = (1_u32, 0_u128, [0, b'{']);
        let (mut is_text, mut is_escaped) = (false, false);
        let (mut text_start, mut text) = (0, 0..0);
        let (mut is_too_long, mut is_no_collection) = (false, false);
        while let Some(byte) = self.peek()? {
            if is_text && byte == b'\n' {
                return Err(ItemFault::OpenText);
            }
            let is_in_list = depth <= DEPTH_MAX && lists & 1 == 1;
            let is_element = self.may_have_lists
                && self.list == List::Sequence
                && is_in_list
                && (last[1] == b'[' || last == *b"},");
            if self.is_line_start && (byte == RECORD_SEPARATOR || byte == b'{' && !is_element) {
                return Err(ItemFault::NotClosed);
            }
            self.take(byte);
            let at = self.item.len();
            if at < ITEM_BYTES_MAX {
                self.item.push(byte);
            } else {
                is_too_long = true;
            }
            if is_text {
                match byte {
                    _ if is_escaped => is_escaped = false,
                    b'\\' => is_escaped = true,
                    b'"' => (is_text, text) = (false, text_start..at),
                    _ => {}
                }
                continue;
            }
            if !byte.is_ascii_whitespace() {
                last = [last[1], byte];
            }
            match byte {
                b'"' => (is_text, text_start) = (true, at + 1),
                b'[' if depth == 1 && !is_no_collection && self.is_features(text.clone(), at) => {
                    let members = [self.item.as_slice(), b"]}"].concat();
                    if is_collection(&members) {
                        check_crs(&members)?;
                        return Ok(Scanned::Features);
                    }
                    // Asked once, since an object may have the member many times.
                    is_no_collection = true;
                    (depth, lists) = (depth + 1, lists << 1 | 1);
                }
                b'{' | b'[' => {
                    depth += 1;
                    if depth <= DEPTH_MAX {
                        lists = lists << 1 | u128::from(byte == b'[');
                    }
                }
                b'}' | b']' => {
                    if depth <= DEPTH_MAX {
                        lists >>= 1;
                    }
                    depth -= 1;
                }
                _ => {}
            }
            if depth == 0 {
                return if is_too_long { Err(ItemFault::TooLong) } else { Ok(Scanned::Object) };
            }
        }
        Err(ItemFault::End)
    }

    /// True if the bracket at `at` begins the value of `features`, whose name is at `name`, outside
    /// any list.
    fn is_features(&self, name: std::ops::Range<usize>, at: usize) -> bool {
        self.list == List::Sequence
            && self.item.get(name.clone()) == Some(FEATURES)
            && self.item.get(name.end + 1..at).is_some_and(|rest| rest.trim_ascii() == b":")
    }
}

/// True if the members of an object before its list are those of a `FeatureCollection` (RFC 7946,
/// GeoJSON 2008, and those of GDAL).
fn is_collection(text: &[u8]) -> bool {
    let Ok(Json::Object(members)) = serde_json::from_slice(text) else { return false };
    match members.get("type") {
        Some(kind) => kind == "FeatureCollection",
        None => members.keys().all(|name| COLLECTION_MEMBERS.contains(&name.as_str())),
    }
}

/// As [`check_crs_of`], of the text of an object.
fn check_crs(text: &[u8]) -> Result<(), ItemFault> {
    check_crs_of(&serde_json::from_slice(text).unwrap_or_default())
}

/// Checks the member `crs` of a collection (GeoJSON 2008).
pub(super) fn check_crs_of(members: &Json) -> Result<(), ItemFault> {
    let crs = &members["crs"];
    match crs["properties"]["name"].as_str() {
        _ if crs.is_null() => Ok(()),
        Some(name) if is_wgs84(name) => Ok(()),
        Some(name) => Err(ItemFault::Crs(name.to_owned())),
        None => Err(ItemFault::Crs(crs.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects of a text with their lines; faults as their messages.
    fn items(text: &str) -> Vec<(u64, String)> {
        let mut items = JsonItems::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some(Item { line, text }) = items.next() {
            let text = text.map(|text| String::from_utf8_lossy(text).into_owned());
            found.push((line, text.unwrap_or_else(|fault| fault.to_string())));
        }
        found
    }

    fn check(text: &str, expected: &[(u64, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
        assert_eq!(items(text), expected, "{text}");
    }

    #[test]
    fn objects_follow_each_other_or_are_in_a_list() {
        let two = [(1, "{\"a\":1}"), (2, "{\"b\":{\"c\":\"}\\\"{\"}}")];
        check("{\"a\":1}\n{\"b\":{\"c\":\"}\\\"{\"}}\n\n", &two);
        check("\u{feff}\x1e{\"a\":1}\n\x1e{\"b\":{\"c\":\"}\\\"{\"}}", &two);
        check("[{\"a\":1},\n{\"b\":{\"c\":\"}\\\"{\"}}]", &two);
        check(
            "{ \"type\": \"FeatureCollection\", \"features\" : [ {\"a\":1},\n {\"b\":{\"c\":\"}\\\"{\"}} ], \"x\": [1] }\n",
            &two,
        );
        check(
            "{\n \"a\": [1,\n  2]\n}{\"b\":2}",
            &[(1, "{\n \"a\": [1,\n  2]\n}"), (4, "{\"b\":2}")],
        );
        let open = "{\"type\":\"FeatureCollection\",\"features\":[]}\n".repeat(100_000);
        check(&format!("{open}{{\"a\":1}}"), &[(100_001, "{\"a\":1}")]);
        let row = "{\"id\":7,\"lat\":1,\"features\":[\"abs\"]}";
        check(row, &[(1, row)]);
        let many = format!("{{\"x\":1{}}}", ",\"features\":[]".repeat(60_000));
        check(&many, &[(1, &many)]);
        let crs = |name: &str| format!("\"crs\":{{\"properties\":{{\"name\":\"{name}\"}}}}");
        let (wgs84, other) = (crs("urn:ogc:def:crs:OGC:1.3:CRS84"), crs("EPSG:3857"));
        check(&format!("{{{wgs84},\"features\":[{{\"a\":1}}]}}"), &[(1, "{\"a\":1}")]);
        let fault = "the crs of the collection is EPSG:3857; positions must be longitude and latitude \
                     (OGC:CRS84)";
        check(&format!("{{{other},\"features\":[{{\"a\":1}}]}}"), &[(1, fault)]);
        check(&format!("{{\"features\":[{{\"a\":1}}],{other}}}"), &[(1, "{\"a\":1}"), (1, fault)]);
        // Only a member of the whole object lists features.
        check("{\"a\":{\"features\":[{}]}}", &[(1, "{\"a\":{\"features\":[{}]}}")]);
        check("{\"x\":\"features\",\"y\":[{}]}", &[(1, "{\"x\":\"features\",\"y\":[{}]}")]);
        let list = "{\"a\":[\n{\"b\":2},\n{\"c\":3}\n]}";
        check(list, &[(1, list)]);
        check("", &[]);
    }

    #[test]
    fn a_fault_hides_no_other_object() {
        let not_closed = "the object is not closed before the next one";
        check("{\"a\":1\n{\"b\":2}\n", &[(1, not_closed), (2, "{\"b\":2}")]);
        check("{\"a\":[1.5,\n{\"b\":2}\n", &[(1, not_closed), (2, "{\"b\":2}")]);
        check("{\"a\":[{},\n{\"b\":2}\n{}", &[(1, not_closed), (3, "{}")]);
        check("{\"a\":{},\n{\"b\":2}\n", &[(1, not_closed), (2, "{\"b\":2}")]);
        let open = "the line ends within a text";
        check("{\"a\":\"x\n{\"b\":2}\n", &[(1, open), (2, "{\"b\":2}")]);
        check(
            "oh\n{\"b\":2}\nno [",
            &[(1, "it is no JSON object"), (2, "{\"b\":2}"), (3, "it is no JSON object")],
        );
        check(
            "[1,{\"b\":2}",
            &[
                (1, "it is no JSON object"),
                (1, "{\"b\":2}"),
                (1, "the file ends within the list of objects"),
            ],
        );
        check("{\"features\":[{\"a\":\"x\n\"},\n{\"b\":2}]}", &[(1, open), (3, "{\"b\":2}")]);
        check("{\"b\":2}\n{\"a\":", &[(1, "{\"b\":2}"), (2, "the file ends within the object")]);
        let long = format!("{{\"a\":\"{}\"}}\n{{\"b\":2}}", "x".repeat(ITEM_BYTES_MAX));
        check(&long, &[(1, "the object is longer than 4194304 bytes"), (2, "{\"b\":2}")]);
    }
}
