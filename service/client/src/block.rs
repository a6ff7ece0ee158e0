//! Encodes fixes as blocks of the codec: fewer bytes, and less work for the server, than rows.

use bytes::Bytes;
use shoal_codec::limits::TIME_SPAN_MS_MAX;
use shoal_codec::{BlockStream, CpuCodec, FixColumns, PlanChoice};
use shoal_proto::v1;

use crate::error::Error;
use crate::quantizer::Quantizer;

/// Encodes the blocks of one sender to one fleet.
#[derive(Clone, Debug)]
pub struct BlockEncoder {
    quantizer: Quantizer,
    stream: BlockStream,
    columns: FixColumns,
}

impl BlockEncoder {
    /// For a fleet with this space, as `Fleet.space` describes it. `plans` chooses how columns are
    /// encoded: `Raw` costs the sender least, `Planned` gives fewer bytes, by its aim.
    #[must_use]
    pub fn new(space: Option<&v1::Space>, plans: PlanChoice) -> Self {
        let quantizer = Quantizer::new(space);
        let stream = BlockStream::new(quantizer.tag(), plans);
        Self { quantizer, stream, columns: FixColumns::new() }
    }

    /// The fixes as one block, or as several if their times lie too far apart for one; each with
    /// its number of rows.
    ///
    /// # Errors
    /// [`Error::Block`]: more rows than a block may have.
    pub fn encode(&mut self, fixes: &[v1::Fix]) -> Result<Vec<(usize, Bytes)>, Error> {
        let mut blocks = Vec::new();
        let mut rest = fixes;
        while !rest.is_empty() {
            let (block, later) = rest.split_at(block_rows(rest.iter().map(|fix| fix.time_ms)));
            self.columns.clear();
            block.iter().for_each(|fix| self.columns.push_row(self.quantizer.row(fix)));
            let bytes = self.stream.encode(&CpuCodec, &self.columns)?;
            blocks.push((block.len(), bytes.into()));
            rest = later;
        }
        Ok(blocks)
    }
}

/// Returns how many rows with these times, from the first on, fit the time range of one block.
pub fn block_rows(times_ms: impl Iterator<Item = i64>) -> usize {
    let (mut first_ms, mut last_ms) = (i64::MAX, i64::MIN);
    let fits = |time_ms: &i64| {
        (first_ms, last_ms) = (first_ms.min(*time_ms), last_ms.max(*time_ms));
        last_ms.abs_diff(first_ms) <= u64::from(TIME_SPAN_MS_MAX)
    };
    times_ms.take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_too_far_apart_in_time_are_cut_into_blocks() {
        let fix = |time_ms| v1::Fix { time_ms, x: 1.0, y: 2.0, ..Default::default() };
        let far = i64::from(TIME_SPAN_MS_MAX);
        let fixes = [fix(0), fix(far), fix(far + 1), fix(0), fix(i64::MAX)];
        let mut encoder = BlockEncoder::new(None, PlanChoice::Planned(shoal_codec::Aim::Fast));
        let rows: Vec<usize> =
            encoder.encode(&fixes).unwrap().into_iter().map(|(rows, _)| rows).collect();
        assert_eq!(rows, [2, 1, 1, 1]);
        assert!(encoder.encode(&[]).unwrap().is_empty());
    }
}
