//! Runs a query of the history in turns on threads of a low priority, and streams its answer.
//!
//! A query first waits for memory of the answer budget, which bounds the queries in progress and is
//! granted to clients in turn. A scan is split into parts, and several parts run at the same time
//! on idle cores. A query of a past moment has one part, which starts threads of its own, at most
//! one per idle worker. A turn ends when a chunk of rows is full or after [`HISTORY_TURN_MS`]; then
//! other queries have a turn. Between turns a query holds no thread, so that a slow reader delays
//! nobody. A query whose client has left is cancelled within its turn and freed on a thread that
//! may block.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shoal_codec::FixColumns;
use shoal_history::limits::{AS_OF_TILES_MIN, TILE_ROWS};
use shoal_history::{HistoryError, QueryBudget, Version};
use shoal_proto::v1;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tonic::{Response, Status};

use super::checked_fleet::CheckedFleet;
use super::chunk_stream::{Chunk, ChunkSender, ChunkStream, NotTaken, RowStream, chunk_bytes};
use super::deadline::Deadline;
use super::fleet_message::gap_message;
use super::records::{RowMessage, StoredRows};
use super::service_context::ServiceContext;
use crate::access::{Call, MeteredQuota};
use crate::answer_budget::AnswerReservation;
use crate::cycle::FleetName;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::{
    CHUNK_BYTES_TARGET, HISTORY_ANSWER_SHARE, HISTORY_PART_BLOCKS_MIN, HISTORY_PART_BYTES,
    HISTORY_PARTS_AT_ONCE_MAX, HISTORY_PARTS_MAX, HISTORY_QUERY_BYTES_MAX, HISTORY_QUERY_BYTES_MIN,
    HISTORY_QUERY_SHARE, HISTORY_TILES_MAX, HISTORY_TURN_MS,
};
use crate::names::NameTable;
use crate::persistence::PastVersion;
use crate::record::RECORD_BYTES_MAX;
use crate::shares::{FairWorkers, Requester};

/// Most rows in a message without names.
const CHUNK_ROWS: usize = CHUNK_BYTES_TARGET / ROW_BYTES_MAX;
/// Most encoded bytes of a fix without its name.
const ROW_BYTES_MAX: usize = size_of::<u64>() + RECORD_BYTES_MAX;

/// One step of a query: appends rows, possibly none, to its argument; returns false when the query
/// is complete.
pub(super) type Step<R> = Box<dyn FnMut(&mut R) -> Result<bool, HistoryError> + Send>;

/// Boxes a step of a query.
pub(super) fn query_step<R>(
    step: impl FnMut(&mut R) -> Result<bool, HistoryError> + Send + 'static,
) -> Step<R> {
    Box::new(step)
}

/// The memory reserved for a query: once in the share of history queries, once in the budget of all
/// answers.
pub(super) type PastRoom = Arc<[AnswerReservation; 2]>;

/// The rows that a query finds.
pub(super) trait Rows: Default + Send + 'static {
    fn len(&self) -> usize;
}

impl Rows for FixColumns {
    fn len(&self) -> usize {
        self.object.len()
    }
}

impl<T: Send + 'static> Rows for Vec<T> {
    fn len(&self) -> usize {
        Vec::len(self)
    }
}

/// A query of one version of a fleet's history.
pub(super) struct PastQuery {
    checked: CheckedFleet,
    past: PastVersion,
    /// The first and last time of the query, Unix milliseconds.
    window_ms: (i64, i64),
    /// Bytes of memory that the query may use.
    bytes_max: u64,
    /// Bytes of memory that its rows may use.
    rows_bytes: u64,
    /// Number of parts that may be open at the same time; if there is one part, its threads.
    at_once: usize,
    cancel: CancelOnDrop,
}

/// Cancels the query when it is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Rows of an answer.
pub(super) type PastRows = StoredRows<v1::HistoryHeader>;

/// Some of the fixes that a query found.
pub(super) fn fixes(
    fleet: &Fleet,
    header: Option<v1::HistoryHeader>,
    rows: &FixColumns,
    range: Range<usize>,
) -> PastRows {
    let objects = rows.object[range.clone()].to_vec();
    PastRows::new(fleet, header, objects, range.map(|row| rows.row(row)).collect())
}

