//! `FleetService.Clear`: every object goes; the fleet, its epoch and its clock stay.
//!
//! Acts at its arrival, in the order of the fleet's queue, like a removal. Never waits for room.

use shoal_engine::Request as Change;
use shoal_proto::v1::{ClearFleetRequest, ClearFleetResponse};

use super::deadline::Deadline;
use super::door::Door;
use crate::error::ServiceError;
use crate::fleet::{ChangeReply, Token};

pub(super) async fn clear(
    door: &Door,
    request: ClearFleetRequest,
    deadline: Deadline,
) -> Result<ClearFleetResponse, ServiceError> {
    deadline.bound(settle(door, request)).await.map_err(|error| door.count(error))
}

async fn settle(
    door: &Door,
    request: ClearFleetRequest,
) -> Result<ClearFleetResponse, ServiceError> {
    let fleet = door.registry.find_requested("name", &request.name)?;
    let permit = fleet.try_room(0)?;
    let (epoch, removed) = match fleet.change(permit, Change::Clear, None).await? {
        ChangeReply::Settled { epoch, outcome } => (epoch, outcome.removed),
        // Without a producer there are no resends.
        ChangeReply::Duplicate { epoch } => (epoch, 0),
        ChangeReply::Refused(error) => return Err(error.into()),
    };
    let token = Token::new(fleet.term(), epoch).to_bytes();
    Ok(ClearFleetResponse { removed, epoch, token })
}
