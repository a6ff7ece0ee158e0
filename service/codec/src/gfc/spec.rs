//! What does encoding `gfc` look like in bytes? FORMAT.md, section 6.12.
//!
//! A leaf: a directory of 8 bytes a tile, and words. Frozen: it never changes once released.

use crate::place::{NodeRules, Place};
use crate::plan::{PlanFault, at};

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 12;
/// Bytes of a directory entry.
pub(crate) const ENTRY_BYTES: u64 = 8;

/// Bytes that a code stands for in values of `width` bytes.
pub(crate) fn bytes_of_code(code: u8, width: usize) -> Option<usize> {
    match (width, code) {
        (8, 0..=3) | (4, 0..=4) => Some(code.into()),
        (8, 4..=7) => Some(usize::from(code) + 1),
        _ => None,
    }
}

/// The least code that stands for at least `count` bytes of values of `width` bytes.
pub(crate) fn code_of_bytes(count: usize, width: usize) -> u8 {
    let is_enough = |code: &u8| bytes_of_code(*code, width).is_some_and(|bytes| bytes >= count);
    (0..8).find(is_enough).expect("a value has at most its width in bytes")
}

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules::plain("gfc", 0, 2);

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    if !place.node.value_type.is_float() {
        let code = place.node.value_type.code();
        return place.fault(at::VALUE_TYPE, format!("gfc gives value type {code}, no float"));
    }
    place.section_per_tile(0, ENTRY_BYTES)?;
    place.section_words(1)
}