/// Most rows of a fleet's history in a message.
pub(super) fn chunk_rows(checked: &CheckedFleet) -> usize {
    let name_bytes = checked.fleet.names().map_or(0, NameTable::field_bytes_max);
    chunk_bytes(&checked.call) / (ROW_BYTES_MAX + name_bytes)
}

impl PastQuery {
    /// Takes the current version of a fleet's history.
    ///
    /// # Errors
    /// [`ServiceError::FleetName`], [`ServiceError::NoHistory`]; those of
    /// [`ServiceContext::fleet`].
    pub(super) fn new(
        context: &ServiceContext,
        call: &Call,
        fleet: &str,
    ) -> Result<Self, ServiceError> {
        let name = FleetName::of_request("fleet", fleet)?;
        let fleet = context.named_fleet(call, &name)?;
        Self::of_fleet(context, CheckedFleet { call: call.clone(), fleet, name })
    }

    /// As [`Self::new`], of a fleet that the caller may use.
    ///
    /// # Errors
    /// [`ServiceError::NoHistory`].
    pub(super) fn of_fleet(
        context: &ServiceContext,
        checked: CheckedFleet,
    ) -> Result<Self, ServiceError> {
        let past = checked.fleet.past();
        let past = past.ok_or_else(|| ServiceError::NoHistory(checked.name.to_string()))?;
        let cancel = CancelOnDrop(Arc::default());
        let window_ms = (i64::MIN, i64::MAX);
        let of_all = context.limits.answer_bytes_max as u64 / HISTORY_ANSWER_SHARE;
        let bytes_max = HISTORY_QUERY_BYTES_MAX.min(of_all / HISTORY_QUERY_SHARE);
        let (rows_bytes, at_once) = (0, 1);
        Ok(Self { checked, past, window_ms, bytes_max, rows_bytes, at_once, cancel })
    }

    /// Limits the query to a time window; the header lists the gaps that intersect it.
    pub(super) fn within(mut self, window_ms: (i64, i64)) -> Self {
        self.window_ms = window_ms;
        self
    }

    pub(super) fn fleet(&self) -> &Arc<Fleet> {
        &self.checked.fleet
    }

    pub(super) fn checked(&self) -> CheckedFleet {
        self.checked.clone()
    }

    pub(super) fn version(&self) -> &Arc<Version> {
        &self.past.version
    }

    /// The budget of the query: as many rows of `row_bytes` bytes as fit its memory, at most
    /// `rows_max` rounded up to a power of two.
    pub(super) fn budget(&mut self, row_bytes: usize, rows_max: usize) -> QueryBudget {
        let bytes_max = self.bytes_max.saturating_sub(HISTORY_QUERY_BYTES_MIN);
        let fitting = usize::try_from(bytes_max).unwrap_or(usize::MAX) / row_bytes;
        // A power of two, because tables and lists double when they grow.
        let rows = (1 << fitting.max(1).ilog2()).min(rows_max.next_power_of_two());
        self.rows_bytes = (rows * row_bytes) as u64;
        QueryBudget::new(HISTORY_TILES_MAX, rows, self.cancel.0.clone())
    }

    /// Number of parts of a scan of `blocks` blocks; 1 if a device searches the runs. If memory
    /// allows, two parts per core are open at once, so that a part that waits for earlier ones
    /// leaves no core idle.
    pub(super) fn parts(&mut self, context: &ServiceContext, blocks: usize) -> usize {
        let of_blocks = (blocks / HISTORY_PART_BLOCKS_MIN).clamp(1, HISTORY_PARTS_MAX);
        let parts = if self.version().has_device() { 1 } else { of_blocks };
        self.at_once = self.fitting(parts.min(2 * context.cores));
        parts
    }

    /// Number of threads that read a run for a query of up to `objects_max` objects at a past
    /// moment. It is limited by the number of idle workers and by memory. A device needs no
    /// threads.
    pub(super) fn threads(&mut self, context: &ServiceContext, objects_max: usize) -> usize {
        // A query of few objects uses one thread; skip counting the rows of the partitions.
        if objects_max >= 2 * AS_OF_TILES_MIN && !self.version().has_device() {
            let tiles = self.version().rows_of_fullest(self.window_ms) / TILE_ROWS;
            let useful = tiles.min(objects_max) / AS_OF_TILES_MIN;
            self.at_once = self.fitting(useful.min(context.history_workers.idle()).max(1));
        }
        self.at_once
    }

