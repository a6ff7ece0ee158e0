//! Encoding `dict`: codes into a dictionary (FORMAT.md, section 6.10).
//!
//! The dictionary contains all distinct values, or only the most frequent ones; then a second child
//! holds the other values.

use std::cmp::Reverse;
use std::ops::Range;

use crate::distinct::Distinct;
use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec, PlacedNode, SectionSpec};
use crate::packed::{WORD_BYTES, pack, unpack, words};
use crate::plan::{PlanFault, at};
use crate::section::{Fault, Section};
use crate::tile::{TILE_VALUES, TileCounts};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree, check_sum};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::value_type::ValueType;
use crate::word::Word;

/// Rules of every `dict` node: children are codes and, with a second section, exceptions.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::OWN, ChildSpec::SAME.sparse()],
    optional_children: 1,
    sections: &[SectionSpec::Own, SectionSpec::Counts],
    parameter_u32: ParameterSpec::Own,
    parameter_u64: ParameterSpec::Value,
    check,
    scratch_bytes: |node| 8 * u64::from(entries(node.parameter_u32)),
};

/// Entries at most.
const ENTRIES_MAX: u32 = 65_536;

/// Number of entries, read from the first parameter of a node.
pub fn entries(parameter: u32) -> u32 {
    parameter & 0x00ff_ffff
}

/// Bits of an entry, read from the first parameter of a node.
pub fn entry_bits(parameter: u32) -> u32 {
    parameter >> 24
}

/// Narrowest type for `codes` different codes.
pub fn code_type(codes: usize) -> ValueType {
    if codes <= 256 { ValueType::U8 } else { ValueType::U16 }
}

/// Checks the number and width of entries, their section and the type of codes.
fn check(placed: &PlacedNode<'_>) -> Result<(), PlanFault> {
    let node = placed.node;
    let (entries, bits) = (entries(node.parameter_u32), entry_bits(node.parameter_u32));
    let codes = entries as usize + usize::from(node.children) - 1;
    if entries == 0 || codes > ENTRIES_MAX as usize {
        let problem = format!("dict has {entries} entries, it has 1 to {ENTRIES_MAX} codes");
        return placed.fault(at::PARAMETER_U32, problem);
    }
    if bits as usize > 8 * node.value_type.width_bytes() {
        let problem = format!("dict has entries of {bits} bits, above its type");
        return placed.fault(at::PARAMETER_U32, problem);
    }
    placed.section_is(0, (words(entries as usize, bits) * WORD_BYTES) as u64)?;
    placed.child_type(0, code_type(codes))
}

/// Writes the node and its children. Entries ascend, so that codes keep the order of values.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    limit: &u32,
    codes: &Tree,
    exceptions: &Option<Box<Tree>>,
) -> Result<(), NotApplicable> {
    let has_exceptions = exceptions.is_some();
    let limit = (*limit).min(ENTRIES_MAX - u32::from(has_exceptions)) as usize;
    let distinct_limit = if has_exceptions { usize::MAX } else { limit };
    let Some(distinct) = Distinct::of(node.values, distinct_limit) else {
        return NotApplicable::because("more different values than the dictionary may have");
    };
    let dictionary = Dictionary::of(&distinct, limit);
    if dictionary.entries.is_empty() {
        return NotApplicable::because("a dictionary has an entry");
    }
    let (packed, parameter_u32) = dictionary.pack();
    let mut sections = vec![packed];
    let (mut others, mut counts) = (Vec::new(), TileCounts::Sparse(Vec::new()));
    if has_exceptions {
        let none = dictionary.entries.len() as u32;
        let count = |range: Range<usize>| {
            let start = others.len();
            let rows = distinct.rows[range.clone()].iter().zip(&node.values[range]);
            others.extend(
                rows.filter(|(number, _)| dictionary.codes[**number as usize] == none)
                    .map(|(_, value)| *value),
            );
            (others.len() - start) as u16
        };
        counts = TileCounts::Sparse(node.counts.ranges().map(count).collect());
        sections.push(counts.section());
    }
    let base = dictionary.entries[0].into();
    writer.node(Encoding::Dict, &node, sections, parameter_u32, base);
    let code_of = |number: &u32| dictionary.codes[*number as usize];
    let value_type = code_type(dictionary.entries.len() + usize::from(has_exceptions));
    if value_type == ValueType::U8 {
        let values: Vec<u8> = distinct.rows.iter().map(|number| code_of(number) as u8).collect();
        writer.subtree(codes, NodeValues { value_type, values: &values, counts: node.counts })?;
    } else {
        let values: Vec<u16> = distinct.rows.iter().map(|number| code_of(number) as u16).collect();
        writer.subtree(codes, NodeValues { value_type, values: &values, counts: node.counts })?;
    }
    match exceptions {
        None => Ok(()),
        Some(tree) => {
            let value_type = node.value_type;
            writer.subtree(tree, NodeValues { value_type, values: &others, counts: &counts })
        }
    }
}

/// Entries in ascending order and the code of every distinct value.
struct Dictionary<T> {
    entries: Vec<T>,
    /// Code by number of the distinct value; exceptions have the number of entries as their code.
    codes: Vec<u32>,
}

