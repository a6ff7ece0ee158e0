//! Statistics of the values of a column, which explain the choice of its tree.
//!
//! They are exact over the whole table, except that distinct values are counted up to a limit.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::header::Kind;
use crate::limits::DISTINCT_MAX;
use crate::row_group::pattern;

/// Statistics of one column.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnStatistics {
    /// Name of the column.
    pub column: String,
    /// Number of values.
    pub values: u64,
    /// Least value; NaN is left out.
    pub least: Option<Number>,
    /// Greatest value; NaN is left out.
    pub greatest: Option<Number>,
    /// Number of distinct values; `None` if there are more than [`DISTINCT_MAX`].
    pub distinct: Option<usize>,
    /// Mean length of the runs of equal values.
    pub run_mean: f64,
    /// Share of rows whose value is not below that of the row before.
    pub ascending_share: f64,
}

/// Computes the statistics of one column.
#[derive(Clone, Debug)]
pub(crate) struct StatisticsCounter {
    kind: Kind,
    values: u64,
    /// Least and greatest value.
    range: Option<(Number, Number)>,
    /// Number of rows whose value equals that of the row before.
    repeats: u64,
    /// Number of rows whose value is not below that of the row before.
    ascents: u64,
    last: Option<(u64, Number)>,
    distinct: HashSet<u64>,
}

impl StatisticsCounter {
    /// A counter without values for a column of type `kind`.
    pub(crate) fn new(kind: Kind) -> Self {
        let distinct = HashSet::new();
        Self { kind, values: 0, range: None, repeats: 0, ascents: 0, last: None, distinct }
    }

    /// Adds little-endian values.
    pub(crate) fn add(&mut self, values: &[u8]) {
        for row in 0..values.len() / self.kind.value_type().width_bytes() {
            let pattern = pattern(values, self.kind, row);
            let value = Number::new(self.kind, pattern);
            self.values += 1;
            if !value.is_nan() {
                let (least, most) = self.range.unwrap_or((value, value));
                let least = if value < least { value } else { least };
                self.range = Some((least, if value > most { value } else { most }));
            }
            if let Some((last_pattern, last)) = self.last {
                self.repeats += u64::from(last_pattern == pattern);
                self.ascents += u64::from(value >= last);
            }
            self.last = Some((pattern, value));
            if self.distinct.len() <= DISTINCT_MAX {
                self.distinct.insert(pattern);
            }
        }
    }

    /// The statistics of all values.
    pub(crate) fn finish(self, name: &str) -> ColumnStatistics {
        let (least, greatest) = self.range.unzip();
        let distinct = self.distinct.len();
        ColumnStatistics {
            column: name.to_owned(),
            values: self.values,
            least,
            greatest,
            distinct: (distinct <= DISTINCT_MAX).then_some(distinct),
            run_mean: self.values as f64 / (self.values - self.repeats).max(1) as f64,
            ascending_share: self.ascents as f64 / self.values.saturating_sub(1).max(1) as f64,
        }
    }
}

/// A value that compares in the order of its column; all values of a column have the same variant.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// An integer.
    Integer(i128),
    /// A float.
    Float(f64),
}

impl Number {
    /// The value of a pattern.
    fn new(kind: Kind, pattern: u64) -> Self {
        match kind {
            Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Text => {
                Self::Integer(pattern.into())
            }
            Kind::I8 => Self::Integer((pattern as i8).into()),
            Kind::I16 => Self::Integer((pattern as i16).into()),
            Kind::I32 => Self::Integer((pattern as i32).into()),
            Kind::I64 => Self::Integer((pattern as i64).into()),
            Kind::F32 => Self::Float(f32::from_bits(pattern as u32).into()),
            Kind::F64 => Self::Float(f64::from_bits(pattern)),
        }
    }

    fn is_nan(self) -> bool {
        matches!(self, Self::Float(value) if value.is_nan())
    }
}

impl Display for Number {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(formatter),
            Self::Float(value) => value.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, parts: &[&[u8]]) -> ColumnStatistics {
        let mut counter = StatisticsCounter::new(kind);
        parts.iter().for_each(|part| counter.add(part));
        counter.finish("v")
    }

    #[test]
    fn values_are_counted_in_the_order_of_rows() {
        let bytes = |values: &[i16]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let found = of(Kind::I16, &[&bytes(&[-3, -3, 5]), &bytes(&[5, 4])]);
        let ends = (Some(Number::Integer(-3)), Some(Number::Integer(5)));
        assert_eq!((found.least, found.greatest), ends);
        assert_eq!((found.values, found.distinct), (5, Some(3)));
        assert_eq!((found.ascending_share, found.run_mean), (0.75, 5.0 / 3.0));
    }

    #[test]
    fn large_integers_are_exact_and_nan_is_left_out() {
        let values = [u64::MAX - 1, u64::MAX, u64::MAX - 2];
        let found = of(Kind::U64, &[&values.map(u64::to_le_bytes).concat()]);
        assert_eq!(found.least, Some(Number::Integer(values[2].into())));
        assert_eq!(found.greatest.unwrap().to_string(), "18446744073709551615");
        assert_eq!(found.ascending_share, 0.5);
        let found = of(Kind::I64, &[&i64::MIN.to_le_bytes()]);
        assert_eq!(found.least, Some(Number::Integer(i64::MIN.into())));
        assert_eq!(of(Kind::F64, &[]).least, None);
        let values = [f64::NAN, 2.5, -1.0, f64::NAN].map(f64::to_le_bytes).concat();
        let found = of(Kind::F64, &[&values]);
        let ends = (Some(Number::Float(-1.0)), Some(Number::Float(2.5)));
        assert_eq!((found.least, found.greatest), ends);
    }
}
