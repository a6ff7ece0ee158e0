//! Plain rows in the log: a block, or raw rows if a block cannot represent their times.
//!
//! A body begins with 8 bytes: its form as a 32-bit number, little-endian, and 4 zero bytes. LOG.md
//! of the position log treats it as opaque.

use bytes::Bytes;
use shoal_codec::{
    Aim, Block, BlockCodec, BlockPlan, Budget, FixColumns, FixRow, SpaceTag, VALIDITY_UNKNOWN,
};
use shoal_engine::Request;

/// A block follows.
const BLOCK: u32 = 0;
/// Rows without a validity follow, of 40 bytes each.
const RAW: u32 = 1;
/// Rows follow, of 44 bytes each.
const RAW_WITH_VALIDITY: u32 = 2;
const HEAD_BYTES: usize = 8;

/// Encodes plain rows. Its blocks are never compact, so that a reader needs no more memory than the
/// bytes in the log.
pub(crate) struct RowsEncoder<'a> {
    codec: &'a dyn BlockCodec,
    plan: BlockPlan,
    space: SpaceTag,
    scratch: Vec<u8>,
}

impl<'a> RowsEncoder<'a> {
    pub(crate) fn new(codec: &'a dyn BlockCodec, aim: Aim, space: SpaceTag) -> Self {
        Self { codec, plan: BlockPlan::fixes_for(aim), space, scratch: Vec::new() }
    }

    /// Encodes rows as a body.
    pub(crate) fn encode(&mut self, columns: &FixColumns) -> Vec<u8> {
        let Self { codec, plan, space, scratch } = self;
        let form = match codec.encode_planned(columns, plan, space, 0, scratch) {
            Ok(_) => BLOCK,
            // A block spans 49 days at most; the rows of one message may span more.
            Err(_) => {
                scratch.clear();
                let has_validity = columns.valid_ms.is_some();
                let rows = (0..columns.len()).map(|row| columns.row(row));
                rows.for_each(|row| put_row(&row, has_validity, scratch));
                if has_validity { RAW_WITH_VALIDITY } else { RAW }
            }
        };
        let mut body = Vec::with_capacity(HEAD_BYTES + scratch.len());
        body.extend_from_slice(&u64::from(form).to_le_bytes());
        body.extend_from_slice(scratch);
        body
    }
}

/// Names every field, so that adding a field to [`FixRow`] fails to compile until it is written
/// here.
fn put_row(row: &FixRow, has_validity: bool, out: &mut Vec<u8>) {
    let FixRow { object, time_ms, x, y, speed_mm_s, heading_cdeg, altitude_mm, state, valid_ms } =
        *row;
    out.extend_from_slice(&object.to_le_bytes());
    out.extend_from_slice(&time_ms.to_le_bytes());
    out.extend_from_slice(&x.to_le_bytes());
    out.extend_from_slice(&y.to_le_bytes());
    out.extend_from_slice(&speed_mm_s.to_le_bytes());
    out.extend_from_slice(&altitude_mm.to_le_bytes());
    out.extend_from_slice(&state.to_le_bytes());
    out.extend_from_slice(&u32::from(heading_cdeg).to_le_bytes());
    if has_validity {
        out.extend_from_slice(&valid_ms.to_le_bytes());
    }
}

/// Decodes a body into a request.
///
/// # Errors
/// A description of what is wrong with the body.
pub(super) fn decode(body: &[u8]) -> Result<Request, String> {
    let Some((head, payload)) = body.split_first_chunk::<HEAD_BYTES>() else {
        return Err(format!("plain rows of {} bytes", body.len()));
    };
    match u64::from_le_bytes(*head) {
        form if form == u64::from(BLOCK) => block(payload).map(Request::Block),
        form if form == u64::from(RAW) => raw_rows::<40>(payload),
        form if form == u64::from(RAW_WITH_VALIDITY) => raw_rows::<44>(payload),
        form => Err(format!("unknown form of plain rows: {form}")),
    }
}

/// Parses a block from the log; its size was checked when it was received.
pub(super) fn block(bytes: &[u8]) -> Result<Block, String> {
    let budget = Budget { bytes_max: bytes.len(), ..Budget::default() };
    Block::parse(Bytes::copy_from_slice(bytes), &budget).map_err(|error| error.to_string())
}

fn raw_rows<const ROW_BYTES: usize>(payload: &[u8]) -> Result<Request, String> {
    let (rows, rest) = payload.as_chunks::<ROW_BYTES>();
    if !rest.is_empty() {
        return Err(format!("raw rows of {} bytes", payload.len()));
    }
    let mut columns = FixColumns::with_capacity(rows.len());
    rows.iter().for_each(|row| columns.push_row(raw_row(row)));
    Ok(Request::Fixes(columns))
}

fn raw_row(bytes: &[u8]) -> FixRow {
    let word = |at: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        u32::from_le_bytes(word)
    };
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    FixRow {
        object: long(0),
        time_ms: long(8).cast_signed(),
        x: word(16).cast_signed(),
        y: word(20).cast_signed(),
        speed_mm_s: word(24),
        altitude_mm: word(28).cast_signed(),
        state: word(32),
        heading_cdeg: word(36) as u16,
        valid_ms: if bytes.len() > 40 { word(40) } else { VALIDITY_UNKNOWN },
    }
}

#[cfg(test)]
mod tests {
    use shoal_codec::CpuCodec;
    use shoal_engine::Space;

    use super::*;

    fn round_trip(aim: Aim, times_ms: &[i64], valid_ms: u32) -> (u64, Request, FixColumns) {
        let mut columns = FixColumns::new();
        for (object, &time_ms) in times_ms.iter().enumerate() {
            let row = FixRow::new(object as u64, time_ms, -7, i32::MIN);
            let valid_ms = if object == 1 { valid_ms } else { VALIDITY_UNKNOWN };
            let row = FixRow { state: 9, altitude_mm: -5, heading_cdeg: 12, valid_ms, ..row };
            columns.push_row(row);
        }
        let mut encoder = RowsEncoder::new(&CpuCodec, aim, Space::geographic().tag());
        let body = encoder.encode(&columns);
        let form = u64::from_le_bytes(body[..8].try_into().unwrap());
        (form, decode(&body).unwrap(), columns)
    }

    #[test]
    fn rows_read_back_from_blocks_and_from_raw_columns() {
        for aim in Aim::ALL {
            let times = [1_700_000_000_000, 1_700_000_000_500];
            let (form, request, columns) = round_trip(aim, &times, 4);
            assert_eq!(form, 0);
            let Request::Block(block) = request else { panic!("not a block") };
            let mut decoded = FixColumns::new();
            block.decode_rows(0..2, &mut decoded).unwrap();
            assert_eq!(decoded, columns);

            for (valid_ms, raw) in [(VALIDITY_UNKNOWN, 1), (60_000, 2)] {
                let (form, request, columns) = round_trip(aim, &[i64::MIN, 0, i64::MAX], valid_ms);
                assert_eq!(form, raw);
                let Request::Fixes(decoded) = request else { panic!("not raw") };
                for row in 0..3 {
                    assert_eq!(decoded.row(row), columns.row(row));
                }
            }
        }
    }

    #[test]
    fn foreign_bodies_are_refused() {
        for body in [
            &[][..],
            &[0; 7],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0, 5],
            &[1, 0, 0, 0, 0, 0, 0, 0, 5],
        ] {
            assert!(decode(body).is_err(), "{body:?}");
        }
        let mut damaged = [0; 100];
        damaged[20] = 7;
        assert!(decode(&damaged).is_err());
    }
}
