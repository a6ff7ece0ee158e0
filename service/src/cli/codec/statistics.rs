//! What are the values of a column like? Numbers that explain why a tree suits it.
//!
//! Exact over the whole table, in the order of the rows, but for the count of different values,
//! which ends at a limit.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::io::Write;

use serde_json::{Value, json};

use super::group::pattern;
use super::header::{Header, Kind};
use crate::cli::output::plain_table;

/// Different values that are counted.
const DISTINCT_MAX: usize = 65_536;

/// Of one column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnStatistics {
    kind: Kind,
    values: u64,
    /// Least and greatest, NaN left out.
    range: Option<(Number, Number)>,
    /// Rows whose value is that of the row before.
    repeats: u64,
    /// Rows whose value is not below that of the row before.
    ascents: u64,
    last: Option<(u64, Number)>,
    distinct: HashSet<u64>,
}

impl ColumnStatistics {
    /// Of no value.
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            values: 0,
            range: None,
            repeats: 0,
            ascents: 0,
            last: None,
            distinct: HashSet::new(),
        }
    }

    /// Looks at more values, little-endian.
    pub(crate) fn see(&mut self, values: &[u8]) {
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

    /// Rows on average until the value changes.
    fn run_mean(&self) -> f64 {
        self.values as f64 / (self.values - self.repeats).max(1) as f64
    }

    /// Share of rows that are not below the row before.
    fn ascending_share(&self) -> f64 {
        self.ascents as f64 / self.values.saturating_sub(1).max(1) as f64
    }

    /// As one JSON object.
    pub(crate) fn json(&self, name: &str) -> Value {
        let is_counted = self.distinct.len() <= DISTINCT_MAX;
        json!({
            "column": name,
            "values": self.values,
            "least": self.range.map(|(least, _)| least.json()),
            "greatest": self.range.map(|(_, most)| most.json()),
            "distinct": is_counted.then_some(self.distinct.len()),
            "run_mean": self.run_mean(),
            "ascending_share": self.ascending_share(),
        })
    }
}

/// A value as it is compared and shown; those of one column are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Number {
    Integer(i128),
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

    fn json(self) -> Value {
        match self {
            Self::Integer(value) => {
                u64::try_from(value).map(Value::from).unwrap_or_else(|_| (value as i64).into())
            }
            Self::Float(value) => value.into(),
        }
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

/// Writes a line per column; values of decimals are the integers that are stored.
pub(crate) fn print(
    out: &mut impl Write,
    header: &Header,
    statistics: &[ColumnStatistics],
) -> std::io::Result<()> {
    let names = ["column", "type", "least", "greatest", "different", "mean run", "ascending"];
    let mut table = plain_table(&names, &["column", "type"]);
    for (column, of_column) in header.columns.iter().zip(statistics) {
        let shown = |end: Option<Number>| end.map_or("-".to_owned(), |end| end.to_string());
        let (least, most) = of_column.range.unzip();
        let distinct = match of_column.distinct.len() {
            count if count > DISTINCT_MAX => format!("> {DISTINCT_MAX}"),
            count => count.to_string(),
        };
        let kind = match column.kind {
            Kind::Text => "text lengths",
            kind => kind.name(),
        };
        table.add_row([
            column.name.clone(),
            kind.to_owned(),
            shown(least),
            shown(most),
            distinct,
            format!("{:.2}", of_column.run_mean()),
            format!("{:.1} %", 100.0 * of_column.ascending_share()),
        ]);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_the_order_of_the_rows() {
        let mut statistics = ColumnStatistics::new(Kind::I16);
        for part in [&[-3_i16, -3, 5][..], &[5, 4]] {
            let bytes: Vec<u8> = part.iter().flat_map(|value| value.to_le_bytes()).collect();
            statistics.see(&bytes);
        }
        let json = statistics.json("v");
        assert_eq!((json["least"].as_f64(), json["greatest"].as_f64()), (Some(-3.0), Some(5.0)));
        assert_eq!((json["values"].as_u64(), json["distinct"].as_u64()), (Some(5), Some(3)));
        assert_eq!(json["ascending_share"].as_f64(), Some(0.75));
        assert_eq!(json["run_mean"].as_f64(), Some(5.0 / 3.0));
    }
    #[test]
    fn large_integers_and_nan_are_told_as_they_are() {
        let mut statistics = ColumnStatistics::new(Kind::U64);
        let values = [u64::MAX - 1, u64::MAX, u64::MAX - 2];
        statistics.see(&values.map(u64::to_le_bytes).concat());
        let json = statistics.json("id");
        assert_eq!((&json["least"], &json["greatest"]), (&values[2].into(), &values[1].into()));
        assert_eq!(json["ascending_share"].as_f64(), Some(0.5));
        assert_eq!(statistics.range.unwrap().1.to_string(), "18446744073709551615");

        let mut statistics = ColumnStatistics::new(Kind::I64);
        statistics.see(&i64::MIN.to_le_bytes());
        assert_eq!(statistics.json("v")["least"], i64::MIN);

        let mut statistics = ColumnStatistics::new(Kind::F64);
        assert_eq!(statistics.json("v")["least"], Value::Null);
        statistics.see(&[f64::NAN, 2.5, -1.0, f64::NAN].map(f64::to_le_bytes).concat());
        let json = statistics.json("v");
        assert_eq!((&json["least"], &json["greatest"]), (&(-1.0).into(), &2.5.into()));
    }
}
