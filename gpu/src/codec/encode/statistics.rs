//! The planner's statistics of a column, computed on the device.

use shoal_codec::planner::{DISTINCT_MAX, ONE_Q16};
use shoal_codec::{Statistics, Values};
use shoal_engine::EngineError;

use super::error::EncodeError;
use super::source::Source;
use super::worker::{Worker, sign_of};

impl Worker {
    /// Statistics of a column on the device.
    pub(crate) fn statistics(&mut self, source: &Source) -> Result<Statistics, EncodeError> {
        let values = source.rows as usize;
        if values == 0 {
            return Ok(Statistics::of_values(&Values::empty(source.value_type)));
        }
        let [min, max, equal, less] = self.bounds(source)?;
        let sign = sign_of(source.value_type);
        let distance = (max ^ sign) - (min ^ sign);
        let is_float = source.value_type.is_float();
        let decimals = if is_float { self.decimals(source)? } else { None };
        Ok(Statistics {
            values,
            bounds: Some((min, max)),
            is_sorted: less == 0,
            bits: u64::BITS - distance.leading_zeros(),
            distinct: self.distinct_values(source)?,
            rle_metric_q16: ONE_Q16 + equal * ONE_Q16 / values as u64,
            divisor: self.common(source)?,
            decimals: decimals.map(u32::from),
        })
    }

    /// Number of distinct values, `None` above [`DISTINCT_MAX`].
    fn distinct_values(&mut self, source: &Source) -> Result<Option<usize>, EngineError> {
        let (_, numbers) = self.distinct(source)?;
        Ok(Some(numbers as usize).filter(|numbers| *numbers <= DISTINCT_MAX))
    }
}
