//! Entries of the first form of compact blocks (FORMAT.md, section 12), which is read and no
//! longer written.

use crate::compact::body::Body;
use crate::compact::directory::Entry;
use crate::encoding::Encoding;
use crate::error::BlockError;
use crate::limits::{BLOCK_ROWS_MAX, PLAN_NODES_MAX};
use crate::plan::PlanNode;
use crate::text::Part;
use crate::value_type::ValueType;

/// Shift of the part's code; the number of nodes takes the bits below.
const PART_SHIFT: u32 = 5;

const _: () = assert!(PLAN_NODES_MAX < 1 << PART_SHIFT);

/// Reads the entry of chunk `chunk`.
pub(super) fn read_entry(
    chunk: usize,
    rows: u32,
    body: &mut Body<'_>,
) -> Result<Entry, BlockError> {
    let offset = body.at();
    let fault = |problem| Err(BlockError::Chunk { chunk, offset, problem });
    let id: u16 = body.small("column")?;
    let [code, counts] = body.take("chunk entry")?;
    let (count, part) = (counts & ((1 << PART_SHIFT) - 1), counts >> PART_SHIFT);
    let Some(value_type) = ValueType::from_code(code) else {
        return fault(format!("column {id} has value type {code}, it must be 1 to 10"));
    };
    if !(1..=PLAN_NODES_MAX).contains(&count.into()) {
        return fault(format!("plan has {count} nodes, it has 1 to {PLAN_NODES_MAX}"));
    }
    // Which parts exist, and their numbers of values, are checked after expansion.
    let values = if part == Part::Numbers.code() { rows } else { body.small("values")? };
    if part != Part::Numbers.code() && values > BLOCK_ROWS_MAX {
        return fault(format!("chunk has {values} values, the limit is {BLOCK_ROWS_MAX}"));
    }
    let read = (0..count).map(|_| read_node(chunk, values, body));
    let nodes: Vec<PlanNode> = read.collect::<Result<_, _>>()?;
    let sections: u32 = nodes.iter().map(|node| u32::from(node.sections)).sum();
    let section_bytes = (0..sections).map(|_| body.number()).collect::<Result<_, _>>()?;
    Ok(Entry { id, part, value_type, values, nodes, section_bytes })
}

/// Reads a node; counts and parameters are checked when the expanded block is read.
fn read_node(chunk: usize, all: u32, body: &mut Body<'_>) -> Result<PlanNode, BlockError> {
    let offset = body.at();
    let fault = |problem| Err(BlockError::Chunk { chunk, offset, problem });
    let id: u16 = body.small("encoding")?;
    let Some(encoding) = Encoding::from_id(id) else {
        return fault(format!("encoding {id} is not supported by this reader"));
    };
    let [code, counts] = body.take("node")?;
    let Some(value_type) = ValueType::from_code(code) else {
        return fault(format!("value type {code} is not 1 to 10"));
    };
    let missing: u32 = body.small("values")?;
    let Some(values) = all.checked_sub(missing) else {
        return fault(format!("node lacks {missing} values of {all} rows"));
    };
    Ok(PlanNode {
        encoding,
        value_type,
        children: counts & 0xf,
        sections: counts >> 4,
        values,
        parameter_u32: body.small("parameter")?,
        parameter_u64: body.number()?,
    })
}
