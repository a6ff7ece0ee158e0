//! The encoded messages of attacks: legal requests that are as expensive as their limits allow.
//!
//! Each is built once and sent many times.

use std::f64::consts::TAU;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use shoal_client::v1::batch_query::Kind;
use shoal_client::v1::{
    BatchQuery, BatchRequest, Circle, CountRegionsRequest, DensityRequest, EventKind, Fix,
    MultiPolygon, NearestQuery, PassedRequest, Polygon, Projection, QueryOptions, Rectangle,
    Region, RegionSubscription, ReportRequest, Ring, Rows, TimeWindow, region, report_request,
};
use shoal_codec::{Aim, BlockStream, CpuCodec, FixColumns, FixRow, PlanChoice};
use shoal_engine::Space;

use crate::limits::MESSAGE_QUERIES_MAX;

/// Radius of circles, metres: almost a hemisphere.
const CIRCLE_RADIUS_M: f64 = 9e6;
/// Vertices of a star: the server's limit of a region.
const STAR_VERTICES: u32 = 4_096;
/// Radius of a star's inner vertices as a share of the outer ones.
const STAR_INNER: f64 = 0.3;
/// Objects of a nearest query.
const NEAREST_K: u32 = 1_000;
/// Stars among mixed queries: one in this many.
const MIXED_STARS: u32 = 64;
/// Multipolygons of a CountRegions, and triangles of each: the server's limit of vertices.
const COUNTED_MULTI_POLYGONS: u32 = 64;
const TRIANGLES: u32 = STAR_VERTICES / 3;
/// Rows of a block of equal rows: the server's limit.
const CONSTANT_ROWS: usize = 256 << 10;
/// Their object.
const CONSTANT_OBJECT: u64 = 3 << 60;
/// Rows whose ids differ in their high bits only, and the lowest of these bits.
const CHOSEN_IDS: u32 = 1 << 16;
const CHOSEN_ID_BIT: u32 = 48;
/// Side of the squares of a density of the past, degrees.
const DENSITY_CELL: f64 = 0.5;
/// Fixes of a message of empty fixes.
pub const EMPTY_FIXES: usize = (4 << 20) - 1;
/// Queries, regions or rings of a message of empty ones.
pub const EMPTY_PARTS: usize = (4 << 20) - 64;
/// An empty query in a list of queries, and an empty region in a list of regions to follow: tag and
/// length.
const EMPTY_PART: [u8; 2] = [0x12, 0x00];
/// An empty ring of a polygon.
const EMPTY_RING: [u8; 2] = [0x0a, 0x00];
/// Tags of a region of CountRegions, and of its polygon.
const COUNTED_REGION: u8 = 0x22;
const REGION_POLYGON: u8 = 0x1a;
/// Rows of a message of an overload, and the lowest object of its first connection.
pub const OVERLOAD_ROWS: u64 = 4_096;
const OVERLOAD_OBJECT_MIN: u64 = 2 << 60;
/// The most regions of one message of a subscriber: the server's limit.
const MESSAGE_REGIONS_MAX: usize = 16_384;
/// Rows ahead of the clock: the number of rows in a message, how far they are ahead (milliseconds),
/// and their lowest object id.
const AHEAD_ROWS: u64 = 1_000;
const AHEAD_MS: i64 = 59_000;
const AHEAD_OBJECT_MIN: u64 = 1 << 60;
/// An empty fix in a list of fixes: tag and length.
const EMPTY_FIX: [u8; 2] = [0x0a, 0x00];
/// Tag of the rows of a report.
const REPORT_ROWS: u8 = 0x22;

/// The whole world.
#[must_use]
pub fn world() -> Region {
    let world = Rectangle { west: -180.0, south: -90.0, east: 180.0, north: 90.0 };
    Region { kind: Some(region::Kind::Rectangle(world)) }
}

/// 4,096 counts of the whole world.
#[must_use]
pub fn rectangles(fleet: &str) -> Bytes {
    let queries = (0..MESSAGE_QUERIES_MAX).map(|_| Kind::Range(world()));
    batch(fleet, Projection::Count, queries)
}

/// 4,096 counts of circles with different centres.
#[must_use]
pub fn circles(fleet: &str) -> Bytes {
    let circle = |index| {
        let (x, y) = spread(index);
        let circle = Circle { x, y, radius_m: CIRCLE_RADIUS_M };
        Kind::Range(Region { kind: Some(region::Kind::Circle(circle)) })
    };
    batch(fleet, Projection::Count, (0..MESSAGE_QUERIES_MAX).map(circle))
}

