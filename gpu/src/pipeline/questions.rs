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
use shoal_engine::{Circle, Filter, Polygon, Projection, Query, QueryKind, Region};

/// Queries of one chunk of the work.
const CHUNK: usize = 1 << 13;

/// Lists for the device, in the order of the queries.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    pub(crate) parts: Vec<Part>,
    /// By query its first part, and the end.
    pub(crate) first_parts: Vec<u32>,
    /// The first is of no use: number 0 means no test.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) slabs: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
}

impl Questions {
    /// Of a cycle's queries; gets and nearest queries have no part.
    pub(crate) fn of(queries: &[Query]) -> Self {
        let chunks: Vec<Self> = queries
            .par_chunks(CHUNK)
            .enumerate()
            .map(|(chunk, part)| Self::of_chunk(chunk, part))
            .collect();
        let mut all = Self { shapes: vec![Shape::default()], ..Self::default() };
        all.parts.reserve(chunks.iter().map(|chunk| chunk.parts.len()).sum());
        all.first_parts.reserve(queries.len() + 1);
        for chunk in chunks {
            all.append(chunk);
        }
        all.first_parts.push(all.parts.len() as u32);
        all
    }

    fn of_chunk(chunk: usize, queries: &[Query]) -> Self {
        let mut list = Self { shapes: vec![Shape::default()], ..Self::default() };
        list.parts.reserve(queries.len());
        list.first_parts.reserve(queries.len());
        for (query, number) in queries.iter().zip((chunk * CHUNK) as u32..) {
            list.first_parts.push(list.parts.len() as u32);
            if let QueryKind::Range(region) = &query.kind {
                let count = query.projection == Projection::Count;
                list.push(number, region, &query.filter, count);
            }
        }
        list
    }

    fn append(&mut self, chunk: Self) {
        let (parts, shapes) = (self.parts.len() as u32, self.shapes.len() as u32);
        let (slabs, edges) = (self.slabs.len() as u32, self.edges.len() as u32);
        self.first_parts.extend(chunk.first_parts.iter().map(|first| first + parts));
        self.parts.extend(chunk.parts.iter().map(|part| {
            let number = part.shape & !PART_COUNT;
            let number = if number == 0 { 0 } else { number + shapes - 1 };
            Part { shape: number | part.shape & PART_COUNT, ..*part }
        }));
        self.shapes.extend(chunk.shapes.into_iter().skip(1).map(|shape| Shape {
            slabs_at: shape.slabs_at + slabs,
            edges_at: shape.edges_at + edges,
            ..shape
        }));
        self.slabs.extend(chunk.slabs);
        self.edges.extend(chunk.edges);
    }

    /// Adds a region for query `number`, whose parts must follow each other.
    pub(crate) fn push(&mut self, number: u32, region: &Region, filter: &Filter, count: bool) {
        let shape = if region.is_cover() && filter.is_empty() {
            0
        } else {
            let shape = self.shape(region, filter);
            self.shapes.push(shape);
            self.shapes.len() as u32 - 1
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
