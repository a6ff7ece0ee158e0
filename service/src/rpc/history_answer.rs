//! Runs a query of the history in turns on threads that may block, and streams its answer.
//!
//! A turn ends with a chunk of rows or after [`HISTORY_TURN_MS`]; then other queries have theirs.
//! Between turns a query holds no thread: a client that reads slowly delays nobody. A query whose
//! client has left is cancelled within its turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shoal_codec::FixColumns;
use shoal_engine::Space;
use shoal_history::{HistoryError, QueryBudget, Version};
use shoal_proto::v1;
use tonic::{Response, Status};

use super::chunk_stream::{ChunkSender, ChunkStream, NotTaken};
use super::deadline::Deadline;
use super::records::{RECORD_BYTES_MAX, record};
use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::{CHUNK_BYTES_TARGET, HISTORY_ROWS_MAX, HISTORY_TILES_MAX, HISTORY_TURN_MS};

/// Rows of a message.
const CHUNK_ROWS: usize = CHUNK_BYTES_TARGET / (size_of::<u64>() + RECORD_BYTES_MAX);

/// Appends the next rows of a query, possibly none; false at the end.
pub(super) type Step = Box<dyn FnMut(&mut FixColumns) -> Result<bool, HistoryError> + Send>;

/// A query of one version of a fleet's history.
pub(super) struct PastQuery {
    fleet: Arc<Fleet>,
    version: Arc<Version>,
    has_fixes: bool,
    cancel: CancelOnDrop,
}

/// Ends the query when nobody waits for it any more.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The response message of a call.
pub(super) trait PastChunk: Send + 'static {
    /// Some rows; the first chunk has the header.
    fn new(header: Option<v1::HistoryHeader>, objects: Vec<u64>, fixes: Vec<v1::FixRecord>)
    -> Self;
}

macro_rules! chunks {
    ($($message:ident),+) => {$(
        impl PastChunk for v1::$message {
            fn new(
                header: Option<v1::HistoryHeader>,
                objects: Vec<u64>,
                fixes: Vec<v1::FixRecord>,
            ) -> Self {
                Self { header, objects, fixes }
            }
        }
    )+};
}

chunks!(TrajectoryResponse, PassedResponse, AsOfResponse);

impl PastQuery {
    /// Takes the current version of a fleet's history.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`], [`ServiceError::FleetName`], [`ServiceError::NoHistory`].
    pub(super) fn new(context: &ServiceContext, fleet: &str) -> Result<Self, ServiceError> {
        let fleet = context.registry.find_requested("fleet", fleet)?;
        let history = fleet.history();
        let history = history.ok_or_else(|| ServiceError::NoHistory(fleet.name().to_string()))?;
        let cancel = CancelOnDrop(Arc::default());
        Ok(Self { version: history.version(), fleet, has_fixes: true, cancel })
    }

    pub(super) fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    pub(super) fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// What the query may take.
    pub(super) fn budget(&self) -> QueryBudget {
        QueryBudget::new(HISTORY_TILES_MAX, HISTORY_ROWS_MAX, self.cancel.0.clone())
    }

    /// Leaves the fixes out of the answer.
    pub(super) fn returns_ids(&mut self) {
        self.has_fixes = false;
    }

    /// Runs the query and streams its answer.
    ///
    /// # Errors
    /// [`ServiceError::Busy`], [`ServiceError::ShuttingDown`].
    pub(super) fn answer<T: PastChunk>(
        self,
        context: &ServiceContext,
        step: Step,
        deadline: Deadline,
    ) -> Result<Response<ChunkStream<T>>, ServiceError> {
        let open = context.open_stream().map_err(|error| context.count(error))?;
        let context = context.clone();
        Ok(Response::new(ChunkStream::spawn(|sender| async move {
            let _open = open;
            tokio::select! {
                sent = self.send(&context, step, &sender) => sent,
                () = deadline.passed() => Ok(Err(ServiceError::Deadline.into())),
                () = context.stopped() => Ok(Err(ServiceError::ShuttingDown.into())),
                error = self.fleet.clone().ended() => Ok(Err(error.into())),
            }
        })))
    }

    async fn send<T: PastChunk>(
        &self,
        context: &ServiceContext,
        mut step: Step,
        sender: &ChunkSender<T>,
    ) -> Result<Result<(), Status>, NotTaken> {
        let mut header = Some(self.header());
        loop {
            let Ok(permit) = context.history_steps.clone().acquire_owned().await else {
                return Ok(Err(ServiceError::ShuttingDown.into()));
            };
            let turn = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                turn(step)
            });
            let Turn { rows, has_more } = match turn.await {
                Ok(Ok((next, turn))) => {
                    step = next;
                    turn
                }
                Ok(Err(error)) => return Ok(Err(ServiceError::from(error).into())),
                Err(_) => return Ok(Err(ServiceError::ShuttingDown.into())),
            };
            for from in (0..rows.len()).step_by(CHUNK_ROWS) {
                let to = rows.len().min(from + CHUNK_ROWS);
                sender.send(self.chunk(header.take(), &rows, from..to)).await?;
            }
            if !has_more {
                if header.is_some() {
                    sender.send(T::new(header, Vec::new(), Vec::new())).await?;
                }
                return Ok(Ok(()));
            }
        }
    }

    fn chunk<T: PastChunk>(
        &self,
        header: Option<v1::HistoryHeader>,
        rows: &FixColumns,
        range: std::ops::Range<usize>,
    ) -> T {
        let space: &Space = self.fleet.space();
        let objects = rows.object[range.clone()].to_vec();
        let range = if self.has_fixes { range } else { 0..0 };
        T::new(header, objects, range.map(|row| record(space, &rows.row(row))).collect())
    }

    fn header(&self) -> v1::HistoryHeader {
        let watermark = self.version.watermark();
        v1::HistoryHeader {
            fleet: self.fleet.name().as_str().to_owned(),
            term: watermark.term,
            epoch: watermark.position.epoch,
            clock_ms: watermark.clock_ms,
            kept_from_ms: self.version.kept_from_ms(),
        }
    }
}

/// What a turn has found.
struct Turn {
    rows: FixColumns,
    has_more: bool,
}

/// Runs steps until a chunk is full or the turn is over.
fn turn(mut step: Step) -> Result<(Step, Turn), HistoryError> {
    let began = Instant::now();
    let mut rows = FixColumns::new();
    let mut has_more = true;
    while has_more
        && rows.len() < CHUNK_ROWS
        && began.elapsed() < Duration::from_millis(HISTORY_TURN_MS)
    {
        has_more = step(&mut rows)?;
    }
    Ok((step, Turn { rows, has_more }))
}
