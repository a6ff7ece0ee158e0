//! What does encoding `delta` look like in bytes? FORMAT.md, section 6.3.
//!
//! A section of starting values for each tile; the child holds stored differences. Frozen: it
//! never changes once released.

use crate::place::{NodeRules, Place};
use crate::plan::{PlanFault, at};

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 3;

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules {
    name: "delta",
    children_min: 1,
    children_max: 1,
    sections: 1,
    parameter_u32: true,
    parameter_u64: false,
};

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    let width = place.node.value_type.width_bytes() as u64;
    place.mode(at::PARAMETER_U32, place.node.parameter_u32.into())?;
    place.child_unsigned(0)?;
    place.section_per_tile(0, width)
}
