//! Streams of reports: the caller sends messages and reads sums of the acknowledgements.
//!
//! A task of `report_worker` exchanges them with the server; [`ReportStream`] is its handle.

use std::time::Duration;

use shoal_proto::v1;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::block::EncodedBlock;
use crate::client::Client;
use crate::error::Error;
use crate::report_worker::Worker;
use crate::totals::AckTotals;

/// Messages between the caller and the connection.
const QUEUE_MESSAGES: usize = 4;
/// Random bytes of a producer name that the client chooses.
const PRODUCER_BYTES: usize = 16;

/// The content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// Plain rows.
    Rows(Vec<v1::Fix>),
    /// A block, as [`crate::BlockEncoder`] gives it.
    Block(EncodedBlock),
}

/// Parses a durability: `applied` or `logged`.
///
/// # Errors
/// Any other text.
pub fn parse_durability(text: &str) -> Result<v1::Durability, String> {
    match text {
        "applied" => Ok(v1::Durability::Applied),
        "logged" => Ok(v1::Durability::Logged),
        _ => Err(format!("durability `{text}` is neither applied nor logged")),
    }
}

/// Settings of a stream of reports.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// The fleet; empty means `default`.
    pub fleet: String,
    /// The name under which messages are numbered and, after a broken connection, sent again
    /// without being applied twice. `None`: messages are not numbered, and a broken connection
    /// ends the stream. One stream at a time may use a name.
    pub producer: Option<String>,
    /// The number of the first message: 1 for a new producer.
    pub first_batch_seq: u64,
    /// Maximum number of unacknowledged messages, clamped to 1 to 256. They are kept in memory so
    /// that they can be sent again. Has no effect without `producer`.
    pub in_flight_max: usize,
    /// How long to try to connect again after a broken connection.
    pub retry_for: Duration,
    /// Durability of acknowledgements; `Unspecified` selects the default of the fleet.
    pub durability: v1::Durability,
    /// Whether a measure of [`ReportStream::send_rows`] that cannot be stored is dropped, and
    /// counted, instead of its row.
    pub drop_invalid_measures: bool,
}

impl Default for ReportOptions {
    /// The fleet `default`, and a producer with a random name.
    fn default() -> Self {
        Self {
            fleet: String::new(),
            producer: Some(random_name()),
            first_batch_seq: 1,
            in_flight_max: 64,
            retry_for: Duration::from_secs(30),
            durability: v1::Durability::Unspecified,
            drop_invalid_measures: false,
        }
    }
}

impl ReportOptions {
    /// A numbered stream to `fleet`.
    #[must_use]
    pub fn new(fleet: &str) -> Self {
        Self { fleet: fleet.to_owned(), ..Self::default() }
    }

    /// A stream to `fleet` whose messages are not numbered.
    #[must_use]
    pub fn unnumbered(fleet: &str) -> Self {
        Self { producer: None, ..Self::new(fleet) }
    }
}

/// A stream of reports to one fleet. Messages are pipelined; a task reads acknowledgements.
///
/// When a stream is dropped, its queued messages are sent in the background;
/// [`ReportStream::finish`] waits for them.
///
/// Numbered messages (see [`ReportOptions::producer`]) survive broken connections: the stream
/// connects again and sends every unacknowledged message with its number. A numbered message that
/// the server rejects because of its content (a wrong block, too many rows) is listed in
/// [`AckTotals::failed`], and an empty message takes its number, so that later numbers are
/// accepted.
///
/// The stream ends with an error if the server no longer knows the producer
/// (`PRODUCER_UNKNOWN`: the server was restarted, so acknowledged messages may be lost too) or the
/// fleet was deleted (`FLEET_DELETED`). Then only the caller knows what to send again, in a new
/// stream under a new name.
#[derive(Debug)]
pub struct ReportStream {
    messages: mpsc::Sender<Payload>,
    totals: watch::Receiver<AckTotals>,
    /// `None` after its error was returned.
    worker: Option<JoinHandle<Result<(), Error>>>,
}

impl Client {
    /// Opens a stream of reports. A connection error is returned by a later `send` or by `finish`.
    #[must_use]
    pub fn report(&self, options: ReportOptions) -> ReportStream {
        let (messages, input) = mpsc::channel(QUEUE_MESSAGES);
        let (writer, totals) = watch::channel(AckTotals::default());
        let worker = tokio::spawn(Worker::new(self.clone(), options, input, writer).run());
        ReportStream { messages, totals, worker: Some(worker) }
    }
}

impl ReportStream {
    /// The sums of the acknowledgements so far.
    #[must_use]
    pub fn totals(&self) -> watch::Receiver<AckTotals> {
        self.totals.clone()
    }

    /// Sends rows in one message; waits while the server is behind.
    ///
    /// # Errors
    /// What ended the stream.
    pub async fn send_rows(&mut self, fixes: Vec<v1::Fix>) -> Result<(), Error> {
        self.send(Payload::Rows(fixes)).await
    }

    /// Sends one message; waits while the server is behind.
    ///
    /// # Errors
    /// The error that ended the stream; [`Error::Timeout`] if no message is sent and none is
    /// acknowledged for the client's timeout.
    pub async fn send(&mut self, payload: Payload) -> Result<(), Error> {
        if self.messages.send(payload).await.is_ok() {
            return Ok(());
        }
        Err(self.ended().await.err().unwrap_or_else(early_end))
    }

    /// Ends the stream and waits until every message is acknowledged.
    ///
    /// # Errors
    /// As [`ReportStream::send`].
    pub async fn finish(mut self) -> Result<AckTotals, Error> {
        // Dropping the sender ends the stream.
        self.messages = mpsc::channel(1).0;
        self.ended().await?;
        Ok(self.totals.borrow().clone())
    }

    /// Waits for the end of the stream.
    async fn ended(&mut self) -> Result<(), Error> {
        let worker = self.worker.take().ok_or_else(early_end)?;
        let lost = |error| Error::Protocol(format!("the task of the stream ended: {error}"));
        worker.await.map_err(lost)?
    }
}

fn early_end() -> Error {
    Error::Protocol("the stream of reports ended early".to_owned())
}

/// A name that no other producer has.
fn random_name() -> String {
    let mut bytes = [0; PRODUCER_BYTES];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
