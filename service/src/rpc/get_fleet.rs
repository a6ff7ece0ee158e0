//! `FleetService.GetFleet`: one fleet as it is after its last cycle.

use shoal_proto::v1::{GetFleetRequest, GetFleetResponse};

use super::door::Door;
use super::fleet_message::message;
use crate::error::ServiceError;

pub(super) fn get_fleet(
    door: &Door,
    request: &GetFleetRequest,
) -> Result<GetFleetResponse, ServiceError> {
    let fleet = door.registry.find_requested("name", &request.name)?;
    let fleet = Some(message(&fleet, door.registry.engine_name()));
    Ok(GetFleetResponse { fleet })
}
