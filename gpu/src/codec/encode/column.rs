//! Encoding of one column on the device: runs programs, collects nodes and sections.
//!
//! Programs run one after another, separated by nodes that need all values. Sections are moved to
//! their places when all are final. If a single program produces them all, they are placed before
//! the host reads their lengths.

use shoal_codec::assemble::ChunkShape;
use shoal_codec::encoding::float_to_int::{DECIMALS_MAX, power_of_ten};
use shoal_codec::{DivisorChoice, Encoding, PlanNode, Tree};
use shoal_engine::EngineError;
use shoal_engine::layout::{EncodeStep, EncodeTask};

use super::error::EncodeError;
use super::program::{Child, Count, Draft, Part, Program, Split};
use super::source::{Source, width_bits};
use super::worker::Worker;
use crate::launch::{DeviceSlice, Places};

/// Most levels of a tree, and most nodes.
const DEPTH_MAX: usize = shoal_codec::limits::PLAN_DEPTH_MAX;
const NODES_MAX: usize = shoal_codec::limits::PLAN_NODES_MAX;

/// Alignment of sections, bytes.
const SECTION_ALIGN_BYTES: usize = shoal_codec::limits::SECTION_ALIGN_BYTES;

/// Location of a section before it is placed.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Bytes(DeviceSlice<u8>),
    Directory { run: usize, variable: usize },
    Words { run: usize, variable: usize },
}

/// A program that ran.
#[derive(Clone, Copy, Debug)]
struct Run {
    task: EncodeTask,
    offsets: DeviceSlice<u32>,
    variables: usize,
}

/// An encoded column on the device.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    nodes: Vec<PlanNode>,
    bytes: Vec<u64>,
    from: Vec<Origin>,
    runs: Vec<Run>,
    /// All sections, contiguous, if they were placed.
    placed: Option<DeviceSlice<u8>>,
}

/// Encodes a column, which is not empty, with exactly this tree. The source is in grouped order if
/// the tree is keyed.
pub(crate) fn encode(
    worker: &mut Worker,
    source: &Source,
    tree: &Tree,
    key_column: u16,
) -> Result<(Sections, ChunkShape), EncodeError> {
    sections(Writer::new(worker, key_column, true), source, tree)
}

/// The shape of the result of [`encode`], without the sections.
pub(crate) fn measure(
    worker: &mut Worker,
    source: &Source,
    tree: &Tree,
    key_column: u16,
) -> Result<ChunkShape, EncodeError> {
    Ok(sections(Writer::new(worker, key_column, false), source, tree)?.1)
}

fn sections(
    mut writer: Writer<'_>,
    source: &Source,
    tree: &Tree,
) -> Result<(Sections, ChunkShape), EncodeError> {
    check(tree, false)?;
    if tree.depth() > DEPTH_MAX || tree.nodes() > NODES_MAX {
        return EncodeError::because("the tree has too many levels or nodes");
    }
    writer.subtree(tree, source)?;
    let sections = writer.sections;
    let shape = ChunkShape::new(sections.nodes.clone(), sections.bytes.clone())?;
    Ok((sections, shape))
}

/// Refuses nodes at places that the format does not allow; there is no program for them.
fn check(tree: &Tree, is_sparse: bool) -> Result<usize, EncodeError> {
    let is_keyed = tree.encoding().is_keyed();
    if is_sparse && (is_keyed || matches!(tree, Tree::Raw | Tree::Stateless(..))) {
        return EncodeError::because("raw, stateless and keyed nodes give a value for every row");
    }
    if tree.children().into_iter().any(|child| child.encoding() == Encoding::Lzw) {
        return EncodeError::because("lzw is below another node, it must be the root");
    }
    let mut keyed = usize::from(is_keyed);
    for (number, child) in tree.children().into_iter().enumerate() {
        keyed += check(child, is_sparse || tree.encoding().is_child_sparse(number))?;
    }
    if keyed > 1 {
        return EncodeError::because("a second node makes the tree keyed, at most one is allowed");
    }
    Ok(keyed)
}

/// Appends nodes and sections in pre-order.
struct Writer<'a> {
    worker: &'a mut Worker,
    key_column: u16,
    /// True if sections are needed, false if only their lengths are.
    places: bool,
    sections: Sections,
}

impl<'a> Writer<'a> {
    fn new(worker: &'a mut Worker, key_column: u16, places: bool) -> Self {
        Self { worker, key_column, places, sections: Sections::default() }
    }

