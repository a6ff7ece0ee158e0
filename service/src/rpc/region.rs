//! Converts regions to the engine's type.
//!
//! Checks that a kind is set and that coordinate lists match and are not too long; the engine
//! checks the geometry. Field paths in errors start at the region; callers prepend their own.

use shoal_engine::limits::POLYGON_VERTICES_MAX;
use shoal_engine::{Region, Space};
use shoal_proto::v1;
use shoal_proto::v1::region::Kind;

use crate::error::ServiceError;

/// Fixed cost of converting a region or a query, in vertices. It is the cost of computing the
/// thresholds of a circle.
pub(super) const REGION_WORK: usize = 8;

/// Vertices of a ring.
type Vertices = Vec<(f64, f64)>;

/// Converts a region to quanta.
///
/// # Errors
/// [`ServiceError::Field`].
pub(super) fn region(space: &Space, sent: Option<&v1::Region>) -> Result<Region, ServiceError> {
    let unset = || {
        let problem = "none of rectangle, circle, polygon and multi_polygon is set";
        ServiceError::field("", problem)
    };
    match sent.and_then(|sent| sent.kind.as_ref()).ok_or_else(unset)? {
        Kind::Rectangle(sides) => {
            let v1::Rectangle { west, south, east, north } = *sides;
            Region::rectangle(space, west, south, east, north)
                .map_err(|error| ServiceError::geometry("rectangle", &error))
        }
        Kind::Circle(circle) => Region::circle(space, circle.x, circle.y, circle.radius_m)
            .map_err(|error| ServiceError::geometry("circle", &error)),
        Kind::Polygon(polygon) => {
            let rings = bound_vertices(std::slice::from_ref(polygon))
                .and_then(|()| rings(&polygon.rings))
                .map_err(|error| error.under("polygon"))?;
            Region::polygon(space, &rings)
                .map_err(|error| ServiceError::geometry("polygon", &error))
        }
        Kind::MultiPolygon(sent) => {
            let polygons = polygons(&sent.polygons);
            let polygons = polygons.map_err(|error| error.under("multi_polygon"))?;
            Region::multi_polygon(space, &polygons)
                .map_err(|error| ServiceError::geometry("multi_polygon", &error))
        }
    }
}

/// The number of vertices of a region, on which the time and the memory of its conversion depend.
pub(super) fn vertices(sent: &v1::Region) -> usize {
    let polygons = match &sent.kind {
        Some(Kind::Polygon(polygon)) => std::slice::from_ref(polygon),
        Some(Kind::MultiPolygon(sent)) => &sent.polygons,
        Some(Kind::Rectangle(_) | Kind::Circle(_)) | None => &[],
    };
    polygons.iter().flat_map(|polygon| &polygon.rings).map(|ring| 1 + ring.x.len()).sum()
}

/// The cost of converting a region, in vertices.
pub(super) fn work(sent: &v1::Region) -> usize {
    REGION_WORK + vertices(sent)
}

fn polygons(sent: &[v1::Polygon]) -> Result<Vec<Vec<Vertices>>, ServiceError> {
    bound_vertices(sent)?;
    let polygon = |(index, sent): (usize, &v1::Polygon)| {
        rings(&sent.rings).map_err(|error| error.under(&format!("polygons[{index}]")))
    };
    sent.iter().enumerate().map(polygon).collect()
}

/// Refuses polygons that are certainly too large, before anything is copied. Up to twice the limit
/// is accepted here, because rings may have closing vertices.
fn bound_vertices(polygons: &[v1::Polygon]) -> Result<(), ServiceError> {
    let rings = polygons.iter().flat_map(|polygon| &polygon.rings);
    let (rings, vertices) =
        rings.fold((0, 0), |(rings, vertices), ring| (rings + 1, vertices + ring.x.len()));
    if vertices.max(rings).max(polygons.len()) <= 2 * POLYGON_VERTICES_MAX {
        return Ok(());
    }
    let problem = format!(
        "{vertices} vertices in {rings} rings exceed the limit of {POLYGON_VERTICES_MAX} vertices"
    );
    Err(ServiceError::field("", problem))
}

fn rings(sent: &[v1::Ring]) -> Result<Vec<Vertices>, ServiceError> {
    let mut rings = Vec::with_capacity(sent.len());
    for (index, ring) in sent.iter().enumerate() {
        if ring.x.len() != ring.y.len() {
            let (x, y) = (ring.x.len(), ring.y.len());
            let problem = format!("x has {x} values and y has {y}: they must be equally long");
            return Err(ServiceError::field(format!("rings[{index}]"), problem));
        }
        rings.push(ring.x.iter().copied().zip(ring.y.iter().copied()).collect());
    }
    Ok(rings)
}
