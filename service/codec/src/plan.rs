//! Plans. A plan is a tree of encodings, in pre-order, that decodes the sections of a chunk.
//!
//! Child counts alone give the shape. A plan has at most 16 nodes on 4 levels. A node takes
//! 24 bytes (FORMAT.md, section 5). This file checks the shape, `node_spec.rs` each node.

use crate::encoding::Encoding;
use crate::limits::{NODE_BYTES, PLAN_DEPTH_MAX, PLAN_NODES_MAX, SCRATCH_KEYED_ROW_BYTES};
use crate::node_spec::PlacedNode;
use crate::value_type::ValueType;
use crate::wire::{array_at, put};

/// One node of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanNode {
    /// Encoding that produces its values from its sections and children.
    pub encoding: Encoding,
    /// Type of the values it gives.
    pub value_type: ValueType,
    /// Subtrees that follow it.
    pub children: u8,
    /// Sections it owns, taken in pre-order from the chunk's list.
    pub sections: u8,
    /// Number of values that it gives, over all tiles.
    pub values: u32,
    /// First parameter. The encoding defines its meaning; 0 if unused.
    pub parameter_u32: u32,
    /// Second parameter. The encoding defines its meaning; 0 if unused.
    pub parameter_u64: u64,
}

/// Byte offsets of a node's fields.
pub(crate) mod at {
    pub(crate) const ENCODING: usize = 0;
    pub(crate) const VALUE_TYPE: usize = 2;
    pub(crate) const CHILDREN: usize = 3;
    pub(crate) const SECTIONS: usize = 4;
    pub(crate) const RESERVED: usize = 5;
    pub(crate) const VALUES: usize = 8;
    pub(crate) const PARAMETER_U32: usize = 12;
    pub(crate) const PARAMETER_U64: usize = 16;
}

const _: () = assert!(at::PARAMETER_U64 + 8 == NODE_BYTES);

/// A rule that a plan breaks. The offset counts bytes from the first node; section lengths follow
/// the nodes.
pub(crate) struct PlanFault {
    pub(crate) offset: usize,
    pub(crate) problem: String,
}

impl PlanNode {
    /// Reads one node.
    fn parse(bytes: &[u8; NODE_BYTES]) -> Result<Self, PlanFault> {
        let fault = |offset, problem| Err(PlanFault { offset, problem });
        let id = u16::from_le_bytes(array_at(bytes, at::ENCODING));
        let Some(encoding) = Encoding::from_id(id) else {
            return fault(at::ENCODING, format!("encoding {id} is not supported by this reader"));
        };
        let code = bytes[at::VALUE_TYPE];
        let Some(value_type) = ValueType::from_code(code) else {
            return fault(at::VALUE_TYPE, format!("value type {code} is not 1 to 10"));
        };
        if let Some(index) = bytes[at::RESERVED..at::VALUES].iter().position(|&byte| byte != 0) {
            let offset = at::RESERVED + index;
            let problem = format!("reserved byte is {:#04x}, it must be 0", bytes[offset]);
            return fault(offset, problem);
        }
        Ok(Self {
            encoding,
            value_type,
            children: bytes[at::CHILDREN],
            sections: bytes[at::SECTIONS],
            values: u32::from_le_bytes(array_at(bytes, at::VALUES)),
            parameter_u32: u32::from_le_bytes(array_at(bytes, at::PARAMETER_U32)),
            parameter_u64: u64::from_le_bytes(array_at(bytes, at::PARAMETER_U64)),
        })
    }

    /// Appends its bytes.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; NODE_BYTES];
        put(&mut bytes, at::ENCODING, self.encoding.id().to_le_bytes());
        put(&mut bytes, at::VALUE_TYPE, [self.value_type.code()]);
        put(&mut bytes, at::CHILDREN, [self.children]);
        put(&mut bytes, at::SECTIONS, [self.sections]);
        put(&mut bytes, at::VALUES, self.values.to_le_bytes());
        put(&mut bytes, at::PARAMETER_U32, self.parameter_u32.to_le_bytes());
        put(&mut bytes, at::PARAMETER_U64, self.parameter_u64.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}

/// The plan of one chunk, nodes in pre-order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    nodes: Vec<PlanNode>,
}

