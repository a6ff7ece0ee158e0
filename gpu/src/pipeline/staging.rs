//! How does a cycle's input get to the device? Packed into pinned memory by the caller's thread on
//! all cores, copied on a stream of its own while earlier cycles run.
//!
//! Columns travel as they came: blocks of plan raw as their own bytes, rows as theirs. What the
//! device cannot decode is decoded here.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use rayon::prelude::*;
use shoal_codec::{Block, Column, Encoding, FixColumns};
use shoal_engine::layout::{
    Arrived, NO_COLUMN, Part, REQUEST_BLOCK, REQUEST_CLEAR, REQUEST_FIXES, REQUEST_REMOVE,
};
use shoal_engine::{CycleInput, EngineError, Query, QueryKind, Request};

use super::questions::Questions;
use super::timeline::Timeline;
use crate::launch::{
    DeviceBuffer, Memory, PinnedBuffer, Plain, QuestionStretches, Stretch, bytes_of, fault,
    is_pinned,
};

/// Every list of the input begins at a multiple of this.
const ALIGN: usize = 256;
/// Bytes of a query's lists, at a guess: two parts. More only means that rows are copied once more.
const QUERY_BYTES: usize = 2 * size_of::<Part>() + 8;
/// Bytes that one core copies at a time.
const COPY_BYTES: usize = 1 << 20;

/// Memory of one cycle's input, on both sides.
#[derive(Debug)]
pub(crate) struct Arena {
    pinned: PinnedBuffer<u8>,
    /// The queries' parts, made where the device copies them from.
    parts: PinnedBuffer<Part>,
    pub(crate) device: DeviceBuffer<u8>,
    /// The last work that read the device's side.
    pub(crate) idle: Option<Arc<CudaEvent>>,
}

impl Arena {
    pub(crate) fn new(memory: &Memory) -> Result<Self, EngineError> {
        let (pinned, parts) = (PinnedBuffer::new(memory, 1)?, PinnedBuffer::new(memory, 1)?);
        Ok(Self { pinned, parts, device: DeviceBuffer::new(memory, 1)?, idle: None })
    }
}

/// What of a request is needed after its rows have been copied.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Rows.
    Fixes,
    /// A block, kept to name what is wrong with it.
    Block(Block),
    /// Removals.
    Remove,
    /// A clear.
    Clear,
}

/// A cycle's input on its way to the device.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) arena: Arena,
    pub(crate) copied: CudaEvent,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) first_arrivals: Vec<u32>,
    pub(crate) rows: u32,
    pub(crate) requests: Stretch,
    pub(crate) arrivals: Stretch,
    pub(crate) asked: QuestionStretches,
    /// Ids of all gets, query by query.
    pub(crate) gets: Stretch,
    /// Given back with the answers.
    pub(crate) queries: Vec<Query>,
    /// All are ranges that want ids.
    pub(crate) are_plain: bool,
    /// By query the most ids to return; empty when none is limited.
    pub(crate) limits: Vec<u64>,
    /// By clear: the arrival that it stands before, and its request.
    pub(crate) clears: Vec<(u32, u32)>,
    pub(crate) has_removals: bool,
    pub(crate) has_optional: bool,
    pub(crate) system_ms: i64,
    pub(crate) time_max_ms: i64,
}

impl Staged {
    pub(crate) fn has_blocks(&self) -> bool {
        self.kinds.iter().any(|kind| matches!(kind, Kind::Block(_)))
    }

    /// Whether rows of one object must be taken one by one.
    pub(crate) fn is_ordered(&self) -> bool {
        self.has_removals || !self.clears.is_empty()
    }
}

