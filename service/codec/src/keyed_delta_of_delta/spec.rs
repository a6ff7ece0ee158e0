//! What does encoding `keyed_delta2` look like in bytes? FORMAT.md, section 6.15.
//!
//! A section with the number of heads of each tile; children are residuals and heads. Frozen: it
//! never changes once released.

use crate::place::{NodeRules, Place};
use crate::plan::{PlanFault, at};

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 15;

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules {
    name: "keyed_delta2",
    children_min: 2,
    children_max: 2,
    sections: 1,
    parameter_u32: true,
    parameter_u64: true,
};

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    place.mode(at::PARAMETER_U64, place.node.parameter_u64)?;
    place.child_unsigned(0)?;
    place.child_same(1)?;
    place.section_per_tile(0, 2)
}
