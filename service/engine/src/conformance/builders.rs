//! Builders of rows, requests, blocks, regions and queries for the cases.
//!
//! Times are milliseconds after a fixed instant. Blocks are encoded by the codec of the CPU; an
//! invalid one has a valid checksum.

use shoal_codec::{Block, BlockCodec, BlockPlan, Budget, CpuCodec, FixColumns, FixRow};

use crate::cycle::Request;
use crate::events::EventSet;
use crate::query::{Projection, Query, QueryKind};
use crate::region::Region;
use crate::space::Space;
use crate::subscription::{EventKind, RegionId, Subscription, SubscriptionChange};

/// The instant of time 0 in the cases: 2024-01-01T00:00:00Z.
pub(super) const START_MS: i64 = 1_704_067_200_000;

/// A fix without attributes, `after_ms` after [`START_MS`].
pub(super) fn fix(object: u64, after_ms: i64, x: i32, y: i32) -> FixRow {
    FixRow::new(object, START_MS + after_ms, x, y)
}

/// Rows as columns.
pub(super) fn columns(rows: &[FixRow]) -> FixColumns {
    let mut columns = FixColumns::with_capacity(rows.len());
    rows.iter().for_each(|row| columns.push_row(*row));
    columns
}

/// A request of rows.
pub(super) fn fixes(rows: &[FixRow]) -> Request {
    Request::Fixes(columns(rows))
}

/// Rows as a block of a plan, or as they are.
pub(super) fn request(space: &Space, rows: &[FixRow], plan: Option<&BlockPlan>) -> Request {
    plan.map_or_else(|| fixes(rows), |plan| planned_block(space, rows, plan))
}

/// Rows as a block whose columns are encoded by a plan.
pub(super) fn planned_block(space: &Space, rows: &[FixRow], plan: &BlockPlan) -> Request {
    Request::Block(parse(encode(space, rows, plan)))
}

/// A block whose header gives the least x as the greatest too; some row must have another x.
pub(super) fn invalid_block(space: &Space, rows: &[FixRow], plan: &BlockPlan) -> Request {
    const X_MIN: usize = 64;
    const X_MAX: usize = 68;
    const CHECKSUM: usize = 124;
    let mut bytes = encode(space, rows, plan);
    bytes.copy_within(X_MIN..X_MIN + 4, X_MAX);
    let checksum = crc32c(&bytes[..CHECKSUM]);
    bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
    Request::Block(parse(bytes))
}

fn encode(space: &Space, rows: &[FixRow], plan: &BlockPlan) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoded = CpuCodec.encode_planned(&columns(rows), plan, &space.tag(), 0, &mut bytes);
    encoded.expect("rows fit a block");
    bytes
}

fn parse(bytes: Vec<u8>) -> Block {
    Block::parse(bytes.into(), &Budget::default()).expect("the block is whole")
}

/// CRC-32C (Castagnoli, reflected 0x82F63B78), computed bit by bit, as a header is short.
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| {
        if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 }
    };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

/// A query for whole records without filter or limit.
pub(super) fn query(kind: QueryKind) -> Query {
    Query { kind, filter: None, projection: Projection::Fixes, limit: None }
}

/// A plane of 1000 by 1000 quanta of a metre.
pub(super) fn plane() -> Space {
    Space::planar(1_000.0, 1_000.0, 1.0).expect("the plane exists")
}

/// A rectangle on [`plane`].
pub(super) fn rectangle(west: f64, south: f64, east: f64, north: f64) -> Region {
    Region::rectangle(&plane(), west, south, east, north).expect("the rectangle is valid")
}

/// A circle on [`plane`].
pub(super) fn circle(x: f64, y: f64, radius_m: f64) -> Region {
    Region::circle(&plane(), x, y, radius_m).expect("the circle is valid")
}

/// A polygon of one ring on [`plane`].
pub(super) fn polygon(ring: &[(f64, f64)]) -> Region {
    Region::polygon(&plane(), &[ring.to_vec()]).expect("the polygon is valid")
}

/// Object and kind of each event of a region.
pub(super) fn events_of(events: &EventSet, region: u64) -> Vec<(u64, EventKind)> {
    let events = events.find(RegionId(region));
    events.iter().flat_map(|events| events.iter().map(|(object, kind, _)| (object, kind))).collect()
}

/// Adds or changes a region.
pub(super) fn set(region: u64, subscription: &Subscription, snapshot: bool) -> SubscriptionChange {
    SubscriptionChange::Set {
        region: RegionId(region),
        subscription: Box::new(subscription.clone()),
        is_snapshot_wanted: snapshot,
    }
}

/// A subscription to the square from 100 to 200 m in x and y on [`plane`].
pub(super) fn square() -> Subscription {
    Subscription::new(rectangle(100.0, 100.0, 200.0, 200.0))
}
