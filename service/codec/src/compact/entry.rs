//! Short entries of compact blocks (FORMAT.md, section 11.2), which omit what the rules of an
//! encoding imply.
//!
//! Counts and parameters that are read are checked when the expanded block is read.

use crate::chunk::Chunk;
use crate::chunk_rules::TABLE_COLUMN_MIN;
use crate::columns::Column;
use crate::compact::body::{Body, put_number};
use crate::compact::code_lengths;
use crate::compact::directory::Entry;
use crate::encoding::Encoding;
use crate::error::BlockError;
use crate::limits::{BLOCK_ROWS_MAX, PLAN_NODES_MAX};
use crate::node_spec::{NodeSpec, ParameterSpec, SectionSpec};
use crate::packed::WORD_BYTES;
use crate::plan::PlanNode;
use crate::text::Part;
use crate::tile::tiles;
use crate::value_type::ValueType;

/// Bits of an encoding's identifier in the head of a node.
const ENCODING_BITS: u32 = 5;
/// The mode of a node is 1.
const HAS_MODE: u8 = 1 << ENCODING_BITS;
/// The node lacks its optional child.
const LACKS_CHILD: u8 = 2 << ENCODING_BITS;
/// Bits of a head that have no meaning.
const UNKNOWN: u8 = 4 << ENCODING_BITS;
/// Shift of the part's code; the value type takes the bits below.
const PART_SHIFT: u32 = 4;

/// State of reading or writing entries, which store column numbers as differences.
pub(super) struct Columns {
    is_table: bool,
    previous: u16,
}

impl Columns {
    /// The state before the first entry.
    pub(super) fn new(is_table: bool) -> Self {
        Self { is_table, previous: if is_table { TABLE_COLUMN_MIN - 1 } else { 0 } }
    }

    /// Appends the entry of a chunk of a valid block.
    pub(super) fn put(&mut self, chunk: &Chunk, body: &mut Vec<u8>) {
        put_number(u64::from(chunk.id) - u64::from(self.previous), body);
        self.previous = chunk.id;
        if self.is_table {
            body.push(chunk.value_type.code() | chunk.part.code() << PART_SHIFT);
            if chunk.part != Part::Numbers {
                put_number(chunk.values() as u64, body);
            }
        }
        let section_bytes = chunk.sections.iter().map(|section| section.len() as u64);
        put_plan(chunk.plan.nodes(), section_bytes, body);
    }

    /// Reads the entry of chunk `chunk`.
    pub(super) fn read(
        &mut self,
        chunk: usize,
        rows: u32,
        body: &mut Body<'_>,
    ) -> Result<Entry, BlockError> {
        let offset = body.at();
        let fault = |problem| Err(BlockError::Chunk { chunk, offset, problem });
        let step: u16 = body.small("column")?;
        let Some(id) = self.previous.checked_add(step) else {
            let previous = self.previous;
            return fault(format!("column {previous} + {step} exceeds {}", u16::MAX));
        };
        self.previous = id;
        let (value_type, part) = if self.is_table {
            let [code] = body.take("value type")?;
            (ValueType::from_code(code & ((1 << PART_SHIFT) - 1)), code >> PART_SHIFT)
        } else {
            (Column::from_id(id).map(Column::value_type), Part::Numbers.code())
        };
        let Some(value_type) = value_type else {
            return fault(format!("column {id} has an unknown value type"));
        };
        // Which parts exist, and their numbers of values, are checked after expansion.
        let values = if part == Part::Numbers.code() { rows } else { body.small("values")? };
        if part != Part::Numbers.code() && values > BLOCK_ROWS_MAX {
            return fault(format!("chunk has {values} values, the limit is {BLOCK_ROWS_MAX}"));
        }
        let nodes = read_nodes(chunk, value_type, values, body)?;
        let mut section_bytes = Vec::new();
        for node in &nodes {
            for (index, spec) in node.encoding.spec().sections.iter().enumerate() {
                if index < usize::from(node.sections) {
                    section_bytes.push(read_length(*spec, index, node, values, body)?);
                }
            }
        }
        Ok(Entry { id, part, value_type, values, nodes, section_bytes })
    }
}

