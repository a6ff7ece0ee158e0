//! `SubscriptionService.Modify`: adds, changes and removes regions of a session, or closes it.
//!
//! All valid changes take effect in one epoch; each invalid change fails alone. The session need
//! not have a reader.

use std::collections::HashSet;
use std::sync::Arc;

use shoal_proto::v1::{ModifyRequest, ModifyResponse, RegionError, RegionSubscription};
use tonic::{Request, Response};

use super::deadline::Deadline;
use super::position_service::at_most;
use super::region_subscription::{followed, work};
use super::service_context::ServiceContext;
use crate::access::Call;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::REGION_CHANGES_MAX;
use crate::shares::Requester;
use crate::status::rpc_status;
use crate::subscription::{RegionRequest, SessionEnd, SessionHandle};

pub(super) async fn modify(
    context: &ServiceContext,
    request: Request<ModifyRequest>,
) -> Result<Response<ModifyResponse>, ServiceError> {
    let deadline = Deadline::of(request.metadata());
    let call = Call::of(request.extensions())?;
    let (request, _charge) = context.message(request).await?;
    let settled = deadline.bound(settle(context, &call, request)).await;
    Ok(Response::new(settled.map_err(|error| context.count(error))?))
}

async fn settle(
    context: &ServiceContext,
    call: &Call,
    request: ModifyRequest,
) -> Result<ModifyResponse, ServiceError> {
    let changes = request.add.len() + request.change.len() + request.remove.len();
    at_most("add,change,remove", changes, "regions", REGION_CHANGES_MAX)?;
    let fleet = context.fleet(call, "fleet", &request.fleet)?;
    let handle = SessionHandle::parse(&request.session)?;
    context.check_session_fleet(call, &handle, &fleet)?;
    let session = fleet.sessions().find(&handle, call.account())?;
    if request.close {
        if changes > 0 {
            let problem = "must not be set in a request that changes regions";
            return Err(ServiceError::field("close", problem));
        }
        fleet.sessions().close(&session, SessionEnd::Closed);
        return Ok(ModifyResponse::default());
    }
    distinct(&request)?;
    let lengths = (request.add.len(), request.change.len());
    let (requests, mut failures) = convert(context, call.client(), &fleet, request).await?;
    if requests.is_empty() {
        return Ok(ModifyResponse { epoch: 0, errors: errors(failures, lengths) });
    }
    let places = failures.iter().enumerate().filter(|(_, (_, failure))| failure.is_none());
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    let changed = fleet.change_regions(call.client(), &session, requests)?;
    call.record_quota(changed.failures.iter().flatten());
    for (place, failure) in places.into_iter().zip(changed.failures) {
        failures[place].1 = failure;
    }
    let epoch = fleet.changed_epoch(changed.pending).await?;
    Ok(ModifyResponse { epoch, errors: errors(failures, lengths) })
}

/// Refuses a request with two changes of one region: changes in one epoch have no order.
fn distinct(request: &ModifyRequest) -> Result<(), ServiceError> {
    let (add, change, remove) = (&request.add, &request.change, &request.remove);
    let mut seen = HashSet::with_capacity(add.len() + change.len() + remove.len());
    let set = [("add", add), ("change", change)].into_iter().flat_map(|(list, regions)| {
        let ids = regions.iter().map(|sent| sent.region_id).enumerate();
        ids.map(move |(index, id)| (list, index, id))
    });
    let removed = remove.iter().enumerate().map(|(index, id)| ("remove", index, *id));
    match set.chain(removed).find(|(_, _, id)| !seen.insert(*id)) {
        None => Ok(()),
        Some((list, index, id)) => {
            let problem = format!("region {id} occurs more than once in this request");
            Err(ServiceError::field(format!("{list}[{index}]"), problem))
        }
    }
}

/// For each change, its region and the error if it failed.
type Failures = Vec<(u64, Option<ServiceError>)>;

/// Converts failures to errors of the API. `add` and `change` are the lengths of the request's
/// lists.
fn errors(failures: Failures, (add, change): (usize, usize)) -> Vec<RegionError> {
    let path = |place: usize| match place {
        _ if place < add => format!("add[{place}]"),
        _ if place < add + change => format!("change[{}]", place - add),
        _ => format!("remove[{}]", place - add - change),
    };
    let error = |(place, (region_id, failure)): (usize, (u64, Option<ServiceError>))| {
        let status = Some(rpc_status(failure?.under(&path(place))));
        Some(RegionError { region_id, status })
    };
    failures.into_iter().enumerate().filter_map(error).collect()
}

/// Returns the valid changes, and for each change the error if it is invalid.
async fn convert(
    context: &ServiceContext,
    client: Requester,
    fleet: &Arc<Fleet>,
    request: ModifyRequest,
) -> Result<(Vec<RegionRequest>, Failures), ServiceError> {
    let (mut requests, mut failures) = (Vec::new(), Vec::new());
    let (fleet, added) = (fleet.clone(), request.add.len());
    let sent: Vec<_> = request.add.into_iter().chain(request.change).collect();
    let _in_work = context.reserve_work(client, sent.iter().map(work).sum()).await?;
    let each =
        move |place, sent: RegionSubscription| (sent.region_id, set(&fleet, place < added, &sent));
    for (region_id, change) in context.convert(client, sent, work, each).await? {
        failures.push((region_id, change.map(|change| requests.push(change)).err()));
    }
    for region_id in request.remove {
        requests.push(RegionRequest::Remove { region_id });
        failures.push((region_id, None));
    }
    Ok((requests, failures))
}

fn set(
    fleet: &Fleet,
    is_new: bool,
    sent: &RegionSubscription,
) -> Result<RegionRequest, ServiceError> {
    let (region_id, followed) = (sent.region_id, followed(fleet, sent)?);
    Ok(if is_new {
        RegionRequest::Add { region_id, followed }
    } else {
        RegionRequest::Change { region_id, followed }
    })
}
