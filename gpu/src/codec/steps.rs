//! Which steps give a tile of a column? The plan's nodes, leaf first.
//!
//! A node with one child follows it and changes the tile there is. Of two children the sparse one
//! goes first and waits in a slot; runs wait for their lengths. The plan has been checked: counts
//! of children, sections and parameters are those of its encodings.

use std::ops::Range;

use shoal_codec::tile::tiles;
use shoal_codec::{Encoding, Plan, PlanNode};
use shoal_engine::layout::{
    CODEC_AFL, CODEC_CONST, CODEC_COUNT, CODEC_DELTA, CODEC_DELTA2, CODEC_DICT, CODEC_DICT_OR,
    CODEC_DIVISOR, CODEC_ENTRIES, CODEC_EXCEPTIONS, CODEC_FLOAT, CODEC_GFC, CODEC_HEADS,
    CODEC_KEEP, CODEC_KEYED_DELTA, CODEC_KEYED_DELTA2, CODEC_PATCH, CODEC_RAW, CODEC_RLE,
    CODEC_RUNS, CODEC_SCALE, CodecOpen, CodecStep, NO_COLUMN,
};

/// Number of entries in a dictionary's first parameter; the bits of one are above.
pub(super) const ENTRIES_MASK: u32 = 0x00ff_ffff;

/// What is made of one plan.
pub(super) struct Compiler<'a> {
    pub(super) plan: &'a Plan,
    /// Sections, bytes from the start of the block.
    pub(super) sections: &'a [Range<usize>],
    /// Where the block begins in the input.
    pub(super) start: u64,
    /// Who fails with it.
    pub(super) request: u32,
    /// Steps are appended.
    pub(super) steps: &'a mut Vec<CodecStep>,
    /// So are tasks.
    pub(super) opens: &'a mut Vec<CodecOpen>,
    /// Bytes of the output that are given away.
    pub(super) bytes: &'a mut u64,
    /// Slots in use at most.
    pub(super) slots: u32,
    /// A leaf needs a kernel with slots though it takes none.
    pub(super) has_gfc: bool,
    /// Tiles are computed in 64 bits.
    pub(super) is_wide: bool,
    next: usize,
    section: usize,
}

