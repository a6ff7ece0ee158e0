//! Which points lie in a polygon or multipolygon?
//!
//! Even-odd over all rings with straight edges in quanta, every border inside; decided by comparing
//! two i64 products, exactly. Edges are filed by horizontal slab, so that a point meets few of
//! them. Does not cross the antimeridian and does not treat edges as great circles (RFC 7946).

use super::Cover;
use super::rectangle::meridian_cover;
use super::region::geographic_quanta;
use crate::error::GeometryError;
use crate::limits::{POLYGON_SLABS_MAX, POLYGON_VERTICES_MAX};
use crate::space::{HALF_TURN, QuantaRect, Space, finite};

/// Widest and highest edge: differences along it stay below 2^31, their products below 2^62.
const EDGE_MAX: u32 = i32::MAX as u32;

/// One side of a ring, its lower end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    x_low: i32,
    y_low: i32,
    x_high: i32,
    y_high: i32,
}

impl Edge {
    fn new(a: (i32, i32), b: (i32, i32)) -> Self {
        let (low, high) = if a.1 <= b.1 { (a, b) } else { (b, a) };
        Self { x_low: low.0, y_low: low.1, x_high: high.0, y_high: high.1 }
    }

    /// Its lower and its higher end: x, y, x, y in quanta.
    #[must_use]
    pub fn ends(&self) -> [i32; 4] {
        [self.x_low, self.y_low, self.x_high, self.y_high]
    }

    /// Where a point lies. Of the ends only the lower counts as crossed, so that a ray through a
    /// vertex crosses once or twice as it should; a horizontal edge is never crossed.
    #[inline]
    fn side(&self, x: i32, y: i32) -> Side {
        if y < self.y_low || y > self.y_high || x > self.x_low.max(self.x_high) {
            return Side::Apart;
        }
        let below_high = y < self.y_high;
        if x < self.x_low.min(self.x_high) {
            return if below_high { Side::Crossed } else { Side::Apart };
        }
        // The point lies in the edge's box: every difference is at most EDGE_MAX.
        let difference = |a: i32, b: i32| i64::from(a) - i64::from(b);
        let along = difference(self.x_high, self.x_low) * difference(y, self.y_low);
        let across = difference(self.y_high, self.y_low) * difference(x, self.x_low);
        match along.cmp(&across) {
            std::cmp::Ordering::Equal => Side::Border,
            std::cmp::Ordering::Greater if below_high => Side::Crossed,
            _ => Side::Apart,
        }
    }

    /// Whether the edge certainly has no point in common with a closed rectangle: apart on an axis,
    /// or all corners strictly on one side of its line.
    fn misses(&self, rect: &QuantaRect) -> bool {
        let (west, east) = (self.x_low.min(self.x_high), self.x_low.max(self.x_high));
        if west > rect.x_max
            || east < rect.x_min
            || self.y_low > rect.y_max
            || self.y_high < rect.y_min
        {
            return true;
        }
        // Corners may lie anywhere, so the products need more than 64 bits.
        let difference = |a: i32, b: i32| i128::from(a) - i128::from(b);
        let orientation = |x: i32, y: i32| {
            let along = difference(self.x_high, self.x_low) * difference(y, self.y_low);
            (along - difference(self.y_high, self.y_low) * difference(x, self.x_low)).signum()
        };
        let sum = orientation(rect.x_min, rect.y_min)
            + orientation(rect.x_min, rect.y_max)
            + orientation(rect.x_max, rect.y_min)
            + orientation(rect.x_max, rect.y_max);
        sum.abs() == 4
    }
}

/// Where a point lies, seen from an edge.
enum Side {
    /// On the edge.
    Border,
    /// The ray from the point towards greater x crosses the edge.
    Crossed,
    /// Neither.
    Apart,
}

/// One or several polygons by the even-odd rule; see [`super::Region::polygon`].
#[derive(Clone, Debug, PartialEq)]
pub struct Polygon {
    cover: Cover,
    /// The box of all vertices, longitude 180 kept.
    extent: QuantaRect,
    /// Whether points stored at longitude -180 are tested at 180 too.
    touches_180: bool,
    /// Height of a slab: 2^shift quanta.
    shift: u32,
    /// Per slab its first edge, and the end.
    starts: Box<[u32]>,
    /// The edges of every slab that they meet, slab by slab.
    edges: Box<[Edge]>,
}

