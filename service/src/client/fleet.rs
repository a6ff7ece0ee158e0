//! What does a client know of a fleet?
//!
//! Describes one, and turns its space from the wire's form into the engine's and back. Keeps
//! nothing.

use shoal_engine::Space;
use shoal_proto::v1::{self, space::Kind};

use super::connection::Connection;
use crate::cli::error::CliError;

/// The fleet of this name as it is now.
///
/// # Errors
/// [`CliError::Refused`] when there is none.
pub async fn describe(connection: &Connection, name: &str) -> Result<v1::Fleet, CliError> {
    let message = v1::GetFleetRequest { name: name.to_owned() };
    let mut fleets = connection.fleets();
    let answer = connection.wait(fleets.get_fleet(connection.request(message))).await?;
    found(answer.into_inner().fleet)
}

/// The fleet of a response.
///
/// # Errors
/// [`CliError::Answer`] when there is none in it.
pub fn found(fleet: Option<v1::Fleet>) -> Result<v1::Fleet, CliError> {
    fleet.ok_or_else(|| CliError::Answer("the response has no fleet".to_owned()))
}

/// True for longitude and latitude, false for metres.
#[must_use]
pub fn is_geographic(fleet: &v1::Fleet) -> bool {
    let kind = fleet.space.as_ref().and_then(|space| space.kind.as_ref());
    !matches!(kind, Some(Kind::Planar(_)))
}

/// The fleet's space.
///
/// # Errors
/// [`CliError::Answer`] for a space that cannot be.
pub fn space(fleet: &v1::Fleet) -> Result<Space, CliError> {
    match fleet.space.as_ref().and_then(|space| space.kind.as_ref()) {
        Some(Kind::Planar(plane)) => {
            let quantum_m = if plane.quantum_m > 0.0 { plane.quantum_m } else { 0.01 };
            Space::planar(plane.width_m, plane.height_m, quantum_m)
                .map_err(|error| CliError::Answer(format!("space of {}: {error}", fleet.name)))
        }
        _ => Ok(Space::geographic()),
    }
}

/// A space as the wire says it.
#[must_use]
pub fn to_wire(space: &Space) -> v1::Space {
    let kind = if space.is_geographic() {
        Kind::Geographic(v1::GeographicSpace {})
    } else {
        let (width_m, height_m) = space.to_api(space.bounds().x_max, space.bounds().y_max);
        Kind::Planar(v1::PlanarSpace { width_m, height_m, quantum_m: space.quantum() })
    };
    v1::Space { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_survive_the_wire() {
        for text in ["geographic", "planar:100000x50000", "planar:10x20:0.5"] {
            let there: Space = text.parse().unwrap();
            let fleet = v1::Fleet { space: Some(to_wire(&there)), ..Default::default() };
            assert_eq!(space(&fleet).unwrap(), there);
            assert_eq!(is_geographic(&fleet), there.is_geographic());
        }
    }
}
