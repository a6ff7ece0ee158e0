//! Rows that are the elements of a list within an object, as in `{"now": 1, "aircraft": [{...}]}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use serde_json::value::RawValue;

/// Members of the object around a list, by their paths.
pub(super) type Around = Arc<Vec<(String, Json)>>;

/// An object, or an element of a list of rows.
#[derive(Clone, Debug)]
pub(super) struct Element {
    /// The line on which it begins.
    pub(super) line: u64,
    pub(super) text: Vec<u8>,
    /// The members of the object around the list that the user names; `None` for an object that is in
    /// no list.
    pub(super) around: Option<Around>,
}

/// The elements of the list at `path` in the object `text`, which begins on `line`; none if there is
/// no list.
pub(super) fn elements(text: &[u8], path: &str, line: u64, around: &Around) -> Vec<Element> {
    let list = std::str::from_utf8(text).ok().and_then(|text| list_at(text, path));
    let (mut line, mut from) = (line, 0);
    let element = |raw: &RawValue| {
        let raw = raw.get().as_bytes();
        // `raw` is a part of `text`.
        let at = raw.as_ptr().addr() - text.as_ptr().addr();
        line += text[from..at].iter().filter(|byte| **byte == b'\n').count() as u64;
        from = at;
        Element { line, text: raw.to_vec(), around: Some(around.clone()) }
    };
    list.unwrap_or_default().into_iter().map(element).collect()
}

/// The elements of the list at a path, whose names may have points too.
fn list_at<'text>(text: &'text str, path: &str) -> Option<Vec<&'text RawValue>> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let lists =
        members.iter().filter_map(|(name, value)| match path.strip_prefix(name.as_str())? {
            "" => serde_json::from_str::<Vec<&RawValue>>(value.get()).ok(),
            rest => list_at(value.get(), rest.strip_prefix('.')?),
        });
    // Of several lists with one path, as of `a.b` and of `b` in `a`, one has the rows.
    lists.max_by_key(Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_their_lines() {
        let text = b"{\"a.b\":\n {\"c\": [{\"x\":1},\n\n7, {\"x\":\n2}]}, \"d\":[]}";
        let found = elements(text, "a.b.c", 4, &Around::default());
        let found: Vec<_> =
            found.iter().map(|of| (of.line, String::from_utf8_lossy(&of.text))).collect();
        let expected = [(5, "{\"x\":1}"), (7, "7"), (7, "{\"x\":\n2}")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.into())));
        let twice = b"{\"a\":{\"b\":[]},\"a.b\":[1]}";
        assert_eq!(elements(twice, "a.b", 1, &Around::default()).len(), 1);
        for path in ["d", "a", "a.b", "e", "d."] {
            assert!(elements(text, path, 1, &Around::default()).is_empty(), "{path}");
        }
    }
}
