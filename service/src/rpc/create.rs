//! `FleetService.Create`: a new fleet and its engine.

use std::sync::Arc;

use shoal_proto::v1::{CreateFleetRequest, Fleet};

use super::door::Door;
use super::fleet_message::{message, spec};
use crate::error::ServiceError;
use crate::fleet::FleetName;

pub(super) async fn create(
    door: &Arc<Door>,
    request: CreateFleetRequest,
) -> Result<Fleet, ServiceError> {
    let name = FleetName::new("name", &request.name)?;
    let spec = spec(&request, &door.limits)?;
    let door = door.clone();
    // Its own task: a client that leaves must not leave half a fleet.
    let created = tokio::spawn(async move {
        let fleet = door.registry.create(name, spec).await?;
        Ok(message(&fleet, door.registry.engine_name()))
    });
    created.await.unwrap_or(Err(ServiceError::ShuttingDown))
}
