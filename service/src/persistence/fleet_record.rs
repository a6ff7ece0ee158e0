//! The description of a fleet in the list of a data folder: the request that created it.

use prost::Message as _;
use shoal_position_log::LogError;
use shoal_proto::v1::CreateFleetRequest;

use crate::cycle::{FleetName, FleetSpec};
use crate::error::ServiceError;
use crate::fleet_request::{self, create_request};
use crate::limits::ServerLimits;

pub(super) fn encode(name: &FleetName, spec: &FleetSpec) -> Vec<u8> {
    create_request(name, spec).encode_to_vec()
}

pub(super) fn decode(description: &[u8]) -> Result<(FleetName, FleetSpec), ServiceError> {
    let invalid = |reason: String| {
        let file = "fleets.manifest".to_owned();
        ServiceError::from(LogError::Content { file, offset: 0, reason })
    };
    let request = CreateFleetRequest::decode(description);
    let request = request.map_err(|error| invalid(error.to_string()))?;
    let spec = spec(&request).map_err(|error| invalid(error.to_string()))?;
    Ok((FleetName::new("name", &request.name)?, spec))
}

/// The properties in a request that a server has accepted.
///
/// # Errors
/// [`ServiceError::Field`].
pub(crate) fn spec(request: &CreateFleetRequest) -> Result<FleetSpec, ServiceError> {
    // The limits of this run may be lower than those under which the fleet was created.
    let limits =
        ServerLimits { fleet_objects_max: shoal_engine::limits::OBJECTS_MAX, ..Default::default() };
    fleet_request::spec(request, &limits)
}