/// `count` queries for the number of objects in a star, each star slightly smaller than the one
/// before.
#[must_use]
pub fn stars(fleet: &str, count: u32) -> Bytes {
    let star = |index| {
        let size = 1.0 - f64::from(index) / 1e4;
        let polygon = Polygon { rings: vec![star(size)] };
        Kind::Range(Region { kind: Some(region::Kind::Polygon(polygon)) })
    };
    batch(fleet, Projection::Count, (0..count).map(star))
}

/// 4,096 nearest queries of 1,000 objects around different points.
#[must_use]
pub fn nearest(fleet: &str) -> Bytes {
    let nearest = |index| {
        let (x, y) = spread(index);
        Kind::Nearest(NearestQuery { x, y, k: NEAREST_K, distance_max_m: None })
    };
    batch(fleet, Projection::Ids, (0..MESSAGE_QUERIES_MAX).map(nearest))
}

/// 4,096 counts: stars, circles, nearest queries and rectangles of half of the world.
#[must_use]
pub fn mixed_queries(fleet: &str) -> Bytes {
    let region = |kind| Kind::Range(Region { kind: Some(kind) });
    let query = |index: u32| {
        let (x, y) = spread(index);
        if index.is_multiple_of(MIXED_STARS) {
            let size = 1.0 - f64::from(index) / 1e5;
            return region(region::Kind::Polygon(Polygon { rings: vec![star(size)] }));
        }
        match index % 3 {
            0 => region(region::Kind::Circle(Circle { x, y, radius_m: CIRCLE_RADIUS_M })),
            1 => Kind::Nearest(NearestQuery { x, y, k: NEAREST_K, distance_max_m: None }),
            _ => {
                let half = Rectangle { west: x, south: -90.0, east: x / 2.0 + 90.0, north: y };
                region(region::Kind::Rectangle(half))
            }
        }
    };
    batch(fleet, Projection::Count, (0..MESSAGE_QUERIES_MAX).map(query))
}

/// A CountRegions of 4,096 rectangles of the whole world.
#[must_use]
pub fn count_rectangles(fleet: &str) -> Bytes {
    count_regions(fleet, (0..MESSAGE_QUERIES_MAX).map(|_| world()))
}

/// A CountRegions of 64 multipolygons of 1,365 triangles, each of which covers a large part of the
/// world.
#[must_use]
pub fn count_triangles(fleet: &str) -> Bytes {
    let ring = |index: u32| {
        let corner = |third: f64| {
            let turn = f64::from(index) / f64::from(TRIANGLES * COUNTED_MULTI_POLYGONS);
            let (sin, cos) = (TAU * (turn + third / 3.0)).sin_cos();
            (89.0 * cos, 89.0 * sin)
        };
        let (x, y) = [0.0, 1.0, 2.0].map(corner).into_iter().unzip();
        Ring { x, y }
    };
    let multi_polygon = |number: u32| {
        let triangles = number * TRIANGLES..(number + 1) * TRIANGLES;
        let polygons = triangles.map(|index| Polygon { rings: vec![ring(index)] }).collect();
        Region { kind: Some(region::Kind::MultiPolygon(MultiPolygon { polygons })) }
    };
    count_regions(fleet, (0..COUNTED_MULTI_POLYGONS).map(multi_polygon))
}

fn count_regions(fleet: &str, regions: impl Iterator<Item = Region>) -> Bytes {
    let regions = regions.collect();
    let request = CountRegionsRequest { fleet: fleet.to_owned(), regions, ..Default::default() };
    request.encode_to_vec().into()
}

/// The requests of Passed, for all past fixes of the world, and of Density.
#[must_use]
pub fn past_of_the_world(fleet: &str, now_ms: i64) -> (Bytes, Bytes) {
    let window = Some(TimeWindow { from_ms: 0, to_ms: now_ms + AHEAD_MS });
    let passed = PassedRequest {
        fleet: fleet.to_owned(),
        region: Some(world()),
        window,
        projection: Projection::Fixes.into(),
        ..PassedRequest::default()
    };
    let (fleet, cell) = (fleet.to_owned(), DENSITY_CELL);
    let density = DensityRequest { fleet, window, cell, ..DensityRequest::default() };
    (passed.encode_to_vec().into(), density.encode_to_vec().into())
}

/// A report of a block of 262,144 equal rows.
#[must_use]
pub fn constant_block(fleet: &str, now_ms: i64) -> Bytes {
    block(fleet, (0..CONSTANT_ROWS).map(|_| FixRow::new(CONSTANT_OBJECT, now_ms, 0, 0)))
}

/// A report of a block of 65,536 objects.
#[must_use]
pub fn chosen_ids(fleet: &str, now_ms: i64) -> Bytes {
    block(
        fleet,
        (0..CHOSEN_IDS).map(|id| FixRow::new(u64::from(id) << CHOSEN_ID_BIT, now_ms, id as i32, 0)),
    )
}

