//! How does a tree become steps that one launch runs for every tile?
//!
//! In pre-order, as sections lie in a chunk. Nodes that look at a whole column end a program: what
//! they are given is kept, and programs of their own follow. Nothing runs here.

use shoal_codec::{DivisorChoice, Encoding, PlanNode, Tree, ValueType};
use shoal_engine::layout::{self, EncodeStep};

use super::error::EncodeError;
use super::source::{Source, width_bits};
use crate::launch::{Arena, DeviceSlice, TILE_VALUES};

/// Exceptions of a tile at most, and bits of their positions.
const EXCEPTIONS_MAX: u32 = 64;
const POSITION_BITS: u32 = 10;
/// The greatest power of ten that a double holds exactly.
pub(super) const DECIMALS_MAX: u8 = 22;

/// How many values a node gives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    DictionarySlot(u32),
    /// What stands at this place of the summary in the end.
    Summary(usize),
}

/// Where a section comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// These bytes.
    Bytes(DeviceSlice<u8>),
    /// The directory of a section of words.
    Directory(usize),
    /// A section of words.
    Words(usize),
}

/// A node whose counts are not known yet.
#[derive(Debug)]
pub(super) struct Draft<'t> {
    pub(super) node: PlanNode,
    pub(super) count: Count,
    /// Where the summary has the least and the greatest value of a constant.
    pub(super) bounds_at: Option<usize>,
    pub(super) parts: Vec<Part>,
    pub(super) children: Vec<Child<'t>>,
}

impl Draft<'_> {
    /// Appends its sections and those of all nodes below; false if some are of other programs.
    pub(super) fn list(&self, parts: &mut Vec<Part>) -> bool {
        parts.extend(&self.parts);
        let is_here = |child: &Child<'_>| matches!(child, Child::Here(draft) if draft.list(parts));
        self.children.iter().all(is_here)
    }
}

/// A subtree.
#[derive(Debug)]
pub(super) enum Child<'t> {
    Here(Draft<'t>),
    /// In programs of its own, from kept values.
    Kept(Kept<'t>),
}

/// Values put by for a node that looks at all of them.
#[derive(Debug)]
pub(super) struct Kept<'t> {
    pub(super) tree: &'t Tree,
    pub(super) value_type: ValueType,
    pub(super) values: DeviceSlice<u8>,
    pub(super) counts: DeviceSlice<u16>,
    pub(super) count: Count,
}

/// A dictionary with exceptions whose entries are known.
#[derive(Debug)]
pub(super) struct Split<'t> {
    pub(super) node: PlanNode,
    pub(super) entries: DeviceSlice<u8>,
    /// The code of exceptions.
    pub(super) none: u32,
    pub(super) codes_type: ValueType,
    pub(super) trees: [&'t Tree; 2],
}

/// Steps, and what they need to run.
#[derive(Debug)]
pub(super) struct Program<'a> {
    arena: &'a mut Arena,
    source: &'a Source,
    key_column: u16,
    pub(super) steps: Vec<EncodeStep>,
    /// What the summary begins with.
    pub(super) summary: Vec<u64>,
    /// Sections of words.
    pub(super) variables: usize,
    /// Words of a tile at most, over all of them.
    pub(super) staged_words: u32,
}

/// A node's place: type and number of its values.
#[derive(Clone, Copy)]
struct At {
    value_type: ValueType,
    count: Count,
}

impl At {
    fn bits(self) -> u32 {
        width_bits(self.value_type)
    }

    /// The same values, or as many, in another type.
    fn typed(self, value_type: ValueType) -> Self {
        Self { value_type, ..self }
    }

    fn unsigned(self) -> Self {
        self.typed(self.value_type.unsigned())
    }
}

impl<'a> Program<'a> {
    pub(super) fn new(arena: &'a mut Arena, source: &'a Source, key_column: u16) -> Self {
        let (steps, summary) = (Vec::new(), vec![0]);
        Self { arena, source, key_column, steps, summary, variables: 0, staged_words: 0 }
    }