    /// Limits `at_once` to the greatest number of parts for which the query has memory.
    fn fitting(&self, at_once: usize) -> usize {
        let left = self.bytes_max.saturating_sub(HISTORY_QUERY_BYTES_MIN + self.rows_bytes);
        let fitting = 1 + (left / HISTORY_PART_BYTES) as usize;
        at_once.min(HISTORY_PARTS_AT_ONCE_MAX).min(fitting)
    }

    /// Waits for the memory that the query may take, in turn with the other queries.
    ///
    /// # Errors
    /// [`ServiceError::Busy`] if other answers hold it for too long.
    pub(super) async fn room(&self, context: &ServiceContext) -> Result<PastRoom, ServiceError> {
        let parts_bytes = (self.at_once as u64 - 1) * HISTORY_PART_BYTES;
        let bytes = HISTORY_QUERY_BYTES_MIN + self.rows_bytes + parts_bytes;
        let bytes = bytes.min(self.bytes_max);
        let client = self.checked.call.client();
        // Reserve the history share first, so that a query waiting for it holds no common memory.
        let share = context.history_answers.room_in_turn(client, bytes).await;
        let share = share.map_err(|error| context.count(error))?;
        let room = context.answers.room(client, bytes).await;
        let room = room.map_err(|error| context.count(error))?;
        Ok(Arc::new([share, room]))
    }

    /// Runs the parts of the query and streams its answer. `of_rows` takes some of the rows that
    /// the query found; the first ones have the header.
    ///
    /// # Errors
    /// As [`stream`].
    pub(super) fn answer_rows<R: Rows, T: RowMessage<Header = v1::HistoryHeader>>(
        self,
        context: &ServiceContext,
        steps: Vec<Step<R>>,
        of_rows: impl Fn(&Fleet, Option<v1::HistoryHeader>, &R, Range<usize>) -> PastRows
        + Send
        + 'static,
        deadline: Deadline,
    ) -> Result<Response<RowStream<T>>, ServiceError> {
        let call = self.checked.call.clone();
        let chunk = move |fleet: &Fleet, header, rows: &R, range| {
            Chunk::of(&call, of_rows(fleet, header, rows, range), T::new)
        };
        self.answer(context, steps, chunk, deadline)
    }

    /// As [`Self::answer_rows`], for any chunks.
    ///
    /// # Errors
    /// As [`stream`].
    pub(super) fn answer<R: Rows, T: Send + 'static, H: Send + 'static>(
        self,
        context: &ServiceContext,
        steps: Vec<Step<R>>,
        chunk: impl Fn(&Fleet, Option<v1::HistoryHeader>, &R, Range<usize>) -> Chunk<T, H>
        + Send
        + 'static,
        deadline: Deadline,
    ) -> Result<Response<ChunkStream<T, H>>, ServiceError> {
        stream(context, self.checked.clone(), deadline, move |context, sender| async move {
            let (fleet, mut header) = (self.fleet(), Some(self.header()));
            let chunk_rows = chunk_rows(&self.checked);
            let room = match self.room(&context).await {
                Ok(room) => room,
                Err(error) => return Ok(Err(error.into())),
            };
            let mut turns = Turns::new(&self, &context, steps, room);
            loop {
                let rows = match turns.next().await {
                    Ok(Some(rows)) => rows,
                    Ok(None) => break,
                    Err(error) => return Ok(Err(error.into())),
                };
                for from in (0..rows.len()).step_by(chunk_rows) {
                    let to = rows.len().min(from + chunk_rows);
                    sender.send(chunk(fleet, header.take(), &rows, from..to)).await?;
                }
            }
            if header.is_some() {
                sender.send(chunk(fleet, header, &R::default(), 0..0)).await?;
            }
            Ok(Ok(()))
        })
    }

    /// The header, which the first message of the answer has.
    pub(super) fn header(&self) -> v1::HistoryHeader {
        let (watermark, (from_ms, to_ms)) = (self.past.watermark, self.window_ms);
        let gaps = self.version().gaps().iter().filter(|gap| gap.meets(from_ms, to_ms));
        v1::HistoryHeader {
            fleet: self.checked.name.to_string(),
            term: watermark.term,
            epoch: watermark.position.epoch,
            clock_ms: watermark.clock_ms,
            kept_from_ms: self.version().kept_from_ms(),
            gaps: gaps.map(gap_message).collect(),
        }
    }
}

