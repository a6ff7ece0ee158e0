//! What does the oracle learn of?
//!
//! Acknowledged changes and answers, each with what was sent beside what came back. Plain values;
//! the ledger keeps them in order.

use std::sync::Arc;

use crate::error::status_text;
use shoal_codec::{FixColumns, FixRow};
use shoal_engine::Query;
use shoal_proto::v1::{AnswerHeader, BatchResult, FixRecord, RemoveResponse, ReportAck};

/// The rows of one message as the server stores them, poison included.
#[derive(Clone, Debug)]
pub struct SentRows {
    /// The rows; a prepared block is sent many times.
    pub columns: Arc<FixColumns>,
    /// What this sending adds to their times.
    pub shift_ms: i64,
}

impl SentRows {
    /// Row `index` as it was sent.
    #[must_use]
    pub fn row(&self, index: usize) -> FixRow {
        let mut row = self.columns.row(index);
        row.time_ms = row.time_ms.saturating_add(self.shift_ms);
        row
    }
}

/// An ack and the messages that it acknowledges.
#[derive(Clone, Debug)]
pub struct Acked {
    /// The messages `first_message..=last_message` of the ack.
    pub messages: Vec<SentRows>,
    /// What the server said.
    pub ack: ReportAck,
}

/// A removal and its response.
#[derive(Clone, Debug)]
pub struct Removed {
    /// Ids, in order.
    pub objects: Vec<u64>,
    /// What the server said.
    pub response: RemoveResponse,
}

/// The answers to one message of queries.
#[derive(Clone, Debug)]
pub struct Answered {
    /// What was asked.
    pub queries: Arc<[Query]>,
    /// Fleet, term, epoch and clock of the answers.
    pub header: AnswerHeader,
    /// One per query, in order.
    pub answers: Vec<GotAnswer>,
    /// The answers had to be at least at this epoch.
    pub epoch_min: u64,
}

impl Answered {
    /// Bytes that this keeps in memory, about.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let rows = |answer: &GotAnswer| {
            answer.objects.len() * 8 + answer.fixes.len() * size_of::<FixRecord>()
        };
        self.answers.iter().map(|answer| rows(answer) + size_of::<GotAnswer>()).sum()
    }
}

/// One answer, put together from its chunks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GotAnswer {
    /// Objects that match.
    pub total: u64,
    /// Rows were cut off.
    pub truncated: bool,
    /// Ids.
    pub objects: Vec<u64>,
    /// Records beside them.
    pub fixes: Vec<FixRecord>,
    /// Distances beside them.
    pub distance_m: Vec<f64>,
    /// Why there is no answer.
    pub failed: Option<String>,
}

impl GotAnswer {
    /// Adds a chunk; total and truncated stand in the first.
    pub fn push(&mut self, chunk: BatchResult, is_first: bool) {
        if is_first {
            self.total = chunk.total;
            self.truncated = chunk.truncated;
        }
        self.objects.extend(chunk.objects);
        self.fixes.extend(chunk.fixes);
        self.distance_m.extend(chunk.distance_m);
        if let Some(failed) = chunk.error {
            self.failed = Some(status_text(Some(&failed)));
        }
    }
}
