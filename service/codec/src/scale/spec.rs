//! What does encoding `scale` look like in bytes? FORMAT.md, section 6.5.
//!
//! A section with the least value of each tile; the child holds distances from it. Frozen: it
//! never changes once released.

use crate::place::{NodeRules, Place};
use crate::plan::PlanFault;

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 5;

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules::plain("scale", 1, 1);

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    place.child_unsigned(0)?;
    place.section_per_tile(0, place.node.value_type.width_bytes() as u64)
}