    /// The whole tree of the source.
    pub(super) fn root<'t>(&mut self, tree: &'t Tree) -> Result<Draft<'t>, EncodeError> {
        let count = Count::DictionarySlot(self.source.length());
        match self.subtree(tree, At { value_type: self.source.value_type, count })? {
            Child::Here(draft) => Ok(draft),
            Child::Kept(_) => unreachable!("the caller takes such roots apart"),
        }
    }

    /// A dictionary over the source whose codes are known.
    pub(super) fn split<'t>(&mut self, split: &Split<'t>) -> Result<Draft<'t>, EncodeError> {
        let at = At {
            value_type: self.source.value_type,
            count: Count::DictionarySlot(self.source.length()),
        };
        let (others, counts) = self.sparse(at, layout::CODEC_DICT_OR, 0)?;
        let step = self.steps.last_mut().expect("it was just made");
        step.remainder = split.none;
        let [codes, exceptions] = split.trees;
        let codes = self.subtree(codes, at.typed(split.codes_type))?;
        let exceptions = self.subtree(exceptions, others)?;
        Ok(Draft {
            node: split.node,
            count: at.count,
            bounds_at: None,
            parts: vec![Part::Bytes(split.entries), counts],
            children: vec![codes, exceptions],
        })
    }

    fn subtree<'t>(&mut self, tree: &'t Tree, at: At) -> Result<Child<'t>, EncodeError> {
        let draft = match tree {
            Tree::Raw => self.raw(at)?,
            Tree::Afl => self.words(Encoding::Afl, layout::CODEC_AFL, 0, at),
            Tree::Gfc if !at.value_type.is_float() => {
                return EncodeError::because("gfc takes floats, this is no float");
            }
            Tree::Gfc => {
                let nibbles = TILE_VALUES as u32 / 8;
                self.words(Encoding::Gfc, layout::CODEC_GFC, nibbles, at)
            }
            Tree::Const => self.constant(at),
            Tree::Delta(mode, child) => {
                let draft =
                    self.bases(Encoding::Delta, layout::CODEC_DELTA, (*mode as u32, 1), at)?;
                self.above(draft, child, at.unsigned())?
            }
            Tree::Delta2(mode, child) => {
                let bases = (*mode as u32, 2);
                let draft = self.bases(Encoding::Delta2, layout::CODEC_DELTA2, bases, at)?;
                self.above(draft, child, at.unsigned())?
            }
            Tree::Scale(child) => {
                let bases = (at.value_type.is_signed().into(), 1);
                let mut draft = self.bases(Encoding::Scale, layout::CODEC_SCALE, bases, at)?;
                draft.node.parameter_u32 = 0;
                self.above(draft, child, at.unsigned())?
            }
            Tree::Divisor(Some(_), _) | Tree::FloatToInt(Some(_), _) => self.quotients(tree, at)?,
            Tree::Patch(child) => self.patch(child, at)?,
            Tree::Rle(values, lengths) => {
                let (runs, counts) = self.sparse(at, layout::CODEC_RLE, 0)?;
                let mut draft = draft(Encoding::Rle, at, (0, 0), vec![counts]);
                draft.children.push(self.subtree(values, runs)?);
                draft.children.push(self.subtree(lengths, runs.typed(ValueType::U16))?);
                draft
            }
            Tree::Group(child) => {
                let parameters = (self.key_column.into(), 0);
                self.above(draft(Encoding::Group, at, parameters, Vec::new()), child, at)?
            }
            Tree::KeyedDelta(mode, residuals, heads) => {
                let kind = (Encoding::KeyedDelta, layout::CODEC_KEYED_DELTA, *mode as u32);
                self.keyed(kind, [residuals, heads], at)?
            }
            Tree::KeyedDelta2(mode, residuals, heads) => {
                let kind = (Encoding::KeyedDelta2, layout::CODEC_KEYED_DELTA2, *mode as u32);
                self.keyed(kind, [residuals, heads], at)?
            }
            Tree::Divisor(None, _) | Tree::FloatToInt(None, _) | Tree::Dict(..) => {
                return self.keep(tree, at);
            }
            other => {
                let reason = format!("the device does not encode {}", other.encoding().name());
                return Err(EncodeError::NotApplicable(reason));
            }
        };
        Ok(Child::Here(draft))
    }

    fn step(&mut self, step: EncodeStep) {
        self.steps.push(step);
    }

    /// The draft with its child.
    fn above<'t>(
        &mut self,
        mut draft: Draft<'t>,
        child: &'t Tree,
        at: At,
    ) -> Result<Draft<'t>, EncodeError> {
        draft.children.push(self.subtree(child, at)?);
        Ok(draft)
    }

    /// Something for each tile, `each` patterns of so many bits.
    fn per_tile(&mut self, each: u32, bits: u32) -> Result<DeviceSlice<u8>, EncodeError> {
        let bytes = self.source.tiles() as usize * (each * bits / 8) as usize;
        Ok(self.arena.room::<u8>(bytes)?)
    }

    /// A leaf of words; `more` is what a tile may need beyond its values.
    fn words<'t>(&mut self, encoding: Encoding, kind: u32, more: u32, at: At) -> Draft<'t> {
        let variable = self.variable(more + TILE_VALUES as u32 / 32 * at.bits());
        self.step(EncodeStep {
            kind,
            bits: at.bits(),
            variable: variable as u32,
            ..EncodeStep::default()
        });
        let parts = vec![Part::Directory(variable), Part::Words(variable)];
        draft(encoding, at, (0, 0), parts)
    }

    /// Another section of words, of which a tile has `most`.
    fn variable(&mut self, most: u32) -> usize {
        self.staged_words += most;
        self.variables += 1;
        self.variables - 1
    }

    fn raw<'t>(&mut self, at: At) -> Result<Draft<'t>, EncodeError> {
        let bytes = self.source.rows as usize * at.value_type.width_bytes();
        let room = self.arena.room::<u8>(bytes)?;
        self.step(EncodeStep {
            section: room.address(),
            kind: layout::CODEC_RAW,
            bits: at.bits(),
            ..EncodeStep::default()
        });
        Ok(draft(Encoding::Raw, at, (0, 0), vec![Part::Bytes(room)]))
    }

    fn constant<'t>(&mut self, at: At) -> Draft<'t> {
        let place = self.summary.len();
        self.summary.extend([u64::MAX, 0]);
        self.step(EncodeStep {
            kind: layout::CODEC_CONST,
            bits: at.bits(),
            summary: place as u32,
            ..EncodeStep::default()
        });
        Draft { bounds_at: Some(place), ..draft(Encoding::Const, at, (0, 0), Vec::new()) }
    }

    /// A node with `each` bases a tile.
    fn bases<'t>(
        &mut self,
        encoding: Encoding,
        kind: u32,
        (mode, each): (u32, u32),
        at: At,
    ) -> Result<Draft<'t>, EncodeError> {
        let room = self.per_tile(each, at.bits())?;
        self.step(EncodeStep {
            section: room.address(),
            kind,
            bits: at.bits(),
            mode,
            ..EncodeStep::default()
        });
        Ok(draft(encoding, at, (mode, 0), vec![Part::Bytes(room)]))
    }

    /// A divisor or a number of decimals that is given.
    fn quotients<'t>(&mut self, tree: &'t Tree, at: At) -> Result<Draft<'t>, EncodeError> {
        if let Tree::FloatToInt(Some(decimals), child) = tree {
            let step = decimals_step(*decimals, at.value_type)?;
            self.step(EncodeStep { kind: layout::CODEC_FLOAT, ..step });
            let parameters = ((*decimals).into(), 0);
            let draft = draft(Encoding::FloatToInt, at, parameters, Vec::new());
            return self.above(draft, child, at.typed(integers_of(at.value_type)));
        }
        let Tree::Divisor(Some(choice), child) = tree else {
            unreachable!("the caller hands over these two");
        };
        let step = divisor_step(*choice, at.value_type)?;
        self.step(EncodeStep { kind: layout::CODEC_DIVISOR, ..step });
        let parameters = (choice.remainder, choice.divisor.into());
        self.above(draft(Encoding::Divisor, at, parameters, Vec::new()), child, at)
    }

    fn patch<'t>(&mut self, child: &'t Tree, at: At) -> Result<Draft<'t>, EncodeError> {
        let step = match child {
            Tree::Divisor(Some(choice), _) if !at.value_type.is_float() => {
                let step = divisor_step(*choice, at.value_type)?;
                EncodeStep { kind: layout::CODEC_PATCH_DIVISOR, ..step }
            }
            Tree::FloatToInt(Some(decimals), _)
                if at.value_type.is_float() && *decimals <= DECIMALS_MAX =>
            {
                let step = decimals_step(*decimals, at.value_type)?;
                EncodeStep { kind: layout::CODEC_PATCH_FLOAT, ..step }
            }
            Tree::Divisor(..) | Tree::FloatToInt(..) => {
                return EncodeError::because("a patch takes its child's parameter from the plan");
            }
            _ => EncodeStep { kind: layout::CODEC_PATCH, bits: at.bits(), ..Default::default() },
        };
        let bits = [POSITION_BITS, at.bits()].map(|bits| (EXCEPTIONS_MAX * bits).div_ceil(32));
        let variable = self.variable(bits[0] + bits[1]);
        self.step(EncodeStep { variable: variable as u32, ..step });
        let parts = vec![Part::Directory(variable), Part::Words(variable)];
        self.above(draft(Encoding::Patch, at, (0, 0), parts), child, at)
    }

    /// A step whose second child is sparse: that child, and the section of its counts.
    fn sparse(&mut self, at: At, kind: u32, mode: u32) -> Result<(At, Part), EncodeError> {
        let room = self.per_tile(1, 16)?;
        let place = self.summary.len();
        self.summary.push(0);
        self.step(EncodeStep {
            section: room.address(),
            kind,
            bits: at.bits(),
            mode,
            summary: place as u32,
            ..EncodeStep::default()
        });
        Ok((At { count: Count::Summary(place), ..at }, Part::Bytes(room)))
    }

    fn keyed<'t>(
        &mut self,
        (encoding, kind, mode): (Encoding, u32, u32),
        [residuals, heads]: [&'t Tree; 2],
        at: At,
    ) -> Result<Draft<'t>, EncodeError> {
        if self.source.heads.address() == 0 {
            return EncodeError::because("a keyed tree takes keys");
        }
        let (others, counts) = self.sparse(at, kind, mode)?;
        let parameters = (self.key_column.into(), mode.into());
        let mut draft = draft(encoding, at, parameters, vec![counts]);
        draft.children.push(self.subtree(residuals, at.unsigned())?);
        draft.children.push(self.subtree(heads, others)?);
        Ok(draft)
    }

    /// Puts values by.
    fn keep<'t>(&mut self, tree: &'t Tree, at: At) -> Result<Child<'t>, EncodeError> {
        let tiles = self.source.tiles() as usize;
        let width = at.value_type.width_bytes();
        let values = self.arena.room::<u8>(tiles * TILE_VALUES * width)?;
        let counts = self.arena.room::<u16>(tiles)?;
        self.step(EncodeStep {
            section: values.address(),
            second: counts.address(),
            kind: layout::CODEC_KEEP,
            bits: at.bits(),
            ..EncodeStep::default()
        });
        let (value_type, count) = (at.value_type, at.count);
        Ok(Child::Kept(Kept { tree, value_type, values, counts, count }))
    }
}

