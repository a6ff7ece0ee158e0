//! What does encoding `dict` look like in bytes? FORMAT.md, section 6.10.
//!
//! The dictionary is one packed section; codes are a child, and so are exceptions. Frozen: it
//! never changes once released.

use crate::column::ValueType;
use crate::packed::{WORD_BYTES, words};
use crate::place::{NodeRules, Place};
use crate::plan::{PlanFault, at};

/// Identifier of the encoding in a plan node.
pub(crate) const ENCODING_ID: u16 = 10;

/// Entries at most.
pub(crate) const ENTRIES_MAX: u32 = 65_536;

/// Number of entries in the first parameter.
pub(crate) fn entries(parameter: u32) -> u32 {
    parameter & 0x00ff_ffff
}

/// Bits of an entry in the first parameter.
pub(crate) fn entry_bits(parameter: u32) -> u32 {
    parameter >> 24
}

/// Type of codes, of which there are `codes` different ones.
pub(crate) fn code_type(codes: usize) -> ValueType {
    if codes <= 256 { ValueType::U8 } else { ValueType::U16 }
}

/// What every such node has.
pub(crate) const RULES: NodeRules = NodeRules {
    name: "dict",
    children_min: 1,
    children_max: 2,
    sections: 1,
    parameter_u32: true,
    parameter_u64: true,
};

/// Rules of a node among its relatives.
pub(crate) fn check(place: &Place<'_>) -> Result<(), PlanFault> {
    let node = place.node;
    let (entries, bits) = (entries(node.parameter_u32), entry_bits(node.parameter_u32));
    let codes = entries as usize + usize::from(node.children) - 1;
    if entries == 0 || codes > ENTRIES_MAX as usize {
        let problem = format!("dict has {entries} entries, at most {ENTRIES_MAX} codes are");
        return place.fault(at::PARAMETER_U32, problem);
    }
    if bits as usize > 8 * node.value_type.width_bytes() {
        let problem = format!("dict has entries of {bits} bits, above its type");
        return place.fault(at::PARAMETER_U32, problem);
    }
    place.fits(at::PARAMETER_U64, node.parameter_u64)?;
    place.section_is(0, (words(entries as usize, bits) * WORD_BYTES) as u64)?;
    place.child_type(0, code_type(codes))?;
    if node.children == 2 {
        place.child_same(1)?;
        place.section_per_tile(1, 2)?;
    }
    Ok(())
}
