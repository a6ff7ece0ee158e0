//! Encodes fixes as blocks of the codec: fewer bytes, and less work for the server, than rows.

use std::collections::HashMap;

use bytes::Bytes;
use shoal_codec::limits::TIME_SPAN_MS_MAX;
use shoal_codec::{BlockStream, CpuCodec, FixColumns, PlanChoice};
use shoal_proto::v1;

use crate::error::Error;
use crate::quantizer::Quantizer;

/// A block with its number of rows, as a message of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedBlock {
    /// The number of rows.
    pub rows: usize,
    /// The block.
    pub block: Bytes,
    /// The names that the objects of its rows are indices of, in a named fleet; else empty.
    pub names: Vec<String>,
}

/// Encodes the blocks of one sender to one fleet.
#[derive(Clone, Debug)]
pub struct BlockEncoder {
    is_named: bool,
    quantizer: Quantizer,
    stream: BlockStream,
    columns: FixColumns,
}

impl BlockEncoder {
    /// For a numeric fleet with this space, as `Fleet.space` describes it. `plans` chooses how
    /// columns are encoded: `Raw` costs the sender least, `Planned` gives fewer bytes, by its aim.
    #[must_use]
    pub fn new(space: Option<&v1::Space>, plans: PlanChoice) -> Self {
        let quantizer = Quantizer::new(space);
        let stream = BlockStream::new(quantizer.tag(), plans);
        Self { is_named: false, quantizer, stream, columns: FixColumns::new() }
    }

    /// For a fleet as `GetFleet` describes it, named or numeric.
    #[must_use]
    pub fn of_fleet(fleet: &v1::Fleet, plans: PlanChoice) -> Self {
        let is_named = fleet.kind() == v1::FleetKind::Named;
        Self { is_named, ..Self::new(fleet.space.as_ref(), plans) }
    }

    /// The fixes as one block, or as several if their times lie too far apart for one.
    ///
    /// # Errors
    /// [`Error::Block`]: more rows than a block may have.
    pub fn encode(&mut self, fixes: &[v1::Fix]) -> Result<Vec<EncodedBlock>, Error> {
        let mut blocks = Vec::new();
        let mut rest = fixes;
        while !rest.is_empty() {
            let (block, later) = rest.split_at(block_rows(rest.iter().map(|fix| fix.time_ms)));
            self.columns.clear();
            block.iter().for_each(|fix| self.columns.push_row(self.quantizer.row(fix)));
            let names = if self.is_named { self.index_names(block) } else { Vec::new() };
            let bytes = self.stream.encode(&CpuCodec, &self.columns)?;
            blocks.push(EncodedBlock { rows: block.len(), block: bytes.into(), names });
            rest = later;
        }
        Ok(blocks)
    }

    /// Replaces the objects of the columns by indices in a list of names, which it returns.
    fn index_names(&mut self, fixes: &[v1::Fix]) -> Vec<String> {
        let (mut indices, mut names) = (HashMap::new(), Vec::new());
        for (object, fix) in self.columns.object.iter_mut().zip(fixes) {
            *object = *indices.entry(fix.name.as_str()).or_insert_with(|| {
                names.push(fix.name.clone());
                names.len() as u64 - 1
            });
        }
        names
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
            encoder.encode(&fixes).unwrap().into_iter().map(|block| block.rows).collect();
        assert_eq!(rows, [2, 1, 1, 1]);
        assert!(encoder.encode(&[]).unwrap().is_empty());
    }
}
