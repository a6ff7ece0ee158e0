//! `FleetService.DeleteFleet`: stops a fleet and deletes it; calls in progress end with ABORTED.

use std::sync::Arc;

use shoal_proto::v1::{DeleteFleetRequest, DeleteFleetResponse};

use super::door::Door;
use crate::error::ServiceError;
use crate::fleet::FleetName;

pub(super) async fn delete_fleet(
    door: &Arc<Door>,
    request: DeleteFleetRequest,
) -> Result<DeleteFleetResponse, ServiceError> {
    // Empty does not mean the default fleet: a call that destroys names its target.
    let name = FleetName::new("name", &request.name)?;
    let door = door.clone();
    // Its own task: a client that leaves must not leave half a fleet.
    let deleted = tokio::spawn(async move { door.registry.delete(&name).await });
    deleted.await.unwrap_or(Err(ServiceError::ShuttingDown))?;
    Ok(DeleteFleetResponse {})
}
