//! Turns queries into rectangles (parts) and shapes of the device.
//!
//! A range query becomes one part for each rectangle of its region's cover; the test of a part
//! beyond its rectangle is a shape. Gets and nearest queries have their number but no part.
//! Polygons share one list of slabs and one of edges.

use rayon::prelude::*;
use shoal_engine::layout::{
    Edge, FILTER_AGE, FILTER_MEASURE, FILTER_OBJECT, FILTER_STATE, PART_COUNT, Part,
    SHAPE_CIRCLE_GEOGRAPHIC, SHAPE_CIRCLE_PLANAR, SHAPE_POLYGON, SHAPE_POLYGON_180,
    SHAPE_RECTANGLE, Shape,
};
use shoal_engine::{
    Circle, EngineError, Filter, Polygon, Projection, QuantaRect, Query, QueryKind, Region,
    RowLimit,
};

use crate::launch::{Memory, PinnedBuffer};

/// Queries of one chunk of the work.
const CHUNK: usize = 1 << 13;
/// Least number of queries for several threads.
const MANY: usize = 1 << 15;

/// The shapes of parts, in the order of the queries.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    /// Counted from 1: number 0 means no test.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) slabs: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
}

/// The queries of a cycle, in consecutive chunks.
#[derive(Debug, Default)]
pub(crate) struct QueryParts {
    /// Those in use are first; allocations are reused by later cycles.
    chunks: Vec<Shapes>,
    used: usize,
    /// Parts of all queries.
    pub(crate) parts: usize,
    /// In place of shape number 0, which means no test.
    pub(crate) no_shape: [Shape; 1],
    /// By query the limit of its rows; empty without limits.
    pub(crate) limits: Vec<Option<RowLimit>>,
    /// All queries are ranges that request ids: the host builds no answers.
    pub(crate) are_plain: bool,
}

/// The parts of a chunk of queries.
#[derive(Clone, Copy, Debug)]
struct Listed {
    parts: usize,
    are_plain: bool,
    are_limited: bool,
}

impl QueryParts {
    /// Checks a cycle's queries and lists them, their parts in `parts`; gets and nearest queries
    /// have none.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    pub(crate) fn list(
        &mut self,
        memory: &Memory,
        queries: &[Query],
        parts: &mut PinnedBuffer<Part>,
    ) -> Result<(), EngineError> {
        self.used = queries.len().div_ceil(CHUNK);
        if self.chunks.len() < self.used {
            self.chunks.resize_with(self.used, Shapes::default);
        }
        parts.fit(memory, queries.len())?;
        // Most regions have one part, so lists are first written as if all had; lists that are not
        // contiguous then are written again.
        let mut capacities: Vec<usize> = queries.chunks(CHUNK).map(<[Query]>::len).collect();
        let mut listed = self.list_into(queries, parts.as_mut_slice(), &capacities)?;
        if listed.iter().zip(&capacities).any(|(listed, capacity)| listed.parts != *capacity) {
            capacities = listed.iter().map(|listed| listed.parts).collect();
            parts.fit(memory, capacities.iter().sum())?;
            listed = self.list_into(queries, parts.as_mut_slice(), &capacities)?;
        }
        self.parts = capacities.iter().sum();
        self.shift(parts.as_mut_slice(), &capacities);
        self.are_plain = listed.iter().all(|listed| listed.are_plain);
        self.limits.clear();
        if listed.iter().any(|listed| listed.are_limited) {
            self.limits.extend(queries.iter().map(|query| query.limit));
        }
        Ok(())
    }

    /// Lists all chunks, each with its capacity in parts; parts beyond it are only counted.
    fn list_into(
        &mut self,
        queries: &[Query],
        parts: &mut [Part],
        capacities: &[usize],
    ) -> Result<Vec<Listed>, EngineError> {
        let places = split(parts, capacities);
        let chunks = self.chunks[..self.used].iter_mut();
        let work = chunks.zip(places).zip(queries.chunks(CHUNK)).enumerate();
        let work: Vec<_> = work.collect();
        let list = |(chunk, ((shapes, parts), queries)): (usize, ((&mut Shapes, _), &[Query]))| {
            shapes.list(chunk, queries, parts)
        };
        if queries.len() < MANY {
            work.into_iter().map(list).collect()
        } else {
            work.into_par_iter().map(list).collect()
        }
    }

    /// Shifts every chunk by the lengths before it.
    fn shift(&mut self, parts: &mut [Part], capacities: &[usize]) {
        let mut base = Base::default();
        for (shapes, parts) in self.chunks[..self.used].iter_mut().zip(split(parts, capacities)) {
            let next = base.after(shapes);
            shapes.shift(base, parts);
            base = next;
        }
    }

    /// The shapes of the chunks in use.
    pub(crate) fn chunks(&self) -> &[Shapes] {
        &self.chunks[..self.used]
    }
}

/// Consecutive ranges of these lengths.
fn split<'a>(mut parts: &'a mut [Part], lengths: &[usize]) -> Vec<&'a mut [Part]> {
    let mut ranges = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (range, rest) = parts.split_at_mut(*length);
        ranges.push(range);
        parts = rest;
    }
    ranges
}

/// The lengths before a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    shapes: u32,
    slabs: u32,
    edges: u32,
}