impl Plan {
    /// The plan `raw` for `values` values of one type.
    pub(crate) fn raw(value_type: ValueType, values: u32) -> Self {
        let root = PlanNode {
            encoding: Encoding::Raw,
            value_type,
            children: 0,
            sections: 1,
            values,
            parameter_u32: 0,
            parameter_u64: 0,
        };
        Self { nodes: vec![root] }
    }

    /// Creates a plan from the nodes of an encoder, without checks.
    pub(crate) fn built(nodes: Vec<PlanNode>) -> Self {
        Self { nodes }
    }

    /// Reads a plan from whole nodes and checks shape, depth, encodings and section count.
    pub(crate) fn parse(bytes: &[u8], sections: usize) -> Result<Self, PlanFault> {
        let (raw_nodes, rest) = bytes.as_chunks::<NODE_BYTES>();
        assert!(rest.is_empty(), "the caller passes whole nodes");
        assert!((1..=PLAN_NODES_MAX).contains(&raw_nodes.len()), "the caller checks the count");
        let mut nodes = Vec::with_capacity(raw_nodes.len());
        for (index, raw_node) in raw_nodes.iter().enumerate() {
            let node = PlanNode::parse(raw_node)
                .and_then(|node| node.encoding.spec().check_counts(&node).map(|()| node))
                .map_err(|fault| PlanFault {
                    offset: index * NODE_BYTES + fault.offset,
                    problem: fault.problem,
                })?;
            nodes.push(node);
        }
        check_shape(&nodes)?;
        let owned: usize = nodes.iter().map(|node| usize::from(node.sections)).sum();
        if owned != sections {
            let problem = format!("nodes own {owned} sections, the chunk has {sections}");
            return Err(PlanFault { offset: at::SECTIONS, problem });
        }
        Ok(Self { nodes })
    }

    /// Checks a plan of an encoder as a reader does.
    pub(crate) fn check(&self, section_bytes: &[u64]) -> Result<(), PlanFault> {
        if self.nodes.len() > PLAN_NODES_MAX {
            let problem = format!("{} nodes, at most {PLAN_NODES_MAX}", self.nodes.len());
            return Err(PlanFault { offset: 0, problem });
        }
        check_shape(&self.nodes)?;
        let check = |node: &PlanNode| node.encoding.spec().check_counts(node);
        self.nodes.iter().try_for_each(check)?;
        self.check_places(section_bytes)
    }

    /// Checks types, counts and section lengths of every node at its place. `section_bytes` has the
    /// length of each section of the chunk; the nodes own exactly these sections.
    pub(crate) fn check_places(&self, section_bytes: &[u64]) -> Result<(), PlanFault> {
        let tiles = u64::from(self.root().values).div_ceil(crate::tile::TILE_VALUES as u64);
        let mut check =
            PlaceCheck { nodes: &self.nodes, section_bytes, tiles, next: 0, section: 0 };
        check.subtree(false)?;
        self.check_keyed()
    }

    /// Checks that at most one node makes the tree keyed.
    fn check_keyed(&self) -> Result<(), PlanFault> {
        let mut keyed = self.nodes.iter().enumerate().filter(|(_, node)| node.encoding.is_keyed());
        let (_, second) = (keyed.next(), keyed.next());
        match second {
            None => Ok(()),
            Some((index, _)) => {
                let problem =
                    "a second node makes the tree keyed, at most one is allowed".to_owned();
                Err(PlanFault { offset: index * NODE_BYTES + at::ENCODING, problem })
            }
        }
    }

    /// Its nodes in pre-order; the first is the root.
    pub fn nodes(&self) -> &[PlanNode] {
        &self.nodes
    }

    /// The node that gives the column's values.
    pub fn root(&self) -> &PlanNode {
        &self.nodes[0]
    }

    /// If the tree is keyed (FORMAT.md, section 6.13), returns the column whose keys order this
    /// one, and the number of the keyed node.
    pub fn key_column(&self) -> Option<(u16, usize)> {
        let index = self.nodes.iter().position(|node| node.encoding.is_keyed())?;
        // An id above 16 bits becomes 0, which is never a column.
        Some((u16::try_from(self.nodes[index].parameter_u32).unwrap_or(0), index))
    }

