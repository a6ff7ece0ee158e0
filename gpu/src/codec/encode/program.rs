//! Programs: the steps of a tree that one launch runs for every tile.
//!
//! Steps are in pre-order, as sections are in a chunk. A node that needs the whole column ends a
//! program: the program stores the node's values, and later programs encode them. This file
//! launches nothing.

use shoal_codec::encoding::float_to_int::{DECIMALS_MAX, integer_type, power_of_ten};
use shoal_codec::encoding::stateless;
use shoal_codec::node_spec::{ChildType, ParameterSpec, SectionSpec};
use shoal_codec::{DivisorChoice, Encoding, PlanNode, Tree, ValueType};
use shoal_engine::layout::{self, EncodeStep};

use super::error::EncodeError;
use super::huffman::Coded;
use super::source::{Source, width_bits};
use super::strings::Frequent;
use crate::codec::code;
use crate::launch::{Arena, DeviceSlice, TILE_VALUES};

/// Number of values of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Fixed(u32),
    /// The number at this index of the summary after the program has run.
    Summary(usize),
}

/// Origin of a section.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// These bytes.
    Bytes(DeviceSlice<u8>),
    /// The directory of the section of words with this number.
    Directory(usize),
    /// The section of words with this number.
    Words(usize),
}

/// A node whose counts are not final.
#[derive(Debug)]
pub(super) struct Draft<'t> {
    pub(super) node: PlanNode,
    pub(super) count: Count,
    /// Index in the summary of the least and the greatest value of a constant.
    pub(super) bounds_at: Option<usize>,
    pub(super) parts: Vec<Part>,
    pub(super) children: Vec<Child<'t>>,
}

impl Draft<'_> {
    /// Appends the sections of the node and of all nodes below it. Returns false if other programs
    /// write some of them.
    pub(super) fn list(&self, parts: &mut Vec<Part>) -> bool {
        parts.extend(&self.parts);
        let is_inline =
            |child: &Child<'_>| matches!(child, Child::Inline(draft) if draft.list(parts));
        self.children.iter().all(is_inline)
    }
}

/// A subtree.
#[derive(Debug)]
pub(super) enum Child<'t> {
    Inline(Draft<'t>),
    /// Encoded by other programs, from stored values.
    Stored(Stored<'t>),
}

/// Stored values of a node that needs all of them.
#[derive(Debug)]
pub(super) struct Stored<'t> {
    pub(super) tree: &'t Tree,
    pub(super) value_type: ValueType,
    pub(super) values: DeviceSlice<u8>,
    pub(super) counts: DeviceSlice<u16>,
    pub(super) count: Count,
}

/// A dictionary with exceptions whose entries are final.
#[derive(Debug)]
pub(super) struct Split<'t> {
    pub(super) node: PlanNode,
    pub(super) entries: DeviceSlice<u8>,
    /// The code of exceptions.
    pub(super) none: u32,
    pub(super) codes_type: ValueType,
    pub(super) trees: [&'t Tree; 2],
}

/// Steps and the memory that they need to run.
#[derive(Debug)]
pub(super) struct Program<'a> {
    arena: &'a mut Arena,
    source: &'a Source,
    key_column: u16,
    pub(super) steps: Vec<EncodeStep>,
    /// Initial values of the summary: a flag that is set if the tree cannot represent the values,
    /// then counts and bounds of nodes. The steps update them on the device.
    pub(super) summary: Vec<u64>,
    /// Number of sections of words.
    pub(super) variables: usize,
    /// Most words of a tile, over all sections.
    pub(super) staged_words: u32,
}

/// Type and number of the values of a node.
#[derive(Clone, Copy)]
struct At {
    value_type: ValueType,
    count: Count,
}

impl<'a> Program<'a> {
    pub(super) fn new(arena: &'a mut Arena, source: &'a Source, key_column: u16) -> Self {
        let (steps, summary) = (Vec::new(), vec![0]);
        Self { arena, source, key_column, steps, summary, variables: 0, staged_words: 0 }
    }