    fn subtree(&mut self, tree: &Tree, source: &Source) -> Result<(), EncodeError> {
        match tree {
            Tree::Divisor(None, child) => {
                let dense = self.worker.dense(source)?;
                let Some(choice) = self.worker.common(&dense)? else {
                    return EncodeError::because("values share no divisor above 1");
                };
                self.program(&Tree::Divisor(Some(choice), child.clone()), source)
            }
            Tree::FloatToInt(None, child) => {
                let dense = self.worker.dense(source)?;
                let Some(decimals) = self.worker.decimals(&dense)? else {
                    return EncodeError::because("no number of decimals suits all values");
                };
                self.program(&Tree::FloatToInt(Some(decimals), child.clone()), source)
            }
            Tree::Dict(limit, codes, exceptions) => {
                self.dictionary(source, *limit, codes, exceptions.as_deref())
            }
            Tree::Huffman | Tree::HuffmanLong => {
                let coded = self.worker.code(source, tree.encoding())?;
                let mut program = Program::new(&mut self.worker.arena, source, self.key_column);
                let draft = program.coded(&coded)?;
                let ready = Ready::of(program, source, DeviceSlice::none());
                self.run(ready, &draft, source)
            }
            Tree::Stateless(entries, chunk_tiles) => {
                let frequent = self.worker.frequent(source, *entries, *chunk_tiles)?;
                let mut program = Program::new(&mut self.worker.arena, source, self.key_column);
                let draft = program.frequent(&frequent)?;
                let ready = Ready::of(program, source, DeviceSlice::none());
                self.run(ready, &draft, source)
            }
            Tree::Lzw(chunk_tiles, codes) => {
                let strings = self.worker.strings(source, *chunk_tiles)?;
                let counts = strings.counts.bytes();
                self.sections.nodes.push(strings.node);
                self.section(counts.len() as u64, Origin::Bytes(counts));
                self.subtree(codes, &strings.codes)
            }
            _ => self.program(tree, source),
        }
    }

    fn program(&mut self, tree: &Tree, source: &Source) -> Result<(), EncodeError> {
        let mut program = Program::new(&mut self.worker.arena, source, self.key_column);
        let draft = program.root(tree)?;
        let ready = Ready::of(program, source, DeviceSlice::none());
        self.run(ready, &draft, source)
    }

    /// A dictionary over the source.
    fn dictionary(
        &mut self,
        source: &Source,
        limit: u32,
        codes_tree: &Tree,
        exceptions_tree: Option<&Tree>,
    ) -> Result<(), EncodeError> {
        let has_exceptions = exceptions_tree.is_some();
        let dictionary = self.worker.dictionary(source, limit, has_exceptions)?;
        let Some(exceptions_tree) = exceptions_tree else {
            let mut node = dictionary.node;
            (node.children, node.sections, node.values) = (1, 1, source.length());
            self.sections.nodes.push(node);
            self.section(dictionary.entries.len() as u64, Origin::Bytes(dictionary.entries));
            let codes = Source {
                values: dictionary.codes.bytes(),
                bits: 16,
                value_type: dictionary.codes_type,
                ..*source
            };
            return self.subtree(codes_tree, &codes);
        };
        let mut program = Program::new(&mut self.worker.arena, source, self.key_column);
        let draft = program.split(&Split {
            node: dictionary.node,
            entries: dictionary.entries,
            none: dictionary.none,
            codes_type: dictionary.codes_type,
            trees: [codes_tree, exceptions_tree],
        })?;
        let ready = Ready::of(program, source, dictionary.codes);
        self.run(ready, &draft, source)
    }

