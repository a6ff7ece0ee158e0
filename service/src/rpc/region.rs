//! How does a region of the wire become one of the engine?
//!
//! Only shapes are checked here (something is set, rings have as many x as y); what a region may be
//! is the engine's rule, and its words reach the client with the field's name.

use shoal_engine::limits::POLYGON_VERTICES_MAX;
use shoal_engine::{Region, Space};
use shoal_proto::v1;
use shoal_proto::v1::region::Kind;

use crate::error::ServiceError;

/// The engine's region.
///
/// # Errors
/// [`ServiceError::Field`] under `region`.
pub(super) fn region(space: &Space, sent: Option<&v1::Region>) -> Result<Region, ServiceError> {
    let unset = || ServiceError::field("region", "required, but not set");
    match sent.and_then(|sent| sent.kind.as_ref()).ok_or_else(unset)? {
        Kind::Rectangle(sides) => {
            let v1::Rectangle { west, south, east, north } = *sides;
            Region::rectangle(space, west, south, east, north)
                .map_err(|error| ServiceError::geometry("region.rectangle", &error))
        }
        Kind::Circle(circle) => Region::circle(space, circle.x, circle.y, circle.radius_m)
            .map_err(|error| ServiceError::geometry("region.circle", &error)),
        Kind::Polygon(polygon) => {
            let rings = rings(&polygon.rings)?;
            Region::polygon(space, &rings)
                .map_err(|error| ServiceError::geometry("region.polygon", &error))
        }
    }
}

fn rings(sent: &[v1::Ring]) -> Result<Vec<Vec<(f64, f64)>>, ServiceError> {
    // Twice the limit leaves room for closing vertices; before anything is copied.
    let vertices: usize = sent.iter().map(|ring| ring.x.len()).sum();
    if vertices.max(sent.len()) > 2 * POLYGON_VERTICES_MAX {
        let problem = format!(
            "{vertices} vertices in {} rings exceed the limit of {POLYGON_VERTICES_MAX} vertices",
            sent.len()
        );
        return Err(ServiceError::field("region.polygon", problem));
    }
    let mut rings = Vec::with_capacity(sent.len());
    for (index, ring) in sent.iter().enumerate() {
        if ring.x.len() != ring.y.len() {
            let (x, y) = (ring.x.len(), ring.y.len());
            let problem =
                format!("{x} values of x and {y} of y: both lists must have the same length");
            return Err(ServiceError::field(format!("region.polygon.rings[{index}]"), problem));
        }
        rings.push(ring.x.iter().copied().zip(ring.y.iter().copied()).collect());
    }
    Ok(rings)
}
