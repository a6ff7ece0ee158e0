//! Stages a cycle's input: the caller's thread packs it into pinned memory on several threads, and
//! a separate stream copies it while earlier cycles run.
//!
//! Columns are not converted: blocks and rows are sent as their own bytes. On the device, decoded
//! columns precede the packed lists.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_codec::{Block, Chunk, Column, ColumnValues, Encoding, FixColumns};
use shoal_engine::layout::{
    GROUPED_STATE, GROUPED_X, GROUPED_Y, NO_COLUMN, Part, REQUEST_BLOCK, REQUEST_CLEAR,
    REQUEST_FIXES, REQUEST_REMOVE, RequestDescriptor,
};
use shoal_engine::{CycleInput, EngineError, EngineOptions, Query, QueryKind, Request, RowLimit};

use crate::codec::{Decoding, Form, List, OutputRequest, Place, of_block};
use crate::launch::{
    ByteRange, CodecRanges, DeviceBuffer, Memory, PinnedBuffer, QueryInput, QueryRanges, bytes_of,
    fault,
};
use crate::stages::dispatch::packing::Packing;
use crate::stages::query::parts::QueryParts;
use crate::stages::query::work::QueryWork;
use crate::stages::timeline::Timeline;
use crate::state::regions::changes::Changes;

/// Estimated bytes of a query's lists: two parts. If they need more, rows are copied again.
const QUERY_BYTES: usize = 2 * size_of::<Part>() + 8;

/// Memory of one cycle's input, on the host and the device.
#[derive(Debug)]
pub(crate) struct Arena {
    pinned: PinnedBuffer<u8>,
    /// The queries' parts, in memory that the device copies from.
    parts: PinnedBuffer<Part>,
    pub(crate) device: DeviceBuffer<u8>,
    /// The event after the last work that read the device buffer.
    pub(crate) idle: Option<Arc<CudaEvent>>,
}

impl Arena {
    pub(crate) fn new(memory: &Memory) -> Result<Self, EngineError> {
        let (pinned, parts) = (PinnedBuffer::new(memory, 1)?, PinnedBuffer::new(memory, 1)?);
        Ok(Self { pinned, parts, device: DeviceBuffer::new(memory, 1)?, idle: None })
    }
}

/// The part of a request that is needed after its rows have been copied.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Rows.
    Fixes,
    /// A block, retained with its cycle's requests to report what is wrong with it.
    Block(Arc<Vec<Request>>, usize),
    /// Removals.
    Remove,
    /// A clear.
    Clear,
}

/// A cycle's input, being copied to the device.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) arena: Arena,
    pub(crate) copied: CudaEvent,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) first_arrivals: Vec<u32>,
    pub(crate) rows: u32,
    pub(crate) requests: ByteRange,
    pub(crate) arrivals: ByteRange,
    /// The columns that dispatch decodes first.
    pub(crate) codec: CodecRanges,
    /// True if the rows of some blocks are checked in place.
    pub(crate) has_raw_blocks: bool,
    /// Number of entries of all dictionaries of ids.
    pub(crate) entries: u32,
    /// True if there are rows or removals without a dictionary of ids.
    pub(crate) has_ids: bool,
    pub(crate) query_ranges: QueryRanges,
    /// Ids of all gets, query by query.
    pub(crate) gets: ByteRange,
    /// Returned with the answers.
    pub(crate) queries: Vec<Query>,
    /// True if all queries are ranges that request ids.
    pub(crate) are_plain: bool,
    /// By query: the limit of its rows; empty if no query has one.
    pub(crate) limits: Vec<Option<RowLimit>>,
    /// The work of the queries, if it has a bound.
    pub(crate) work: Option<QueryWork>,
    /// By clear: the arrival that it precedes, and its request.
    pub(crate) clears: Vec<(u32, u32)>,
    /// Number of removals among the rows.
    pub(crate) removals: u32,
    pub(crate) has_optional: bool,
    /// True if records may have a validity: rows of this cycle have one, or earlier rows had.
    pub(crate) has_validity: bool,
    /// Changes of continuous queries.
    pub(crate) changes: Changes,
    pub(crate) system_ms: i64,
    pub(crate) rewinds: bool,
    pub(crate) time_max_ms: i64,
    pub(crate) event_clock_max_ms: Option<i64>,
}

