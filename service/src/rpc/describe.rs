//! `FleetService.Describe`: one fleet as it is after its last cycle.

use shoal_proto::v1::{DescribeFleetRequest, Fleet};

use super::door::Door;
use super::fleet_message::message;
use crate::error::ServiceError;

pub(super) fn describe(door: &Door, request: &DescribeFleetRequest) -> Result<Fleet, ServiceError> {
    let fleet = door.registry.find_requested("name", &request.name)?;
    Ok(message(&fleet, door.registry.engine_name()))
}