/// Streams what `task` sends, until the task ends, the deadline passes, the server stops, the fleet
/// ends, or a rename takes the caller's right on the fleet away.
///
/// # Errors
/// [`ServiceError::Busy`], [`ServiceError::Quota`], [`ServiceError::ShuttingDown`].
pub(super) fn stream<T: Send + 'static, H: Send + 'static, F>(
    context: &ServiceContext,
    checked: CheckedFleet,
    deadline: Deadline,
    task: impl FnOnce(ServiceContext, ChunkSender<T, H>) -> F + Send + 'static,
) -> Result<Response<ChunkStream<T, H>>, ServiceError>
where
    F: Future<Output = Result<Result<(), Status>, NotTaken>> + Send + 'static,
{
    let open = context.open_stream(&checked.call)?;
    checked.call.take(MeteredQuota::Queries, 1).map_err(|error| context.count(error))?;
    let (fleet, name, call) = (checked.fleet.clone(), checked.name.clone(), checked.call.clone());
    let (context, budget) = (context.clone(), Some(context.history_answers.clone()));
    let stream = ChunkStream::spawn_with(budget, |sender| async move {
        let _open = open;
        tokio::select! {
            sent = task(context.clone(), sender) => sent,
            () = deadline.passed() => Ok(Err(ServiceError::Deadline.into())),
            () = context.stopped() => Ok(Err(ServiceError::ShuttingDown.into())),
            error = fleet.ended() => Ok(Err(error.of_fleet(&name).into())),
            error = checked.lost() => Ok(Err(error.into())),
        }
    });
    Ok(stream.answer(&call))
}

/// Runs the parts of a query in turns.
pub(super) struct Turns<R: Send + 'static> {
    workers: FairWorkers,
    client: Requester,
    /// The parts that are not yet returned completely, in the order of the answer.
    parts: VecDeque<Part<R>>,
    /// Number of the first part in `parts`.
    first: usize,
    /// Greatest number of open parts.
    at_once: usize,
    /// The turns in progress, with the numbers of their parts.
    running: JoinSet<(usize, Turned<R>)>,
    /// The memory of the parts and of the rows that they found.
    room: PastRoom,
}

/// Result of a turn. The reservation comes last, so that it is dropped after the data it covers.
type Turned<R> = Result<(Result<(Option<Step<R>>, R), HistoryError>, PastRoom), ServiceError>;

/// A part of a query.
struct Part<R> {
    /// The step to run next; `None` while the part has a turn, and once it has ended.
    step: Option<Step<R>>,
    /// The rows that its last turn found. The part gets no further turn until they are returned.
    found: Option<R>,
    has_begun: bool,
    has_ended: bool,
}

impl<R> Part<R> {
    fn new(step: Step<R>) -> Self {
        Self { step: Some(step), found: None, has_begun: false, has_ended: false }
    }

    /// Whether the part holds memory.
    fn is_open(&self) -> bool {
        self.has_begun && (!self.has_ended || self.found.is_some())
    }
}

impl<R: Send + 'static> Drop for Turns<R> {
    fn drop(&mut self) {
        // The parts may hold large sets: free them on a thread that may block, and return the
        // reserved memory after that.
        if let (false, Ok(runtime)) = (self.parts.is_empty(), Handle::try_current()) {
            let (parts, room) = (std::mem::take(&mut self.parts), self.room.clone());
            let running = std::mem::take(&mut self.running);
            runtime.spawn_blocking(move || {
                drop((parts, running));
                drop(room);
            });
        }
    }
}

impl<R: Rows> Turns<R> {
    pub(super) fn new(
        query: &PastQuery,
        context: &ServiceContext,
        steps: Vec<Step<R>>,
        room: PastRoom,
    ) -> Self {
        Self {
            workers: context.history_workers.clone(),
            client: query.checked.call.client(),
            parts: steps.into_iter().map(Part::new).collect(),
            first: 0,
            at_once: query.at_once,
            running: JoinSet::new(),
            room,
        }
    }

