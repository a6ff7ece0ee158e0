//! Reads the acks of a connection on arrival, so that the server rarely merges them.
//!
//! Each ack settles the oldest reports in flight. An ack that does not continue the previous range
//! is a protocol error. The client's `ReportStream` is not used, because it gives only totals and
//! sends unacknowledged messages again. A measurement needs every ack with its arrival time, and
//! must end if the stream breaks.

use std::sync::Arc;

use shoal_client::v1::{ReportAck, RowCounts};
use shoal_client::{Client, add_counts, rows_total};
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;

use super::sender::SentReport;
use super::wire::{REPORT_PATH, ReportCodec, ReportMessage};
use crate::InFlight;
use crate::error::{LoadError, status_text};
use crate::measure::Latency;
use crate::names::name_of;
use crate::query::SeenObjects;
use crate::session::Session;
use crate::verify::{Acked, SentRows};

/// Sums over the acks of a connection.
#[derive(Clone, Debug, Default)]
pub struct ReportTally {
    /// Latencies of the messages sent while the clock ran, from their intended send times.
    pub latency: Latency,
    /// The same from the actual send times.
    pub latency_sent: Latency,
    /// Rows of these messages by outcome.
    pub rows: RowCounts,
    /// Messages that failed as a whole.
    pub failed_messages: u64,
    /// Causes of the first failures.
    pub failures: Vec<String>,
    /// Arrival of the last ack.
    pub last_ack: Option<Instant>,
}

/// Maximum number of listed failures.
const FAILURES_LISTED_MAX: usize = 3;

/// Reads one connection's acks.
#[derive(Debug)]
pub struct AckReader {
    session: Arc<Session>,
    connection: u32,
    in_flight: Arc<InFlight<SentReport>>,
    /// Receives ids of acknowledged rows whose names have numbers, if numbers are learned.
    seen: Arc<SeenObjects>,
    next_message: u64,
    tally: ReportTally,
}

impl AckReader {
    /// A reader for the reports that are pushed to `in_flight`.
    #[must_use]
    pub fn new(
        session: Arc<Session>,
        connection: u32,
        in_flight: Arc<InFlight<SentReport>>,
        seen: Arc<SeenObjects>,
    ) -> Self {
        let tally = ReportTally::default();
        Self { session, connection, in_flight, seen, next_message: 1, tally }
    }

    /// Opens the stream of reports and reads acks until the server ends it.
    ///
    /// # Errors
    /// [`LoadError::Call`] if the stream breaks, [`LoadError::Protocol`] for acks out of order or
    /// reports without one.
    pub async fn run(
        mut self,
        client: Client,
        messages: impl tokio_stream::Stream<Item = ReportMessage> + Send + 'static,
    ) -> Result<ReportTally, LoadError> {
        let failed = || LoadError::call("Report");
        let mut grpc = Grpc::new(client.channel());
        let ready = grpc.ready().await;
        let unavailable =
            |error: tonic::transport::Error| tonic::Status::unavailable(error.to_string());
        ready.map_err(unavailable).map_err(failed())?;
        let path = PathAndQuery::from_static(REPORT_PATH);
        let request = tonic::Request::new(messages);
        let response = grpc.streaming(request, path, ReportCodec).await.map_err(failed())?;
        let mut acks = response.into_inner();
        while let Some(response) = acks.message().await.map_err(failed())? {
            self.settle(&client, response.ack.unwrap_or_default()).await?;
        }
        match self.in_flight.len() {
            0 => Ok(self.tally),
            left => Err(LoadError::Protocol(format!(
                "the stream of reports ended with {left} messages not acknowledged"
            ))),
        }
    }

    /// Processes one ack.
    async fn settle(&mut self, client: &Client, ack: ReportAck) -> Result<(), LoadError> {
        let now = Instant::now();
        let (first, last) = (ack.first_message, ack.last_message);
        if first != self.next_message || last < first {
            return Err(LoadError::Protocol(format!(
                "ack of messages {first} to {last}, though {} is next",
                self.next_message
            )));
        }
        self.next_message = last + 1;
        let mut messages = Vec::new();
        let (mut rows, mut is_preload, mut earliest) = (0, false, None);
        for number in first..=last {
            let sent = self.in_flight.pop().ok_or_else(|| {
                LoadError::Protocol(format!("ack of message {number}, which was never sent"))
            })?;
            rows += u64::from(sent.rows);
            is_preload = sent.is_preload;
            earliest = earliest.or((!is_preload).then_some(sent.intended));
            self.measure(&sent, now);
            messages.extend(sent.columns);
        }
        let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
        self.count(&ack, rows, is_preload, now)?;
        if let Some(times) = &self.session.times {
            times.acked(self.connection, count, ack.first_epoch..=ack.epoch, earliest);
        }
        self.learn_numbers(client, &messages).await?;
        if let Some(verifier) = &self.session.verifier {
            verifier.ledger.acked(self.connection, Acked { messages, ack });
        }
        self.in_flight.release(count);
        Ok(())
    }

    /// Asks the server for the numbers of the names of acknowledged rows.
    async fn learn_numbers(&self, client: &Client, messages: &[SentRows]) -> Result<(), LoadError> {
        let Some(names) = self.session.names.as_ref().filter(|_| self.session.learns_numbers())
        else {
            return Ok(());
        };
        for message in messages {
            let objects = &message.columns.object;
            let unknown = names.unknown(objects);
            let texts: Vec<String> = unknown.iter().map(|object| name_of(*object)).collect();
            let numbers = client.resolve(&self.session.fleet, &texts).await;
            let numbers = numbers.map_err(LoadError::call("Resolve"))?;
            // Refused rows add no names.
            let numbered = numbers.into_iter().zip(texts).filter(|(number, _)| *number > 0);
            let (numbers, texts): (Vec<u64>, Vec<String>) = numbered.unzip();
            if let Some(text) = names.learn(&numbers, &texts) {
                return Err(LoadError::Protocol(text));
            }
            let known: Vec<u64> = names.known_of(objects);
            self.seen.add(known.into_iter());
        }
        Ok(())
    }

    fn measure(&mut self, sent: &SentReport, now: Instant) {
        self.session.counters.reports_in_flight.sub(1);
        if !sent.is_preload {
            self.tally.latency.record(now - sent.intended, 1);
            self.tally.latency_sent.record(now - sent.sent, 1);
        }
    }

    /// Counts an ack of `sent_rows` rows.
    fn count(
        &mut self,
        ack: &ReportAck,
        sent_rows: u64,
        is_preload: bool,
        now: Instant,
    ) -> Result<(), LoadError> {
        let counters = &self.session.counters;
        counters.arrivals.add(1);
        let rows = ack.rows.unwrap_or_default();
        let counted = rows_total(&rows);
        if counted != sent_rows && ack.failed_messages == 0 {
            return Err(LoadError::Protocol(format!(
                "ack of messages {} to {} counts {counted} rows, {sent_rows} were sent",
                ack.first_message, ack.last_message
            )));
        }
        self.tally.failed_messages += ack.failed_messages;
        for failed in &ack.failed {
            if self.tally.failures.len() < FAILURES_LISTED_MAX {
                self.tally.failures.push(status_text(failed.status.as_ref()));
            }
        }
        if is_preload {
            counters.preloaded.add(counted);
            return Ok(());
        }
        counters.rows.add(counted);
        counters.refused.add(rows.refused);
        add_counts(&mut self.tally.rows, &rows);
        self.tally.last_ack = Some(now);
        Ok(())
    }
}
