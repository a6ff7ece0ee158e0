//! What does encoding `float_to_int` look like in bytes? FORMAT.md, section 6.7.
//!
//! No section: the number of decimals is a parameter; the child holds integers. Frozen: it never
//! changes once released.

use crate::column::ValueType;
use crate::place::{NodeRules, Place};
use crate::plan::{PlanFault, at};

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 7;

/// Decimals at most: the greatest power of ten that a double holds exactly.
pub(crate) const DECIMALS_MAX: u32 = 22;

/// 10 to the power of `decimals`, exact.
pub(crate) fn power_of_ten(decimals: u32) -> f64 {
    const POWERS: [f64; DECIMALS_MAX as usize + 1] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    POWERS[decimals as usize]
}

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules {
    name: "float_to_int",
    children_min: 1,
    children_max: 1,
    sections: 0,
    parameter_u32: true,
    parameter_u64: false,
};

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    if place.node.parameter_u32 > DECIMALS_MAX {
        let problem = format!("{} decimals, at most {DECIMALS_MAX}", place.node.parameter_u32);
        return place.fault(at::PARAMETER_U32, problem);
    }
    match place.node.value_type {
        ValueType::F32 => place.child_type(0, ValueType::I32),
        ValueType::F64 => place.child_type(0, ValueType::I64),
        other => {
            let problem = format!("float_to_int gives value type {}, no float", other.code());
            place.fault(at::VALUE_TYPE, problem)
        }
    }
}
