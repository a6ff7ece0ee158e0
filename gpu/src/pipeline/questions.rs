//! How does a query become rectangles and shapes of the device?
//!
//! Range queries become parts, one for each rectangle of their region's cover; what a part is
//! tested against beyond its rectangle is a shape. Gets and nearest queries keep their place with
//! no part. Polygons share one list of slabs and one of edges.

use rayon::prelude::*;
use shoal_engine::layout::{
    Edge, FILTER_AGE, FILTER_ALTITUDE, FILTER_HEADING, FILTER_SPEED, FILTER_STATE, PART_COUNT,
    Part, SHAPE_CIRCLE_GEOGRAPHIC, SHAPE_CIRCLE_PLANAR, SHAPE_POLYGON, SHAPE_RECTANGLE, Shape,
};
use shoal_engine::{Circle, EngineError, Filter, Polygon, Projection, Query, QueryKind, Region};

/// Queries of one chunk of the work.
const CHUNK: usize = 1 << 13;
/// Queries from which it is worth waking other threads.
const MANY: usize = 1 << 15;

/// Lists for the device, in the order of the queries.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) parts: Vec<Part>,
    /// By query its first part; the end is the number of parts.
    pub(crate) first_parts: Vec<u32>,
    /// Counted from 1: number 0 means no test.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) slabs: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
}

/// The queries of a cycle, listed in chunks that follow each other.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Those in use come first; allocations live from cycle to cycle.
    lists: Vec<Lists>,
    used: usize,
    /// The number of parts, behind all first parts.
    pub(crate) end: [u32; 1],
    /// In place of shape number 0, which means no test.
    pub(crate) no_shape: [Shape; 1],
    /// By query the most ids to return; empty when none is limited.
    pub(crate) limits: Vec<u64>,
    /// All are ranges that want ids: nothing is left to make on the host.
    pub(crate) are_plain: bool,
}

impl Questions {
    /// Checks and lists a cycle's queries; gets and nearest queries have no part.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    pub(crate) fn list(&mut self, queries: &[Query]) -> Result<(), EngineError> {
        self.used = queries.len().div_ceil(CHUNK);
        if self.lists.len() < self.used {
            self.lists.resize_with(self.used, Lists::default);
        }
        let lists = &mut self.lists[..self.used];
        let list =
            |(chunk, (queries, lists)): (usize, (&[Query], &mut Lists))| lists.list(chunk, queries);
        let kinds: Result<Vec<(bool, bool)>, _> = if queries.len() < MANY {
            queries.chunks(CHUNK).zip(lists).enumerate().map(list).collect()
        } else {
            queries.par_chunks(CHUNK).zip(lists.par_iter_mut()).enumerate().map(list).collect()
        };
        let kinds = kinds?;
        let are_plain = kinds.iter().all(|(plain, _)| *plain);
        let are_limited = kinds.iter().any(|(_, limited)| *limited);
        self.are_plain = are_plain;
        self.limits.clear();
        if are_limited {
            self.limits.extend(queries.iter().map(|query| query.limit.unwrap_or(u64::MAX)));
        }
        let mut bases = Vec::with_capacity(self.used);
        let mut next = Base::default();
        for lists in self.chunks() {
            bases.push(next);
            next = next.after(lists);
        }
        let lists = &mut self.lists[..self.used];
        if queries.len() < MANY {
            lists.iter_mut().zip(bases).for_each(|(lists, base)| lists.shift(base));
        } else {
            lists.par_iter_mut().zip(bases).for_each(|(lists, base)| lists.shift(base));
        }
        self.end = [next.parts];
        Ok(())
    }

    /// The lists in use.
    pub(crate) fn chunks(&self) -> &[Lists] {
        &self.lists[..self.used]
    }
}

/// What stands before a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    parts: u32,
    shapes: u32,
    slabs: u32,
    edges: u32,
}

impl Base {
    fn after(self, lists: &Lists) -> Self {
        Self {
            parts: self.parts + lists.parts.len() as u32,
            shapes: self.shapes + lists.shapes.len() as u32,
            slabs: self.slabs + lists.slabs.len() as u32,
            edges: self.edges + lists.edges.len() as u32,
        }
    }
}