/// Rounds up to where any list may begin.
pub(super) fn take(bytes: &mut u64, length: u64) -> u64 {
    let at = *bytes;
    *bytes += length.next_multiple_of(super::decoding::ALIGN);
    at
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        (plan, sections): (&'a Plan, &'a [Range<usize>]),
        (start, request): (u64, u32),
        (steps, opens): (&'a mut Vec<CodecStep>, &'a mut Vec<CodecOpen>),
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
            has_gfc: false,
            is_wide: plan.root().value_type.width_bytes() == 8,
            next: 0,
            section: 0,
        }
    }

    /// Appends the steps of the codes below a dictionary of wide values, which are computed in 32
    /// bits; gives where its entries will be, and how many.
    pub(super) fn codes(&mut self) -> (u64, u32) {
        let dictionary = self.dictionary(self.plan.root(), 0);
        (self.is_wide, self.next, self.section) = (false, 1, 1);
        self.subtree(0);
        (dictionary.first, dictionary.extra)
    }

    /// Appends the steps of the next subtree, which may take slots from `slot` on.
    pub(super) fn subtree(&mut self, slot: u32) {
        let (node, section) = (self.plan.nodes()[self.next], self.section);
        self.next += 1;
        self.section += usize::from(node.sections);
        match node.encoding {
            Encoding::Rle => self.runs(&node, section, slot),
            Encoding::Dict if node.children == 2 => self.dictionary_or(&node, section, slot),
            Encoding::KeyedDelta | Encoding::KeyedDelta2 => self.keyed(&node, section, slot),
            Encoding::Group => self.subtree(slot),
            _ => {
                if node.children == 1 {
                    self.subtree(slot);
                }
                let step = self.plain(&node, section);
                self.steps.push(step);
            }
        }
    }

    /// Skips the next subtree; gives where it began.
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

    /// The sparse child that follows a full one; gives where the full one begins, which is not
    /// compiled yet, and where the sparse one ends.
    fn sparse(&mut self, step: CodecStep, slot: u32) -> [(usize, usize); 2] {
        let full = self.skip();
        self.count(step, self.plan.nodes()[self.next].values);
        self.subtree(slot);
        self.keep(slot, true);
        let end = (self.next, self.section);
        (self.next, self.section) = full;
        [full, end]
    }

    fn runs(&mut self, node: &PlanNode, section: usize, slot: u32) {
        let step = self.step(node, CODEC_COUNT, section);
        let count = CodecStep { extra: CODEC_RUNS, ..step };
        self.count(count, self.plan.nodes()[self.next].values);
        self.subtree(slot);
        self.keep(slot, false);
        self.sum(&count, self.plan.nodes()[self.next].values);
        self.subtree(slot + 1);
        self.steps.push(CodecStep { code: CODEC_RLE, slot, ..step });
    }

    fn keyed(&mut self, node: &PlanNode, section: usize, slot: u32) {
        let step = self.step(node, CODEC_COUNT, section);
        let [_, end] = self.sparse(CodecStep { extra: CODEC_HEADS, ..step }, slot);
        self.subtree(slot + 1);
        (self.next, self.section) = end;
        let code = match node.encoding {
            Encoding::KeyedDelta => CODEC_KEYED_DELTA,
            _ => CODEC_KEYED_DELTA2,
        };
        self.steps.push(CodecStep { code, slot, extra: node.parameter_u64 as u32, ..step });
    }

    fn dictionary_or(&mut self, node: &PlanNode, section: usize, slot: u32) {
        let step = self.step(node, CODEC_COUNT, section + 1);
        let [_, end] = self.sparse(CodecStep { extra: CODEC_EXCEPTIONS, ..step }, slot);
        self.subtree(slot + 1);
        (self.next, self.section) = end;
        let dictionary = self.dictionary(node, section);
        self.steps.push(CodecStep { code: CODEC_DICT_OR, slot, ..dictionary });
    }

    /// A step with its sections' places.
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
        let code = match node.encoding {
            Encoding::Raw => CODEC_RAW,
            Encoding::Afl => CODEC_AFL,
            Encoding::Delta => CODEC_DELTA,
            Encoding::Delta2 => CODEC_DELTA2,
            Encoding::Scale => CODEC_SCALE,
            Encoding::Divisor => CODEC_DIVISOR,
            Encoding::FloatToInt => CODEC_FLOAT,
            Encoding::Patch => CODEC_PATCH,
            Encoding::Const => CODEC_CONST,
            Encoding::Gfc => {
                self.has_gfc = true;
                CODEC_GFC
            }
            Encoding::Dict => return self.dictionary(node, section),
            other => unreachable!("{} has two children or no step", other.name()),
        };
        let step = self.step(node, code, section);
        let (extra, parameter) = match node.encoding {
            Encoding::FloatToInt => (0, power_of_ten(node.parameter_u32).to_bits()),
            _ => (node.parameter_u32, node.parameter_u64),
        };
        CodecStep { extra, parameter, ..step }
    }

    /// A look-up in a dictionary that is unpacked before.
    fn dictionary(&mut self, node: &PlanNode, section: usize) -> CodecStep {
        let count = node.parameter_u32 & ENTRIES_MASK;
        let is_wide = self.is_wide;
        let table = take(self.bytes, u64::from(count) * if is_wide { 8 } else { 4 });
        let step = self.step(node, CODEC_DICT, section);
        let task = |first| CodecOpen {
            source: step.first,
            table,
            base: node.parameter_u64,
            count,
            expected: 0,
            first,
            bits: step.bits,
            entry_bits: node.parameter_u32 >> 24,
            is_wide: is_wide.into(),
            request: self.request,
            reserved: 0,
        };
        self.opens.extend((0..count).step_by(CODEC_ENTRIES as usize).map(task));
        CodecStep { first: table, second: 0, words: 0, extra: count, ..step }
    }

    /// Begins a sparse child of `values`, whose counts must add up.
    fn count(&mut self, step: CodecStep, values: u32) {
        self.sum(&step, values);
        self.steps.push(step);
    }

    /// The counts that `step` reads add up to `expected`.
    fn sum(&mut self, step: &CodecStep, expected: u32) {
        let (source, request) = (step.first, self.request);
        let count = tiles(self.plan.root().values as usize) as u32;
        let task = CodecOpen { source, table: NO_COLUMN, count, expected, ..CodecOpen::default() };
        self.opens.push(CodecOpen { request, ..task });
    }

    /// Puts the tile into a slot.
    fn keep(&mut self, slot: u32, ends: bool) {
        self.slots = self.slots.max(slot + 1);
        let step = CodecStep { code: CODEC_KEEP, slot, extra: ends.into(), ..CodecStep::default() };
        self.steps.push(step);
    }
}

/// Exact: a plan has at most 22 decimals.
fn power_of_ten(decimals: u32) -> f64 {
    (0..decimals).fold(1.0, |power, _| power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_those_of_the_compiler() {
        assert_eq!([power_of_ten(0), power_of_ten(2), power_of_ten(22)], [1.0, 1e2, 1e22]);
    }
}
