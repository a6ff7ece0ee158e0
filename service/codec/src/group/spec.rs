//! What does encoding `group` look like in bytes? FORMAT.md, section 6.13.
//!
//! No section; the node says that the whole tree works in grouped order. Frozen: it never changes
//! once released.

use crate::place::{NodeRules, Place};
use crate::plan::PlanFault;

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 13;

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules {
    name: "group",
    children_min: 1,
    children_max: 1,
    sections: 0,
    parameter_u32: true,
    parameter_u64: false,
};

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    place.child_same(0)
}
