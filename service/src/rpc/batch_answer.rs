//! Streams the answers to one batch message.
//!
//! Results fill chunks in the order of the queries. A large result spans several chunks under one
//! query number; its first piece has the total and the truncation flag. The first chunk of a
//! message has the header.

use shoal_proto::v1::{AnswerHeader, BatchResponse, BatchResult};

use super::batch::AnsweredMessage;
use super::chunk_stream::{ChunkSender, ChunkStream, NotTaken};
use super::query_answer::header;
use super::records::{StoredRows, row_bytes_max};
use crate::error::ServiceError;
use crate::fleet::{Fleet, JobAnswers};
use crate::limits::CHUNK_BYTES_TARGET;
use crate::status::rpc_status;

/// The chunks of all answers of a stream.
pub type BatchStream = ChunkStream<BatchResponse>;

/// Most encoded bytes of a result without its rows: number, total, flag, and the frames of four
/// lists.
const RESULT_BYTES: usize = 56;

/// A chunk being filled.
struct Chunk<'a> {
    message: u64,
    header: Option<AnswerHeader>,
    results: Vec<BatchResult>,
    bytes: usize,
    sender: &'a ChunkSender<BatchResponse>,
}

impl Chunk<'_> {
    fn free_bytes(&self) -> usize {
        CHUNK_BYTES_TARGET.saturating_sub(self.bytes)
    }

    fn push(&mut self, result: BatchResult, row_bytes: usize) {
        let detail_bytes = result.error.as_ref().map_or(0, prost::Message::encoded_len);
        self.bytes += RESULT_BYTES + result.objects.len() * row_bytes + detail_bytes;
        self.results.push(result);
    }

    async fn flush(&mut self, last: bool) -> Result<(), NotTaken> {
        self.bytes = 0;
        let (header, results) = (self.header.take(), std::mem::take(&mut self.results));
        let (message, error) = (self.message, None);
        self.sender.send(BatchResponse { message, header, results, last, error }).await
    }
}

/// Sends the answers of a message.
pub(super) async fn send_message(
    message: u64,
    answered: AnsweredMessage,
    sender: &ChunkSender<BatchResponse>,
) -> Result<(), NotTaken> {
    let AnsweredMessage { query_context, answer, failures } = answered;
    let header = Some(header(&query_context, &answer.answered, None));
    let mut chunk = Chunk { message, header, results: Vec::new(), bytes: 0, sender };
    let mut index = 0;
    for (query, failure) in failures.into_iter().enumerate() {
        let query = query as u32;
        if let Some(error) = failure {
            let error = Some(rpc_status(error));
            chunk.push(BatchResult { query, error, ..Default::default() }, 0);
        } else {
            send_answer(query, index, &query_context.fleet, &answer.answered, &mut chunk).await?;
            index += 1;
        }
        if chunk.free_bytes() == 0 {
            chunk.flush(false).await?;
        }
    }
    chunk.flush(true).await
}

async fn send_answer(
    query: u32,
    index: usize,
    fleet: &Fleet,
    answered: &JobAnswers,
    chunk: &mut Chunk<'_>,
) -> Result<(), NotTaken> {
    let row_bytes = row_bytes_max(fleet, &answered.get(index));
    let rows = answered.get(index).objects.len();
    let mut from = 0;
    // The first piece may be empty when the chunk is nearly full.
    let mut is_first = true;
    loop {
        let answer = answered.get(index);
        let to = rows.min(from + chunk.free_bytes() / row_bytes);
        let piece = StoredRows::<AnswerHeader>::of(fleet, None, &answer, from..to);
        let total = if is_first { answer.total } else { 0 };
        let truncated = is_first && answer.truncated;
        let result = BatchResult {
            query,
            total,
            truncated,
            fixes: piece.records(),
            objects: piece.objects,
            distance_m: piece.distance_m,
            names: piece.names,
            error: None,
        };
        chunk.push(result, row_bytes);
        (from, is_first) = (to, false);
        if from == rows {
            return Ok(());
        }
        chunk.flush(false).await?;
    }
}

/// Reports that a message failed as a whole.
pub(super) async fn send_failure(
    message: u64,
    error: ServiceError,
    sender: &ChunkSender<BatchResponse>,
) -> Result<(), NotTaken> {
    let error = Some(rpc_status(error));
    sender.send(BatchResponse { message, last: true, error, ..Default::default() }).await
}
