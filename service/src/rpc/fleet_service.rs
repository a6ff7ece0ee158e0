//! Which call of `FleetService` goes where? Each has its own file.

use std::sync::Arc;

use shoal_proto::v1;
use shoal_proto::v1::fleet_service_server::FleetService;
use tonic::{Request, Response, Status};

use super::deadline::Deadline;
use super::door::Door;
use super::{clear_fleet, create_fleet, delete_fleet, get_fleet, list_fleets};

/// `shoal.v1.FleetService`.
#[derive(Clone, Debug)]
pub struct Fleets(Arc<Door>);

impl Fleets {
    /// The service at a door.
    #[must_use]
    pub fn new(door: Arc<Door>) -> Self {
        Self(door)
    }
}

#[tonic::async_trait]
impl FleetService for Fleets {
    async fn create_fleet(
        &self,
        request: Request<v1::CreateFleetRequest>,
    ) -> Result<Response<v1::CreateFleetResponse>, Status> {
        Ok(Response::new(create_fleet::create_fleet(&self.0, request.into_inner()).await?))
    }

    async fn get_fleet(
        &self,
        request: Request<v1::GetFleetRequest>,
    ) -> Result<Response<v1::GetFleetResponse>, Status> {
        Ok(Response::new(get_fleet::get_fleet(&self.0, request.get_ref())?))
    }

    async fn list_fleets(
        &self,
        request: Request<v1::ListFleetsRequest>,
    ) -> Result<Response<v1::ListFleetsResponse>, Status> {
        Ok(Response::new(list_fleets::list_fleets(&self.0, request.get_ref())?))
    }

    async fn clear_fleet(
        &self,
        request: Request<v1::ClearFleetRequest>,
    ) -> Result<Response<v1::ClearFleetResponse>, Status> {
        let deadline = Deadline::of(request.metadata());
        Ok(Response::new(clear_fleet::clear_fleet(&self.0, request.into_inner(), deadline).await?))
    }

    async fn delete_fleet(
        &self,
        request: Request<v1::DeleteFleetRequest>,
    ) -> Result<Response<v1::DeleteFleetResponse>, Status> {
        Ok(Response::new(delete_fleet::delete_fleet(&self.0, request.into_inner()).await?))
    }
}