fn block(fleet: &str, rows: impl ExactSizeIterator<Item = FixRow>) -> Bytes {
    let mut columns = FixColumns::with_capacity(rows.len());
    rows.for_each(|row| columns.push_row(row));
    let plans = PlanChoice::Planned(Aim::Fast);
    let encoded = BlockStream::new(Space::geographic().tag(), plans).encode(&CpuCodec, &columns);
    let block = encoded.expect("a block has as many rows");
    let payload = Some(report_request::Payload::Block(block.into()));
    let request = ReportRequest { fleet: fleet.to_owned(), payload, ..ReportRequest::default() };
    request.encode_to_vec().into()
}

/// A report of [`EMPTY_FIXES`] fixes in two bytes each.
#[must_use]
pub fn empty_fixes(fleet: &str) -> Bytes {
    let head = ReportRequest { fleet: fleet.to_owned(), ..ReportRequest::default() };
    let rows_bytes = EMPTY_FIXES * EMPTY_FIX.len();
    let mut message = BytesMut::from(head.encode_to_vec().as_slice());
    message.reserve(rows_bytes + 16);
    message.put_u8(REPORT_ROWS);
    prost::encode_length_delimiter(rows_bytes, &mut message).expect("room was reserved");
    message.put_slice(&EMPTY_FIX.repeat(EMPTY_FIXES));
    message.freeze()
}

/// [`EMPTY_PARTS`] queries of a Batch, or regions of a Subscribe, in two bytes each.
#[must_use]
pub fn empty_parts() -> Bytes {
    EMPTY_PART.repeat(EMPTY_PARTS).into()
}

/// A CountRegions with a polygon of [`EMPTY_PARTS`] rings in two bytes each.
#[must_use]
pub fn empty_rings() -> Bytes {
    let rings = EMPTY_RING.repeat(EMPTY_PARTS);
    let nested = |tag: u8, content: &[u8]| {
        let mut message = BytesMut::with_capacity(content.len() + 16);
        message.put_u8(tag);
        prost::encode_length_delimiter(content.len(), &mut message).expect("room was reserved");
        message.put_slice(content);
        message.freeze()
    };
    nested(COUNTED_REGION, &nested(REGION_POLYGON, &rings))
}

/// A report of [`OVERLOAD_ROWS`] objects of one connection. The time of its rows is easily set.
#[derive(Clone, Debug)]
pub struct OverloadRows {
    message: BytesMut,
    /// Places of the times.
    times: Vec<usize>,
}

impl OverloadRows {
    /// The rows of a connection.
    #[must_use]
    pub fn new(fleet: &str, connection: u64) -> Self {
        let unset = i64::from_le_bytes(*b"no time.");
        let object_min = OVERLOAD_OBJECT_MIN + connection * OVERLOAD_ROWS;
        let fix = |row: u64| {
            let (x, y) = spread(row as u32);
            Fix { object: object_min + row, time_ms: unset, x, y, ..Fix::default() }
        };
        let rows = Rows { fixes: (0..OVERLOAD_ROWS).map(fix).collect() };
        let payload = Some(report_request::Payload::Rows(rows));
        let request = ReportRequest { fleet: fleet.to_owned(), payload, ..Default::default() };
        let message = request.encode_to_vec();
        let is_time = |place: &usize| message[*place..].starts_with(&unset.to_le_bytes());
        let times = (0..message.len()).filter(is_time).collect();
        Self { message: BytesMut::from(message.as_slice()), times }
    }

    /// The report with this time of all rows.
    #[must_use]
    pub fn at(&self, time_ms: i64) -> BytesMut {
        let mut message = self.message.clone();
        for place in &self.times {
            message[*place..place + 8].copy_from_slice(&time_ms.to_le_bytes());
        }
        message
    }
}

/// A report of objects that the well-behaved client does not use, 59 s ahead of the clock.
#[must_use]
pub fn rows_ahead(fleet: &str, now_ms: i64) -> Bytes {
    let fix = |object: u64| Fix {
        object: AHEAD_OBJECT_MIN + object,
        time_ms: now_ms + AHEAD_MS,
        ..Fix::default()
    };
    let rows = Rows { fixes: (0..AHEAD_ROWS).map(fix).collect() };
    let payload = Some(report_request::Payload::Rows(rows));
    let request = ReportRequest { fleet: fleet.to_owned(), payload, ..ReportRequest::default() };
    request.encode_to_vec().into()
}

/// Regions of the whole world of a session that follows every move, in lists that a message can
/// have.
#[must_use]
pub fn world_regions(regions: u32) -> Vec<Vec<RegionSubscription>> {
    let region = |region_id| RegionSubscription {
        region_id,
        region: Some(world()),
        events: vec![EventKind::Move.into()],
        ..RegionSubscription::default()
    };
    let regions: Vec<_> = (1..=u64::from(regions)).map(region).collect();
    regions.chunks(MESSAGE_REGIONS_MAX).map(<[_]>::to_vec).collect()
}

