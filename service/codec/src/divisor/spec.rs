//! What does encoding `divisor` look like in bytes? FORMAT.md, section 6.6.
//!
//! No section: divisor and remainder are parameters; the child holds quotients. Frozen: it never
//! changes once released.

use crate::column::ValueType;
use crate::place::{NodeRules, Place};
use crate::plan::{PlanFault, at};

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 6;

/// The greatest divisor of values of one type.
pub(crate) fn divisor_max(value_type: ValueType) -> u64 {
    let bits = 8 * value_type.width_bytes() as u32 - u32::from(value_type.is_signed());
    if bits >= 32 { u32::MAX.into() } else { (1 << bits) - 1 }
}

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules {
    name: "divisor",
    children_min: 1,
    children_max: 1,
    sections: 0,
    parameter_u32: true,
    parameter_u64: true,
};

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    let value_type = place.node.value_type;
    let (divisor, remainder) = (place.node.parameter_u64, place.node.parameter_u32);
    if value_type.is_float() {
        let problem = "divisor gives a floating type, it takes integers".to_owned();
        return place.fault(at::VALUE_TYPE, problem);
    }
    if !(2..=divisor_max(value_type)).contains(&divisor) {
        let most = divisor_max(value_type);
        return place.fault(at::PARAMETER_U64, format!("divisor is {divisor}, not 2 to {most}"));
    }
    if u64::from(remainder) >= divisor {
        let problem = format!("remainder is {remainder}, the divisor {divisor}");
        return place.fault(at::PARAMETER_U32, problem);
    }
    place.child_same(0)
}
