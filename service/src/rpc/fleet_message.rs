//! Fleets as messages, and the specification of a new fleet.
//!
//! Zero and absent fields mean the defaults of the server; errors name the field.

use std::time::Duration;

use shoal_engine::{Clock, PLANAR_QUANTUM_M, Space};
use shoal_proto::v1;
use shoal_proto::v1::space::Kind;

use super::ack_range::row_counts;
use super::duration::millis;
use crate::error::ServiceError;
use crate::fleet::{Fleet, FleetSpec};
use crate::limits::ServerLimits;

/// The specification of a new fleet.
///
/// # Errors
/// [`ServiceError::Field`].
pub(super) fn spec(
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
    Ok(FleetSpec {
        space: space(request.space.as_ref())?,
        clock,
        ttl_ms,
        objects_max: if objects_max == 0 { limits.fleet_objects_max } else { objects_max },
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

/// The current state of a fleet.
pub(super) fn message(fleet: &Fleet, engine: &str) -> v1::Fleet {
    let (view, options) = (fleet.view(), fleet.options());
    let clock = match options.clock {
        Clock::System => v1::Clock::System,
        Clock::Event => v1::Clock::Event,
    };
    let ttl = options.ttl_ms.map(|ttl_ms| Duration::from_millis(ttl_ms.unsigned_abs()));
    v1::Fleet {
        name: fleet.name().as_str().to_owned(),
        space: Some(space_message(&options.space)),
        clock: clock.into(),
        ttl: ttl.and_then(|ttl| ttl.try_into().ok()),
        limits: Some(v1::FleetLimits { objects_max: options.objects_max }),
        term: options.term,
        epoch: view.epoch,
        clock_ms: view.clock_ms,
        object_count: view.objects,
        memory_bytes: view.memory_bytes,
        engine: engine.to_owned(),
        row_counts: Some(row_counts(&view.rows)),
        query_count: view.queries,
    }
}

fn space_message(space: &Space) -> v1::Space {
    let kind = if space.is_geographic() {
        Kind::Geographic(v1::GeographicSpace {})
    } else {
        let bounds = space.bounds();
        let (width_m, height_m) = space.to_api(bounds.x_max, bounds.y_max);
        Kind::Planar(v1::PlanarSpace { width_m, height_m, quantum_m: space.quantum() })
    };
    v1::Space { kind: Some(kind) }
}
