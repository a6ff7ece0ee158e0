//! The reading half of a Batch stream: assembles answers, measures latencies, and passes selected
//! answers to the verifier.

use std::sync::Arc;

use shoal_client::v1::{BatchRequest, BatchResponse};
use shoal_client::{BatchReader, Client, ServerError};
use tokio::time::Instant;

use super::query_sender::{SentQueries, ToVerify};
use crate::InFlight;
use crate::error::LoadError;
use crate::measure::Latency;
use crate::session::Session;
use crate::verify::Answered;

/// The answers of a connection.
#[derive(Clone, Debug, Default)]
pub struct QueryTally {
    /// Latency of each query, measured for its message from the intended send time.
    pub latency: Latency,
    /// The same from the actual send time.
    pub latency_sent: Latency,
    /// Queries that were answered.
    pub queries: u64,
    /// Queries that failed.
    pub failed: u64,
    /// Causes of the first failures.
    pub failures: Vec<String>,
    /// Rows in all answers.
    pub rows: u64,
    /// Completion time of the last answer.
    pub last_answer: Option<Instant>,
}

/// Maximum number of listed failures.
const FAILURES_LISTED_MAX: usize = 3;

impl QueryTally {
    /// Counts a failure of `queries` queries.
    pub fn fail(&mut self, queries: u64, error: &ServerError) {
        self.failed += queries;
        if self.failures.len() < FAILURES_LISTED_MAX {
            self.failures.push(error.to_string());
        }
    }

    /// Counts answered queries.
    pub fn answer(&mut self, queries: u64, intended: Instant, sent: Instant) {
        let now = Instant::now();
        self.latency.record(now - intended, queries);
        self.latency_sent.record(now - sent, queries);
        self.queries += queries;
        self.last_answer = Some(now);
    }
}

/// Reads one connection's answers.
#[derive(Debug)]
pub struct AnswerReader {
    session: Arc<Session>,
    connection: u32,
    in_flight: Arc<InFlight<SentQueries>>,
    reader: BatchReader,
    /// The message whose answers are arriving.
    current: Option<SentQueries>,
    tally: QueryTally,
}

impl AnswerReader {
    /// A reader for the messages that are pushed to `in_flight`.
    #[must_use]
    pub fn new(
        session: Arc<Session>,
        connection: u32,
        in_flight: Arc<InFlight<SentQueries>>,
    ) -> Self {
        let (reader, tally) = (BatchReader::new(false), QueryTally::default());
        Self { session, connection, in_flight, reader, current: None, tally }
    }

    /// Opens the stream and reads answers until the server ends it.
    ///
    /// # Errors
    /// [`LoadError::Call`] if the stream breaks, [`LoadError::Protocol`] for answers out of order
    /// or messages without answer.
    pub async fn run(
        mut self,
        client: Client,
        requests: impl tokio_stream::Stream<Item = BatchRequest> + Send + 'static,
    ) -> Result<QueryTally, LoadError> {
        let response = client.query_service().batch(requests).await;
        let mut chunks = response.map_err(LoadError::call("Batch"))?.into_inner();
        while let Some(chunk) = chunks.message().await.map_err(LoadError::call("Batch"))? {
            self.session.counters.arrivals.add(1);
            self.read(chunk)?;
        }
        if self.current.is_some() || !self.in_flight.is_empty() {
            let problem = "the stream of queries ended before the last answer";
            return Err(LoadError::Protocol(problem.to_owned()));
        }
        Ok(self.tally)
    }

    fn read(&mut self, chunk: BatchResponse) -> Result<(), LoadError> {
        if self.current.is_none() {
            let number = chunk.message;
            let sent = self.in_flight.pop().ok_or_else(|| {
                LoadError::Protocol(format!("answers to message {number}, which was never sent"))
            })?;
            self.in_flight.release(1);
            self.reader.keep_rows(sent.to_verify.is_some());
            self.current = Some(sent);
        }
        let rows = chunk.results.iter().map(|result| result.objects.len() as u64);
        self.tally.rows += rows.sum::<u64>();
        let Some(answer) = self.reader.read(chunk)? else { return Ok(()) };
        let sent = self.current.take().expect("set with the first chunk");
        self.session.counters.query_messages_in_flight.sub(1);
        for error in answer.answers.iter().filter_map(|answer| answer.error.as_ref()) {
            self.tally.fail(1, error);
        }
        let verifier = self.session.verifier.as_ref().zip(sent.to_verify);
        let Some(header) = answer.header.filter(|_| answer.error.is_none()) else {
            answer.error.iter().for_each(|error| self.tally.fail(sent.queries, error));
            if let Some((verifier, _)) = verifier {
                verifier.ledger.answered(self.connection, None);
            }
            return Ok(());
        };
        let count = answer.answers.len();
        if count as u64 != sent.queries {
            let queries = sent.queries;
            return Err(LoadError::Protocol(format!("{count} answers to {queries} queries")));
        }
        self.tally.answer(sent.queries, sent.intended, sent.sent);
        self.session.counters.queries.add(sent.queries);
        if let Some((verifier, ToVerify { queries, epoch_min })) = verifier {
            let answered = Answered { queries, header, answers: answer.answers, epoch_min };
            verifier.answered(self.connection, answered);
        }
        Ok(())
    }
}
