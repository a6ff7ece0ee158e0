//! The request that creates a fleet, and the specification in it.
//!
//! Zero and absent fields mean the defaults of the server; errors name the field. The data folder
//! stores a fleet's properties as such a request, and followers receive them as one.

use std::time::Duration;

use shoal_engine::{Clock, PLANAR_QUANTUM_M, Space};
use shoal_proto::v1;
use shoal_proto::v1::space::Kind;

use crate::cycle::{Durability, FleetKind, FleetName, FleetSpec};
use crate::duration::millis;
use crate::error::ServiceError;
use crate::fleet_space;
use crate::limits::ServerLimits;

/// Converts a request to the specification of a new fleet.
///
/// # Errors
/// [`ServiceError::Field`].
pub(crate) fn spec(
    request: &v1::CreateFleetRequest,
    limits: &ServerLimits,
) -> Result<FleetSpec, ServiceError> {
    let clock = match v1::Clock::try_from(request.clock) {
        Ok(v1::Clock::Unspecified | v1::Clock::System) => Clock::System,
        Ok(v1::Clock::Event) => Clock::Event,
        Err(_) => {
            let problem = format!("unknown clock: {}", request.clock);
            return Err(ServiceError::field("clock", problem));
        }
    };
    let ttl_ms = millis("ttl", request.ttl.as_ref())?.filter(|&ttl_ms| ttl_ms > 0);
    let objects_max = request.limits.as_ref().map_or(0, |limits| limits.objects_max);
    if objects_max > limits.fleet_objects_max {
        let problem = format!("{objects_max} exceeds the limit of {}", limits.fleet_objects_max);
        return Err(ServiceError::field("limits.objects_max", problem));
    }
    let durability = durability_of(request.durability.cast_unsigned().into())?;
    let kind = match v1::FleetKind::try_from(request.kind) {
        Ok(v1::FleetKind::Unspecified | v1::FleetKind::Numeric) => FleetKind::Numeric,
        Ok(v1::FleetKind::Named) => FleetKind::Named,
        Err(_) => {
            let problem = format!("unknown kind: {}", request.kind);
            return Err(ServiceError::field("kind", problem));
        }
    };
    Ok(FleetSpec {
        kind,
        space: space(request.space.as_ref())?,
        clock,
        ttl_ms,
        objects_max: if objects_max == 0 { limits.fleet_objects_max } else { objects_max },
        durability,
        event_clock_lead_ms: millis("event_clock_lead", request.event_clock_lead.as_ref())?,
    })
}

fn space(sent: Option<&v1::Space>) -> Result<Space, ServiceError> {
    match sent.and_then(|space| space.kind.as_ref()) {
        None | Some(Kind::Geographic(_)) => Ok(Space::geographic()),
        Some(Kind::Planar(planar)) => {
            let v1::PlanarSpace { width_m, height_m, quantum_m } = *planar;
            let quantum_m = if quantum_m == 0.0 { PLANAR_QUANTUM_M } else { quantum_m };
            Space::planar(width_m, height_m, quantum_m)
                .map_err(|error| ServiceError::geometry("space.planar", &error))
        }
    }
}

/// Fills the fields that a request leaves open with the settings of a fleet.
pub(crate) fn fill(request: &mut v1::CreateFleetRequest, settings: &v1::Fleet) {
    let v1::Fleet { space, clock, ttl, limits, durability, event_clock_lead, kind, .. } = settings;
    let unspecified = 0;
    for (field, value) in [
        (&mut request.clock, clock),
        (&mut request.durability, durability),
        (&mut request.kind, kind),
    ] {
        if *field == unspecified {
            *field = *value;
        }
    }
    // A lead that is the default depends on the time to live.
    if request.ttl.is_none() {
        request.event_clock_lead = request.event_clock_lead.or(*event_clock_lead);
    }
    request.space = request.space.or(*space);
    request.ttl = request.ttl.or(*ttl);
    request.limits = request.limits.or(*limits);
}

/// The request that creates a fleet of this specification.
pub(crate) fn create_request(name: &FleetName, spec: &FleetSpec) -> v1::CreateFleetRequest {
    v1::CreateFleetRequest {
        name: name.as_str().to_owned(),
        space: Some(fleet_space::to_wire(&spec.space)),
        clock: clock_value(spec.clock).into(),
        ttl: duration_message(spec.ttl_ms),
        limits: Some(v1::FleetLimits { objects_max: spec.objects_max }),
        durability: spec.durability.map(durability_value).unwrap_or_default().into(),
        event_clock_lead: lead_message(spec.clock, spec.event_clock_lead_ms),
        kind: kind_value(spec.kind).into(),
        settings_of: String::new(),
    }
}

pub(crate) fn kind_value(kind: FleetKind) -> v1::FleetKind {
    match kind {
        FleetKind::Numeric => v1::FleetKind::Numeric,
        FleetKind::Named => v1::FleetKind::Named,
    }
}

pub(crate) fn clock_value(clock: Clock) -> v1::Clock {
    match clock {
        Clock::System => v1::Clock::System,
        Clock::Event => v1::Clock::Event,
    }
}

/// The lead of an event clock as a message; `None` for a system clock, which has no lead.
pub(crate) fn lead_message(clock: Clock, lead_ms: Option<i64>) -> Option<prost_types::Duration> {
    duration_message(lead_ms.filter(|_| clock == Clock::Event))
}

pub(crate) fn duration_message(ttl_ms: Option<i64>) -> Option<prost_types::Duration> {
    let ttl = Duration::from_millis(ttl_ms?.unsigned_abs());
    ttl.try_into().ok()
}

/// The durability level that a field requests; `None` if the field is unset.
///
/// # Errors
/// [`ServiceError::Field`] for an unknown number.
pub(crate) fn durability_of(number: u64) -> Result<Option<Durability>, ServiceError> {
    let value = i32::try_from(number).ok().and_then(|value| v1::Durability::try_from(value).ok());
    match value {
        Some(v1::Durability::Unspecified) => Ok(None),
        Some(v1::Durability::Applied) => Ok(Some(Durability::Applied)),
        Some(v1::Durability::Logged) => Ok(Some(Durability::Logged)),
        None => {
            let number = number.cast_signed();
            Err(ServiceError::field("durability", format!("unknown durability: {number}")))
        }
    }
}

/// Converts a durability level to its value in messages.
pub(crate) fn durability_value(durability: Durability) -> v1::Durability {
    match durability {
        Durability::Applied => v1::Durability::Applied,
        Durability::Logged => v1::Durability::Logged,
    }
}
