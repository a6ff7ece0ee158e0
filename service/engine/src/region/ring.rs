//! Converts the rings of a polygon to edges in quanta.
//!
//! Vertices are rounded as points are, except that longitude 180 is distinct from -180 and vertices
//! may be outside a plane. Errors name the ring, and the coordinate at fault.

use super::edge::{EDGE_MAX, Edge};
use crate::error::{GeometryError, number};
use crate::limits::POLYGON_VERTICES_MAX;
use crate::space::{Axis, HALF_TURN, Space};

/// The vertices of a ring as (x, y) in degrees or metres; the closing one is optional.
pub type Ring = Vec<(f64, f64)>;

/// The edges of all rings of one polygon.
pub(super) fn edges_of(space: &Space, rings: &[Ring]) -> Result<Vec<Edge>, GeometryError> {
    if rings.is_empty() {
        return Err(GeometryError::new("rings", "a polygon needs a ring"));
    }
    let mut edges = Vec::new();
    for (index, ring) in rings.iter().enumerate() {
        let named = |error: GeometryError| {
            error.renamed(|field| match field {
                "" => format!("rings[{index}]"),
                field => format!("rings[{index}].{field}"),
            })
        };
        let ring = quantise(space, ring).map_err(named)?;
        push_edges(space, &ring, &mut edges).map_err(named)?;
        within("rings", edges.len())?;
    }
    Ok(edges)
}

/// Confirms the number of vertices of a region.
pub(super) fn within(field: &str, vertices: usize) -> Result<(), GeometryError> {
    if vertices <= POLYGON_VERTICES_MAX {
        return Ok(());
    }
    let problem = format!("the region has more than {POLYGON_VERTICES_MAX} polygon vertices");
    Err(GeometryError::new(field, problem))
}

/// The vertices of a ring in quanta, without the closing one.
fn quantise(space: &Space, ring: &[(f64, f64)]) -> Result<Vec<(i32, i32)>, GeometryError> {
    // The closing vertex is not counted.
    within("", ring.len().saturating_sub(1))?;
    let mut vertices = Vec::with_capacity(ring.len());
    for (index, (x, y)) in ring.iter().enumerate() {
        let named =
            |error: GeometryError| error.renamed(|coordinate| format!("{coordinate}[{index}]"));
        let x = side(space, Axis::X, *x).map_err(named)?;
        vertices.push((x, side(space, Axis::Y, *y).map_err(named)?));
    }
    if vertices.len() > 1 && vertices.first() == vertices.last() {
        vertices.pop();
    }
    let second = vertices.iter().find(|vertex| **vertex != vertices[0]);
    let third = vertices.iter().find(|vertex| **vertex != vertices[0] && Some(*vertex) != second);
    if third.is_none() {
        return Err(GeometryError::new("", "a ring needs 3 distinct vertices"));
    }
    Ok(vertices)
}

/// One coordinate of a vertex.
fn side(space: &Space, axis: Axis, value: f64) -> Result<i32, GeometryError> {
    let quanta = space.coordinate(axis, value)?;
    let range = [i32::MIN, i32::MAX];
    if (f64::from(range[0])..=f64::from(range[1])).contains(&quanta) {
        Ok(quanta as i32)
    } else {
        Err(space.outside(axis, value, range))
    }
}

/// Appends the edges of a ring, the closing one included.
fn push_edges(
    space: &Space,
    ring: &[(i32, i32)],
    edges: &mut Vec<Edge>,
) -> Result<(), GeometryError> {
    let (wide_max, unit) = if space.is_geographic() {
        (HALF_TURN.unsigned_abs(), "degrees")
    } else {
        (EDGE_MAX, "metres")
    };
    for (from, a) in ring.iter().enumerate() {
        let to = (from + 1) % ring.len();
        let b = &ring[to];
        let (wide, high) = (a.0.abs_diff(b.0), a.1.abs_diff(b.1));
        if space.is_geographic() && wide == 2 * HALF_TURN.unsigned_abs() && high == 0 {
            // The side of a box over the whole world: only one way leads along the parallel.
            let middle = (0, a.1);
            edges.extend([Edge::new(*a, middle), Edge::new(middle, *b)]);
            continue;
        }
        if wide > wide_max || high > EDGE_MAX {
            let metres_or_degrees =
                |quanta: u32| number((f64::from(quanta) * space.quantum() * 1e7).round() / 1e7);
            let (size, limit) = (metres_or_degrees(wide.max(high)), metres_or_degrees(wide_max));
            let problem = format!(
                "the edge from vertex {from} to vertex {to} spans {size} {unit}, the limit is \
                 {limit}: add a vertex between them or split the polygon"
            );
            return Err(GeometryError::new("", problem));
        }
        edges.push(Edge::new(*a, *b));
    }
    Ok(())
}
