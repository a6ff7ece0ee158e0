//! What does encoding `rle` look like in bytes? FORMAT.md, section 6.9.
//!
//! A section with the number of runs of each tile; children are values and lengths. Frozen: it
//! never changes once released.

use crate::column::ValueType;
use crate::place::{NodeRules, Place};
use crate::plan::PlanFault;

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 9;

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules::plain("rle", 2, 1);

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    place.child_same(0)?;
    place.child_type(1, ValueType::U16)?;
    place.section_per_tile(0, 2)
}
