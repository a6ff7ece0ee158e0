//! How do many rows get to a server, acknowledged, without more in memory than the queue?
//!
//! One `Report` stream. Requests go in through a short queue that the server's flow control backs
//! up into; a task reads the acknowledgements into a tally. Whoever waits does so while there is
//! progress.

use shoal_proto::v1;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

use super::connection::Connection;
use super::tally::Tally;
use crate::cli::error::CliError;

/// Requests between who makes them and the connection.
const QUEUE_MESSAGES: usize = 4;

/// A stream of reports under way.
#[derive(Debug)]
pub struct ReportStream {
    connection: Connection,
    requests: mpsc::Sender<v1::ReportRequest>,
    tally: watch::Receiver<Tally>,
    reader: JoinHandle<Result<(), CliError>>,
}

impl ReportStream {
    /// Opens a stream. A refusal shows with the first request or at the end.
    #[must_use]
    pub fn open(connection: &Connection) -> Self {
        let (requests, queue) = mpsc::channel(QUEUE_MESSAGES);
        let (writer, tally) = watch::channel(Tally::default());
        let mut positions = connection.positions();
        let reader = tokio::spawn(async move {
            let mut acks = positions.report(ReceiverStream::new(queue)).await?.into_inner();
            while let Some(ack) = acks.message().await? {
                writer.send_modify(|tally| tally.add(ack.ack.unwrap_or_default()));
            }
            Ok(())
        });
        Self { connection: connection.clone(), requests, tally, reader }
    }

    /// The acknowledgements so far.
    #[must_use]
    pub fn tally(&self) -> watch::Receiver<Tally> {
        self.tally.clone()
    }

    /// Sends one message; waits while the server is behind.
    ///
    /// # Errors
    /// What ended the stream, or [`CliError::Silent`] when nothing moves for the timeout.
    pub async fn send(&mut self, request: v1::ReportRequest) -> Result<(), CliError> {
        let sent = tokio::time::timeout(self.connection.timeout(), self.requests.send(request));
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => match (&mut self.reader).await {
                Ok(Err(error)) => Err(error),
                _ => Err(CliError::Answer("the stream of reports ended early".to_owned())),
            },
            Err(_) => Err(self.connection.silent()),
        }
    }

    /// Ends the stream and waits until everything is acknowledged.
    ///
    /// # Errors
    /// As [`ReportStream::send`].
    pub async fn finish(self) -> Result<Tally, CliError> {
        let Self { connection, requests, mut tally, mut reader } = self;
        drop(requests);
        loop {
            tokio::select! {
                ended = &mut reader => {
                    let lost = |error| CliError::Answer(format!("reading stopped: {error}"));
                    ended.map_err(lost)??;
                    return Ok(tally.borrow().clone());
                }
                // An error here means that the reader is about to end.
                Ok(()) = tally.changed() => {}
                () = tokio::time::sleep(connection.timeout()) => return Err(connection.silent()),
            }
        }
    }
}
