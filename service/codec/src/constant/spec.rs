//! What does encoding `const` look like in bytes? FORMAT.md, section 6.11.
//!
//! A leaf without sections: the value is a parameter. Frozen: it never changes once released.

use crate::place::{NodeRules, Place};
use crate::plan::{PlanFault, at};

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 11;

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules {
    name: "const",
    children_min: 0,
    children_max: 0,
    sections: 0,
    parameter_u32: false,
    parameter_u64: true,
};

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    place.fits(at::PARAMETER_U64, place.node.parameter_u64)
}
