//! Rectangles (parts) and shapes of the device for regions and filters.
//!
//! A region has a part for each rectangle of its cover; a shape is the test that a part needs in
//! addition to its rectangle. Polygons share one list of slabs and one of edges.

use shoal_engine::layout::{
    Edge, FILTER_AGE, FILTER_MEASURE, FILTER_OBJECT, FILTER_STATE, PART_COUNT, Part,
    SHAPE_CIRCLE_GEOGRAPHIC, SHAPE_CIRCLE_PLANAR, SHAPE_POLYGON, SHAPE_POLYGON_180,
    SHAPE_RECTANGLE, Shape,
};
use shoal_engine::{Circle, Filter, Polygon, QuantaRect, Region};

/// The shapes of parts, in the order of the queries.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    /// Counted from 1: number 0 means no test.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) slabs: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
}

impl Shapes {
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
    pub(crate) fn shape(&mut self, region: &Region, filter: Option<&Filter>) -> Shape {
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

/// The part of a query for a rectangle.
pub(crate) fn part(rect: &QuantaRect, query: u32, shape: u32) -> Part {
    let QuantaRect { x_min, y_min, x_max, y_max } = *rect;
    Part { x_min, y_min, x_max, y_max, query, shape }
}

/// A shape with the centre and the rank of a circle.
pub(crate) fn of_circle(circle: &Circle, shape: Shape) -> Shape {
    let (x, y) = circle.ranker().centre();
    let [vector_x, vector_y, vector_z] = circle.ranker().vector().unwrap_or_default();
    let is_geographic = circle.ranker().is_geographic();
    let kind = if is_geographic { SHAPE_CIRCLE_GEOGRAPHIC } else { SHAPE_CIRCLE_PLANAR };
    Shape { kind, x, y, vector_x, vector_y, vector_z, rank_max: circle.rank_max(), ..shape }
}

/// A shape that has only the conditions of a filter; its kind is not set.
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
