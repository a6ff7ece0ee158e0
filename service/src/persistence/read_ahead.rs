//! Reads a log ahead of the engine: a thread reads, verifies and parses cycles while the engine
//! applies earlier ones.
//!
//! Cycles are passed on in batches of about [`READ_AHEAD_BYTES`], at least one cycle. At most three
//! batches exist: one is being read, one waits, and one is being applied.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use shoal_engine::Request;
use shoal_position_log::{
    CycleSource as _, LogError, LogReader, LoggedCycle, LoggedRequest, ProducerBatch, Recovered,
    RequestBody,
};

use super::rows_body;
use crate::cycle::{BatchId, CycleRecord};
use crate::error::ServiceError;
use crate::limits::READ_AHEAD_BYTES;

/// Consecutive cycles.
pub(super) struct CycleBatch {
    pub(super) cycles: Vec<CycleRecord>,
    /// Bytes of the log after them.
    pub(super) remaining_bytes: u64,
}

/// Reads the log to its end while `apply` receives its cycles. If either side fails, the other ends
/// as well.
///
/// # Errors
/// Errors of the log and of `apply`.
pub(super) fn read_ahead(
    reader: LogReader,
    apply: impl FnOnce(Receiver<CycleBatch>) -> Result<(), ServiceError>,
) -> Result<Recovered, ServiceError> {
    let (batches, receiver) = bounded(1);
    thread::scope(|scope| {
        let reading = scope.spawn(move || read(reader, &batches));
        let applied = apply(receiver);
        let read = reading.join().unwrap_or_else(|panic| resume_unwind(panic));
        applied?;
        read?.ok_or(ServiceError::ShuttingDown)
    })
}

/// Returns `None` if the receiver is dropped before the end of the log.
fn read(
    mut reader: LogReader,
    batches: &Sender<CycleBatch>,
) -> Result<Option<Recovered>, LogError> {
    let (mut cycles, mut first_bytes) = (Vec::new(), reader.remaining_bytes());
    while let Some(cycle) = reader.next_cycle()? {
        cycles.push(record(&cycle)?);
        let remaining_bytes = reader.remaining_bytes();
        if first_bytes.saturating_sub(remaining_bytes) >= READ_AHEAD_BYTES {
            let cycles = std::mem::take(&mut cycles);
            if batches.send(CycleBatch { cycles, remaining_bytes }).is_err() {
                return Ok(None);
            }
            first_bytes = remaining_bytes;
        }
    }
    match batches.send(CycleBatch { cycles, remaining_bytes: 0 }) {
        Ok(()) => reader.finish().map(Some),
        Err(_) => Ok(None),
    }
}

/// Converts a logged cycle to the engine's input.
pub(crate) fn record(cycle: &LoggedCycle<'_>) -> Result<CycleRecord, LogError> {
    let header = cycle.header;
    let requests: Result<Vec<Request>, String> = cycle.requests().map(request).collect();
    let requests = requests.map_err(|reason| {
        let file = format!("the cycle of epoch {}", header.epoch);
        LogError::Content { file, offset: 0, reason }
    })?;
    let batch = |ProducerBatch { producer, batch_seq }: ProducerBatch<'_>| BatchId {
        producer: producer.into(),
        batch_seq,
    };
    Ok(CycleRecord {
        epoch: header.epoch,
        system_ms: header.system_ms,
        time_max_ms: header.time_max_ms,
        // The logged clock already respects the bound of the cycle, so it can serve as the bound.
        // A version that logged no clock had no bound either.
        event_clock_max_ms: cycle.clock_ms,
        requests: Arc::new(requests),
        batches: cycle.requests().map(|request| request.batch.map(batch)).collect(),
        clock_ms: cycle.clock_ms.unwrap_or_default(),
        refused: cycle.refused().collect(),
        names: cycle.names.map(Into::into),
        encoded: None,
    })
}

fn request(logged: LoggedRequest<'_>) -> Result<Request, String> {
    match logged.body {
        RequestBody::Block(bytes) => rows_body::block(bytes).map(Request::Block),
        RequestBody::Rows(body) => rows_body::decode(body),
        RequestBody::Remove(objects) => Ok(Request::Remove(objects.iter().collect())),
        RequestBody::Clear => Ok(Request::Clear),
        RequestBody::Rewind => Ok(Request::Rewind),
    }
}
