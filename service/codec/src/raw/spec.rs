//! What does plan `raw` look like in bytes?
//!
//! One leaf node, one section of `value count * width` bytes, values little-endian in row order,
//! nothing between them (FORMAT.md, section 6.1). Frozen: it never changes once released.

use crate::place::{NodeRules, Place};
use crate::plan::PlanFault;

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 1;
/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules::plain("raw", 0, 1);
/// Bytes of a row with every column: 8 + 4 + 4 + 4 + 4 + 2 + 4 + 4.
pub(crate) const ROW_BYTES_MAX: usize = 34;

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    let width = place.node.value_type.width_bytes() as u64;
    place.section_is(0, u64::from(place.node.values) * width)
}
