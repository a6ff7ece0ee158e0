//! `FleetService.CreateFleet`: a new fleet and its engine.

use std::sync::Arc;

use shoal_proto::v1::{CreateFleetRequest, CreateFleetResponse};

use super::door::Door;
use super::fleet_message::{message, spec};
use crate::error::ServiceError;
use crate::fleet::FleetName;

pub(super) async fn create_fleet(
    door: &Arc<Door>,
    request: CreateFleetRequest,
) -> Result<CreateFleetResponse, ServiceError> {
    let name = FleetName::new("name", &request.name)?;
    let spec = spec(&request, &door.limits)?;
    let door = door.clone();
    // Its own task: a client that leaves must not leave half a fleet.
    let created = tokio::spawn(async move {
        let fleet = door.registry.create(name, spec).await?;
        let fleet = Some(message(&fleet, door.registry.engine_name()));
        Ok(CreateFleetResponse { fleet })
    });
    created.await.unwrap_or(Err(ServiceError::ShuttingDown))
}