/// Appends a plan and the lengths of its sections.
fn put_plan(nodes: &[PlanNode], section_bytes: impl Iterator<Item = u64>, body: &mut Vec<u8>) {
    put_nodes(nodes, body);
    let mut section_bytes = section_bytes;
    let values = nodes[0].values;
    for node in nodes {
        let specs = node.encoding.spec().sections.iter().enumerate();
        for ((index, spec), bytes) in specs.take(node.sections.into()).zip(&mut section_bytes) {
            match (implied_bytes(*spec, index, node, values), spec) {
                (Some(_), _) => {}
                (None, SectionSpec::Words { .. }) => put_number(bytes / WORD_BYTES as u64, body),
                (None, _) => put_number(bytes, body),
            }
        }
    }
}

/// Bytes of a plan and the lengths of its sections.
pub(super) fn plan_bytes(nodes: &[PlanNode], section_bytes: &[u64]) -> usize {
    let mut bytes = Vec::new();
    put_plan(nodes, section_bytes.iter().copied(), &mut bytes);
    bytes.len()
}

/// The length of a section if the rules of its encoding determine it; otherwise `None`.
fn implied_bytes(spec: SectionSpec, index: usize, node: &PlanNode, values: u32) -> Option<u64> {
    let tiles = tiles(values as usize) as u64;
    let width = node.value_type.width_bytes() as u64;
    match spec {
        SectionSpec::Column => Some(u64::from(node.values) * width),
        SectionSpec::Bases(count) => Some(tiles * u64::from(count) * width),
        SectionSpec::Counts => Some(tiles * 2),
        SectionSpec::Directory => Some(tiles * 8),
        SectionSpec::Words { .. } => None,
        SectionSpec::Own => {
            let symbols = code_lengths::symbols(node, index)?;
            Some(code_lengths::section_bytes(symbols) as u64)
        }
    }
}

/// The length of a section, implied or read.
fn read_length(
    spec: SectionSpec,
    index: usize,
    node: &PlanNode,
    values: u32,
    body: &mut Body<'_>,
) -> Result<u64, BlockError> {
    match (implied_bytes(spec, index, node, values), spec) {
        (Some(bytes), _) => Ok(bytes),
        (None, SectionSpec::Words { .. }) => {
            body.number().map(|words| words.saturating_mul(WORD_BYTES as u64))
        }
        (None, _) => body.number(),
    }
}

/// Type and number of values of a node; `None` for what its parent does not imply.
#[derive(Clone, Copy)]
struct Place {
    value_type: Option<ValueType>,
    values: Option<u32>,
}

impl Place {
    /// The place of child `index` of a node.
    fn of_child(node: &PlanNode, index: u8) -> Self {
        let spec = node.encoding.spec().children[usize::from(index)];
        Self {
            value_type: spec.values.implied(node.value_type),
            values: (!spec.is_sparse).then_some(node.values),
        }
    }
}

/// A stack of the places of the nodes that follow; the next one is last.
struct Places(Vec<Place>);

impl Places {
    fn of_root(value_type: ValueType, values: u32) -> Self {
        Self(vec![Place { value_type: Some(value_type), values: Some(values) }])
    }

    /// Pushes the places of a node's children.
    fn open(&mut self, node: &PlanNode) {
        self.0.extend((0..node.children).rev().map(|index| Place::of_child(node, index)));
    }
}

/// Appends the nodes of a plan.
fn put_nodes(nodes: &[PlanNode], body: &mut Vec<u8>) {
    let mut places = Places::of_root(nodes[0].value_type, nodes[0].values);
    for node in nodes {
        let place = places.0.pop().expect("a plan is one tree");
        let spec = node.encoding.spec();
        let mut head = node.encoding.id() as u8;
        if mode_of(spec, node) == Some(1) {
            head |= HAS_MODE;
        }
        if usize::from(node.children) < spec.children.len() {
            head |= LACKS_CHILD;
        }
        body.push(head);
        if place.value_type.is_none() {
            body.push(node.value_type.code());
        }
        if place.values.is_none() {
            put_number(node.values.into(), body);
        }
        if is_stored(spec.parameter_u32) {
            put_number(node.parameter_u32.into(), body);
        }
        if is_stored(spec.parameter_u64) {
            put_number(node.parameter_u64, body);
        }
        places.open(node);
    }
}

