//! `FleetService.ListFleets`: pages of fleets by name, each fleet after its own last cycle.
//!
//! The page token is the name of the last fleet of the page before, so it stays valid when fleets
//! are created and deleted.

use shoal_proto::v1::{ListFleetsRequest, ListFleetsResponse};

use super::door::Door;
use super::fleet_message::message;
use crate::error::ServiceError;
use crate::fleet::FleetName;
use crate::limits::{FLEET_PAGE_DEFAULT, FLEET_PAGE_MAX};

pub(super) fn list_fleets(
    door: &Door,
    request: &ListFleetsRequest,
) -> Result<ListFleetsResponse, ServiceError> {
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
    let (fleets, has_more) = door.registry.list_page(after.as_ref(), page_size);
    let last = fleets.last().filter(|_| has_more);
    let next_page_token = last.map_or_else(String::new, |fleet| fleet.name().as_str().to_owned());
    let engine = door.registry.engine_name();
    let fleets = fleets.iter().map(|fleet| message(fleet, engine)).collect();
    Ok(ListFleetsResponse { fleets, next_page_token })
}