impl Staged {
    /// The queries of the cycle on the device.
    pub(crate) fn query_input(&self) -> QueryInput<'_> {
        QueryInput { bytes: &self.arena.device, ranges: &self.query_ranges }
    }

    /// Whether rows of an object must be settled one by one.
    pub(crate) fn is_ordered(&self) -> bool {
        self.removals > 0 || !self.clears.is_empty()
    }

    /// Whether records may expire.
    pub(crate) fn may_expire(&self, options: &EngineOptions) -> bool {
        options.ttl_ms.is_some() || self.has_validity
    }

    /// True if the cycle may end objects that have no row or removal in it.
    pub(crate) fn may_end_others(&self, options: &EngineOptions) -> bool {
        self.may_expire(options) || !self.clears.is_empty()
    }

    /// The clock at which the cycle begins.
    pub(crate) fn clock_before_ms(&self, clock_ms: i64) -> i64 {
        if self.rewinds { clock_ms.min(self.system_ms) } else { clock_ms }
    }

    /// Keeps only the parts for which `is_kept` is true. The stream must have reached the end of
    /// the copy.
    pub(crate) fn retain_parts(
        &mut self,
        stream: &CudaStream,
        is_kept: impl Fn(&Part) -> bool,
    ) -> Result<(), EngineError> {
        let ByteRange { at, length } = self.query_ranges.parts;
        let parts = self.arena.parts.as_slice()[..length].iter();
        let parts: Vec<Part> = parts.filter(|part| is_kept(part)).copied().collect();
        self.arena.device.upload(stream, at, bytes_of(&parts))?;
        self.query_ranges.parts.length = parts.len();
        Ok(())
    }
}

/// Packs a cycle and starts its copy to the device. Rows that need no packing are copied while the
/// queries are checked and listed in `query_parts`. If a query exceeds a limit, fails and puts the
/// arena back into `spare`.
pub(crate) fn stage(
    memory: &Memory,
    stream: &Arc<CudaStream>,
    timeline: &Timeline,
    epoch: u64,
    spare: &mut Option<Arena>,
    input: CycleInput,
    query_parts: &mut QueryParts,
) -> Result<Staged, EngineError> {
    let Some(mut arena) = spare.take() else {
        return Err(EngineError::Device("no memory for a cycle's input".to_owned()));
    };
    if let Some(idle) = arena.idle.take() {
        idle.synchronize().map_err(fault)?;
    }
    let (mut packing, mut decoding) = (Packing::default(), Decoding::default());
    let (requests, rows) = place_requests(&mut packing, &mut decoding, &input.requests);
    let first_arrivals: Vec<u32> = requests.iter().map(|request| request.first_arrival).collect();
    let (at_requests, at_arrivals) = (packing.push(&requests), packing.push(&first_arrivals));
    let codec = place_decoding(&mut packing, &decoding);
    let copying = timeline.begin(stream)?;
    let Arena { pinned, parts, device, idle } = &mut arena;
    if packing.device_bytes() + input.queries.len() * QUERY_BYTES <= device.len() {
        packing.upload_blocks(stream, device)?;
    }
    if let Err(error) = query_parts.list(memory, &input.queries, parts) {
        *idle = Some(Arc::new(stream.record_event(None).map_err(fault)?));
        *spare = Some(arena);
        return Err(error);
    }
    let gets = if query_parts.are_plain { Vec::new() } else { gets(&input.queries) };
    let query_ranges = place_queries(&mut packing, &*query_parts, parts, input.queries.len());
    let at_gets = packing.push(&gets);
    pinned.fit(memory, packing.bytes)?;
    if device.fit(packing.device_bytes())? {
        packing.uploaded = 0;
    }
    packing.upload_blocks(stream, device)?;
    packing.upload_parts(stream, device)?;
    packing.copy(pinned.as_mut_slice());
    packing.upload_packed(stream, device, pinned)?;
    timeline.end(epoch, "copy in", copying, stream)?;
    let copied = stream.record_event(None).map_err(fault)?;
    drop(packing);
    Ok(Staged {
        arena,
        copied,
        first_arrivals,
        rows,
        has_raw_blocks: requests.iter().any(|it| it.kind == REQUEST_BLOCK && it.is_decoded == 0),
        entries: requests.iter().map(|it| it.entries).sum(),
        has_ids: requests.iter().any(|it| it.entries == 0 && it.rows > 0),
        codec,
        requests: at_requests,
        arrivals: at_arrivals,
        query_ranges,
        gets: at_gets,
        work: QueryWork::of(&input),
        rewinds: input.rewinds(),
        queries: input.queries,
        are_plain: query_parts.are_plain,
        limits: query_parts.limits.clone(),
        clears: clears(&requests),
        removals: requests.iter().filter(|it| it.kind == REQUEST_REMOVE).map(|it| it.rows).sum(),
        has_optional: requests.iter().any(has_optional),
        has_validity: requests.iter().any(|it| it.valid_at != NO_COLUMN),
        changes: Changes::new(),
        system_ms: input.system_ms,
        time_max_ms: input.time_max_ms,
        event_clock_max_ms: input.event_clock_max_ms,
        kinds: (0..input.requests.len()).map(|number| kind(&input.requests, number)).collect(),
    })
}

