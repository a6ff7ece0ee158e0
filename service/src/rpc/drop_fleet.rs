//! `FleetService.Drop`: a fleet stops and is forgotten; requests under way end with ABORTED.

use std::sync::Arc;

use shoal_proto::v1::{DropFleetRequest, DropFleetResponse};

use super::door::Door;
use crate::error::ServiceError;
use crate::fleet::FleetName;

pub(super) async fn drop_fleet(
    door: &Arc<Door>,
    request: DropFleetRequest,
) -> Result<DropFleetResponse, ServiceError> {
    // Empty does not mean the default here: what is destroyed is named.
    let name = FleetName::new("name", &request.name)?;
    let door = door.clone();
    // Its own task: a client that leaves must not leave half a fleet.
    let dropped = tokio::spawn(async move { door.registry.drop_fleet(&name).await });
    dropped.await.unwrap_or(Err(ServiceError::ShuttingDown))?;
    Ok(DropFleetResponse {})
}
