//! What came back for the queries of a connection?
//!
//! Reads a Batch stream, puts answers together from their chunks, measures, and hands those that
//! are to be compared to the verifier. Answers come in the order of the messages; anything else
//! breaks the protocol.

use std::sync::Arc;

use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_proto::v1::{AnswerHeader, BatchRequest, BatchResponse, BatchResult};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::asker::{Asked, Pending, ToVerify};
use crate::error::{LoadError, status_text};
use crate::limits::ANSWER_BYTES_MAX;
use crate::measure::Latency;
use crate::session::Session;
use crate::verify::{Answered, GotAnswer};

/// What a connection's answers were.
#[derive(Clone, Debug, Default)]
pub struct QuestionTally {
    /// Latency of each query: its message's, from the intended moment.
    pub latency: Latency,
    /// The same from the moment of sending.
    pub latency_sent: Latency,
    /// Queries that got an answer.
    pub queries: u64,
    /// Queries that failed.
    pub failed: u64,
    /// Why the first of them did.
    pub failures: Vec<String>,
    /// Rows in all answers.
    pub rows: u64,
    /// When the last answer was complete.
    pub last_answer: Option<Instant>,
}

/// Failures that are kept to be told.
const FAILURES_TOLD_MAX: usize = 3;

impl QuestionTally {
    /// Counts a failure of `queries` queries.
    pub fn fail(&mut self, queries: u64, failed: &tonic_types::Status) {
        self.failed += queries;
        if self.failures.len() < FAILURES_TOLD_MAX {
            self.failures.push(status_text(Some(failed)));
        }
    }
}

/// Reads one connection's answers.
#[derive(Debug)]
pub struct AnswerReader {
    session: Arc<Session>,
    connection: u32,
    pending: Arc<Pending>,
    message: u64,
    /// Header of the message whose chunks are arriving.
    header: Option<AnswerHeader>,
    /// Its answers so far, when they are compared.
    answers: Vec<GotAnswer>,
    /// Its queries begun so far.
    begun: u32,
    current: Option<Asked>,
    tally: QuestionTally,
}

impl AnswerReader {
    /// A reader for the messages that are put into `pending`.
    #[must_use]
    pub fn new(session: Arc<Session>, connection: u32, pending: Arc<Pending>) -> Self {
        Self {
            session,
            connection,
            pending,
            message: 1,
            header: None,
            answers: Vec::new(),
            begun: 0,
            current: None,
            tally: QuestionTally::default(),
        }
    }

    /// Opens the stream and reads answers until the server ends it.
    ///
    /// # Errors
    /// [`LoadError::Call`] when the stream breaks, [`LoadError::Protocol`] for answers out of order
    /// or messages that never got one.
    pub async fn run(
        mut self,
        channel: Channel,
        requests: impl tokio_stream::Stream<Item = BatchRequest> + Send + 'static,
    ) -> Result<QuestionTally, LoadError> {
        let mut client =
            QueryServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let response = client.batch(requests).await.map_err(LoadError::call("Batch"))?;
        let mut chunks = response.into_inner();
        while let Some(chunk) = chunks.message().await.map_err(LoadError::call("Batch"))? {
            self.session.counters.arrivals.add(1);
            self.chunk(chunk)?;
        }
        if self.current.is_some() || self.pending.pop().is_some() {
            let problem = "the stream of queries ended with messages not answered";
            return Err(LoadError::Protocol(problem.to_owned()));
        }
        Ok(self.tally)
    }

    fn chunk(&mut self, chunk: BatchResponse) -> Result<(), LoadError> {
        if chunk.message != self.message {
            return Err(LoadError::Protocol(format!(
                "answers to message {}, though {} is next",
                chunk.message, self.message
            )));
        }
        if self.current.is_none() {
            self.current = Some(self.pending.pop().ok_or_else(|| {
                LoadError::Protocol(format!("answers to message {}, never sent", chunk.message))
            })?);
            self.header = chunk.header;
            self.begun = 0;
        }
        for result in chunk.results {
            self.result(result)?;
        }
        if let Some(failed) = &chunk.error {
            return self.whole_failed(failed);
        }
        if chunk.last { self.complete() } else { Ok(()) }
    }

    /// Takes one piece of an answer.
    fn result(&mut self, result: BatchResult) -> Result<(), LoadError> {
        let asked = self.current.as_ref().expect("set with the first chunk");
        let is_first = result.query == self.begun;
        let is_more = result.query + 1 == self.begun;
        if !(is_first || is_more) || u64::from(result.query) >= asked.queries {
            return Err(LoadError::Protocol(format!(
                "an answer to query {} of message {}, {} is next of {}",
                result.query, self.message, self.begun, asked.queries
            )));
        }
        self.begun += u32::from(is_first);
        self.tally.rows += result.objects.len() as u64;
        if let Some(failed) = &result.error {
            self.tally.fail(1, failed);
        }
        if asked.to_verify.is_some() {
            if is_first {
                self.answers.push(GotAnswer::default());
            }
            let answer = self.answers.last_mut().expect("pushed with its first piece");
            answer.push(result, is_first);
        }
        Ok(())
    }

    /// The message as a whole failed.
    fn whole_failed(&mut self, failed: &tonic_types::Status) -> Result<(), LoadError> {
        let asked = self.next_message();
        self.tally.fail(asked.queries, failed);
        self.answers.clear();
        if let (Some(verifier), Some(_)) = (&self.session.verifier, asked.to_verify) {
            verifier.ledger.answered(self.connection, None);
        }
        Ok(())
    }

    /// All answers of the message have arrived.
    fn complete(&mut self) -> Result<(), LoadError> {
        let now = Instant::now();
        let asked = self.next_message();
        if u64::from(self.begun) != asked.queries {
            return Err(LoadError::Protocol(format!(
                "{} answers to the {} queries of message {}",
                self.begun,
                asked.queries,
                self.message - 1
            )));
        }
        self.tally.latency.record(now - asked.intended, asked.queries);
        self.tally.latency_sent.record(now - asked.sent, asked.queries);
        self.tally.queries += asked.queries;
        self.tally.last_answer = Some(now);
        self.session.counters.queries.add(asked.queries);
        let answers = std::mem::take(&mut self.answers);
        if let (Some(verifier), Some(to_verify)) = (&self.session.verifier, asked.to_verify) {
            let header = self.header.take().ok_or_else(|| {
                LoadError::Protocol("answers without a header that names their epoch".to_owned())
            })?;
            let ToVerify { queries, epoch_min } = to_verify;
            let answered = Answered { queries, header, answers, epoch_min };
            verifier.answered(self.connection, answered);
        }
        Ok(())
    }

    fn next_message(&mut self) -> Asked {
        self.message += 1;
        self.session.counters.questions_in_flight.sub(1);
        self.current.take().expect("set with the first chunk")
    }
}