/// Adds the lists of decoding to the packing.
fn place_decoding<'a>(packing: &mut Packing<'a>, decoding: &'a Decoding) -> CodecRanges {
    decoding.place(&mut |list| match list {
        List::Steps(list) => packing.push(list),
        List::Opens(list) => packing.push(list),
        List::Keys(list) => packing.push(list),
        List::Scatters(list) => packing.push(list),
        List::Strings(list) => packing.push(list),
        List::Columns(list) => packing.push(list),
    })
}

/// Adds the columns of all requests to the packing and the encoded ones to the decoding, whose
/// output precedes the packing; returns their places and the number of rows.
fn place_requests<'a>(
    packing: &mut Packing<'a>,
    decoding: &mut Decoding,
    requests: &'a [Request],
) -> (Vec<RequestDescriptor>, u32) {
    let (mut rows, mut entries) = (0, 0);
    let mut placed = Vec::with_capacity(requests.len());
    for (number, request) in (0..).zip(requests) {
        let arrived = place(packing, decoding, request, number, rows);
        placed.push(RequestDescriptor { first_entry: entries, ..arrived });
        rows += arrived.rows;
        entries += arrived.entries;
    }
    packing.front = decoding.bytes as usize;
    placed.iter_mut().for_each(|arrived| shift(arrived, decoding.bytes));
    (placed, rows)
}

/// Set in the offsets of decoded columns, which are not part of the packing.
const DECODED: u64 = 1 << 62;

/// Makes the offsets of columns relative to the start of the device buffer, whose first `front`
/// bytes are decoded columns.
fn shift(arrived: &mut RequestDescriptor, front: u64) {
    let shift = |at: &mut u64| {
        *at = match *at {
            NO_COLUMN => NO_COLUMN,
            decoded if decoded & DECODED != 0 => decoded & !DECODED,
            packed => packed + front,
        };
    };
    Column::ALL.into_iter().for_each(|column| shift(place_of(arrived, column)));
    shift(&mut arrived.entries_at);
    shift(&mut arrived.places_at);
}

/// By clear: the arrival that it precedes, and its request.
fn clears(requests: &[RequestDescriptor]) -> Vec<(u32, u32)> {
    let numbered = (0..).zip(requests);
    let clears = numbered.filter(|(_, arrived)| arrived.kind == REQUEST_CLEAR);
    clears.map(|(number, arrived)| (arrived.first_arrival, number)).collect()
}

macro_rules! render {
    ($($column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident {
        [$word:ident $at:ident $min:ident $max:ident] $($storage:tt)+
    };)+) => {
        /// Whether a request has attributes.
        fn has_optional(arrived: &RequestDescriptor) -> bool {
            false $(|| arrived.$at != NO_COLUMN)+
        }

        /// The place of one column of a request.
        fn place_of(arrived: &mut RequestDescriptor, column: Column) -> &mut u64 {
            match column {
                Column::Object => &mut arrived.object_at,
                Column::Time => &mut arrived.time_at,
                Column::X => &mut arrived.x_at,
                Column::Y => &mut arrived.y_at,
                $(Column::$column => &mut arrived.$at,)+
                Column::State => &mut arrived.state_at,
            }
        }
    };
}

shoal_codec::measures!(render);

/// Adds the lists of all queries to the packing.
fn place_queries<'a>(
    packing: &mut Packing<'a>,
    query_parts: &'a QueryParts,
    parts: &'a PinnedBuffer<Part>,
    queries: usize,
) -> QueryRanges {
    let chunks = || query_parts.chunks().iter();
    let no_shape = [&query_parts.no_shape[..]];
    QueryRanges {
        queries,
        parts: packing.push_parts(parts, query_parts.parts),
        shapes: packing
            .push_all(no_shape.into_iter().chain(chunks().map(|lists| &lists.shapes[..]))),
        slabs: packing.push_all(chunks().map(|lists| &lists.slabs[..])),
        edges: packing.push_all(chunks().map(|lists| &lists.edges[..])),
    }
}

fn kind(requests: &Arc<Vec<Request>>, number: usize) -> Kind {
    match requests[number] {
        // A request that sets the clock back is treated as fixes without rows.
        Request::Fixes(_) | Request::Rewind => Kind::Fixes,
        Request::Block(_) => Kind::Block(requests.clone(), number),
        Request::Remove(_) => Kind::Remove,
        Request::Clear => Kind::Clear,
    }
}

/// The ids of all gets, query by query; those of a query ascend without repetition.
fn gets(queries: &[Query]) -> Vec<u64> {
    let mut ids = Vec::new();
    for query in queries {
        if let QueryKind::Get(objects) = &query.kind {
            ids.extend(distinct(objects));
        }
    }
    ids
}