    /// Runs a program and appends the nodes of its draft.
    fn run(&mut self, ready: Ready, draft: &Draft<'_>, source: &Source) -> Result<(), EncodeError> {
        let Ready { mut task, steps: listed, mut summary, variables } = ready;
        let worker = &mut *self.worker;
        let tiles = task.tiles as usize;
        let totals_at = summary.len();
        summary.resize(totals_at + variables, 0);
        let numbers = worker.upload(&summary)?;
        let steps = worker.upload(&listed)?;
        let [sizes, entries, offsets] =
            [0; 3].map(|_| worker.arena.allocate::<u32>(variables * tiles));
        let (sizes, entries, offsets) = (sizes?, entries?, offsets?);
        let staged = worker.arena.allocate::<u32>(task.staged_words as usize * tiles)?;
        task.steps = steps.address();
        task.steps_count = steps.len() as u32;
        (task.sizes, task.entries) = (sizes.address(), entries.address());
        (task.staged, task.summary) = (staged.address(), numbers.address());
        worker.kernels.encode_tiles(&worker.stream, &task, &listed, steps)?;
        let totals = numbers.part(totals_at, variables);
        worker.kernels.encode_offsets(&worker.stream, sizes, offsets, task.tiles, totals)?;
        worker.begin_read(numbers)?;
        let (run, mut parts) = (Run { task, offsets, variables }, Vec::new());
        if self.places && self.sections.nodes.is_empty() && draft.list(&mut parts) {
            self.sections.placed = Some(run.place(worker, &parts, totals)?);
        }
        let summary = worker.finish_read()?;
        if summary[0] != 0 {
            return EncodeError::because("the tree does not hold all values");
        }
        self.sections.runs.push(run);
        let outcome = Outcome { summary, totals_at, run: self.sections.runs.len() - 1 };
        self.append(draft, &outcome, source)
    }

    /// Appends a node with its sections, then its children.
    fn append(
        &mut self,
        draft: &Draft<'_>,
        outcome: &Outcome,
        source: &Source,
    ) -> Result<(), EncodeError> {
        let mut node = draft.node;
        node.values = outcome.count(draft.count);
        node.children = draft.children.len() as u8;
        node.sections = draft.parts.len() as u8;
        if let Some(at) = draft.bounds_at {
            let (least, greatest) = (outcome.summary[at], outcome.summary[at + 1]);
            if least < greatest {
                return EncodeError::because("const takes equal values");
            }
            node.parameter_u64 = greatest;
        }
        self.sections.nodes.push(node);
        let run = outcome.run;
        for part in &draft.parts {
            match *part {
                Part::Bytes(slice) => self.section(slice.len() as u64, Origin::Bytes(slice)),
                Part::Directory(variable) => {
                    let bytes = 8 * u64::from(source.tiles());
                    self.section(bytes, Origin::Directory { run, variable });
                }
                Part::Words(variable) => {
                    let bytes = 4 * outcome.summary[outcome.totals_at + variable];
                    self.section(bytes, Origin::Words { run, variable });
                }
            }
        }
        for child in &draft.children {
            match child {
                Child::Inline(child) => self.append(child, outcome, source)?,
                Child::Stored(stored) => {
                    let length = outcome.count(stored.count);
                    let is_sparse =
                        matches!(stored.count, Count::Summary(_)) || source.counts.is_some();
                    let values = Source {
                        values: stored.values,
                        bits: width_bits(stored.value_type),
                        value_type: stored.value_type,
                        counts: is_sparse.then_some((stored.counts, length)),
                        ..*source
                    };
                    self.subtree(stored.tree, &values)?;
                }
            }
        }
        Ok(())
    }

    fn section(&mut self, bytes: u64, from: Origin) {
        self.sections.bytes.push(bytes);
        self.sections.from.push(from);
    }
}

/// The counts of a program that ran.
struct Outcome {
    summary: Vec<u64>,
    /// Index in `summary` of the first section's number of words; those of the others follow.
    totals_at: usize,
    run: usize,
}

impl Outcome {
    fn count(&self, count: Count) -> u32 {
        match count {
            Count::Fixed(count) => count,
            Count::Summary(at) => self.summary[at] as u32,
        }
    }
}

/// A program ready to run.
struct Ready {
    /// The task, whose outputs are not set.
    task: EncodeTask,
    steps: Vec<EncodeStep>,
    /// Initial values of its summary.
    summary: Vec<u64>,
    /// Number of sections of words.
    variables: usize,
}

impl Ready {
    fn of(program: Program<'_>, source: &Source, codes: DeviceSlice<u16>) -> Self {
        let Program { steps, summary, variables, staged_words, .. } = program;
        let task = EncodeTask { codes: codes.address(), staged_words, ..source.task() };
        Self { task, steps, summary, variables }
    }
}

