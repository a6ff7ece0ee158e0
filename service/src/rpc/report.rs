//! `PositionService.Report`: a stream of reports, acknowledged in order.
//!
//! One future reads messages, and pauses while the queue is full; another waits for the outcomes of
//! the messages and adds them to the log of acknowledgements. Neither waits for the client to read.
//! The stream ends with an error when a fleet that it reported to ends, at its deadline, and at
//! shutdown; accepted messages are acknowledged first. The end of the token cuts the stream without
//! these acknowledgements (`access/open_calls.rs`).

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tonic::{Request, Response, Status, Streaming};

use super::ack_log::{AckLog, AckStream};
use super::ack_range::Settled;
use super::deadline::Deadline;
use super::intake::{Intake, PendingReport};
use super::large_message::LargeMessage;
use super::service_context::ServiceContext;
use crate::access::Call;
use crate::error::ServiceError;
use crate::limits::READ_TURN_BYTES;

/// A message that was queued, or the error for which it was refused.
type Read = Result<PendingReport, ServiceError>;

pub(super) fn report(
    context: &ServiceContext,
    request: Request<Streaming<Bytes>>,
) -> Result<Response<AckStream>, ServiceError> {
    let call = Call::of(request.extensions())?;
    let open = context.open_stream(&call)?;
    let deadline = Deadline::of(request.metadata());
    let intake = Intake::new(call, context.clone());
    let large = LargeMessage::of(request.extensions());
    let (log, context) = (AckLog::default(), context.clone());
    let acks = log.clone();
    let task = tokio::spawn(async move {
        let (sender, receiver) = mpsc::channel(context.limits.stream_messages_max);
        let messages = (request.into_inner(), large);
        let mut end = StreamEnd { context: &context, deadline };
        let reading = read(&mut end, intake, messages, sender);
        let settling = settle(receiver, &acks);
        let end = match tokio::try_join!(reading, settling) {
            Ok((end, ())) => end,
            Err(ended) => Err(ended.into()),
        };
        drop(open);
        acks.close(end);
    });
    Ok(Response::new(log.stream(task)))
}

/// The events that end a stream while it waits for a message or for capacity.
struct StreamEnd<'a> {
    context: &'a ServiceContext,
    deadline: Deadline,
}

impl StreamEnd<'_> {
    /// Completes with the reason when the stream has to end.
    async fn reached(&mut self, intake: &mut Intake) -> ServiceError {
        tokio::select! {
            biased;
            () = self.context.stopped() => ServiceError::ShuttingDown,
            () = self.deadline.passed() => ServiceError::Deadline,
            error = intake.fleet_ended() => error,
        }
    }
}

/// Reads messages until the stream ends; returns its status.
async fn read(
    end: &mut StreamEnd<'_>,
    mut intake: Intake,
    (mut messages, large): (Streaming<Bytes>, LargeMessage),
    sender: mpsc::Sender<Read>,
) -> Result<Result<(), Status>, ServiceError> {
    let mut turn_bytes = 0;
    loop {
        // Messages that have arrived are read without a wait between them.
        if turn_bytes >= READ_TURN_BYTES {
            yield_now().await;
            turn_bytes = 0;
        }
        let message = tokio::select! {
            biased;
            error = end.reached(&mut intake) => return Ok(Err(error.into())),
            message = messages.message() => message,
        };
        let bytes = match message {
            Ok(Some(bytes)) => large.take().unwrap_or(bytes),
            Ok(None) => return Ok(Ok(())),
            Err(status) => return Ok(Err(status)),
        };
        turn_bytes += bytes.len();
        let read = match intake.parse(bytes).await {
            Ok(report) => {
                let permit = tokio::select! {
                    biased;
                    error = end.reached(&mut intake) => return Ok(Err(error.into())),
                    permit = report.reserve() => permit,
                };
                match permit {
                    Ok(permit) => report.send(permit).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        // Messages after one whose error ends the stream would be applied and never acknowledged.
        let is_last = read.as_ref().err().is_some_and(ends_stream);
        if sender.send(read).await.is_err() || is_last {
            // `settle` ends with the error, or has ended.
            return Ok(Ok(()));
        }
    }
}

/// Adds the outcome of each message to the log, in order.
async fn settle(mut receiver: mpsc::Receiver<Read>, acks: &AckLog) -> Result<(), ServiceError> {
    let mut message = 0;
    while let Some(read) = receiver.recv().await {
        message += 1;
        let settled = match read {
            Ok(pending) => pending.settled().await?,
            Err(error) if ends_stream(&error) => return Err(error),
            Err(error) => Settled::Failed(error),
        };
        acks.add(message, settled);
    }
    Ok(())
}

/// Whether the error of a refused message ends the stream. The end of a fleet or of its name, a full
/// disk and a shutdown do: the client must then reconnect and repeat all messages that were not
/// acknowledged. Other errors fail one message.
fn ends_stream(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::FleetDeleted(_)
            | ServiceError::FleetRenamed(_)
            | ServiceError::FleetFailed(_)
            | ServiceError::LogSpace { .. }
            | ServiceError::ShuttingDown
    )
}
