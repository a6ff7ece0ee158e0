//! `PositionService.Report`: a stream of reports, acknowledged in order.
//!
//! One half reads messages, and stops while the queue is full; the other waits for their outcomes
//! and adds them to the log of acknowledgements. Neither waits for the client to read. The stream
//! ends with an error when a fleet that it reported to ends, at its deadline, and at shutdown;
//! accepted messages are acknowledged first.

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use super::ack_log::{AckLog, AckStream};
use super::ack_range::Settled;
use super::deadline::Deadline;
use super::intake::{Intake, PendingReport};
use super::service_context::ServiceContext;
use crate::error::ServiceError;

/// A message that was read.
type Read = Result<PendingReport, ServiceError>;

pub(super) fn report(
    context: &ServiceContext,
    request: Request<Streaming<Bytes>>,
) -> Result<Response<AckStream>, ServiceError> {
    let open = context.open_stream().map_err(|error| context.count(error))?;
    let deadline = Deadline::of(request.metadata());
    let (log, context) = (AckLog::default(), context.clone());
    let acks = log.clone();
    let task = tokio::spawn(async move {
        let (sender, receiver) = mpsc::channel(context.limits.stream_messages_max);
        let reading = read(&context, request.into_inner(), deadline, sender);
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

/// Reads messages until the stream ends; returns its status.
async fn read(
    context: &ServiceContext,
    mut messages: Streaming<Bytes>,
    deadline: Deadline,
    sender: mpsc::Sender<Read>,
) -> Result<Result<(), Status>, ServiceError> {
    let mut intake = Intake::new(context.registry.clone());
    loop {
        let message = tokio::select! {
            biased;
            () = context.stopped() => return Ok(Err(ServiceError::ShuttingDown.into())),
            () = deadline.passed() => return Ok(Err(ServiceError::Deadline.into())),
            error = intake.fleet_ended() => return Ok(Err(error.into())),
            message = messages.message() => message,
        };
        let bytes = match message {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Ok(())),
            Err(status) => return Ok(Err(status)),
        };
        let read = accept(&mut intake, bytes).await;
        if sender.send(read).await.is_err() {
            // The other half has ended with an error.
            return Ok(Ok(()));
        }
    }
}

async fn accept(intake: &mut Intake, bytes: Bytes) -> Read {
    let report = intake.parse(bytes)?;
    let permit = report.fleet.reserve(report.rows()).await?;
    report.send(permit).await
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

/// The end of a fleet ends the streams that report to it. So does a full disk, since a message that
/// waits for it is applied: its client connects again and repeats what was not acknowledged. Other
/// errors concern one message.
fn ends_stream(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::FleetDeleted(_)
            | ServiceError::FleetFailed(_)
            | ServiceError::LogSpace { .. }
            | ServiceError::ShuttingDown
    )
}