impl<T: Word> Dictionary<T> {
    /// Selects the `limit` most frequent values; on a tie, the smaller value.
    fn of(distinct: &Distinct<T>, limit: usize) -> Self {
        let mut numbers: Vec<u32> = (0..distinct.values.len() as u32).collect();
        let value_of = |number: &u32| distinct.values[*number as usize];
        if numbers.len() > limit {
            let count_of = |number: &u32| distinct.counts[*number as usize];
            numbers.sort_unstable_by_key(|number| (Reverse(count_of(number)), value_of(number)));
            numbers.truncate(limit);
        }
        numbers.sort_unstable_by_key(value_of);
        let mut codes = vec![numbers.len() as u32; distinct.values.len()];
        for (code, number) in numbers.iter().enumerate() {
            codes[*number as usize] = code as u32;
        }
        Self { entries: numbers.iter().map(value_of).collect(), codes }
    }

    /// The entries, packed as differences from the first, and the node's 32-bit parameter.
    fn pack(&self) -> (Vec<u8>, u32) {
        let base = self.entries[0];
        let above: Vec<T> = self.entries.iter().map(|entry| entry.minus(base)).collect();
        let bits = above.last().map_or(0, |greatest| greatest.bits());
        let mut packed = Vec::new();
        pack(&above, bits, &mut packed);
        (packed, self.entries.len() as u32 | bits << 24)
    }
}

/// Decoder of a `dict` node. The dictionary is unpacked once, when the tree is opened.
pub(crate) struct Dict<'a, T> {
    dictionary: Section<'a>,
    entries: Vec<T>,
    codes: Codes<'a>,
    exceptions: Option<Exceptions<'a, T>>,
}

/// Decoder of the codes, in the narrowest type that holds them.
enum Codes<'a> {
    Narrow(Box<TileTree<'a, u8>>),
    Wide(Box<TileTree<'a, u16>>),
}

/// Values that are not in the dictionary.
struct Exceptions<'a, T> {
    counts: Section<'a>,
    values: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Dict<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let dictionary = node.sections[0];
        let parameter = node.node.parameter_u32;
        let count = entries(parameter) as usize;
        let mut entries = vec![T::default(); count];
        unpack(dictionary.bytes, entry_bits(parameter), &mut entries);
        let base = T::low(node.node.parameter_u64);
        for entry in &mut entries {
            *entry = entry.plus(base);
        }
        if !entries.is_sorted_by(|before, after| before < after) {
            return dictionary.fault(0, format!("{count} entries must ascend strictly"));
        }
        let has_exceptions = node.node.children == 2;
        let codes = match code_type(count + usize::from(has_exceptions)).width_bytes() {
            1 => Codes::Narrow(TileTree::open_boxed(reader)?),
            _ => Codes::Wide(TileTree::open_boxed(reader)?),
        };
        let mut exceptions = None;
        if has_exceptions {
            let counts = node.sections[1];
            check_sum(&counts, reader.peek())?;
            exceptions = Some(Exceptions { counts, values: TileTree::open_boxed(reader)? });
        }
        Ok(Self { dictionary, entries, codes, exceptions })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        match &self.codes {
            Codes::Narrow(tree) => self.look_up(tree, context, out),
            Codes::Wide(tree) => self.look_up(tree, context, out),
        }
    }

    /// Decodes codes and replaces them by entries.
    fn look_up<C: Word>(
        &self,
        tree: &TileTree<'a, C>,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        let mut codes = [C::default(); TILE_VALUES];
        let codes = &mut codes[..out.len()];
        tree.tile(context, codes)?;
        let count = self.entries.len() as u64;
        let greatest: u64 = codes.iter().copied().max().unwrap_or_default().into();
        if greatest > count || (greatest == count && self.exceptions.is_none()) {
            let tile = context.tile;
            let problem = format!("tile {tile} has code {greatest} of {count} entries");
            return self.dictionary.fault(0, problem);
        }
        match &self.exceptions {
            None => {
                for (value, code) in out.iter_mut().zip(codes) {
                    let code: u64 = (*code).into();
                    *value = self.entries[code as usize];
                }
                Ok(())
            }
            Some(exceptions) => self.look_up_or_take(codes, exceptions, context, out),
        }
    }

    /// Replaces codes by entries, and the code of exceptions by the next exception.
    fn look_up_or_take<C: Word>(
        &self,
        codes: &[C],
        exceptions: &Exceptions<'a, T>,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        let (tile, count) = (context.tile, self.entries.len() as u64);
        let found = codes.iter().filter(|code| (**code).into() == count).count();
        let stated = usize::from(exceptions.counts.value::<u16>(tile));
        if found != stated {
            let problem = format!("tile {tile} has {found} exceptions, {stated} are stated");
            return exceptions.counts.fault(2 * tile, problem);
        }
        let mut values = [T::default(); TILE_VALUES];
        exceptions.values.tile(context, &mut values[..found])?;
        let mut values = values.into_iter();
        for (value, code) in out.iter_mut().zip(codes) {
            let code: u64 = (*code).into();
            let next = || values.next().expect("as many as counted");
            *value = self.entries.get(code as usize).copied().unwrap_or_else(next);
        }
        Ok(())
    }
}
