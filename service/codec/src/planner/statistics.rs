//! Statistics of a column, which prune the candidates of a planner.
//!
//! Integers only, so that they are equal on every machine; ratios are Q16 (65,536 is 1).

use crate::distinct::Distinct;
use crate::encoding::divisor::common;
use crate::encoding::float_to_int::least_decimals;
use crate::tree::DivisorChoice;
use crate::value_type::ValueType;
use crate::values::{Values, with_patterns};
use crate::word::Word;

/// Distinct values are counted up to this many.
pub const DISTINCT_MAX: usize = 65_536;
/// 1 in Q16.
pub const ONE_Q16: u64 = 1 << 16;

/// Statistics of a column, or of a sample of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Number of values.
    pub values: usize,
    /// Least and greatest bit pattern, in the order of the type (floats: as unsigned).
    pub bounds: Option<(u64, u64)>,
    /// True if the values ascend in that order.
    pub is_sorted: bool,
    /// Bits of the distance from least to greatest.
    pub bits: u32,
    /// Distinct values, `None` above 65,536.
    pub distinct: Option<usize>,
    /// RLE metric in Q16, the mean of a number per value: 2 if the next value is equal, else 1.
    /// Above 1.5, `rle` alone saves bytes.
    pub rle_metric_q16: u64,
    /// For integers, the greatest divisor that all values share.
    pub divisor: Option<DivisorChoice>,
    /// For floats, the least number of decimals that restores all values.
    pub decimals: Option<u32>,
}

impl Statistics {
    /// Computes the statistics of a column.
    pub fn of_values(values: &Values) -> Self {
        let value_type = values.value_type();
        with_patterns!(values.patterns(), |patterns| Self::of(value_type, patterns))
    }

    /// Computes the statistics of bit patterns of one type.
    pub(crate) fn of<T: Word>(value_type: ValueType, values: &[T]) -> Self {
        let sign = T::low(if value_type.is_signed() { 1 << (T::BITS - 1) } else { 0 });
        let ordered = || values.iter().map(|value| value.plus(sign));
        let bounds = ordered().min().zip(ordered().max());
        let followed = values.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let rle_metric_q16 = match values.len() as u64 {
            0 => ONE_Q16,
            count => ONE_Q16 + followed as u64 * ONE_Q16 / count,
        };
        let is_float = value_type.is_float();
        Self {
            values: values.len(),
            bounds: bounds.map(|(min, max)| (min.minus(sign).into(), max.minus(sign).into())),
            is_sorted: values.is_sorted_by_key(|value| value.plus(sign)),
            bits: bounds.map_or(0, |(min, max)| max.minus(min).bits()),
            distinct: Distinct::of(values, DISTINCT_MAX).map(|distinct| distinct.values.len()),
            rle_metric_q16,
            divisor: if is_float { None } else { common(value_type, values) },
            decimals: if is_float { least_decimals(values) } else { None },
        }
    }

    /// True if `rle` is worth a trial. Dzitkowski's bound of 1.5 is for `rle` alone; the bound here
    /// is lower, because the values of the runs may be encoded as differences.
    pub(crate) fn has_runs(&self) -> bool {
        self.rle_metric_q16 > ONE_Q16 * 5 / 4
    }
}

/// Ratio of raw to encoded bytes in Q16.
pub(super) fn ratio_q16(raw_bytes: usize, encoded_bytes: usize) -> u64 {
    (raw_bytes as u64) * ONE_Q16 / (encoded_bytes.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_a_small_column() {
        let values = [-200_i32, -200, 0, 300, 300, 300, 300, 500].map(|value| value as u32);
        let found = Statistics::of(ValueType::I32, &values);
        assert_eq!(found.bounds, Some(((-200_i32 as u32).into(), 500)));
        assert_eq!((found.is_sorted, found.bits, found.distinct), (true, 10, Some(4)));
        // Four of eight values are followed by themselves: 1.5.
        assert_eq!(found.rle_metric_q16, ONE_Q16 * 3 / 2);
        let divisor = DivisorChoice { divisor: 100, remainder: 0 };
        assert_eq!((found.divisor, found.decimals), (Some(divisor), None));
        let floats = [0.5_f64, 0.25, 7.0].map(f64::to_bits);
        assert_eq!(Statistics::of(ValueType::F64, &floats).decimals, Some(2));
        assert_eq!(Statistics::of::<u8>(ValueType::U8, &[]).bounds, None);
    }
}
