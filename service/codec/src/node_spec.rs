//! Rules that bind a plan node to its children, sections and parameters (FORMAT.md, section 6,
//! rules marked "plan").
//!
//! Each encoding states its rules as a `NodeSpec`, which this check and the device's encoder read.
//! The check does not read the contents of sections.

use crate::limits::{NODE_BYTES, SECTION_ENTRY_BYTES};
use crate::plan::{PlanFault, PlanNode, at};
use crate::value_type::ValueType;

/// Rules of an encoding for every node that has it.
#[derive(Clone, Copy, Debug)]
pub struct NodeSpec {
    /// Children in order.
    pub children: &'static [ChildSpec],
    /// Number of trailing children that are optional; each absent child also omits a section.
    pub optional_children: u8,
    /// Sections of a node with all children, in order.
    pub sections: &'static [SectionSpec],
    /// Meaning of the first parameter.
    pub parameter_u32: ParameterSpec,
    /// Meaning of the second parameter.
    pub parameter_u64: ParameterSpec,
    /// Check of the rules that only this encoding has.
    pub(crate) check: fn(&PlacedNode<'_>) -> Result<(), PlanFault>,
    /// Bytes of working memory of the decoder in addition to output and tile buffers (FORMAT.md,
    /// section 6.16).
    pub(crate) scratch_bytes: fn(&PlanNode) -> u64,
}

/// A child of a node.
#[derive(Clone, Copy, Debug)]
pub struct ChildSpec {
    /// Type of its values.
    pub values: ChildType,
    /// True if a section of the node states its number of values per tile.
    pub is_sparse: bool,
}

/// Type of a child's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildType {
    /// That of the node.
    Same,
    /// The unsigned type of the node's width.
    Unsigned,
    /// `u16`.
    U16,
    /// The encoding's own rule.
    Own,
}

/// A section of a node.
#[derive(Clone, Copy, Debug)]
pub enum SectionSpec {
    /// All values of the node.
    Column,
    /// A fixed number of values of the node's type per tile.
    Bases(u8),
    /// A `u16` for each tile, the number of values that each sparse child has in the tile.
    Counts,
    /// An entry of 8 bytes per tile, which begins with the offset of the tile's words in the next
    /// section.
    Directory,
    /// The words of all tiles.
    Words {
        /// Maximum words of a tile, given the bits of a value.
        tile_words_max: fn(u32) -> u32,
    },
    /// The encoding's own rule.
    Own,
}

/// Meaning of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterSpec {
    /// The parameter is unused and must be 0.
    Unused,
    /// A [`crate::Mode`].
    Mode,
    /// Column whose values order the rows of the tree.
    KeyColumn,
    /// A value of the node's type.
    Value,
    /// The encoding's own rule.
    Own,
}

impl ChildType {
    /// The type of a child of a node of type `parent`; `None` if the encoding has its own rule.
    pub(crate) fn implied(self, parent: ValueType) -> Option<ValueType> {
        match self {
            Self::Same => Some(parent),
            Self::Unsigned => Some(parent.unsigned()),
            Self::U16 => Some(ValueType::U16),
            Self::Own => None,
        }
    }
}

impl ChildSpec {
    pub(crate) const SAME: Self = Self { values: ChildType::Same, is_sparse: false };
    pub(crate) const UNSIGNED: Self = Self { values: ChildType::Unsigned, is_sparse: false };
    pub(crate) const U16: Self = Self { values: ChildType::U16, is_sparse: false };
    pub(crate) const OWN: Self = Self { values: ChildType::Own, is_sparse: false };

    /// The same child with its own number of values per tile.
    pub(crate) const fn sparse(self) -> Self {
        Self { is_sparse: true, ..self }
    }
}

impl NodeSpec {
    /// A node without children, sections and parameters.
    pub(crate) const LEAF: Self = Self {
        children: &[],
        optional_children: 0,
        sections: &[],
        parameter_u32: ParameterSpec::Unused,
        parameter_u64: ParameterSpec::Unused,
        check: |_| Ok(()),
        scratch_bytes: |_| 0,
    };

    /// True if a node makes its whole tree work in grouped order.
    pub(crate) fn is_keyed(&self) -> bool {
        self.parameter_u32 == ParameterSpec::KeyColumn
    }

