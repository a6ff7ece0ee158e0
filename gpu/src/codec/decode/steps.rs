//! Compiles a plan to the steps that decode a tile: the plan's nodes, leaf first.
//!
//! A node with one child follows that child and transforms its tile in place. Of two children the
//! sparse one is decoded first, and its tile is stored in a slot while the other is decoded. The
//! values of runs are stored in the same way while their lengths are decoded. The plan has been
//! checked, so each node has the children, sections and parameters of its encoding.

use std::ops::Range;

use shoal_codec::encoding::dict::{entries, entry_bits};
use shoal_codec::encoding::float_to_int::power_of_ten;
use shoal_codec::tile::tiles;
use shoal_codec::{Encoding, Plan, PlanNode};
use shoal_engine::layout::{
    CODEC_CODE_ENTRIES, CODEC_COUNT, CODEC_DICT_OR, CODEC_ENTRIES, CODEC_EXCEPTIONS, CODEC_HEADS,
    CODEC_OPEN_CODE, CODEC_OPEN_COUNTS, CODEC_OPEN_DICTIONARY, CODEC_RUNS, CODEC_STORE, CodecOpen,
    CodecStep,
};

use crate::codec::code;

/// Compiles one plan.
pub(super) struct Compiler<'a> {
    pub(super) plan: &'a Plan,
    /// Sections, bytes from the start of the block.
    pub(super) sections: &'a [Range<usize>],
    /// Where the block begins in the input.
    pub(super) start: u64,
    /// The request that fails if the plan fails.
    pub(super) request: u32,
    /// Steps are appended here.
    pub(super) steps: &'a mut Vec<CodecStep>,
    /// Tasks are appended here.
    pub(super) opens: &'a mut Vec<CodecOpen>,
    /// Bytes of the output that are allocated.
    pub(super) bytes: &'a mut u64,
    /// Greatest number of slots in use at a time.
    pub(super) slots: u32,
    /// True if a leaf needs a kernel with slots although it uses no slot.
    pub(super) needs_tile: bool,
    /// True if tiles are computed in 64 bits.
    pub(super) is_wide: bool,
    next: usize,
    section: usize,
}

