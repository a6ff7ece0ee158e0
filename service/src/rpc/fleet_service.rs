//! Which call of `FleetService` goes where? Each has its own file.

use std::sync::Arc;

use shoal_proto::v1;
use shoal_proto::v1::fleet_service_server::FleetService;
use tonic::{Request, Response, Status};

use super::deadline::Deadline;
use super::door::Door;
use super::{clear, create, describe, drop_fleet, list};

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
    async fn create(
        &self,
        request: Request<v1::CreateFleetRequest>,
    ) -> Result<Response<v1::Fleet>, Status> {
        Ok(Response::new(create::create(&self.0, request.into_inner()).await?))
    }

    async fn describe(
        &self,
        request: Request<v1::DescribeFleetRequest>,
    ) -> Result<Response<v1::Fleet>, Status> {
        Ok(Response::new(describe::describe(&self.0, request.get_ref())?))
    }

    async fn list(
        &self,
        _: Request<v1::ListFleetsRequest>,
    ) -> Result<Response<v1::ListFleetsResponse>, Status> {
        Ok(Response::new(list::list(&self.0)))
    }

    async fn clear(
        &self,
        request: Request<v1::ClearFleetRequest>,
    ) -> Result<Response<v1::ClearFleetResponse>, Status> {
        let deadline = Deadline::of(request.metadata());
        Ok(Response::new(clear::clear(&self.0, request.into_inner(), deadline).await?))
    }

    async fn drop(
        &self,
        request: Request<v1::DropFleetRequest>,
    ) -> Result<Response<v1::DropFleetResponse>, Status> {
        Ok(Response::new(drop_fleet::drop_fleet(&self.0, request.into_inner()).await?))
    }
}