/// The edges of a polygon filed by horizontal slab, for evaluation elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Slabs<'a> {
    /// The box of all vertices, longitude 180 kept.
    pub extent: QuantaRect,
    /// Whether points stored at longitude -180 are tested at 180 too.
    pub touches_180: bool,
    /// Height of a slab: 2^shift quanta.
    pub shift: u32,
    /// Per slab its first edge, and the end.
    pub starts: &'a [u32],
    /// The edges of every slab that they meet, slab by slab.
    pub edges: &'a [Edge],
}

impl Polygon {
    /// How its edges are filed.
    #[must_use]
    pub fn slabs(&self) -> Slabs<'_> {
        let Self { extent, touches_180, shift, starts, edges, .. } = self;
        Slabs { extent: *extent, touches_180: *touches_180, shift: *shift, starts, edges }
    }

    /// See [`super::Region::polygon`].
    pub(super) fn new(space: &Space, rings: &[Vec<(f64, f64)>]) -> Result<Self, GeometryError> {
        let mut vertices = 0;
        let mut edges = Vec::new();
        for (index, ring) in rings.iter().enumerate() {
            let ring = quantise_ring(space, index, ring)?;
            vertices += ring.len();
            if vertices > POLYGON_VERTICES_MAX {
                return Err(GeometryError::Rule(format!(
                    "the polygon has more than {POLYGON_VERTICES_MAX} vertices"
                )));
            }
            push_edges(space, index, &ring, &mut edges)?;
        }
        if edges.is_empty() {
            return Err(GeometryError::Rule("the polygon has no ring".to_owned()));
        }
        Ok(Self::build(space, &edges))
    }

    fn build(space: &Space, all: &[Edge]) -> Self {
        let mut extent =
            QuantaRect { x_min: i32::MAX, y_min: i32::MAX, x_max: i32::MIN, y_max: i32::MIN };
        for edge in all {
            extent.x_min = extent.x_min.min(edge.x_low).min(edge.x_high);
            extent.x_max = extent.x_max.max(edge.x_low).max(edge.x_high);
            extent.y_min = extent.y_min.min(edge.y_low);
            extent.y_max = extent.y_max.max(edge.y_high);
        }
        let QuantaRect { x_min, y_min, x_max, y_max } = extent;
        let touches_180 = space.is_geographic() && x_max == HALF_TURN;
        let cover = if space.is_geographic() {
            meridian_cover(space, x_min, x_max, y_min, y_max)
        } else {
            Cover::one(&extent, &space.bounds())
        };
        let shift = slab_shift(&extent, all);
        let slab = |y: i32| (y.abs_diff(y_min) >> shift) as usize;
        let mut starts = vec![0];
        let mut edges = Vec::new();
        for index in 0..=slab(y_max) {
            let meets = |edge: &&Edge| (slab(edge.y_low)..=slab(edge.y_high)).contains(&index);
            edges.extend(all.iter().filter(meets));
            starts.push(edges.len() as u32);
        }
        let (starts, edges) = (starts.into_boxed_slice(), edges.into_boxed_slice());
        Self { cover, extent, touches_180, shift, starts, edges }
    }

    /// Whether a point of the space lies in it.
    #[inline]
    #[must_use]
    pub fn contains(&self, x: i32, y: i32) -> bool {
        self.contains_at(x, y)
            || (self.touches_180 && x == -HALF_TURN && self.contains_at(HALF_TURN, y))
    }

    /// Whether the point at this very x lies in it.
    #[inline]
    fn contains_at(&self, x: i32, y: i32) -> bool {
        if !self.extent.contains(x, y) {
            return false;
        }
        let slab = self.slab(y);
        let mut inside = false;
        for edge in self.slab_edges(slab, slab) {
            match edge.side(x, y) {
                Side::Border => return true,
                Side::Crossed => inside = !inside,
                Side::Apart => {}
            }
        }
        inside
    }

    /// See [`super::Region::cover`].
    #[inline]
    #[must_use]
    pub fn cover(&self) -> Cover {
        self.cover
    }

    /// True when no edge meets `rect` and one of its corners is inside: then all of it is.
    #[must_use]
    pub fn covers(&self, rect: &QuantaRect) -> bool {
        self.extent.covers(rect)
            && self
                .slab_edges(self.slab(rect.y_min), self.slab(rect.y_max))
                .iter()
                .all(|edge| edge.misses(rect))
            && self.contains_at(rect.x_min, rect.y_min)
    }

    /// True when no edge meets `rect` and one of its corners is outside: then all of it is.
    #[must_use]
    pub fn misses(&self, rect: &QuantaRect) -> bool {
        if self.touches_180 && rect.x_min == -HALF_TURN {
            return false;
        }
        let Some(near) = rect.intersection(&self.extent) else {
            return true;
        };
        let edges = self.slab_edges(self.slab(near.y_min), self.slab(near.y_max));
        edges.iter().all(|edge| edge.misses(&near)) && !self.contains_at(near.x_min, near.y_min)
    }

    /// The slab of a `y` within the extent.
    #[inline]
    fn slab(&self, y: i32) -> usize {
        (y.abs_diff(self.extent.y_min) >> self.shift) as usize
    }

    /// The edges of these slabs, both included; some may come repeatedly.
    #[inline]
    fn slab_edges(&self, first: usize, last: usize) -> &[Edge] {
        &self.edges[self.starts[first] as usize..self.starts[last + 1] as usize]
    }
}

