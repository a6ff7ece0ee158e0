//! A log as its leader describes it to followers.

use shoal_position_log::PastTerm;
use shoal_proto::v1;

use crate::cycle::FleetSpec;
use crate::fleet::Fleet;
use crate::fleet_request::create_request;

/// Describes the log of a fleet; `None` if the fleet has none.
pub(crate) fn describe_log(fleet: &Fleet) -> Option<v1::LogDescription> {
    let (folder, terms, options) = (fleet.folder()?, fleet.terms(), fleet.options());
    let spec = FleetSpec {
        kind: fleet.kind(),
        space: options.space,
        clock: options.clock,
        ttl_ms: options.ttl_ms,
        objects_max: options.objects_max,
        durability: Some(fleet.durability()),
        event_clock_lead_ms: Some(fleet.event_clock_lead_ms()),
    };
    let ended = |past: &PastTerm| v1::EndedTerm { term: past.term, last_epoch: past.last_epoch };
    Some(v1::LogDescription {
        fleet: Some(create_request(&fleet.name(), &spec)),
        fleet_id: folder.identity.id.to_be_bytes().to_vec(),
        term: terms.current(),
        ended_terms: terms.past().iter().map(ended).collect(),
    })
}