impl Run {
    /// Queues the placement of its sections, which are all sections of the column; returns the
    /// placed sections. The host does not know the lengths of sections of words yet.
    fn place(
        &self,
        worker: &mut Worker,
        parts: &[Part],
        totals: DeviceSlice<u64>,
    ) -> Result<DeviceSlice<u8>, EngineError> {
        let tiles = self.task.tiles as usize;
        let bytes = |part: &Part| match part {
            Part::Bytes(slice) => slice.len(),
            Part::Directory(_) => 8 * tiles,
            Part::Words(_) => 0,
        };
        let fixed: usize = parts.iter().map(|part| padded(bytes(part))).sum();
        let most = 4 * self.task.staged_words as usize * tiles;
        let payload = worker.arena.allocate(fixed + most + self.variables * SECTION_ALIGN_BYTES)?;
        let mut places = Places::moving(totals);
        let (mut start, mut behind) = (0, 0);
        for part in parts {
            let to = payload.part(start, bytes(part));
            start += padded(to.len());
            match *part {
                Part::Bytes(slice) => places.copy(slice, to, behind),
                Part::Directory(variable) => places.directory(variable, to),
                Part::Words(variable) => {
                    assert_eq!(variable, behind, "words come in their order");
                    places.words(variable, to);
                    behind += 1;
                }
            }
        }
        worker.kernels.encode_place(&worker.stream, &self.task, self.offsets, &places)?;
        Ok(payload)
    }
}

impl Sections {
    /// Queues copying every section with its zero padding to its place in `shape`; returns the
    /// copy.
    pub(crate) fn payload(
        &self,
        worker: &mut Worker,
        shape: &ChunkShape,
    ) -> Result<DeviceSlice<u8>, EngineError> {
        if let Some(placed) = self.placed {
            return Ok(placed.part(0, shape.payload_bytes()));
        }
        let payload = worker.arena.allocate::<u8>(shape.payload_bytes())?;
        let mut of_runs: Vec<Places> =
            self.runs.iter().map(|run| Places::new(run.variables)).collect();
        for ((from, bytes), place) in self.from.iter().zip(&self.bytes).zip(shape.section_places())
        {
            let to = payload.part(place, *bytes as usize);
            match *from {
                Origin::Bytes(slice) => of_runs[0].copy(slice, to, 0),
                Origin::Directory { run, variable } => of_runs[run].directory(variable, to),
                Origin::Words { run, variable } => of_runs[run].words(variable, to),
            }
        }
        for (run, places) in self.runs.iter().zip(&of_runs) {
            worker.kernels.encode_place(&worker.stream, &run.task, run.offsets, places)?;
        }
        Ok(payload)
    }
}

/// Bytes of a section with its padding.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(SECTION_ALIGN_BYTES)
}

impl Worker {
    /// The common divisor of the values of a dense source.
    pub(crate) fn common(&mut self, source: &Source) -> Result<Option<DivisorChoice>, EngineError> {
        if source.rows == 0 || source.value_type.is_float() {
            return Ok(None);
        }
        let is_signed = source.value_type.is_signed();
        let found = self.upload(&[0_u64])?;
        // Values that were widened keep the width of their type.
        let width = width_bits(source.value_type);
        let up = u64::BITS - width;
        let bytes = source.bits as usize / 8;
        let mut first = [0_u8; 8];
        source.values.part(0, bytes).download(&self.stream, &mut first[..bytes])?;
        self.kernels.statistics_divisor(&self.stream, &source.task(), width, is_signed, found)?;
        let divisor = self.read(found)?[0];
        let pattern = u64::from_le_bytes(first);
        let value = if is_signed { ((pattern << up) as i64 >> up) as u64 } else { pattern };
        Ok(DivisorChoice::shared(divisor, value, source.value_type))
    }

    /// The least number of decimals that suits all values of a dense source of floats.
    pub(crate) fn decimals(&mut self, source: &Source) -> Result<Option<u8>, EncodeError> {
        if !source.value_type.is_float() {
            return EncodeError::because("float_to_int takes floats");
        }
        let powers: Vec<u64> =
            (0..=DECIMALS_MAX).map(|decimals| power_of_ten(decimals).to_bits()).collect();
        let all = (1_u64 << powers.len()) - 1;
        let (powers, found) = (self.upload(&powers)?, self.upload(&[all])?);
        let width = width_bits(source.value_type);
        self.kernels.statistics_decimals(&self.stream, &source.task(), width, powers, found)?;
        let fitting = self.read(found)?[0];
        let decimals = fitting.trailing_zeros() as u8;
        Ok((fitting != 0).then_some(decimals))
    }
}