    /// Checks that do not depend on the place of a node: numbers of children and sections, unused
    /// parameters.
    pub(crate) fn check_counts(&self, node: &PlanNode) -> Result<(), PlanFault> {
        let name = node.encoding.name();
        let most = self.children.len() as u8;
        let least = most - self.optional_children;
        let fault = |offset, problem| Err(PlanFault { offset, problem });
        if !(least..=most).contains(&node.children) {
            let found = node.children;
            let problem =
                format!("{name} node has children {found}, it must have {least} to {most}");
            return fault(at::CHILDREN, problem);
        }
        let sections = self.sections.len() as u64 - u64::from(most - node.children);
        let unused = |spec: ParameterSpec, value| match spec {
            ParameterSpec::Unused => value,
            _ => 0,
        };
        let first = unused(self.parameter_u32, node.parameter_u32.into());
        let second = unused(self.parameter_u64, node.parameter_u64);
        for (offset, field, value, rule) in [
            (at::SECTIONS, "sections", node.sections.into(), sections),
            (at::PARAMETER_U32, "first parameter", first, 0),
            (at::PARAMETER_U64, "second parameter", second, 0),
        ] {
            if value != rule {
                let problem = format!("{name} node has {field} {value}, it must have {rule}");
                return fault(offset, problem);
            }
        }
        Ok(())
    }
}

/// A node with its place in the plan.
pub(crate) struct PlacedNode<'a> {
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

impl PlacedNode<'_> {
    /// Checks the node against the rules of its encoding; the caller has checked the counts of
    /// children and sections.
    pub(crate) fn check(&self) -> Result<(), PlanFault> {
        let (node, spec) = (self.node, self.node.encoding.spec());
        for (index, child) in spec.children.iter().enumerate().take(self.children.len()) {
            self.child_values(index, child.is_sparse)?;
        }
        (spec.check)(self)?;
        self.parameter(at::PARAMETER_U32, spec.parameter_u32, node.parameter_u32.into())?;
        self.parameter(at::PARAMETER_U64, spec.parameter_u64, node.parameter_u64)?;
        for (index, child) in spec.children.iter().enumerate().take(self.children.len()) {
            if let Some(expected) = child.values.implied(node.value_type) {
                self.child_type(index, expected)?;
            }
        }
        let width = node.value_type.width_bytes() as u64;
        for (index, section) in spec.sections.iter().enumerate().take(self.section_bytes.len()) {
            match section {
                SectionSpec::Column => self.section_is(index, u64::from(node.values) * width)?,
                SectionSpec::Bases(count) => {
                    self.section_is(index, self.tiles * u64::from(*count) * width)?;
                }
                SectionSpec::Counts => self.section_is(index, self.tiles * 2)?,
                SectionSpec::Directory => self.section_is(index, self.tiles * 8)?,
                SectionSpec::Words { .. } => self.section_words(index)?,
                SectionSpec::Own => {}
            }
        }
        Ok(())
    }

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
        self.node.encoding.name()
    }

    /// Checks that section `index` has exactly `expected` bytes.
    pub(crate) fn section_is(&self, index: usize, expected: u64) -> Result<(), PlanFault> {
        let found = self.section_bytes[index];
        if found == expected {
            return Ok(());
        }
        let name = self.name();
        let problem = format!("{name} section has {found} bytes, its values take {expected}");
        self.section_fault(index, problem)
    }

    /// Checks that section `index` consists of whole words.
    fn section_words(&self, index: usize) -> Result<(), PlanFault> {
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

    /// Checks that child `child` gives values of type `expected`.
    pub(crate) fn child_type(&self, child: usize, expected: ValueType) -> Result<(), PlanFault> {
        let index = self.children[child];
        let found = self.nodes[index].value_type;
        if found == expected {
            return Ok(());
        }
        let (name, found, expected) = (self.name(), found.code(), expected.code());
        let problem = format!("child of {name} gives value type {found}, it must be {expected}");
        self.fault_in(index, at::VALUE_TYPE, problem)
    }

    /// Checks that child `child` gives as many values as this node, or at most as many if it is
    /// sparse.
    fn child_values(&self, child: usize, is_sparse: bool) -> Result<(), PlanFault> {
        let index = self.children[child];
        let (found, limit, name) = (self.nodes[index].values, self.node.values, self.name());
        let problem = match is_sparse {
            true if found > limit => format!("child of {name} gives {found} values of {limit}"),
            false if found != limit => format!("child of {name} gives {found} values, not {limit}"),
            _ => return Ok(()),
        };
        self.fault_in(index, at::VALUES, problem)
    }

    /// Checks that a parameter has a value that `spec` allows.
    fn parameter(&self, field: usize, spec: ParameterSpec, value: u64) -> Result<(), PlanFault> {
        let bits = 8 * self.node.value_type.width_bytes();
        let name = self.name();
        let problem = match spec {
            ParameterSpec::Mode if value > 1 => {
                format!("mode of {name} is {value}, it must be 0 or 1")
            }
            ParameterSpec::Value if bits < 64 && value >> bits != 0 => {
                format!("parameter of {name} is {value}, above {bits} bits")
            }
            _ => return Ok(()),
        };
        self.fault(field, problem)
    }
}
