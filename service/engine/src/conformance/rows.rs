//! How do the cases write rows, requests and blocks in one line?
//!
//! Times are milliseconds after one fixed instant. Blocks are encoded by the codec of the CPU; the
//! one that lies is sealed with a checksum that holds.

use shoal_codec::{Block, BlockCodec, BlockPlan, Budget, CpuCodec, FixColumns, FixRow};

use crate::cycle::Request;
use crate::query::{Projection, Query, QueryKind};
use crate::space::Space;

/// The instant from which the cases count: 2024-01-01T00:00:00Z.
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

/// The same rows as a block of raw columns.
pub(super) fn block(space: &Space, rows: &[FixRow]) -> Request {
    planned_block(space, rows, &BlockPlan::raw())
}

/// The same rows as a block whose columns are encoded by a plan.
pub(super) fn planned_block(space: &Space, rows: &[FixRow], plan: &BlockPlan) -> Request {
    Request::Block(parse(encode(space, rows, plan)))
}

/// A block whose header says that no x is above the least one; some row must be.
pub(super) fn lying_block(space: &Space, rows: &[FixRow], plan: &BlockPlan) -> Request {
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

/// CRC-32C (Castagnoli, reflected 0x82F63B78) bit by bit: a header is short.
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