/// Lists and where they go.
#[derive(Default)]
struct Packing<'a> {
    pieces: Vec<(usize, &'a [u8])>,
    /// What is in page-locked memory already and needs no packing.
    pinned: Vec<(usize, &'a [u8])>,
    /// How many of those are on their way.
    uploaded: usize,
    bytes: usize,
}

impl<'a> Packing<'a> {
    fn push<T: Plain>(&mut self, values: &'a [T]) -> Stretch {
        self.push_all([values])
    }

    /// Lists that follow each other as one.
    fn push_all<T: Plain>(&mut self, lists: impl IntoIterator<Item = &'a [T]>) -> Stretch {
        let at = self.bytes;
        let mut length = 0;
        for values in lists {
            let bytes = bytes_of(values);
            self.pieces.push((self.bytes, bytes));
            self.bytes += bytes.len();
            length += values.len();
        }
        self.bytes = self.bytes.next_multiple_of(ALIGN);
        Stretch { at, length }
    }

    /// A whole block; gives where it begins.
    fn push_block(&mut self, bytes: &'a [u8]) -> usize {
        if is_pinned(bytes) {
            return self.push_pinned(bytes).at;
        }
        self.push(bytes).at
    }

    /// A list in page-locked memory.
    fn push_pinned<T: Plain>(&mut self, values: &'a [T]) -> Stretch {
        let (at, bytes) = (self.bytes, bytes_of(values));
        self.pinned.push((at, bytes));
        self.bytes = (at + bytes.len()).next_multiple_of(ALIGN);
        Stretch { at, length: values.len() }
    }

    /// Copies everything on all cores; pieces ascend.
    fn copy(&self, into: &mut [u8]) {
        let mut work: Vec<(&mut [u8], &[u8])> = Vec::with_capacity(self.pieces.len());
        let (mut rest, mut done) = (into, 0);
        for (at, bytes) in &self.pieces {
            let (_, tail) = rest.split_at_mut(at - done);
            let (mut room, tail) = tail.split_at_mut(bytes.len());
            (rest, done) = (tail, at + bytes.len());
            let mut from = *bytes;
            while from.len() > COPY_BYTES {
                let (head, more) = room.split_at_mut(COPY_BYTES);
                work.push((head, &from[..COPY_BYTES]));
                (room, from) = (more, &from[COPY_BYTES..]);
            }
            work.push((room, from));
        }
        let copy = |(room, from): &mut (&mut [u8], &[u8])| room.copy_from_slice(from);
        if self.bytes <= COPY_BYTES {
            work.iter_mut().for_each(copy);
        } else {
            work.par_iter_mut().for_each(copy);
        }
    }

    /// Copies what lies in pinned memory to the device, from where it lies; each once.
    fn upload_pinned(
        &mut self,
        stream: &CudaStream,
        device: &DeviceBuffer<u8>,
    ) -> Result<(), EngineError> {
        for (at, bytes) in &self.pinned[self.uploaded..] {
            device.upload(stream, *at, bytes)?;
        }
        self.uploaded = self.pinned.len();
        Ok(())
    }

    /// Copies what was packed into `packed`.
    fn upload_packed(
        &self,
        stream: &CudaStream,
        device: &DeviceBuffer<u8>,
        packed: &[u8],
    ) -> Result<(), EngineError> {
        let mut done = 0;
        for (at, bytes) in &self.pinned {
            device.upload(stream, done, &packed[done..*at])?;
            done = at + bytes.len();
        }
        device.upload(stream, done, &packed[done..self.bytes])
    }
}

/// Packs a cycle and starts its copy to the device. Rows that need no packing travel while the
/// queries are checked and listed in `questions`; a query beyond a limit gives the arena back.
pub(crate) fn stage(
    memory: &Memory,
    stream: &Arc<CudaStream>,
    (timeline, epoch): (&Timeline, u64),
    spare: &mut Option<Arena>,
    mut input: CycleInput,
    questions: &mut Questions,
) -> Result<Staged, EngineError> {
    let Some(mut arena) = spare.take() else {
        return Err(EngineError::Device("there is no memory for a cycle's input".to_owned()));
    };
    if let Some(idle) = arena.idle.take() {
        idle.synchronize().map_err(fault)?;
    }
    decode_foreign(&mut input.requests);
    let mut packing = Packing::default();
    let (requests, rows) = place_requests(&mut packing, &input.requests);
    let first_arrivals: Vec<u32> = requests.iter().map(|request| request.first_arrival).collect();
    let (at_requests, at_arrivals) = (packing.push(&requests), packing.push(&first_arrivals));
    let copying = timeline.begin(stream)?;
    let Arena { pinned, parts, device, idle } = &mut arena;
    if packing.bytes + input.queries.len() * QUERY_BYTES <= device.len() {
        packing.upload_pinned(stream, device)?;
    }
    if let Err(error) = questions.list(memory, &input.queries, parts) {
        *idle = Some(Arc::new(stream.record_event(None).map_err(fault)?));
        *spare = Some(arena);
        return Err(error);
    }
    let questions = &*questions;
    let gets = if questions.are_plain { Vec::new() } else { gets(&input.queries) };
    let asked = place_questions(&mut packing, questions, parts.as_slice(), input.queries.len());
    let at_gets = packing.push(&gets);
    pinned.fit(memory, packing.bytes)?;
    if device.fit(packing.bytes)? {
        packing.uploaded = 0;
    }
    packing.upload_pinned(stream, device)?;
    packing.copy(pinned.as_mut_slice());
    packing.upload_packed(stream, device, pinned.as_slice())?;
    timeline.end((epoch, "copy in"), copying, stream)?;
    let copied = stream.record_event(None).map_err(fault)?;
    drop(packing);
    let kinds = input.requests.into_iter().map(kind).collect();
    let (are_plain, limits) = (questions.are_plain, questions.limits.clone());
    Ok(Staged {
        arena,
        copied,
        first_arrivals,
        rows,
        requests: at_requests,
        arrivals: at_arrivals,
        asked,
        gets: at_gets,
        queries: input.queries,
        are_plain,
        limits,
        clears: clears(&requests),
        has_removals: requests.iter().any(|it| it.kind == REQUEST_REMOVE && it.rows > 0),
        has_optional: requests.iter().any(has_optional),
        system_ms: input.system_ms,
        time_max_ms: input.time_max_ms,
        kinds,
    })
}

/// Adds the columns of all requests to the packing; gives their places and the number of rows.
fn place_requests<'a>(packing: &mut Packing<'a>, requests: &'a [Request]) -> (Vec<Arrived>, u32) {
    let mut rows = 0;
    let mut placed = Vec::with_capacity(requests.len());
    for request in requests {
        let arrived = place(packing, request, rows);
        rows += arrived.rows;
        placed.push(arrived);
    }
    (placed, rows)
}

