//! Which rules bind a plan node at its place in the tree?
//!
//! Each encoding's `spec.rs` states its own rules with the questions asked here: types of children,
//! lengths of sections, parameters (FORMAT.md, section 6, rules marked "plan"). Nothing here
//! looks into a section.

use crate::column::ValueType;
use crate::limits::{NODE_BYTES, SECTION_ENTRY_BYTES};
use crate::plan::{PlanFault, PlanNode, at};

/// What an encoding demands of every node that has it, wherever it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeRules {
    /// Its name in messages and plans.
    pub(crate) name: &'static str,
    /// Children at least.
    pub(crate) children_min: u8,
    /// Children at most.
    pub(crate) children_max: u8,
    /// Sections with the fewest children; each further child adds one.
    pub(crate) sections: u8,
    /// True if the first parameter has a meaning; it is 0 otherwise.
    pub(crate) parameter_u32: bool,
    /// True if the second parameter has a meaning; it is 0 otherwise.
    pub(crate) parameter_u64: bool,
}

impl NodeRules {
    /// Rules of a node without parameters.
    pub(crate) const fn plain(name: &'static str, children: u8, sections: u8) -> Self {
        Self {
            name,
            children_min: children,
            children_max: children,
            sections,
            parameter_u32: false,
            parameter_u64: false,
        }
    }
}

/// A node among its relatives.
pub(crate) struct Place<'a> {
    /// The node.
    pub(crate) node: &'a PlanNode,
    /// Its number in pre-order.
    pub(crate) index: usize,
    /// Numbers of its children.
    pub(crate) children: Vec<usize>,
    /// All nodes of the plan.
    pub(crate) nodes: &'a [PlanNode],
    /// Number of its first section in the chunk.
    pub(crate) section: usize,
    /// Lengths of its sections.
    pub(crate) section_bytes: &'a [u64],
    /// Tiles of the column.
    pub(crate) tiles: u64,
}

impl Place<'_> {
    /// A fault in the field at `field` of node `index`.
    fn fault_in<T>(&self, index: usize, field: usize, problem: String) -> Result<T, PlanFault> {
        Err(PlanFault { offset: index * NODE_BYTES + field, problem })
    }

    /// A fault in this node's field at `field`.
    pub(crate) fn fault<T>(&self, field: usize, problem: String) -> Result<T, PlanFault> {
        self.fault_in(self.index, field, problem)
    }

    /// Name of its encoding.
    fn name(&self) -> &'static str {
        self.node.encoding.rules().name
    }

    /// Section `index` has exactly `expected` bytes.
    pub(crate) fn section_is(&self, index: usize, expected: u64) -> Result<(), PlanFault> {
        let found = self.section_bytes[index];
        if found == expected {
            return Ok(());
        }
        let name = self.name();
        let problem = format!("{name} section has {found} bytes, its values take {expected}");
        self.section_fault(index, problem)
    }

    /// Section `index` has `bytes` for each tile.
    pub(crate) fn section_per_tile(&self, index: usize, bytes: u64) -> Result<(), PlanFault> {
        self.section_is(index, self.tiles * bytes)
    }

    /// Section `index` has whole words.
    pub(crate) fn section_words(&self, index: usize) -> Result<(), PlanFault> {
        let found = self.section_bytes[index];
        if found.is_multiple_of(4) {
            return Ok(());
        }
        let problem = format!("{} section has {found} bytes, not whole words", self.name());
        self.section_fault(index, problem)
    }

    /// A fault in the length of section `index`.
    fn section_fault(&self, index: usize, problem: String) -> Result<(), PlanFault> {
        let lengths = self.nodes.len() * NODE_BYTES;
        let offset = lengths + (self.section + index) * SECTION_ENTRY_BYTES;
        Err(PlanFault { offset, problem })
    }

    /// Child `child` gives values of type `expected`.
    pub(crate) fn child_type(&self, child: usize, expected: ValueType) -> Result<(), PlanFault> {
        let index = self.children[child];
        let found = self.nodes[index].value_type;
        if found == expected {
            return Ok(());
        }
        let problem = format!(
            "child of {} gives value type {}, it must be {}",
            self.name(),
            found.code(),
            expected.code()
        );
        self.fault_in(index, at::VALUE_TYPE, problem)
    }

    /// Child `child` gives the unsigned type of this node's width.
    pub(crate) fn child_unsigned(&self, child: usize) -> Result<(), PlanFault> {
        self.child_type(child, self.node.value_type.unsigned())
    }

    /// Child `child` gives this node's type.
    pub(crate) fn child_same(&self, child: usize) -> Result<(), PlanFault> {
        self.child_type(child, self.node.value_type)
    }

    /// Child `child` gives as many values as this node.
    pub(crate) fn child_full(&self, child: usize) -> Result<(), PlanFault> {
        let index = self.children[child];
        let (found, expected) = (self.nodes[index].values, self.node.values);
        if found == expected {
            return Ok(());
        }
        let problem = format!("child of {} gives {found} values, not {expected}", self.name());
        self.fault_in(index, at::VALUES, problem)
    }

    /// Child `child` gives at most as many values as this node.
    pub(crate) fn child_sparse(&self, child: usize) -> Result<(), PlanFault> {
        let index = self.children[child];
        let (found, limit) = (self.nodes[index].values, self.node.values);
        if found <= limit {
            return Ok(());
        }
        let problem = format!("child of {} gives {found} values of {limit}", self.name());
        self.fault_in(index, at::VALUES, problem)
    }

    /// A parameter that holds a mode holds one that is known.
    pub(crate) fn mode(&self, field: usize, code: u64) -> Result<(), PlanFault> {
        if code <= 1 {
            return Ok(());
        }
        self.fault(field, format!("mode of {} is {code}, known are 0 and 1", self.name()))
    }

    /// A parameter that holds a value of the node's type fits it.
    pub(crate) fn fits(&self, field: usize, value: u64) -> Result<(), PlanFault> {
        let bits = 8 * self.node.value_type.width_bytes();
        if bits == 64 || value >> bits == 0 {
            return Ok(());
        }
        self.fault(field, format!("parameter of {} is {value}, above {bits} bits", self.name()))
    }
}
