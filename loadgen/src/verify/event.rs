//! Input of the verifier: acknowledged changes and answers, each with the request.

use std::sync::Arc;

use shoal_client::QueryAnswer;
use shoal_codec::FixColumns;
use shoal_engine::Query;
use shoal_proto::v1::{AnswerHeader, FixRecord, RemoveResponse, ReportAck};

/// The rows of one message as the server stores them. Rows that the server refuses are marked as in
/// a block.
#[derive(Clone, Debug)]
pub struct SentRows {
    /// The rows; shared, because a prepared block is sent repeatedly.
    pub columns: Arc<FixColumns>,
    /// Time shift of this send, milliseconds.
    pub shift_ms: i64,
}

impl SentRows {
    /// The rows as sent.
    #[must_use]
    pub fn into_columns(self) -> FixColumns {
        let mut columns = Arc::unwrap_or_clone(self.columns);
        for time_ms in &mut columns.time_ms {
            *time_ms = time_ms.saturating_add(self.shift_ms);
        }
        columns
    }
}

/// An ack and the messages that it acknowledges.
#[derive(Clone, Debug)]
pub struct Acked {
    /// The messages `first_message..=last_message` of the ack.
    pub messages: Vec<SentRows>,
    /// The server's ack.
    pub ack: ReportAck,
}

/// A removal and its response.
#[derive(Clone, Debug)]
pub struct Removed {
    /// Ids, in order.
    pub objects: Vec<u64>,
    /// The server's response.
    pub response: RemoveResponse,
}

/// The answers to one message of queries.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The queries.
    pub queries: Arc<[Query]>,
    /// Fleet, term, epoch and clock of the answers.
    pub header: AnswerHeader,
    /// One per query, in order.
    pub answers: Vec<QueryAnswer>,
    /// The minimum epoch of the request.
    pub epoch_min: u64,
}

impl Answered {
    /// Approximate bytes in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let rows = |answer: &QueryAnswer| {
            answer.objects.len() * 8 + answer.fixes.len() * size_of::<FixRecord>()
        };
        self.answers.iter().map(|answer| rows(answer) + size_of::<QueryAnswer>()).sum()
    }
}