/// By clear: the arrival that it stands before, and its request.
fn clears(requests: &[Arrived]) -> Vec<(u32, u32)> {
    let numbered = (0..).zip(requests);
    let clears = numbered.filter(|(_, arrived)| arrived.kind == REQUEST_CLEAR);
    clears.map(|(number, arrived)| (arrived.first_arrival, number)).collect()
}

/// Whether a request brings attributes.
fn has_optional(arrived: &Arrived) -> bool {
    let columns = [arrived.speed_at, arrived.heading_at, arrived.altitude_at];
    columns.iter().any(|column| *column != NO_COLUMN)
}

/// Adds the lists of all questions to the packing.
fn place_questions<'a>(
    packing: &mut Packing<'a>,
    questions: &'a Questions,
    parts: &'a [Part],
    queries: usize,
) -> QuestionStretches {
    let chunks = || questions.chunks().iter();
    let no_shape = [&questions.no_shape[..]];
    QuestionStretches {
        queries,
        parts: packing.push_pinned(&parts[..questions.parts]),
        shapes: packing
            .push_all(no_shape.into_iter().chain(chunks().map(|lists| &lists.shapes[..]))),
        slabs: packing.push_all(chunks().map(|lists| &lists.slabs[..])),
        edges: packing.push_all(chunks().map(|lists| &lists.edges[..])),
    }
}

fn kind(request: Request) -> Kind {
    match request {
        Request::Fixes(_) => Kind::Fixes,
        Request::Block(block) => Kind::Block(block),
        Request::Remove(_) => Kind::Remove,
        Request::Clear => Kind::Clear,
    }
}