    /// Bytes of working memory that decoding takes in addition to output and tile buffers
    /// (FORMAT.md, section 6.16), without those for keyed rows.
    pub fn dictionary_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| (node.encoding.spec().scratch_bytes)(node)).sum()
    }

    /// Bytes of working memory that decoding this column alone takes in addition to output and tile
    /// buffers.
    pub fn scratch_bytes(&self) -> u64 {
        let is_keyed = self.key_column().is_some();
        let keyed_rows = if is_keyed { u64::from(self.root().values) } else { 0 };
        self.dictionary_bytes() + keyed_rows * SCRATCH_KEYED_ROW_BYTES
    }
}

/// Walks a plan in pre-order and checks each node among its relatives.
struct PlaceCheck<'a> {
    nodes: &'a [PlanNode],
    section_bytes: &'a [u64],
    tiles: u64,
    next: usize,
    section: usize,
}

impl PlaceCheck<'_> {
    /// Checks the subtree that begins at the next node; returns its number.
    fn subtree(&mut self, is_sparse: bool) -> Result<usize, PlanFault> {
        let (index, section) = (self.next, self.section);
        let node = &self.nodes[index];
        let section_end = section + usize::from(node.sections);
        self.next += 1;
        self.section = section_end;
        let mut children = Vec::with_capacity(node.children.into());
        for child in 0..node.children {
            let is_sparse = is_sparse || node.encoding.is_child_sparse(child.into());
            children.push(self.subtree(is_sparse)?);
        }
        let placed = PlacedNode {
            node,
            index,
            children,
            nodes: self.nodes,
            section,
            section_bytes: &self.section_bytes[section..section_end],
            tiles: self.tiles,
        };
        let is_full = matches!(node.encoding, Encoding::Raw | Encoding::Stateless);
        if is_sparse && (is_full || node.encoding.is_keyed()) {
            let problem = "raw, stateless and keyed nodes give a value for every row".to_owned();
            return placed.fault(at::ENCODING, problem);
        }
        placed.check()?;
        Ok(index)
    }
}

/// Checks that the child counts describe exactly one tree of at most four levels.
fn check_shape(nodes: &[PlanNode]) -> Result<(), PlanFault> {
    // For each open ancestor the number of children still expected; the first entry expects the
    // root.
    let mut open = vec![1_u8];
    for (index, node) in nodes.iter().enumerate() {
        let offset = index * NODE_BYTES + at::CHILDREN;
        while open.last() == Some(&0) {
            open.pop();
        }
        let Some(expected) = open.last_mut() else {
            let problem = format!("node {index} follows a tree that is already complete");
            return Err(PlanFault { offset, problem });
        };
        *expected -= 1;
        let depth = open.len();
        if depth > PLAN_DEPTH_MAX {
            let problem =
                format!("node {index} is on level {depth}, the limit is {PLAN_DEPTH_MAX}");
            return Err(PlanFault { offset, problem });
        }
        open.push(node.children);
    }
    let missing: usize = open.iter().map(|&count| usize::from(count)).sum();
    if missing == 0 {
        return Ok(());
    }
    let offset = (nodes.len() - 1) * NODE_BYTES + at::CHILDREN;
    Err(PlanFault { offset, problem: format!("the tree lacks {missing} more nodes") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the shape of nodes with these child counts; `check_shape` ignores encodings.
    fn shape(children: &[u8]) -> Result<(), PlanFault> {
        let raw = *Plan::raw(ValueType::U32, 1).root();
        let nodes: Vec<_> = children.iter().map(|&children| PlanNode { children, ..raw }).collect();
        check_shape(&nodes)
    }

    #[test]
    fn shapes_are_trees_of_four_levels() {
        for good in [&[0][..], &[1, 0], &[2, 0, 0], &[2, 2, 0, 0, 1, 0], &[1, 1, 1, 0]] {
            assert!(shape(good).is_ok(), "{good:?}");
        }
        for bad in [&[1][..], &[0, 0], &[2, 0], &[1, 0, 0], &[1, 1, 1, 1, 0], &[255, 0]] {
            assert!(shape(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_node_round_trips() {
        let plan = Plan::raw(ValueType::I32, 77);
        let mut bytes = Vec::new();
        plan.root().write(&mut bytes);
        let Ok(back) = Plan::parse(&bytes, 1) else { panic!("refused") };
        assert_eq!(back, plan);
        assert!(Plan::parse(&bytes, 2).is_err());
    }
}
