//! `FleetService.List`: all fleets by name, each after its own last cycle.

use shoal_proto::v1::ListFleetsResponse;

use super::door::Door;
use super::fleet_message::message;

pub(super) fn list(door: &Door) -> ListFleetsResponse {
    let engine = door.registry.engine_name();
    let fleets = door.registry.list();
    ListFleetsResponse { fleets: fleets.iter().map(|fleet| message(fleet, engine)).collect() }
}
