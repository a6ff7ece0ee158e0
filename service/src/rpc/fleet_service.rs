//! `FleetService`: creates, lists, renames, clears and deletes fleets.
//!
//! Creating, renaming and deleting a fleet continue even if the client disconnects.

use shoal_engine::Request as EngineRequest;
use shoal_proto::v1;
use shoal_proto::v1::fleet_service_server::FleetService;
use shoal_proto::v1::{
    ClearFleetRequest, ClearFleetResponse, CreateFleetRequest, CreateFleetResponse,
    DeleteFleetRequest, DeleteFleetResponse, GetFleetRequest, GetFleetResponse, ListFleetsRequest,
    ListFleetsResponse, RenameFleetRequest, RenameFleetResponse,
};
use tonic::{Request, Response, Status};

use super::deadline::Deadline;
use super::fleet_message::message;
use super::service_context::ServiceContext;
use crate::access::Call;
use crate::cycle::{Durability, FleetName};
use crate::error::ServiceError;
use crate::fleet::{ChangeReply, Fleet, Token};
use crate::fleet_request::{fill, spec};
use crate::limits::{FLEET_PAGE_DEFAULT, FLEET_PAGE_MAX};

impl ServiceContext {
    fn describe(&self, fleet: &Fleet) -> v1::Fleet {
        message(fleet, self.engine_name(), self.replication.unfenced_leader(fleet))
    }
}

#[tonic::async_trait]
impl FleetService for ServiceContext {
    async fn create_fleet(
        &self,
        request: Request<CreateFleetRequest>,
    ) -> Result<Response<CreateFleetResponse>, Status> {
        let call = Call::of(request.extensions())?;
        let mut request = request.into_inner();
        let name = FleetName::new("name", &request.name)?;
        if !request.settings_of.is_empty() {
            let model = FleetName::of_request("settings_of", &request.settings_of)?;
            let model = self.seen_fleet(&call, &model)?;
            fill(&mut request, &self.describe(&model));
        }
        let spec = spec(&request, &self.limits)?;
        if spec.durability == Some(Durability::Logged) && !self.has_data() {
            return Err(ServiceError::no_data("durability").into());
        }
        let context = self.clone();
        let created = whole(async move {
            let fleet = context.create_fleet(&call, name, spec).await?;
            Ok(context.describe(&fleet))
        });
        Ok(Response::new(CreateFleetResponse { fleet: Some(created.await?) }))
    }

    async fn get_fleet(
        &self,
        request: Request<GetFleetRequest>,
    ) -> Result<Response<GetFleetResponse>, Status> {
        let call = Call::of(request.extensions())?;
        let fleet = self.fleet(&call, "name", &request.get_ref().name)?;
        let fleet = Some(self.describe(&fleet));
        Ok(Response::new(GetFleetResponse { fleet }))
    }

    async fn list_fleets(
        &self,
        request: Request<ListFleetsRequest>,
    ) -> Result<Response<ListFleetsResponse>, Status> {
        let call = Call::of(request.extensions())?;
        Ok(Response::new(list_fleets(self, &call, request.get_ref())?))
    }

    async fn rename_fleet(
        &self,
        request: Request<RenameFleetRequest>,
    ) -> Result<Response<RenameFleetResponse>, Status> {
        // As for a destructive call, an empty name does not mean `default`.
        let name = FleetName::new("name", &request.get_ref().name)?;
        let (context, call) = (self.clone(), Call::of(request.extensions())?);
        let new_name = request.into_inner().new_name;
        let renamed = whole(async move {
            let fleet = context.rename_fleet(&call, &name, &new_name).await?;
            Ok(context.describe(&fleet))
        });
        Ok(Response::new(RenameFleetResponse { fleet: Some(renamed.await?) }))
    }

    async fn clear_fleet(
        &self,
        request: Request<ClearFleetRequest>,
    ) -> Result<Response<ClearFleetResponse>, Status> {
        let deadline = Deadline::of(request.metadata());
        let call = Call::of(request.extensions())?;
        let cleared = deadline.bound(clear_fleet(self, &call, request.get_ref())).await;
        Ok(Response::new(cleared.map_err(|error| self.count(error))?))
    }

    async fn delete_fleet(
        &self,
        request: Request<DeleteFleetRequest>,
    ) -> Result<Response<DeleteFleetResponse>, Status> {
        // A destructive call must name its fleet: an empty name does not mean `default` here.
        let name = FleetName::new("name", &request.get_ref().name)?;
        let (context, call) = (self.clone(), Call::of(request.extensions())?);
        whole(async move { context.delete_fleet(&call, &name).await }).await?;
        Ok(Response::new(DeleteFleetResponse {}))
    }
}

/// Runs the work in a task, so that it completes even if the client disconnects.
async fn whole<T: Send + 'static>(
    change: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::spawn(change).await.unwrap_or(Err(ServiceError::ShuttingDown))
}

/// Returns a page of fleets, sorted by name. The page token is the name of the last fleet on the
/// previous page, so that it stays valid when fleets are created or deleted.
fn list_fleets(
    context: &ServiceContext,
    call: &Call,
    request: &ListFleetsRequest,
) -> Result<ListFleetsResponse, ServiceError> {
    context.check_ready()?;
    let page_size = match usize::try_from(request.page_size) {
        Ok(0) => FLEET_PAGE_DEFAULT,
        Ok(page_size) => page_size.min(FLEET_PAGE_MAX),
        Err(_) => {
            let problem = format!("{} is negative", request.page_size);
            return Err(ServiceError::field("page_size", problem));
        }
    };
    let after = match request.page_token.as_str() {
        "" => None,
        token => Some(FleetName::new("page_token", token).map_err(|_| {
            ServiceError::field("page_token", "not a next_page_token of this service")
        })?),
    };
    let (fleets, has_more) = context.fleet_page(call, after.as_ref(), page_size);
    let last = fleets.last().filter(|_| has_more);
    let next_page_token = last.map_or_else(String::new, |fleet| fleet.name().as_str().to_owned());
    let fleets = fleets.iter().map(|fleet| context.describe(fleet)).collect();
    Ok(ListFleetsResponse { fleets, next_page_token })
}

/// Removes every object. The change takes its turn in the fleet's queue; epochs and clock continue.
/// Never waits for capacity.
async fn clear_fleet(
    context: &ServiceContext,
    call: &Call,
    request: &ClearFleetRequest,
) -> Result<ClearFleetResponse, ServiceError> {
    // A destructive call must name its fleet: an empty name does not mean `default` here.
    let fleet = context.named_fleet(call, &FleetName::new("name", &request.name)?)?;
    let durability = fleet.accept(None)?;
    let permit = fleet.try_reserve(call.client(), 0)?;
    let (epoch, removed_count) = match fleet.change(permit, EngineRequest::Clear, None).await? {
        ChangeReply::Settled { epoch, outcome, .. } => (epoch, outcome.removed),
        // Cannot occur: a request without a producer is never a duplicate.
        ChangeReply::Duplicate { epoch } => (epoch, 0),
        ChangeReply::Refused(error) => return Err(error),
    };
    fleet.survives(durability, epoch).await?;
    let term = fleet.term();
    let token = Token::new(term, epoch).to_bytes();
    Ok(ClearFleetResponse { removed_count, epoch, token, term })
}