impl Lists {
    /// Lists a chunk; whether all of its queries are ranges that want ids, and whether any is
    /// limited.
    fn list(&mut self, chunk: usize, queries: &[Query]) -> Result<(bool, bool), EngineError> {
        self.parts.clear();
        self.first_parts.clear();
        self.shapes.clear();
        self.slabs.clear();
        self.edges.clear();
        let (mut are_plain, mut are_limited) = (true, false);
        for (query, number) in queries.iter().zip((chunk * CHUNK) as u32..) {
            query.check()?;
            self.first_parts.push(self.parts.len() as u32);
            are_limited |= query.limit.is_some();
            if let QueryKind::Range(region) = &query.kind {
                are_plain &= query.projection == Projection::Ids;
                self.push(number, region, &query.filter, query.projection == Projection::Count);
            } else {
                are_plain = false;
            }
        }
        Ok((are_plain, are_limited))
    }

    /// Counts from what stands before.
    fn shift(&mut self, base: Base) {
        self.first_parts.iter_mut().for_each(|first| *first += base.parts);
        for part in self.parts.iter_mut().filter(|part| part.shape & !PART_COUNT != 0) {
            part.shape += base.shapes;
        }
        for shape in &mut self.shapes {
            shape.slabs_at += base.slabs;
            shape.edges_at += base.edges;
        }
    }

    /// Adds a region for query `number`, whose parts must follow each other.
    pub(crate) fn push(&mut self, number: u32, region: &Region, filter: &Filter, count: bool) {
        let shape = if region.is_cover() && filter.is_empty() {
            0
        } else {
            let shape = self.shape(region, filter);
            self.shapes.push(shape);
            self.shapes.len() as u32
        };
        let shape = if count { shape | PART_COUNT } else { shape };
        self.parts.extend(region.cover().as_slice().iter().map(|rect| Part {
            x_min: rect.x_min,
            y_min: rect.y_min,
            x_max: rect.x_max,
            y_max: rect.y_max,
            query: number,
            shape,
        }));
    }

    fn shape(&mut self, region: &Region, filter: &Filter) -> Shape {
        let shape = filtered(filter);
        match region {
            Region::Circle(circle) if !circle.is_everything() => of_circle(circle, shape),
            Region::Polygon(polygon) => self.of_polygon(polygon, shape),
            _ => Shape { kind: SHAPE_RECTANGLE, ..shape },
        }
    }

    fn of_polygon(&mut self, polygon: &Polygon, shape: Shape) -> Shape {
        let slabs = polygon.slabs();
        let shape = Shape {
            kind: SHAPE_POLYGON,
            x: slabs.extent.x_min,
            y: slabs.extent.y_min,
            x_max: slabs.extent.x_max,
            y_max: slabs.extent.y_max,
            slab_shift: slabs.shift,
            touches_180: slabs.touches_180.into(),
            slabs_at: self.slabs.len() as u32,
            edges_at: self.edges.len() as u32,
            ..shape
        };
        self.slabs.extend(slabs.starts);
        self.edges.extend(slabs.edges.iter().map(|edge| {
            let [x_low, y_low, x_high, y_high] = edge.ends();
            Edge { x_low, y_low, x_high, y_high }
        }));
        shape
    }
}

fn of_circle(circle: &Circle, shape: Shape) -> Shape {
    let (x, y) = circle.ranker().centre();
    let [vector_x, vector_y, vector_z] = circle.ranker().vector().unwrap_or_default();
    let is_geographic = circle.ranker().is_geographic();
    let kind = if is_geographic { SHAPE_CIRCLE_GEOGRAPHIC } else { SHAPE_CIRCLE_PLANAR };
    Shape { kind, x, y, vector_x, vector_y, vector_z, rank_max: circle.rank_max(), ..shape }
}

/// A shape of no kind with the conditions of a filter.
fn filtered(filter: &Filter) -> Shape {
    let mut shape = Shape {
        state_mask: filter.state_mask,
        state_value: filter.state_value,
        ..Shape::default()
    };
    if filter.state_mask != 0 || filter.state_value != 0 {
        shape.filter |= FILTER_STATE;
    }
    if let Some(age_max_ms) = filter.age_max_ms {
        shape.filter |= FILTER_AGE;
        shape.age_max_ms = age_max_ms;
    }
    if let Some((min, max)) = filter.speed_mm_s {
        shape.filter |= FILTER_SPEED;
        (shape.speed_min, shape.speed_max) = (min, max);
    }
    if let Some((from, to)) = filter.heading_cdeg {
        shape.filter |= FILTER_HEADING;
        (shape.heading_min, shape.heading_max) = (from.into(), to.into());
    }
    if let Some((min, max)) = filter.altitude_mm {
        shape.filter |= FILTER_ALTITUDE;
        (shape.altitude_min, shape.altitude_max) = (min, max);
    }
    shape
}
