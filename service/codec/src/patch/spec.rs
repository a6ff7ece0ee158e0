//! What does encoding `patch` look like in bytes? FORMAT.md, section 6.8.
//!
//! A directory of 8 bytes a tile, words of positions and additions; one child. Frozen: it never
//! changes once released.

use crate::place::{NodeRules, Place};
use crate::plan::PlanFault;

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 8;
/// Bytes of a directory entry.
pub(crate) const ENTRY_BYTES: u64 = 8;
/// Exceptions of one tile at most.
pub(crate) const EXCEPTIONS_MAX: usize = 64;
/// Bits of a position within a tile.
pub(crate) const POSITION_BITS: u32 = 10;

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules::plain("patch", 1, 2);

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    place.child_same(0)?;
    place.section_per_tile(0, ENTRY_BYTES)?;
    place.section_words(1)
}