/// A node without children so far.
fn draft<'t>(
    encoding: Encoding,
    at: At,
    (parameter_u32, parameter_u64): (u32, u64),
    parts: Vec<Part>,
) -> Draft<'t> {
    let node = node(encoding, at.value_type, (parameter_u32, parameter_u64));
    Draft { node, count: at.count, bounds_at: None, parts, children: Vec::new() }
}

/// A node whose numbers of values, sections and children are filled in at the end.
pub(super) fn node(
    encoding: Encoding,
    value_type: ValueType,
    (parameter_u32, parameter_u64): (u32, u64),
) -> PlanNode {
    let (children, sections, values) = (0, 0, 0);
    PlanNode { encoding, value_type, children, sections, values, parameter_u32, parameter_u64 }
}

/// What divides values by a divisor that is given.
fn divisor_step(choice: DivisorChoice, value_type: ValueType) -> Result<EncodeStep, EncodeError> {
    if value_type.is_float() {
        return EncodeError::because("divisor takes integers");
    }
    if !choice.suits(value_type) {
        return EncodeError::because("the divisor does not suit the type");
    }
    let divisor = u64::from(choice.divisor);
    let shift = divisor.trailing_zeros();
    let odd = divisor >> shift;
    // Newton's iteration doubles the right bits: 3, 6, 12, 24, 48, 96.
    let newton = |inverse: u64| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    let inverse = (0..5).fold(odd, |inverse, _| newton(inverse));
    Ok(EncodeStep {
        inverse,
        limit: u64::MAX / divisor,
        bits: width_bits(value_type),
        mode: value_type.is_signed().into(),
        remainder: choice.remainder,
        shift,
        ..EncodeStep::default()
    })
}

/// What makes integers of floats with so many decimals.
fn decimals_step(decimals: u8, value_type: ValueType) -> Result<EncodeStep, EncodeError> {
    if !value_type.is_float() {
        return EncodeError::because("float_to_int takes floats");
    }
    if decimals > DECIMALS_MAX {
        return EncodeError::because("too many decimals");
    }
    let parameter = power_of_ten(decimals).to_bits();
    Ok(EncodeStep { parameter, bits: width_bits(value_type), ..EncodeStep::default() })
}

/// 10 to the power of `decimals`, at most 22, exact.
pub(super) fn power_of_ten(decimals: u8) -> f64 {
    // Products of exact powers below 10^22 are exact.
    (0..decimals).fold(1.0, |power, _| power * 10.0)
}

/// Type of the integers that stand for floats.
fn integers_of(value_type: ValueType) -> ValueType {
    if value_type == ValueType::F32 { ValueType::I32 } else { ValueType::I64 }
}
