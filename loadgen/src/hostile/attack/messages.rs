//! The encoded messages of attacks: legal requests that are as expensive as their limits allow.
//!
//! Each is built once and sent many times.

use std::f64::consts::TAU;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use shoal_client::v1::batch_query::Kind;
use shoal_client::v1::{
    BatchQuery, BatchRequest, Circle, EventKind, Fix, NearestQuery, Polygon, Projection,
    QueryOptions, Rectangle, Region, RegionSubscription, ReportRequest, Ring, Rows,
    SubscribeRequest, region, report_request,
};

use crate::limits::MESSAGE_QUERIES_MAX;

/// Radius of circles, metres: almost a hemisphere.
const CIRCLE_RADIUS_M: f64 = 9e6;
/// Vertices of a star: the server's limit of a region.
const STAR_VERTICES: u32 = 4_096;
/// Radius of a star's inner vertices as a share of the outer ones.
const STAR_INNER: f64 = 0.3;
/// Objects of a nearest query.
const NEAREST_K: u32 = 1_000;
/// Fixes of a message of empty fixes.
pub const EMPTY_FIXES: usize = (4 << 20) - 1;
/// Queries of a message of empty queries.
pub const EMPTY_QUERIES: usize = (4 << 20) - 64;
/// An empty query in a list of queries: tag and length.
const EMPTY_QUERY: [u8; 2] = [0x12, 0x00];
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

/// [`EMPTY_QUERIES`] queries in two bytes each.
#[must_use]
pub fn empty_queries() -> Bytes {
    EMPTY_QUERY.repeat(EMPTY_QUERIES).into()
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

/// A session with regions of the whole world that reports every move.
#[must_use]
pub fn world_regions(fleet: &str, regions: u32) -> Bytes {
    let region = |region_id| RegionSubscription {
        region_id,
        region: Some(world()),
        events: vec![EventKind::Move.into()],
        ..RegionSubscription::default()
    };
    let regions = (1..=u64::from(regions)).map(region).collect();
    let request =
        SubscribeRequest { fleet: fleet.to_owned(), regions, ..SubscribeRequest::default() };
    request.encode_to_vec().into()
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
        let queries = BatchRequest::decode(empty_queries().slice(..2 * 9)).unwrap().queries;
        assert_eq!(queries, vec![BatchQuery::default(); 9]);
    }

    #[test]
    fn messages_of_queries_are_legal() {
        for (message, queries) in [
            (rectangles("f"), 4_096),
            (circles("f"), 4_096),
            (stars("f", 120), 120),
            (nearest("f"), 4_096),
        ] {
            assert!(message.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(BatchRequest::decode(message).unwrap().queries.len(), queries);
        }
    }
}
