//! Converts the space of a fleet between the wire's form and the engine's.

use shoal_client::Error;
use shoal_client::v1::{self, space::Kind};
use shoal_engine::{PLANAR_QUANTUM_M, Space};

/// Whether positions are longitude and latitude; otherwise they are in metres.
#[must_use]
pub fn is_geographic(fleet: &v1::Fleet) -> bool {
    let kind = fleet.space.as_ref().and_then(|space| space.kind.as_ref());
    !matches!(kind, Some(Kind::Planar(_)))
}

/// The fleet's space.
///
/// # Errors
/// [`Error::Protocol`] for an invalid space.
pub fn space(fleet: &v1::Fleet) -> Result<Space, Error> {
    match fleet.space.as_ref().and_then(|space| space.kind.as_ref()) {
        Some(Kind::Planar(plane)) => {
            let quantum_m = if plane.quantum_m > 0.0 { plane.quantum_m } else { PLANAR_QUANTUM_M };
            Space::planar(plane.width_m, plane.height_m, quantum_m)
                .map_err(|error| Error::Protocol(format!("space of {}: {error}", fleet.name)))
        }
        _ => Ok(Space::geographic()),
    }
}

/// A space in the wire's form.
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
