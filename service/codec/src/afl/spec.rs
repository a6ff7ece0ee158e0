//! What does encoding `afl` look like in bytes? FORMAT.md, section 6.2.
//!
//! A leaf: a directory of 8 bytes a tile, and words. Frozen: it never changes once released.

use crate::place::{NodeRules, Place};
use crate::plan::PlanFault;

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 2;
/// Bytes of a directory entry.
pub(crate) const ENTRY_BYTES: u64 = 8;

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules::plain("afl", 0, 2);

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    place.section_per_tile(0, ENTRY_BYTES)?;
    place.section_words(1)
}