/// The ids of one get, in the order in which the device looks them up.
pub(crate) fn distinct(objects: &[u64]) -> Vec<u64> {
    let mut ids = objects.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Adds the columns of a request to the packing.
fn place<'a>(
    packing: &mut Packing<'a>,
    decoding: &mut Decoding,
    request: &'a Request,
    number: u32,
    first_arrival: u32,
) -> RequestDescriptor {
    let mut empty_descriptor = RequestDescriptor {
        entries_at: NO_COLUMN,
        places_at: NO_COLUMN,
        first_arrival,
        rows: request.rows() as u32,
        ..RequestDescriptor::default()
    };
    Column::ALL.into_iter().for_each(|column| *place_of(&mut empty_descriptor, column) = NO_COLUMN);
    match request {
        Request::Fixes(columns) => place_columns(packing, columns, empty_descriptor),
        Request::Block(block) => place_block(packing, decoding, block, number, empty_descriptor),
        Request::Remove(objects) => RequestDescriptor {
            kind: REQUEST_REMOVE,
            object_at: packing.push(objects).at as u64,
            ..empty_descriptor
        },
        Request::Clear => RequestDescriptor { kind: REQUEST_CLEAR, ..empty_descriptor },
        Request::Rewind => empty_descriptor,
    }
}

fn place_columns<'a>(
    packing: &mut Packing<'a>,
    columns: &'a FixColumns,
    empty_descriptor: RequestDescriptor,
) -> RequestDescriptor {
    let mut placed = RequestDescriptor { kind: REQUEST_FIXES, ..empty_descriptor };
    for column in Column::ALL {
        let Some(values) = columns.column(column) else { continue };
        let range = match values {
            ColumnValues::U16(values) => packing.push(values),
            ColumnValues::U32(values) => packing.push(values),
            ColumnValues::U64(values) => packing.push(values),
            ColumnValues::I32(values) => packing.push(values),
            ColumnValues::I64(values) => packing.push(values),
        };
        *place_of(&mut placed, column) = range.at as u64;
    }
    placed
}

fn place_block<'a>(
    packing: &mut Packing<'a>,
    decoding: &mut Decoding,
    block: &'a Block,
    request: u32,
    empty_descriptor: RequestDescriptor,
) -> RequestDescriptor {
    let start = packing.push_block(block.bytes()) as u64;
    let is_raw = |chunk: &Chunk| chunk.plan.root().encoding == Encoding::Raw;
    let is_decoded = !block.chunks().iter().all(is_raw);
    let places = if is_decoded {
        let output_request = OutputRequest { request, ..OutputRequest::default() };
        let (sources, mut output_requests) = of_block(block, output_request);
        for (output_request, (column, _)) in output_requests.iter_mut().zip(block.columns()) {
            output_request.form = form(column);
        }
        decoding.add_block(start, &sources, &output_requests)
    } else {
        // Plan raw has one section.
        let at = |chunk: &Chunk| Place::Input(start + chunk.sections[0].start as u64);
        block.chunks().iter().map(at).collect()
    };
    let header = block.header();
    let empty = RequestDescriptor {
        kind: REQUEST_BLOCK,
        base_ms: header.base_time_ms,
        time_min: header.time_min_offset_ms,
        time_max: header.time_max_offset_ms,
        x_min: header.x_min,
        x_max: header.x_max,
        y_min: header.y_min,
        y_max: header.y_max,
        is_decoded: is_decoded.into(),
        ..empty_descriptor
    };
    let placed = block.columns().zip(places);
    placed.fold(empty, |arrived, ((column, _), place)| with_column(arrived, column, place))
}

/// The form in which dispatch reads a column. Ids remain codes, so that each entry of a dictionary
/// is looked up once. Values that are read only for the row that becomes the record may remain in
/// grouped order.
fn form(column: Column) -> Form {
    match column {
        Column::Object => Form::Codes,
        Column::X | Column::Y | Column::State => Form::Grouped(Column::Object.id()),
        _ => Form::Rows,
    }
}

/// A request with one more column.
fn with_column(mut arrived: RequestDescriptor, column: Column, place: Place) -> RequestDescriptor {
    let at = match place {
        Place::Input(at) => at,
        Place::Output(at) => at | DECODED,
        Place::Grouped { values, places } => {
            arrived.places_at = places | DECODED;
            arrived.grouped |= match column {
                Column::X => GROUPED_X,
                Column::Y => GROUPED_Y,
                _ => GROUPED_STATE,
            };
            values | DECODED
        }
        Place::Codes { codes, table, entries } => {
            arrived.entries_at = table | DECODED;
            arrived.entries = entries;
            codes | DECODED
        }
    };
    *place_of(&mut arrived, column) = at;
    arrived
}