fn batch(fleet: &str, projection: Projection, kinds: impl Iterator<Item = Kind>) -> Bytes {
    let options = QueryOptions {
        fleet: fleet.to_owned(),
        projection: projection.into(),
        ..QueryOptions::default()
    };
    let queries = kinds.map(|kind| BatchQuery { kind: Some(kind) }).collect();
    BatchRequest { options: Some(options), queries }.encode_to_vec().into()
}

/// A point of a grid of 64 x 64 over the world.
fn spread(index: u32) -> (f64, f64) {
    let share = |step: u32| (f64::from(step % 64) + 0.5) / 64.0;
    (share(index) * 360.0 - 180.0, share(index / 64) * 180.0 - 90.0)
}

/// A star over most of the world; every edge crosses a large part of it.
fn star(size: f64) -> Ring {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for vertex in 0..STAR_VERTICES {
        let radius = size * if vertex % 2 == 0 { 1.0 } else { STAR_INNER };
        let (sin, cos) = (TAU * f64::from(vertex) / f64::from(STAR_VERTICES)).sin_cos();
        x.push(179.0 * radius * cos);
        y.push(89.0 * radius * sin);
    }
    Ring { x, y }
}

#[cfg(test)]
mod tests {
    use shoal_client::v1::report_request::Payload;
    use shoal_client::v1::{CountRegionsRequest, SubscribeRequest};

    use super::*;
    use crate::limits::MESSAGE_BYTES_MAX;

    #[test]
    fn a_report_of_empty_fixes_is_one() {
        let message = empty_fixes("f");
        assert!(message.len() <= MESSAGE_BYTES_MAX);
        let request = ReportRequest::decode(message).unwrap();
        let Some(Payload::Rows(rows)) = request.payload else { panic!("not rows") };
        assert_eq!((request.fleet.as_str(), rows.fixes.len()), ("f", EMPTY_FIXES));
    }

    #[test]
    fn rows_ahead_and_empty_queries_are_what_they_say() {
        let request = ReportRequest::decode(rows_ahead("f", 5)).unwrap();
        let Some(Payload::Rows(rows)) = request.payload else { panic!("not rows") };
        assert_eq!((rows.fixes.len(), rows.fixes[9].time_ms), (1_000, 59_005));
        let nine = empty_parts().slice(..2 * 9);
        let queries = BatchRequest::decode(nine.clone()).unwrap().queries;
        assert_eq!(queries, vec![BatchQuery::default(); 9]);
        let regions = SubscribeRequest::decode(nine).unwrap().regions;
        assert_eq!(regions, vec![RegionSubscription::default(); 9]);
        let request = CountRegionsRequest::decode(empty_rings()).unwrap();
        let Some(region::Kind::Polygon(polygon)) = &request.regions[0].kind else {
            panic!("no polygon");
        };
        assert_eq!(polygon.rings.len(), EMPTY_PARTS);
        let rows = OverloadRows::new("f", 3).at(77);
        let Some(Payload::Rows(rows)) = ReportRequest::decode(rows).unwrap().payload else {
            panic!("not rows");
        };
        assert!(rows.fixes.len() == 4_096 && rows.fixes.iter().all(|fix| fix.time_ms == 77));
        let lists = world_regions(40_000);
        assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [16_384, 16_384, 7_232]);
    }

    #[test]
    fn messages_of_queries_are_legal() {
        for (message, queries) in [
            (rectangles("f"), 4_096),
            (circles("f"), 4_096),
            (stars("f", 120), 120),
            (nearest("f"), 4_096),
            (mixed_queries("f"), 4_096),
        ] {
            assert!(message.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(BatchRequest::decode(message).unwrap().queries.len(), queries);
        }
        for (message, regions) in [(count_rectangles("f"), 4_096), (count_triangles("f"), 64)] {
            assert_eq!(CountRegionsRequest::decode(message).unwrap().regions.len(), regions);
        }
    }

    #[test]
    fn blocks_are_small_for_their_rows() {
        for (message, rows, bytes_max) in
            [(constant_block("f", 5), CONSTANT_ROWS, 600), (chosen_ids("f", 5), 1 << 16, 1 << 20)]
        {
            assert!(message.len() <= bytes_max, "{}", message.len());
            let request = ReportRequest::decode(message).unwrap();
            let Some(Payload::Block(block)) = request.payload else { panic!("not a block") };
            assert_eq!(shoal_codec::BlockHeader::parse(&block).unwrap().rows as usize, rows);
        }
    }
}
