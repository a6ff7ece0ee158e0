//! `PositionService.Remove`: these objects go.
//!
//! Acts at its arrival, in the order of the fleet's queue, like a report. Never waits for room.

use std::sync::Arc;

use shoal_engine::Request as Change;
use shoal_engine::limits::GET_OBJECTS_MAX;
use shoal_proto::v1::{RemoveRequest, RemoveResponse};
use tonic::{Request, Response, Status};

use super::deadline::Deadline;
use super::door::Door;
use super::report_message::check_numbered;
use crate::error::ServiceError;
use crate::fleet::{BatchId, ChangeReply, Token};

pub(super) async fn remove(
    door: &Arc<Door>,
    request: Request<RemoveRequest>,
) -> Result<Response<RemoveResponse>, Status> {
    let deadline = Deadline::of(request.metadata());
    let removed = deadline.bound(settle(door, request.into_inner())).await;
    Ok(Response::new(removed.map_err(|error| door.count(error))?))
}

async fn settle(door: &Door, request: RemoveRequest) -> Result<RemoveResponse, ServiceError> {
    let RemoveRequest { fleet, mut objects, producer, batch_seq } = request;
    let fleet = door.registry.find_requested("fleet", &fleet)?;
    at_most("objects", objects.len(), "ids", GET_OBJECTS_MAX)?;
    check_numbered(&producer, batch_seq)?;
    let batch = BatchId { producer: producer.into(), batch_seq };
    let batch = Some(batch).filter(|batch| !batch.producer.is_empty());
    // As in Get, repeated ids count once.
    objects.sort_unstable();
    objects.dedup();
    let permit = fleet.try_reserve(objects.len())?;
    let (epoch, outcome) = match fleet.change(permit, Change::Remove(objects), batch).await? {
        ChangeReply::Settled { epoch, outcome } => (epoch, Some(outcome)),
        ChangeReply::Duplicate { epoch } => (epoch, None),
        ChangeReply::Refused(error) => return Err(error),
    };
    let term = fleet.term();
    let token = Token::new(term, epoch).to_bytes();
    let duplicate = outcome.is_none();
    let (removed_count, missing_count) =
        outcome.map_or((0, 0), |outcome| (outcome.removed, outcome.missing));
    Ok(RemoveResponse { removed_count, missing_count, epoch, token, duplicate, term })
}

/// Refuses a field that is too long.
pub(super) fn at_most(
    field: &str,
    length: usize,
    unit: &str,
    limit: usize,
) -> Result<(), ServiceError> {
    if length <= limit {
        return Ok(());
    }
    Err(ServiceError::field(field, format!("{length} {unit} exceed the limit of {limit}")))
}
