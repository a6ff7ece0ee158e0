//! `FleetService.ClearFleet`: removes every object; the fleet, its epochs and its clock continue.
//!
//! Takes effect on arrival, in the order of the fleet's queue, like a removal. Never waits for
//! room.

use shoal_engine::Request as Change;
use shoal_proto::v1::{ClearFleetRequest, ClearFleetResponse};

use super::deadline::Deadline;
use super::door::Door;
use crate::error::ServiceError;
use crate::fleet::{ChangeReply, FleetName, Token};

pub(super) async fn clear_fleet(
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
    // Empty does not mean the default fleet: a call that destroys names its target.
    let fleet = door.registry.find(&FleetName::new("name", &request.name)?)?;
    let permit = fleet.try_reserve(0)?;
    let (epoch, removed_count) = match fleet.change(permit, Change::Clear, None).await? {
        ChangeReply::Settled { epoch, outcome } => (epoch, outcome.removed),
        // Without a producer there are no resends.
        ChangeReply::Duplicate { epoch } => (epoch, 0),
        ChangeReply::Refused(error) => return Err(error),
    };
    let term = fleet.term();
    let token = Token::new(term, epoch).to_bytes();
    Ok(ClearFleetResponse { removed_count, epoch, token, term })
}