/// The finest slabs of which there are few and whose lists together are short.
fn slab_shift(extent: &QuantaRect, edges: &[Edge]) -> u32 {
    let height = extent.y_max.abs_diff(extent.y_min);
    let slab = |y: i32, shift: u32| (y.abs_diff(extent.y_min) >> shift) as usize;
    let spans = |shift: u32| -> usize {
        edges.iter().map(|edge| slab(edge.y_high, shift) - slab(edge.y_low, shift) + 1).sum()
    };
    // Four entries an edge: more slabs would make long edges cost more than they save.
    (0..32)
        .find(|shift| {
            ((height >> shift) as usize) < POLYGON_SLABS_MAX && spans(*shift) <= 4 * edges.len()
        })
        .unwrap_or(31)
}

/// The vertices of a ring in quanta, without the closing one.
fn quantise_ring(
    space: &Space,
    index: usize,
    ring: &[(f64, f64)],
) -> Result<Vec<(i32, i32)>, GeometryError> {
    if ring.len() > POLYGON_VERTICES_MAX + 1 {
        return Err(GeometryError::Rule(format!(
            "ring {index} has {} vertices, the limit is {POLYGON_VERTICES_MAX}",
            ring.len()
        )));
    }
    let mut vertices = Vec::with_capacity(ring.len());
    for (x, y) in ring {
        vertices.push(if space.is_geographic() {
            let x = geographic_quanta(space, "longitude of a vertex", *x, 180.0)?;
            (x, geographic_quanta(space, "latitude of a vertex", *y, 90.0)?)
        } else {
            (planar_quanta(space, "x of a vertex", *x)?, planar_quanta(space, "y of a vertex", *y)?)
        });
    }
    if vertices.len() > 1 && vertices.first() == vertices.last() {
        vertices.pop();
    }
    let second = vertices.iter().find(|vertex| **vertex != vertices[0]);
    let third = vertices.iter().find(|vertex| **vertex != vertices[0] && Some(*vertex) != second);
    if third.is_none() {
        return Err(GeometryError::Rule(format!(
            "ring {index} has fewer than 3 distinct vertices"
        )));
    }
    Ok(vertices)
}

/// One planar coordinate of a vertex, which may lie outside the space.
fn planar_quanta(space: &Space, what: &'static str, value: f64) -> Result<i32, GeometryError> {
    let quanta = space.round(finite(what, value)?);
    let (min, max) = (f64::from(i32::MIN), f64::from(i32::MAX));
    if (min..=max).contains(&quanta) {
        Ok(quanta as i32)
    } else {
        let (min, max) = (min * space.quantum(), max * space.quantum());
        Err(GeometryError::OutOfRange { what, value, min, max })
    }
}

/// Appends the edges of a ring, the closing one included.
fn push_edges(
    space: &Space,
    index: usize,
    ring: &[(i32, i32)],
    edges: &mut Vec<Edge>,
) -> Result<(), GeometryError> {
    let (wide_max, unit) = if space.is_geographic() {
        (HALF_TURN.unsigned_abs(), "degrees")
    } else {
        (EDGE_MAX, "metres")
    };
    for (at, a) in ring.iter().enumerate() {
        let b = &ring[(at + 1) % ring.len()];
        let (wide, high) = (a.0.abs_diff(b.0), a.1.abs_diff(b.1));
        if wide > wide_max || high > EDGE_MAX {
            let size = f64::from(wide.max(high)) * space.quantum();
            let limit = f64::from(wide_max) * space.quantum();
            return Err(GeometryError::Rule(format!(
                "the edge after vertex {at} of ring {index} spans {size} {unit}, the limit is \
                 {limit}: add a vertex on it or split the polygon"
            )));
        }
        edges.push(Edge::new(*a, *b));
    }
    Ok(())
}
