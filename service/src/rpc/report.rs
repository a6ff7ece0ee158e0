//! `PositionService.Report`: a stream of reports, acknowledged in order.
//!
//! One half reads, and stops reading while the queue is full; the other waits for what was sent and
//! notes it in the log of acknowledgements. Neither waits for the client to read. The stream ends
//! with an error when a fleet it is sending to goes away, at its deadline, and when the server goes
//! down; what was accepted is acknowledged first.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use super::ack_log::{AckLog, AckStream};
use super::ack_range::Settled;
use super::deadline::Deadline;
use super::door::Door;
use super::intake::{Intake, UnderWay};
use crate::error::ServiceError;

/// A message that was read, in its turn.
type Read = Result<UnderWay, ServiceError>;

pub(super) fn report(
    door: &Arc<Door>,
    request: Request<Streaming<Bytes>>,
) -> Result<Response<AckStream>, Status> {
    let open = door.open_stream().map_err(|error| door.count(error))?;
    let deadline = Deadline::of(request.metadata());
    let (log, door) = (AckLog::default(), door.clone());
    let acks = log.clone();
    let task = tokio::spawn(async move {
        let (sender, receiver) = mpsc::channel(door.limits.stream_messages_max);
        let reading = read(&door, request.into_inner(), deadline, sender);
        let settling = settle(receiver, &acks);
        let end = match tokio::try_join!(reading, settling) {
            Ok((end, ())) => end,
            Err(gone) => Err(gone.into()),
        };
        drop(open);
        acks.close(end);
    });
    Ok(Response::new(log.stream(task)))
}

/// Reads until the client ends the stream or there is a reason to stop; says how the stream ends.
async fn read(
    door: &Arc<Door>,
    mut messages: Streaming<Bytes>,
    deadline: Deadline,
    sender: mpsc::Sender<Read>,
) -> Result<Result<(), Status>, ServiceError> {
    let mut intake = Intake::new(door.clone());
    loop {
        let message = tokio::select! {
            biased;
            () = door.stopped() => return Ok(Err(ServiceError::ShuttingDown.into())),
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
            // The other half ended with the reason.
            return Ok(Ok(()));
        }
    }
}

async fn accept(intake: &mut Intake, bytes: Bytes) -> Read {
    let understood = intake.understand(bytes)?;
    let permit = understood.fleet.reserve(understood.rows()).await?;
    understood.send(permit).await
}

/// Notes what becomes of each message, in order.
async fn settle(mut receiver: mpsc::Receiver<Read>, acks: &AckLog) -> Result<(), ServiceError> {
    let mut message = 0;
    while let Some(read) = receiver.recv().await {
        message += 1;
        let settled = match read {
            Ok(under_way) => under_way.settled().await?,
            Err(error) if ends_stream(&error) => return Err(error),
            Err(error) => Settled::Failed(error),
        };
        acks.add(message, settled);
    }
    Ok(())
}

/// A fleet that went away ends the streams that send to it; all else is one message's affair.
fn ends_stream(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::FleetDeleted(_) | ServiceError::FleetFailed(_) | ServiceError::ShuttingDown
    )
}
