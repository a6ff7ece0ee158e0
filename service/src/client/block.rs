//! How do rows become a block of the codec?
//!
//! Positions are rounded to the fleet's quanta as the server would round them. What cannot be
//! stored is sent as the poison value of its reason, so that the server refuses that row and no
//! other.

use bytes::Bytes;
use shoal_codec::limits::TIME_SPAN_MS_MAX;
use shoal_codec::{
    ALTITUDE_UNKNOWN, BlockError, BlockStream, CpuCodec, FixColumns, FixRow, HEADING_UNKNOWN,
    PlanChoice, SPEED_UNKNOWN,
};
use shoal_engine::{Refusal, Space};
use shoal_proto::v1;

use crate::stored::{altitude_mm, heading_cdeg, speed_mm_s};

/// Encodes batches for one fleet.
#[derive(Clone, Debug)]
pub struct BlockEncoder {
    space: Space,
    stream: BlockStream,
}

impl BlockEncoder {
    /// An encoder for a fleet with this space, its plans chosen like this.
    #[must_use]
    pub fn new(space: Space, plans: PlanChoice) -> Self {
        Self { space, stream: BlockStream::new(space.tag(), plans) }
    }

    /// The rows as one block, or as several where their times lie too far apart for one; with the
    /// number of rows of each.
    ///
    /// # Errors
    /// Those of the codec: more rows than a block may have.
    pub fn encode(&mut self, fixes: &[v1::Fix]) -> Result<Vec<(usize, Bytes)>, BlockError> {
        let mut blocks = Vec::new();
        let mut rest = fixes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(span_rows(rest));
            blocks.push((now.len(), self.encode_one(now)?));
            rest = later;
        }
        Ok(blocks)
    }

    fn encode_one(&mut self, fixes: &[v1::Fix]) -> Result<Bytes, BlockError> {
        let mut columns = FixColumns::with_capacity(fixes.len());
        for fix in fixes {
            columns.push_row(fix_row(&self.space, fix));
        }
        Ok(self.stream.encode(&CpuCodec, &columns)?.into())
    }
}

/// How many rows from the first on fit one block's range of time; at least one.
fn span_rows(fixes: &[v1::Fix]) -> usize {
    let (mut first_ms, mut last_ms) = (i64::MAX, i64::MIN);
    for (index, fix) in fixes.iter().enumerate() {
        first_ms = first_ms.min(fix.time_ms);
        last_ms = last_ms.max(fix.time_ms);
        if last_ms.abs_diff(first_ms) > u64::from(TIME_SPAN_MS_MAX) {
            return index;
        }
    }
    fixes.len()
}

/// A row in stored units.
fn fix_row(space: &Space, fix: &v1::Fix) -> FixRow {
    let (x, y) = space.quantise(fix.x, fix.y).unwrap_or_else(Refusal::poison);
    FixRow {
        object: fix.object,
        time_ms: fix.time_ms,
        x,
        y,
        speed_mm_s: fix.speed_mps.map_or(SPEED_UNKNOWN, speed_mm_s),
        heading_cdeg: fix.heading_deg.map_or(HEADING_UNKNOWN, heading_cdeg),
        altitude_mm: fix.altitude_m.map_or(ALTITUDE_UNKNOWN, altitude_mm),
        state: fix.state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_stored_is_poisoned_and_the_rest_rounded() {
        let row = |fix: v1::Fix| fix_row(&Space::geographic(), &fix);
        let plain = row(v1::Fix {
            x: 180.0,
            speed_mps: Some(1.5),
            heading_deg: Some(359.999),
            altitude_m: Some(-2.5),
            ..Default::default()
        });
        assert_eq!((plain.x, plain.speed_mm_s), (-1_800_000_000, 1_500));
        assert_eq!((plain.heading_cdeg, plain.altitude_mm), (0, -2_500));
        let bad = row(v1::Fix {
            y: 90.1,
            speed_mps: Some(-0.1),
            heading_deg: Some(360.0),
            altitude_m: Some(f64::NAN),
            ..Default::default()
        });
        assert_eq!(bad.x, Refusal::POISON_OUTSIDE);
        assert_eq!(bad.speed_mm_s, Refusal::POISON_SPEED);
        assert_eq!(bad.heading_cdeg, Refusal::POISON_HEADING);
        assert_eq!(bad.altitude_mm, Refusal::POISON_ALTITUDE);
        let nowhere = row(v1::Fix { x: f64::NAN, ..Default::default() });
        assert_eq!(nowhere.x, Refusal::POISON_NOT_FINITE);
    }

    #[test]
    fn rows_too_far_apart_in_time_are_cut_into_blocks() {
        let fix = |time_ms| v1::Fix { time_ms, x: 1.0, y: 2.0, ..Default::default() };
        let far = i64::from(TIME_SPAN_MS_MAX);
        let fixes = [fix(0), fix(far), fix(far + 1), fix(0), fix(i64::MAX)];
        let mut encoder = BlockEncoder::new(Space::geographic(), PlanChoice::Planned);
        let rows: Vec<usize> =
            encoder.encode(&fixes).unwrap().into_iter().map(|(rows, _)| rows).collect();
        assert_eq!(rows, [2, 1, 1, 1]);
        assert!(encoder.encode(&[]).unwrap().is_empty());
    }
}
