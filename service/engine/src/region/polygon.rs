//! Polygons and multipolygons.
//!
//! Even-odd over the rings of each polygon with straight edges in quanta, every border inside; a
//! multipolygon is the union. Edges are indexed by horizontal slab, so that a point tests few of
//! them. Polygons do not cross the antimeridian; edges are not great circles (RFC 7946).

use super::Cover;
use super::edge::{Edge, Side};
use super::rectangle::meridian_cover;
use super::ring::{Ring, edges_of, within};
use crate::error::GeometryError;
use crate::limits::{POLYGON_EDGE_COPIES_MAX, POLYGON_SLABS_MAX, POLYGON_VERTEX_SLABS_MAX};
use crate::space::{HALF_TURN, QuantaRect, Space};

/// A polygon or the union of several; see [`super::Region::multi_polygon`].
#[derive(Clone, Debug, PartialEq)]
pub struct Polygon {
    cover: Cover,
    /// The box of all vertices, longitude 180 kept.
    extent: QuantaRect,
    /// Whether points stored at longitude -180 are tested at 180 too.
    touches_180: bool,
    /// Height of a slab: 2^shift quanta.
    shift: u32,
    /// Edges of all rings, each once.
    vertices: u32,
    /// Per slab its first edge, and the end.
    starts: Box<[u32]>,
    /// The edges, slab by slab; an edge is repeated in every slab that it meets. In a slab the
    /// edges of each polygon are together, with [`Edge::PART_END`] between two polygons.
    edges: Box<[Edge]>,
}

/// The edges of a polygon by horizontal slab.
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
    /// The edges, slab by slab; an edge is repeated in every slab that it meets. In a slab the
    /// edges of each polygon are together, with an [`Edge::is_part_end`] between two polygons.
    pub edges: &'a [Edge],
}

impl Slabs<'_> {
    /// Number of slabs.
    #[must_use]
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }
}

impl Polygon {
    /// Its edges by slab.
    #[must_use]
    pub fn slabs(&self) -> Slabs<'_> {
        let Self { extent, touches_180, shift, starts, edges, .. } = self;
        Slabs { extent: *extent, touches_180: *touches_180, shift: *shift, starts, edges }
    }

    /// Vertices of all rings, closing ones not counted: as many as there are edges.
    #[must_use]
    pub fn vertices(&self) -> usize {
        self.vertices as usize
    }

    /// See [`super::Region::polygon`].
    pub(super) fn one(space: &Space, rings: &[Ring]) -> Result<Self, GeometryError> {
        Ok(Self::build(space, &[edges_of(space, rings)?]))
    }

    /// See [`super::Region::multi_polygon`].
    pub(super) fn union(space: &Space, polygons: &[Vec<Ring>]) -> Result<Self, GeometryError> {
        let mut parts: Vec<Vec<Edge>> = Vec::new();
        let mut vertices = 0;
        for (index, rings) in polygons.iter().enumerate() {
            let under = |field: &str| format!("polygons[{index}].{field}");
            parts.push(edges_of(space, rings).map_err(|error| error.renamed(under))?);
            vertices += parts[index].len();
            within("polygons", vertices)?;
        }
        if parts.is_empty() {
            return Err(GeometryError::new("polygons", "a multipolygon needs a polygon"));
        }
        Ok(Self::build(space, &parts))
    }

    fn build(space: &Space, parts: &[Vec<Edge>]) -> Self {
        let extents: Vec<QuantaRect> = parts.iter().map(|edges| extent_of(edges)).collect();
        let extent = extents.iter().copied().reduce(around).unwrap_or(NOTHING);
        let touches_180 = space.is_geographic() && extent.x_max == HALF_TURN;
        let shift = slab_shift(&extent, parts);
        let slab = |y: i32| (y.abs_diff(extent.y_min) >> shift) as usize;
        let mut starts = vec![0];
        let mut edges: Vec<Edge> = Vec::new();
        for index in 0..=slab(extent.y_max) {
            let first = edges.len();
            let meets = |edge: &&Edge| (slab(edge.y_low())..=slab(edge.y_high())).contains(&index);
            for part in parts {
                let mut met = part.iter().filter(meets).peekable();
                if edges.len() > first && met.peek().is_some() {
                    edges.push(Edge::PART_END);
                }
                edges.extend(met);
            }
            starts.push(edges.len() as u32);
        }
        let cover = cover_of(space, extents, &extent);
        let vertices = parts.iter().map(Vec::len).sum::<usize>() as u32;
        let (starts, edges) = (starts.into_boxed_slice(), edges.into_boxed_slice());
        Self { cover, extent, touches_180, shift, vertices, starts, edges }
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
                Side::PartEnd if inside => return true,
                Side::Apart | Side::PartEnd => {}
            }
        }
        inside
    }

    /// See [`super::Region::test_work`]; the number of edges of a slab.
    #[must_use]
    pub(super) fn test_work(&self) -> u64 {
        2 + self.edges.len().div_ceil(self.starts.len().max(2) - 1) as u64
    }

    /// See [`super::Region::cover`].
    #[inline]
    #[must_use]
    pub fn cover(&self) -> Cover {
        self.cover
    }

    /// True when no edge meets `rect` and one of its corners is inside, so that all of `rect` is.
    #[must_use]
    pub fn covers(&self, rect: &QuantaRect) -> bool {
        self.extent.covers(rect)
            && self
                .slab_edges(self.slab(rect.y_min), self.slab(rect.y_max))
                .iter()
                .all(|edge| edge.misses(rect))
            && self.contains_at(rect.x_min, rect.y_min)
    }

    /// True when no edge meets `rect` and one of its corners is outside, so that all of `rect` is.
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

    /// The edges of slabs `first` to `last`, inclusive. An edge in several slabs is repeated.
    #[inline]
    fn slab_edges(&self, first: usize, last: usize) -> &[Edge] {
        &self.edges[self.starts[first] as usize..self.starts[last + 1] as usize]
    }
}