    /// Returns the next rows, at least one; `None` after the last row.
    ///
    /// # Errors
    /// [`ServiceError::History`], [`ServiceError::ShuttingDown`].
    pub(super) async fn next(&mut self) -> Result<Option<R>, ServiceError> {
        while let Some(part) = self.parts.front_mut() {
            if let Some(found) = part.found.take() {
                return Ok(Some(found));
            }
            if part.has_ended {
                self.parts.pop_front();
                self.first += 1;
                continue;
            }
            self.begin_turns();
            let turned = self.running.join_next().await.ok_or(ServiceError::ShuttingDown)?;
            let (number, turned) = turned.map_err(|_| ServiceError::ShuttingDown)?;
            let (step, found) = turned?.0?;
            let part = &mut self.parts[number - self.first];
            part.has_ended = step.is_none();
            (part.step, part.found) = (step, Some(found).filter(|found| found.len() > 0));
        }
        Ok(None)
    }

    /// Begins a turn of each open part without found rows, and opens further parts in order while
    /// fewer than `at_once` are open.
    fn begin_turns(&mut self) {
        let mut open = self.parts.iter().filter(|part| part.is_open()).count();
        for (number, part) in (self.first..).zip(&mut self.parts) {
            let may_begin = part.has_begun || open < self.at_once;
            if part.found.is_some() || !may_begin {
                continue;
            }
            let Some(step) = part.step.take() else { continue };
            open += usize::from(!part.has_begun);
            part.has_begun = true;
            let (workers, client, room) = (self.workers.clone(), self.client, self.room.clone());
            // `room` comes after the step, so that an abandoned step is dropped first.
            let work = move || (turn(step), room);
            self.running.spawn(async move { (number, workers.run(client, work).await) });
        }
    }
}

/// Runs steps until a chunk is full or the turn is over. Returns the step, `None` if the query is
/// complete, and the rows found.
fn turn<R: Rows>(mut step: Step<R>) -> Result<(Option<Step<R>>, R), HistoryError> {
    let began = Instant::now();
    let mut rows = R::default();
    while rows.len() < CHUNK_ROWS && began.elapsed() < Duration::from_millis(HISTORY_TURN_MS) {
        if !step(&mut rows)? {
            return Ok((None, rows));
        }
    }
    Ok((Some(step), rows))
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::answer_budget::AnswerBudget;

    /// A part that finds some numbers in steps, of which some outlast a turn.
    fn part(numbers: Range<u64>, step: usize) -> Step<Vec<u64>> {
        let mut left: Vec<u64> = numbers.rev().collect();
        query_step(move |found: &mut Vec<u64>| {
            if left.len().is_multiple_of(3) {
                sleep(Duration::from_millis(HISTORY_TURN_MS + 1));
            }
            found.extend(left.split_off(left.len().saturating_sub(step)).into_iter().rev());
            Ok(!left.is_empty())
        })
    }

    async fn turns(steps: Vec<Step<Vec<u64>>>, at_once: usize) -> Turns<Vec<u64>> {
        let (budget, client) = (AnswerBudget::new(1 << 20, Gauge::default()), Requester::at(1));
        let room = async || budget.room(client, 1).await.unwrap();
        Turns {
            workers: FairWorkers::start("test", 2).unwrap(),
            client,
            parts: steps.into_iter().map(Part::new).collect(),
            first: 0,
            at_once,
            running: JoinSet::new(),
            room: Arc::new([room().await, room().await]),
        }
    }

    #[tokio::test]
    async fn parts_are_returned_in_their_order_however_long_they_take() {
        for at_once in [1, 2, 5, 100] {
            // Some parts have nothing, some end at once.
            let sizes = [4, 0, 7, 1, 0, 3, 12, 2, 9];
            let mut first = 0;
            let parts = sizes.map(|size| {
                let numbers = first..first + size;
                first += size;
                part(numbers, 1 + size as usize % 3)
            });
            let mut turns = turns(parts.into(), at_once).await;
            let mut found = Vec::new();
            while let Some(rows) = turns.next().await.unwrap() {
                assert!(turns.parts.iter().filter(|part| part.is_open()).count() <= at_once);
                found.extend(rows);
            }
            assert_eq!(found, (0..first).collect::<Vec<_>>(), "{at_once} at once");
        }
    }

    #[tokio::test]
    async fn an_error_of_a_part_ends_the_query() {
        let fails = query_step(|_: &mut Vec<u64>| Err(HistoryError::Cancelled));
        let mut turns = turns(vec![part(0..30, 1), fails, part(30..60, 1)], 3).await;
        let error = loop {
            match turns.next().await {
                Ok(found) => assert!(found.is_some(), "it ends with the error"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ServiceError::History(_)), "{error}");
    }
}
