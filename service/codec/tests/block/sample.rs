//! Sample columns: a geographic and a planar space, a few rows by hand, random columns of any
//! shape.

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, BlockError, Budget, CpuCodec, FixColumns, FixRow, SpaceKind, SpaceTag,
};
use shoal_testkit::Random;

pub(crate) const EARTH: SpaceTag =
    SpaceTag { kind: SpaceKind::Geographic, origin_x: 0.0, origin_y: 0.0, quantum: 1e-7 };
pub(crate) const PLANE: SpaceTag =
    SpaceTag { kind: SpaceKind::Planar, origin_x: -250.5, origin_y: 1e6, quantum: 0.01 };

/// 2024-05-01T00:00:00Z.
pub(crate) const TIME_MS: i64 = 1_714_521_600_000;

/// Mandatory columns, three buses of Austin.
pub(crate) fn plain() -> FixColumns {
    let mut columns = FixColumns::new();
    columns.push_row(FixRow::new(2_601, TIME_MS + 30_000, -977_430_000, 302_672_000));
    columns.push_row(FixRow::new(17, TIME_MS, -977_429_999, 302_671_999));
    columns.push_row(FixRow::new(u64::MAX - 1, TIME_MS + 30_000, -1_800_000_000, 900_000_000));
    columns
}

/// The eight columns of version 1.0, five rows, known and unknown attributes.
pub(crate) fn full() -> FixColumns {
    let mut columns = plain();
    columns.push_row(FixRow {
        speed_mm_s: 13_889,
        heading_cdeg: 35_999,
        altitude_mm: -430_500,
        state: 0x8000_0001,
        ..FixRow::new(17, TIME_MS + 60_000, -977_429_000, 302_671_000)
    });
    columns.push_row(FixRow::new(0, TIME_MS + 4_294_967_295, i32::MAX, i32::MIN));
    columns
}

/// Columns of `rows` rows, some optional ones, values of any size.
pub(crate) fn random(random: &mut Random, rows: usize) -> FixColumns {
    let base = random.edgy() as i64;
    let span = random.word() & u64::from(u32::MAX);
    let times = |random: &mut Random| {
        let offset = (random.edgy() % (span + 1)) as i64;
        base.saturating_add(offset)
    };
    let mut columns = FixColumns::with_capacity(rows);
    for _ in 0..rows {
        columns.object.push(random.edgy());
        columns.time_ms.push(times(random));
        columns.x.push(random.edgy() as i32);
        columns.y.push(random.edgy() as i32);
    }
    let present = random.word();
    let mut attribute = |bit: u32| -> Option<Vec<u64>> {
        (present >> bit & 1 == 1).then(|| (0..rows).map(|_| random.edgy()).collect())
    };
    columns.speed_mm_s = attribute(0).map(|all| all.iter().map(|&v| v as u32).collect());
    columns.heading_cdeg = attribute(1).map(|all| all.iter().map(|&v| v as u16).collect());
    columns.altitude_mm = attribute(2).map(|all| all.iter().map(|&v| v as i32).collect());
    columns.state = attribute(3).map(|all| all.iter().map(|&v| v as u32).collect());
    columns.valid_ms = attribute(4).map(|all| all.iter().map(|&v| v as u32).collect());
    columns
}

pub(crate) fn encode(columns: &FixColumns, space: &SpaceTag, sequence: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    CpuCodec.encode(columns, space, sequence, &mut bytes).expect("the sample is legal");
    bytes
}

/// Parses with the default budget.
pub(crate) fn parse(bytes: &[u8]) -> Result<Block, BlockError> {
    Block::parse(Bytes::copy_from_slice(bytes), &Budget::default())
}

/// Parses and decodes.
pub(crate) fn read(bytes: &[u8]) -> Result<FixColumns, BlockError> {
    parse(bytes)?.decode()
}