/// Allocates an aligned range of the output.
pub(super) fn take(bytes: &mut u64, length: u64) -> u64 {
    let at = *bytes;
    *bytes += length.next_multiple_of(super::decoding::ALIGN);
    at
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        sections: &'a [Range<usize>],
        start: u64,
        request: u32,
        steps: &'a mut Vec<CodecStep>,
        opens: &'a mut Vec<CodecOpen>,
        bytes: &'a mut u64,
    ) -> Self {
        Self {
            plan,
            sections,
            start,
            request,
            steps,
            opens,
            bytes,
            slots: 0,
            needs_tile: false,
            is_wide: plan.root().value_type.width_bytes() == 8,
            next: 0,
            section: 0,
        }
    }

    /// Appends the steps of the codes below a dictionary of wide values; codes are computed in 32
    /// bits. Returns the place and the number of the dictionary's entries.
    pub(super) fn codes(&mut self) -> (u64, u32) {
        let dictionary = self.dictionary(self.plan.root(), 0);
        (self.is_wide, self.next, self.section) = (false, 1, 1);
        self.subtree(0);
        (dictionary.first, dictionary.extra)
    }

    /// Appends the steps of the next subtree, which may use slots from `slot` on.
    pub(super) fn subtree(&mut self, slot: u32) {
        let (node, section) = (self.plan.nodes()[self.next], self.section);
        self.next += 1;
        self.section += usize::from(node.sections);
        match node.encoding {
            Encoding::Rle => self.runs(&node, section, slot),
            Encoding::Dict if node.children == 2 => self.dictionary_or(&node, section, slot),
            Encoding::KeyedDelta | Encoding::KeyedDelta2 => self.keyed(&node, section, slot),
            Encoding::Group => self.subtree(slot),
            Encoding::Lzw => self.strings(&node, section, slot),
            _ => {
                if node.children == 1 {
                    self.subtree(slot);
                }
                let step = self.plain(&node, section);
                self.steps.push(step);
            }
        }
    }

    /// Skips the next subtree; returns its first node and section.
    fn skip(&mut self) -> (usize, usize) {
        let at = (self.next, self.section);
        let mut open = 1;
        while open > 0 {
            let node = &self.plan.nodes()[self.next];
            open = open - 1 + usize::from(node.children);
            self.next += 1;
            self.section += usize::from(node.sections);
        }
        at
    }

    /// Skips the full child, compiles the sparse child that follows it and sets `next` and
    /// `section` back to the full child. Returns the node and section after the sparse child.
    fn sparse(&mut self, step: CodecStep, slot: u32) -> (usize, usize) {
        let full = self.skip();
        self.count(step, self.plan.nodes()[self.next].values);
        self.subtree(slot);
        self.store(slot, true);
        let end = (self.next, self.section);
        (self.next, self.section) = full;
        end
    }

    /// Appends the steps of the codes of strings, which another kernel expands to strings.
    fn strings(&mut self, node: &PlanNode, section: usize, slot: u32) {
        self.needs_tile = true;
        let step = self.step(node, CODEC_COUNT, section);
        let codes = self.plan.nodes()[self.next].values;
        self.count(CodecStep { extra: CODEC_EXCEPTIONS, ..step }, codes);
        self.subtree(slot);
    }

    fn runs(&mut self, node: &PlanNode, section: usize, slot: u32) {
        let step = self.step(node, CODEC_COUNT, section);
        let count = CodecStep { extra: CODEC_RUNS, ..step };
        self.count(count, self.plan.nodes()[self.next].values);
        self.subtree(slot);
        self.store(slot, false);
        self.sum(&count, self.plan.nodes()[self.next].values);
        self.subtree(slot + 1);
        self.steps.push(CodecStep { code: code(Encoding::Rle), slot, ..step });
    }

    fn keyed(&mut self, node: &PlanNode, section: usize, slot: u32) {
        let step = self.step(node, CODEC_COUNT, section);
        let end = self.sparse(CodecStep { extra: CODEC_HEADS, ..step }, slot);
        self.subtree(slot + 1);
        (self.next, self.section) = end;
        let (code, extra) = (code(node.encoding), node.parameter_u64 as u32);
        self.steps.push(CodecStep { code, slot, extra, ..step });
    }

    fn dictionary_or(&mut self, node: &PlanNode, section: usize, slot: u32) {
        let step = self.step(node, CODEC_COUNT, section + 1);
        let end = self.sparse(CodecStep { extra: CODEC_EXCEPTIONS, ..step }, slot);
        self.subtree(slot + 1);
        (self.next, self.section) = end;
        let dictionary = self.dictionary(node, section);
        self.steps.push(CodecStep { code: CODEC_DICT_OR, slot, ..dictionary });
    }

    /// A step with the places of its sections.
    fn step(&self, node: &PlanNode, code: u32, section: usize) -> CodecStep {
        let place = |index: usize| {
            let range = self.sections.get(section + index);
            range.map_or((0, 0), |range| (self.start + range.start as u64, range.len() as u32))
        };
        let ((first, _), (second, bytes)) = (place(0), place(1));
        let bits = 8 * node.value_type.width_bytes() as u32;
        CodecStep { first, second, words: bytes / 4, code, bits, ..CodecStep::default() }
    }

    /// A node with at most one child.
    fn plain(&mut self, node: &PlanNode, section: usize) -> CodecStep {
        let (mut extra, mut parameter) = (node.parameter_u32, node.parameter_u64);
        match node.encoding {
            Encoding::Dict => return self.dictionary(node, section),
            Encoding::Huffman | Encoding::HuffmanLong => return self.code_table(node, section),
            Encoding::Stateless => return self.indexes(node, section),
            Encoding::Gfc => self.needs_tile = true,
            Encoding::FloatToInt => (extra, parameter) = (0, power_of_ten(extra).to_bits()),
            _ => {}
        }
        CodecStep { extra, parameter, ..self.step(node, code(node.encoding), section) }
    }

    /// A look-up in a dictionary; appends tasks that unpack the dictionary before tiles are
    /// decoded.
    fn dictionary(&mut self, node: &PlanNode, section: usize) -> CodecStep {
        let count = entries(node.parameter_u32);
        let is_wide = self.is_wide;
        let table = take(self.bytes, u64::from(count) * if is_wide { 8 } else { 4 });
        let step = self.step(node, code(Encoding::Dict), section);
        let task = |first| CodecOpen {
            source: step.first,
            table,
            base: node.parameter_u64,
            count,
            expected: 0,
            first,
            bits: step.bits,
            entry_bits: entry_bits(node.parameter_u32),
            is_wide: is_wide.into(),
            request: self.request,
            kind: CODEC_OPEN_DICTIONARY,
        };
        self.opens.extend((0..count).step_by(CODEC_ENTRIES as usize).map(task));
        CodecStep { first: table, second: 0, words: 0, extra: count, ..step }
    }

    /// A leaf that decodes codes with a table; appends a task that fills the table before tiles are
    /// decoded.
    fn code_table(&mut self, node: &PlanNode, section: usize) -> CodecStep {
        self.needs_tile = true;
        let table = take(self.bytes, 4 * u64::from(CODEC_CODE_ENTRIES));
        let [source, step] = [section, section + 1].map(|at| self.step(node, 0, at));
        let (count, split) = (node.parameter_u32 & 0xffff, node.parameter_u32 >> 16);
        let task = CodecOpen {
            source: source.first,
            table,
            kind: CODEC_OPEN_CODE,
            count,
            bits: split,
            request: self.request,
            ..CodecOpen::default()
        };
        // 1 if every symbol is a value, so that no low bits follow the codes.
        let extra = u32::from(count <= 2 << split);
        // A node without values has no code.
        self.opens.extend((count > 0).then_some(task));
        CodecStep { code: code(node.encoding), extra, parameter: table, ..step }
    }

    /// A leaf of indexes into the tables of its first section.
    fn indexes(&mut self, node: &PlanNode, section: usize) -> CodecStep {
        self.needs_tile = true;
        let tables = self.step(node, 0, section);
        let step = self.step(node, code(Encoding::Stateless), section + 1);
        CodecStep { extra: node.parameter_u32, parameter: tables.first, ..step }
    }

    /// Appends the step of a sparse child with `values` values, and a task that checks the sum of
    /// its counts.
    fn count(&mut self, step: CodecStep, values: u32) {
        self.sum(&step, values);
        self.steps.push(step);
    }

    /// Appends a task that checks that the counts that `step` reads add up to `expected`.
    fn sum(&mut self, step: &CodecStep, expected: u32) {
        let (source, request) = (step.first, self.request);
        let count = tiles(self.plan.root().values as usize) as u32;
        let task = CodecOpen { source, count, expected, ..CodecOpen::default() };
        self.opens.push(CodecOpen { request, kind: CODEC_OPEN_COUNTS, ..task });
    }

    /// Appends the step that stores the tile in a slot.
    fn store(&mut self, slot: u32, ends: bool) {
        self.slots = self.slots.max(slot + 1);
        let step =
            CodecStep { code: CODEC_STORE, slot, extra: ends.into(), ..CodecStep::default() };
        self.steps.push(step);
    }
}
