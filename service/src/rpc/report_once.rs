//! `PositionService.ReportOnce`: one report, one acknowledgement.
//!
//! Never waits for room: a full queue is RESOURCE_EXHAUSTED with the time to try again. What is
//! wrong with the message is the status of the call.

use std::sync::Arc;

use bytes::Bytes;
use shoal_proto::v1::ReportOnceResponse;
use tonic::{Request, Response, Status};

use super::ack_range::{AckRange, Settled};
use super::deadline::Deadline;
use super::door::Door;
use super::intake::Intake;
use crate::error::ServiceError;

pub(super) async fn report_once(
    door: &Arc<Door>,
    request: Request<Bytes>,
) -> Result<Response<ReportOnceResponse>, Status> {
    let deadline = Deadline::of(request.metadata());
    let bytes = request.into_inner();
    let settled = deadline.bound(settle(door, bytes)).await.map_err(|error| door.count(error))?;
    let mut range = AckRange::default();
    range.add(1, settled);
    Ok(Response::new(ReportOnceResponse { ack: Some(range.into_ack()) }))
}

async fn settle(door: &Arc<Door>, bytes: Bytes) -> Result<Settled, ServiceError> {
    let understood = Intake::new(door.clone()).understand(bytes)?;
    let permit = understood.fleet.try_reserve(understood.rows())?;
    match understood.send(permit).await?.settled().await? {
        Settled::Failed(error) => Err(error),
        settled => Ok(settled),
    }
}