    /// Appends the steps of the whole tree of the source.
    pub(super) fn root<'t>(&mut self, tree: &'t Tree) -> Result<Draft<'t>, EncodeError> {
        let at = self.source_at();
        match self.subtree(tree, at)? {
            Child::Inline(draft) => Ok(draft),
            Child::Stored(_) => unreachable!("the caller handles such roots"),
        }
    }

    /// Appends the steps of a dictionary with exceptions over the source, whose codes are final.
    pub(super) fn split<'t>(&mut self, split: &Split<'t>) -> Result<Draft<'t>, EncodeError> {
        let at = self.source_at();
        let kind = layout::CODEC_DICT_OR;
        let bits = width_bits(at.value_type);
        let mut step = EncodeStep { kind, bits, remainder: split.none, ..EncodeStep::default() };
        let mut parts = vec![Part::Bytes(split.entries)];
        let others = self.sections(&[SectionSpec::Counts], at, &mut step, &mut parts)?;
        self.steps.push(step);
        let [codes, exceptions] = split.trees;
        let codes = self.subtree(codes, At { value_type: split.codes_type, ..at })?;
        let children = vec![codes, self.subtree(exceptions, others)?];
        Ok(Draft { node: split.node, count: at.count, bounds_at: None, parts, children })
    }

    /// Appends the step of a leaf over the source whose Huffman code is known.
    pub(super) fn coded<'t>(&mut self, coded: &Coded) -> Result<Draft<'t>, EncodeError> {
        let at = self.source_at();
        let mut step = EncodeStep {
            second: coded.codes.address(),
            kind: code(coded.node.encoding),
            bits: width_bits(at.value_type),
            mode: coded.split,
            remainder: coded.symbols,
            ..EncodeStep::default()
        };
        let mut parts = vec![Part::Bytes(coded.lengths)];
        // The first section holds the lengths.
        self.sections(&coded.node.encoding.spec().sections[1..], at, &mut step, &mut parts)?;
        self.steps.push(step);
        let (node, count) = (coded.node, at.count);
        Ok(Draft { node, count, bounds_at: None, parts, children: Vec::new() })
    }

    /// Appends the step of a leaf over the source whose tables of frequent bytes are known.
    pub(super) fn frequent<'t>(&mut self, frequent: &Frequent) -> Result<Draft<'t>, EncodeError> {
        let (at, node) = (self.source_at(), frequent.node);
        let mut step = EncodeStep {
            second: frequent.ranks.address(),
            kind: code(Encoding::Stateless),
            bits: width_bits(at.value_type),
            mode: stateless::chunk_tiles(node.parameter_u32),
            remainder: stateless::entries(node.parameter_u32),
            ..EncodeStep::default()
        };
        let mut parts = vec![Part::Bytes(frequent.tables)];
        // The first section holds the tables.
        self.sections(&Encoding::Stateless.spec().sections[1..], at, &mut step, &mut parts)?;
        self.steps.push(step);
        Ok(Draft { node, count: at.count, bounds_at: None, parts, children: Vec::new() })
    }

    fn source_at(&self) -> At {
        let count = Count::Fixed(self.source.length());
        At { value_type: self.source.value_type, count }
    }

    fn subtree<'t>(&mut self, tree: &'t Tree, at: At) -> Result<Child<'t>, EncodeError> {
        if needs_column(tree) {
            return self.store(tree, at);
        }
        let (encoding, spec) = (tree.encoding(), tree.encoding().spec());
        let (mut step, own_parameters) = self.step(tree, at)?;
        let mut parts = Vec::new();
        let sparse = self.sections(spec.sections, at, &mut step, &mut parts)?;
        let bounds_at = (encoding == Encoding::Const).then_some(self.summary.len());
        if let Some(place) = bounds_at {
            step.summary = place as u32;
            self.summary.extend([u64::MAX, 0]);
        }
        // A group passes its child's values unchanged.
        if encoding != Encoding::Group {
            self.steps.push(step);
        }
        let parameter = |spec, own| match spec {
            ParameterSpec::Mode => step.mode.into(),
            ParameterSpec::KeyColumn => self.key_column.into(),
            _ => own,
        };
        let parameter_u32 = parameter(spec.parameter_u32, own_parameters.0.into()) as u32;
        let parameter_u64 = parameter(spec.parameter_u64, own_parameters.1);
        let node = node(encoding, at.value_type, parameter_u32, parameter_u64);
        let mut children = Vec::new();
        for (child, rule) in tree.children().into_iter().zip(spec.children) {
            let below = if rule.is_sparse { sparse } else { at };
            let value_type = match rule.values {
                ChildType::Same => at.value_type,
                ChildType::Unsigned => at.value_type.unsigned(),
                ChildType::U16 => ValueType::U16,
                ChildType::Own => integer_type(at.value_type).expect("it is a float"),
            };
            children.push(self.subtree(child, At { value_type, ..below })?);
        }
        Ok(Child::Inline(Draft { node, count: at.count, bounds_at, parts, children }))
    }

    /// The step of a node without its sections, and parameters of the encoding.
    fn step(&self, tree: &Tree, at: At) -> Result<(EncodeStep, (u32, u64)), EncodeError> {
        let (kind, bits) = (code(tree.encoding()), width_bits(at.value_type));
        let plain = EncodeStep { kind, bits, ..EncodeStep::default() };
        let mut parameters = (0, 0);
        let step = match tree {
            Tree::Raw | Tree::Afl | Tree::Const | Tree::Rle(..) | Tree::Group(_) => plain,
            Tree::Gfc if at.value_type.is_float() => plain,
            Tree::Gfc => return EncodeError::because("gfc takes floats, this is no float"),
            Tree::Delta(mode, _) | Tree::Delta2(mode, _) => {
                EncodeStep { mode: *mode as u32, ..plain }
            }
            Tree::Scale(_) => EncodeStep { mode: at.value_type.is_signed().into(), ..plain },
            Tree::KeyedDelta(..) | Tree::KeyedDelta2(..) if self.source.heads.address() == 0 => {
                return EncodeError::because("a keyed tree takes keys");
            }
            Tree::KeyedDelta(mode, ..) | Tree::KeyedDelta2(mode, ..) => {
                EncodeStep { mode: *mode as u32, ..plain }
            }
            Tree::Divisor(Some(choice), _) => {
                parameters = (choice.remainder, choice.divisor.into());
                EncodeStep { kind, ..divisor_step(*choice, at.value_type)? }
            }
            Tree::FloatToInt(Some(decimals), _) => {
                parameters = ((*decimals).into(), 0);
                EncodeStep { kind, ..decimals_step(*decimals, at.value_type)? }
            }
            Tree::Patch(child) => patch_step(child, at.value_type)?.unwrap_or(plain),
            other => {
                let reason = format!("the device does not encode {}", other.encoding().name());
                return Err(EncodeError::NotApplicable(reason));
            }
        };
        Ok((step, parameters))
    }

    /// Allocates the sections of a node for `step` and appends them to `parts`; returns the type
    /// and the number of the values of its sparse child.
    fn sections(
        &mut self,
        sections: &[SectionSpec],
        at: At,
        step: &mut EncodeStep,
        parts: &mut Vec<Part>,
    ) -> Result<At, EncodeError> {
        let (width, tiles) = (at.value_type.width_bytes(), self.source.tiles() as usize);
        let mut sparse = at;
        for section in sections {
            let bytes = match *section {
                SectionSpec::Column => self.source.rows as usize * width,
                SectionSpec::Bases(count) => tiles * usize::from(count) * width,
                SectionSpec::Counts => {
                    step.summary = self.summary.len() as u32;
                    sparse.count = Count::Summary(self.summary.len());
                    self.summary.push(0);
                    tiles * 2
                }
                SectionSpec::Directory => {
                    parts.push(Part::Directory(self.variables));
                    continue;
                }
                SectionSpec::Words { tile_words_max } => {
                    parts.push(Part::Words(self.variables));
                    step.variable = self.variables as u32;
                    self.staged_words += tile_words_max(step.bits);
                    self.variables += 1;
                    continue;
                }
                SectionSpec::Own => unreachable!("dictionaries and codes are built apart"),
            };
            let slice = self.arena.allocate::<u8>(bytes)?;
            step.section = slice.address();
            parts.push(Part::Bytes(slice));
        }
        Ok(sparse)
    }

    /// Appends a step that stores the values of a node that needs all of them.
    fn store<'t>(&mut self, tree: &'t Tree, at: At) -> Result<Child<'t>, EncodeError> {
        let tiles = self.source.tiles() as usize;
        let At { value_type, count } = at;
        let values = self.arena.allocate::<u8>(tiles * TILE_VALUES * value_type.width_bytes())?;
        let counts = self.arena.allocate::<u16>(tiles)?;
        self.steps.push(EncodeStep {
            section: values.address(),
            second: counts.address(),
            kind: layout::CODEC_STORE,
            bits: width_bits(value_type),
            ..EncodeStep::default()
        });
        Ok(Child::Stored(Stored { tree, value_type, values, counts, count }))
    }
}