/// True if a parameter is stored as a number.
fn is_stored(spec: ParameterSpec) -> bool {
    !matches!(spec, ParameterSpec::Unused | ParameterSpec::Mode)
}

/// The parameter of a node that is its mode.
fn mode_of(spec: &NodeSpec, node: &PlanNode) -> Option<u64> {
    match (spec.parameter_u32, spec.parameter_u64) {
        (ParameterSpec::Mode, _) => Some(node.parameter_u32.into()),
        (_, ParameterSpec::Mode) => Some(node.parameter_u64),
        _ => None,
    }
}

/// Reads the nodes of one tree.
fn read_nodes(
    chunk: usize,
    value_type: ValueType,
    values: u32,
    body: &mut Body<'_>,
) -> Result<Vec<PlanNode>, BlockError> {
    let (mut nodes, mut places) = (Vec::new(), Places::of_root(value_type, values));
    while let Some(place) = places.0.pop() {
        if nodes.len() == PLAN_NODES_MAX {
            let problem = format!("plan has more than {PLAN_NODES_MAX} nodes");
            return Err(BlockError::Chunk { chunk, offset: body.at(), problem });
        }
        let node = read_node(chunk, place, body)?;
        places.open(&node);
        nodes.push(node);
    }
    Ok(nodes)
}

/// Reads a node.
fn read_node(chunk: usize, place: Place, body: &mut Body<'_>) -> Result<PlanNode, BlockError> {
    let offset = body.at();
    let fault = |problem| Err(BlockError::Chunk { chunk, offset, problem });
    let [head] = body.take("node")?;
    let id = head & ((1 << ENCODING_BITS) - 1);
    let Some(encoding) = Encoding::from_id(id.into()) else {
        return fault(format!("encoding {id} is not supported by this reader"));
    };
    let spec = encoding.spec();
    let is_moded = [spec.parameter_u32, spec.parameter_u64].contains(&ParameterSpec::Mode);
    let lacking = u8::from(head & LACKS_CHILD != 0);
    if head & UNKNOWN != 0
        || (head & HAS_MODE != 0 && !is_moded)
        || lacking > spec.optional_children
    {
        return fault(format!("node of {} has head {head:#04x}", encoding.name()));
    }
    let value_type = match place.value_type {
        Some(value_type) => value_type,
        None => {
            let [code] = body.take("value type")?;
            match ValueType::from_code(code) {
                Some(value_type) => value_type,
                None => return fault(format!("value type {code} is not 1 to 10")),
            }
        }
    };
    let values = match place.values {
        Some(values) => values,
        None => body.small("values")?,
    };
    let mode = u8::from(head & HAS_MODE != 0);
    let parameter_u32 = match spec.parameter_u32 {
        ParameterSpec::Mode => mode.into(),
        spec if is_stored(spec) => body.small("parameter")?,
        _ => 0,
    };
    let parameter_u64 = match spec.parameter_u64 {
        ParameterSpec::Mode => mode.into(),
        spec if is_stored(spec) => body.number()?,
        _ => 0,
    };
    Ok(PlanNode {
        encoding,
        value_type,
        children: spec.children.len() as u8 - lacking,
        sections: spec.sections.len() as u8 - lacking,
        values,
        parameter_u32,
        parameter_u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_fit_the_head_of_a_node() {
        assert!(Encoding::ALL.iter().all(|encoding| encoding.id() < 1 << ENCODING_BITS));
        for encoding in Encoding::ALL {
            let spec = encoding.spec();
            let modes = [spec.parameter_u32, spec.parameter_u64];
            assert!(modes.iter().filter(|spec| **spec == ParameterSpec::Mode).count() < 2);
            assert!(spec.optional_children < 2);
        }
    }
}
