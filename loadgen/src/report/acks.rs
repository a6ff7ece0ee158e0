//! What came back for the reports of a connection?
//!
//! Reads acks as soon as they arrive, in a task of its own, so that the server need not merge them.
//! Each ack settles the oldest reports under way; one that does not continue where the last ended
//! breaks the protocol.

use std::sync::Arc;

use shoal_proto::v1::{ReportAck, RowCounts};
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

use super::in_flight::{InFlight, Sent};
use super::wire::{REPORT_PATH, ReportCodec, ReportMessage};
use crate::error::{LoadError, status_text};
use crate::measure::Latency;
use crate::session::Session;
use crate::verify::Acked;

/// What a connection's acks said.
#[derive(Clone, Debug, Default)]
pub struct ReportTally {
    /// Latencies of the messages sent while the clock ran, from their intended moments.
    pub latency: Latency,
    /// The same from the moments of sending: what the server's work took.
    pub latency_sent: Latency,
    /// Rows of these messages by what became of them.
    pub rows: RowCounts,
    /// Messages that were not applied as a whole.
    pub failed_messages: u64,
    /// Why the first of them were not.
    pub failures: Vec<String>,
    /// When the last ack arrived.
    pub last_ack: Option<Instant>,
}

/// Failures that are kept to be told.
const FAILURES_TOLD_MAX: usize = 3;

/// Reads one connection's acks.
#[derive(Debug)]
pub struct AckReader {
    session: Arc<Session>,
    connection: u32,
    in_flight: Arc<InFlight>,
    next_message: u64,
    tally: ReportTally,
}

impl AckReader {
    /// A reader for the reports that are put into `in_flight`.
    #[must_use]
    pub fn new(session: Arc<Session>, connection: u32, in_flight: Arc<InFlight>) -> Self {
        Self { session, connection, in_flight, next_message: 1, tally: ReportTally::default() }
    }

    /// Opens the stream of reports and reads acks until the server ends it.
    ///
    /// # Errors
    /// [`LoadError::Call`] when the stream breaks, [`LoadError::Protocol`] for acks out of order or
    /// reports that never got one.
    pub async fn run(
        mut self,
        channel: Channel,
        messages: impl tokio_stream::Stream<Item = ReportMessage> + Send + 'static,
    ) -> Result<ReportTally, LoadError> {
        let failed = || LoadError::call("Report");
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|error| {
            LoadError::call("Report")(tonic::Status::unavailable(error.to_string()))
        })?;
        let path = PathAndQuery::from_static(REPORT_PATH);
        let request = tonic::Request::new(messages);
        let response = grpc.streaming(request, path, ReportCodec).await.map_err(failed())?;
        let mut acks = response.into_inner();
        while let Some(response) = acks.message().await.map_err(failed())? {
            self.settle(response.ack.unwrap_or_default())?;
        }
        match self.in_flight.len() {
            0 => Ok(self.tally),
            left => Err(LoadError::Protocol(format!(
                "the stream of reports ended with {left} messages not acknowledged"
            ))),
        }
    }

    /// Takes one ack in.
    fn settle(&mut self, ack: ReportAck) -> Result<(), LoadError> {
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
            times.acked(self.connection, count, (ack.first_epoch, ack.epoch), earliest);
        }
        if let Some(verifier) = &self.session.verifier {
            verifier.ledger.acked(self.connection, Acked { messages, ack });
        }
        self.in_flight.release(count);
        Ok(())
    }

    fn measure(&mut self, sent: &Sent, now: Instant) {
        self.session.counters.reports_in_flight.sub(1);
        if !sent.is_preload {
            self.tally.latency.record(now - sent.intended, 1);
            self.tally.latency_sent.record(now - sent.sent, 1);
        }
    }

    /// Adds an ack of `sent_rows` rows up.
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
        let told = rows.applied + rows.duplicate + rows.superseded + rows.late + rows.refused;
        if told != sent_rows && ack.failed_messages == 0 {
            return Err(LoadError::Protocol(format!(
                "ack of messages {} to {} counts {told} rows, {sent_rows} were sent",
                ack.first_message, ack.last_message
            )));
        }
        self.tally.failed_messages += ack.failed_messages;
        for failed in &ack.failed {
            if self.tally.failures.len() < FAILURES_TOLD_MAX {
                self.tally.failures.push(status_text(failed.status.as_ref()));
            }
        }
        if is_preload {
            counters.preloaded.add(told);
            return Ok(());
        }
        counters.rows.add(told);
        counters.refused.add(rows.refused);
        let sum = &mut self.tally.rows;
        sum.applied += rows.applied;
        sum.duplicate += rows.duplicate;
        sum.superseded += rows.superseded;
        sum.late += rows.late;
        sum.refused += rows.refused;
        self.tally.last_ack = Some(now);
        Ok(())
    }
}