/// True if a node needs the values of the whole column before its tiles are encoded.
fn needs_column(tree: &Tree) -> bool {
    let finds_parameter = matches!(tree, Tree::Divisor(None, _) | Tree::FloatToInt(None, _));
    let finds_symbols = matches!(tree, Tree::Huffman | Tree::HuffmanLong | Tree::Stateless(..));
    finds_parameter || finds_symbols || matches!(tree, Tree::Dict(..))
}

/// A node without its numbers of values, sections and children.
pub(super) fn node(
    encoding: Encoding,
    value_type: ValueType,
    parameter_u32: u32,
    parameter_u64: u64,
) -> PlanNode {
    let (children, sections, values) = (0, 0, 0);
    PlanNode { encoding, value_type, children, sections, values, parameter_u32, parameter_u64 }
}

/// The step of a patch above a child whose parameter decides the exceptions; `None` above other
/// children.
fn patch_step(child: &Tree, value_type: ValueType) -> Result<Option<EncodeStep>, EncodeError> {
    let (kind, step) = match child {
        Tree::Divisor(Some(choice), _) if !value_type.is_float() => {
            (layout::CODEC_PATCH_DIVISOR, divisor_step(*choice, value_type)?)
        }
        Tree::FloatToInt(Some(decimals), _)
            if value_type.is_float() && u32::from(*decimals) <= DECIMALS_MAX =>
        {
            (layout::CODEC_PATCH_FLOAT, decimals_step(*decimals, value_type)?)
        }
        Tree::Divisor(..) | Tree::FloatToInt(..) => {
            return EncodeError::because("a patch takes its child's parameter from the plan");
        }
        _ => return Ok(None),
    };
    Ok(Some(EncodeStep { kind, ..step }))
}

/// A step that divides values by a given divisor.
fn divisor_step(choice: DivisorChoice, value_type: ValueType) -> Result<EncodeStep, EncodeError> {
    if value_type.is_float() {
        return EncodeError::because("divisor takes integers");
    }
    if !choice.suits(value_type) {
        return EncodeError::because("the divisor does not suit the type");
    }
    let (inverse, shift, limit) = choice.inverse();
    Ok(EncodeStep {
        inverse,
        limit,
        bits: width_bits(value_type),
        mode: value_type.is_signed().into(),
        remainder: choice.remainder,
        shift,
        ..EncodeStep::default()
    })
}

/// A step that converts floats with a number of decimals to integers.
fn decimals_step(decimals: u8, value_type: ValueType) -> Result<EncodeStep, EncodeError> {
    if !value_type.is_float() {
        return EncodeError::because("float_to_int takes floats");
    }
    if u32::from(decimals) > DECIMALS_MAX {
        return EncodeError::because("too many decimals");
    }
    let parameter = power_of_ten(decimals.into()).to_bits();
    Ok(EncodeStep { parameter, bits: width_bits(value_type), ..EncodeStep::default() })
}