/// Replaces blocks with encodings that the device cannot read by their rows. One that cannot be
/// decoded stays, and fails there for the same reason.
fn decode_foreign(requests: &mut [Request]) {
    let is_foreign = |request: &Request| match request {
        Request::Block(block) => {
            block.chunks().iter().any(|chunk| chunk.plan.nodes()[0].encoding != Encoding::Raw)
        }
        _ => false,
    };
    // Waking the other threads takes longer than a look.
    if !requests.iter().any(is_foreign) {
        return;
    }
    requests.par_iter_mut().filter(|request| is_foreign(request)).for_each(|request| {
        if let Request::Block(block) = request
            && let Ok(columns) = block.decode()
        {
            *request = Request::Fixes(columns);
        }
    });
}

/// The ids of all gets: of each query ascending and without repetition.
fn gets(queries: &[Query]) -> Vec<u64> {
    let mut ids = Vec::new();
    for query in queries {
        if let QueryKind::Get(objects) = &query.kind {
            ids.extend(distinct(objects));
        }
    }
    ids
}

/// The ids of one get as they are asked of the device.
pub(crate) fn distinct(objects: &[u64]) -> Vec<u64> {
    let mut ids = objects.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Adds the columns of a request to the packing.
fn place<'a>(packing: &mut Packing<'a>, request: &'a Request, first_arrival: u32) -> Arrived {
    let nothing = Arrived {
        object_at: NO_COLUMN,
        time_at: NO_COLUMN,
        x_at: NO_COLUMN,
        y_at: NO_COLUMN,
        speed_at: NO_COLUMN,
        heading_at: NO_COLUMN,
        altitude_at: NO_COLUMN,
        state_at: NO_COLUMN,
        first_arrival,
        rows: request.rows() as u32,
        ..Arrived::default()
    };
    match request {
        Request::Fixes(columns) => place_columns(packing, columns, nothing),
        Request::Block(block) => place_block(packing, block, nothing),
        Request::Remove(objects) => {
            Arrived { kind: REQUEST_REMOVE, object_at: packing.push(objects).at as u64, ..nothing }
        }
        Request::Clear => Arrived { kind: REQUEST_CLEAR, ..nothing },
    }
}

fn place_columns<'a>(
    packing: &mut Packing<'a>,
    columns: &'a FixColumns,
    nothing: Arrived,
) -> Arrived {
    fn optional<'a, T: Plain>(packing: &mut Packing<'a>, column: &'a Option<Vec<T>>) -> u64 {
        column.as_ref().map_or(NO_COLUMN, |values| packing.push(values).at as u64)
    }
    Arrived {
        kind: REQUEST_FIXES,
        object_at: packing.push(&columns.object).at as u64,
        time_at: packing.push(&columns.time_ms).at as u64,
        x_at: packing.push(&columns.x).at as u64,
        y_at: packing.push(&columns.y).at as u64,
        speed_at: optional(packing, &columns.speed_mm_s),
        heading_at: optional(packing, &columns.heading_cdeg),
        altitude_at: optional(packing, &columns.altitude_mm),
        state_at: optional(packing, &columns.state),
        ..nothing
    }
}

fn place_block<'a>(packing: &mut Packing<'a>, block: &'a Block, nothing: Arrived) -> Arrived {
    let start = packing.push_block(block.bytes());
    let column = |wanted: Column| {
        let chunk = block.chunks().iter().find(|chunk| chunk.column == wanted);
        // Plan raw has one section.
        chunk.map_or(NO_COLUMN, |chunk| (start + chunk.sections[0].start) as u64)
    };
    let header = block.header();
    Arrived {
        kind: REQUEST_BLOCK,
        object_at: column(Column::Object),
        time_at: column(Column::Time),
        x_at: column(Column::X),
        y_at: column(Column::Y),
        speed_at: column(Column::Speed),
        heading_at: column(Column::Heading),
        altitude_at: column(Column::Altitude),
        state_at: column(Column::State),
        base_ms: header.base_time_ms,
        time_min: header.time_min_offset_ms,
        time_max: header.time_max_offset_ms,
        x_min: header.x_min,
        x_max: header.x_max,
        y_min: header.y_min,
        y_max: header.y_max,
        ..nothing
    }
}