/// The box of nothing.
const NOTHING: QuantaRect =
    QuantaRect { x_min: i32::MAX, y_min: i32::MAX, x_max: i32::MIN, y_max: i32::MIN };

/// The box of some edges.
fn extent_of(edges: &[Edge]) -> QuantaRect {
    let boxes = edges.iter().map(|edge| {
        let [x_low, y_min, x_high, y_max] = edge.ends();
        QuantaRect { x_min: x_low.min(x_high), y_min, x_max: x_low.max(x_high), y_max }
    });
    boxes.reduce(around).unwrap_or(NOTHING)
}

/// The box around two.
fn around(a: QuantaRect, b: QuantaRect) -> QuantaRect {
    QuantaRect {
        x_min: a.x_min.min(b.x_min),
        y_min: a.y_min.min(b.y_min),
        x_max: a.x_max.max(b.x_max),
        y_max: a.y_max.max(b.y_max),
    }
}

/// The cover of polygons with these extents, which lie in `extent`. It has a box on each side of
/// the widest gap if the gap exceeds a quarter of the width, as in a multipolygon that is split at
/// the antimeridian.
fn cover_of(space: &Space, mut extents: Vec<QuantaRect>, extent: &QuantaRect) -> Cover {
    extents.sort_unstable_by_key(|extent| extent.x_min);
    let mut west = extents.first().copied().unwrap_or(*extent);
    let mut widest = (0, 1);
    for (at, extent) in extents.iter().enumerate().skip(1) {
        let gap = i64::from(extent.x_min) - i64::from(west.x_max);
        widest = widest.max((gap, at));
        west = around(west, *extent);
    }
    let touches_180 = space.is_geographic() && extent.x_max == HALF_TURN;
    let width = i64::from(extent.x_max) - i64::from(extent.x_min);
    let is_split = widest.0 > width / 4 && (!touches_180 || extent.x_min == -HALF_TURN);
    let bounds = space.bounds();
    if !is_split {
        let QuantaRect { x_min, y_min, x_max, y_max } = *extent;
        return if space.is_geographic() {
            meridian_cover(space, x_min, x_max, y_min, y_max)
        } else {
            Cover::one(extent, &bounds)
        };
    }
    let (west, east) = extents.split_at(widest.1);
    let group = |extents: &[QuantaRect]| extents.iter().copied().reduce(around).unwrap_or(NOTHING);
    let (mut west, east) = (group(west), group(east));
    if touches_180 {
        // Points at longitude 180 are stored at -180.
        (west.y_min, west.y_max) = (west.y_min.min(east.y_min), west.y_max.max(east.y_max));
    }
    let mut cover = Cover::one(&west, &bounds);
    cover.add(&east, &bounds);
    cover
}

/// The smallest slab height whose number of slabs and of edge copies are within the limits.
fn slab_shift(extent: &QuantaRect, parts: &[Vec<Edge>]) -> u32 {
    let height = extent.y_max.abs_diff(extent.y_min);
    let edges: usize = parts.iter().map(Vec::len).sum();
    let slab = |y: i32, shift: u32| (y.abs_diff(extent.y_min) >> shift) as usize;
    let spans = |shift: u32| -> usize {
        let of = |edge: &Edge| slab(edge.y_high(), shift) - slab(edge.y_low(), shift) + 1;
        parts.iter().flatten().map(of).sum()
    };
    // Where polygons lie far apart, most slabs would be empty.
    let slabs_max = POLYGON_SLABS_MAX.min(POLYGON_VERTEX_SLABS_MAX * edges);
    // More copies would make long edges cost more than they save.
    (0..32)
        .find(|shift| {
            ((height >> shift) as usize) < slabs_max
                && spans(*shift) <= POLYGON_EDGE_COPIES_MAX * edges
        })
        .unwrap_or(31)
}