impl Base {
    fn after(self, before: &Shapes) -> Self {
        Self {
            shapes: self.shapes + before.shapes.len() as u32,
            slabs: self.slabs + before.slabs.len() as u32,
            edges: self.edges + before.edges.len() as u32,
        }
    }
}

impl Shapes {
    /// Lists a chunk, its parts in `parts` up to its capacity.
    fn list(
        &mut self,
        chunk: usize,
        queries: &[Query],
        parts: &mut [Part],
    ) -> Result<Listed, EngineError> {
        self.shapes.clear();
        self.slabs.clear();
        self.edges.clear();
        let mut listed = Listed { parts: 0, are_plain: true, are_limited: false };
        for (query, number) in queries.iter().zip((chunk * CHUNK) as u32..) {
            query.check()?;
            listed.are_limited |= query.limit.is_some();
            if let QueryKind::Range(region) = &query.kind {
                listed.are_plain &= query.projection == Projection::Ids;
                // The common query: a window of one rectangle.
                if let Region::Rectangle(rectangle) = region
                    && let [rect] = rectangle.as_slice()
                    && query.filter.is_none()
                    && query.projection != Projection::Count
                {
                    if let Some(place) = parts.get_mut(listed.parts) {
                        *place = part(rect, number, 0);
                    }
                    listed.parts += 1;
                    continue;
                }
                let count = query.projection == Projection::Count;
                for part in self.parts_of(number, region, query.filter.as_deref(), count) {
                    if let Some(place) = parts.get_mut(listed.parts) {
                        *place = part;
                    }
                    listed.parts += 1;
                }
            } else {
                listed.are_plain = false;
            }
        }
        Ok(listed)
    }

    /// Shifts it by the lengths before it.
    fn shift(&mut self, base: Base, parts: &mut [Part]) {
        if base.shapes > 0 && !self.shapes.is_empty() {
            for part in parts.iter_mut().filter(|part| part.shape & !PART_COUNT != 0) {
                part.shape += base.shapes;
            }
        }
        for shape in &mut self.shapes {
            shape.slabs_at += base.slabs;
            shape.edges_at += base.edges;
        }
    }

    /// The parts of query `number`, which must follow each other. Adds its shape.
    #[inline]
    pub(crate) fn parts_of(
        &mut self,
        number: u32,
        region: &Region,
        filter: Option<&Filter>,
        count: bool,
    ) -> impl Iterator<Item = Part> + use<> {
        let shape = if region.is_cover() && filter.is_none() {
            0
        } else {
            let shape = self.shape(region, filter);
            self.shapes.push(shape);
            self.shapes.len() as u32
        };
        let shape = if count { shape | PART_COUNT } else { shape };
        let cover = region.cover();
        (0..cover.as_slice().len()).map(move |at| part(&cover.as_slice()[at], number, shape))
    }

    /// The shape of a region and a filter; adds the lists of a polygon.
    pub(super) fn shape(&mut self, region: &Region, filter: Option<&Filter>) -> Shape {
        let shape = filter.map_or_else(Shape::default, filtered);
        match region {
            Region::Circle(circle) if !circle.is_everything() => of_circle(circle, shape),
            Region::Polygon(polygon) => self.of_polygon(polygon, shape),
            _ => Shape { kind: SHAPE_RECTANGLE, ..shape },
        }
    }

    fn of_polygon(&mut self, polygon: &Polygon, shape: Shape) -> Shape {
        let slabs = polygon.slabs();
        let shape = Shape {
            kind: if slabs.touches_180 { SHAPE_POLYGON_180 } else { SHAPE_POLYGON },
            x: slabs.extent.x_min,
            y: slabs.extent.y_min,
            x_max: slabs.extent.x_max,
            y_max: slabs.extent.y_max,
            slab_shift: slabs.shift,
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

fn part(rect: &QuantaRect, query: u32, shape: u32) -> Part {
    let QuantaRect { x_min, y_min, x_max, y_max } = *rect;
    Part { x_min, y_min, x_max, y_max, query, shape }
}

/// A shape with the centre and the rank of a circle.
pub(super) fn of_circle(circle: &Circle, shape: Shape) -> Shape {
    let (x, y) = circle.ranker().centre();
    let [vector_x, vector_y, vector_z] = circle.ranker().vector().unwrap_or_default();
    let is_geographic = circle.ranker().is_geographic();
    let kind = if is_geographic { SHAPE_CIRCLE_GEOGRAPHIC } else { SHAPE_CIRCLE_PLANAR };
    Shape { kind, x, y, vector_x, vector_y, vector_z, rank_max: circle.rank_max(), ..shape }
}

/// A shape without a kind, with the conditions of a filter.
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
    add_measures(&mut shape, filter);
    if let Some(object) = filter.object_after {
        shape.filter |= FILTER_OBJECT;
        shape.object_after = object;
    }
    shape
}

macro_rules! render {
    ($($column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident {
        [$word:ident $at:ident $min:ident $max:ident] $($storage:tt)+
    };)+) => {
        /// Adds a filter's conditions on measures.
        fn add_measures(shape: &mut Shape, filter: &Filter) {
            let mut bit = FILTER_MEASURE >> 1;
            $(
                bit <<= 1;
                if let Some((min, max)) = filter.$field {
                    shape.filter |= bit;
                    (shape.$min, shape.$max) = (min.into(), max.into());
                }
            )+
        }
    };
}

shoal_codec::measures!(render);
