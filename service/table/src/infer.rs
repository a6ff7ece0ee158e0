//! Infers the type of a CSV column from its fields, so that every field is restored byte for byte.
//!
//! The type is the narrowest integer that holds the decimals of all fields, else f64, else text.
//! The inference takes one pass and constant memory.

use crate::decimal::Decimal;
use crate::field::FieldForm;
use crate::header::{ColumnHeader, FloatStyle, Kind};
use crate::limits::PRECISION_MAX;

/// Integer types from the narrowest on, unsigned first.
const INTEGERS: [Kind; 8] =
    [Kind::U8, Kind::I8, Kind::U16, Kind::I16, Kind::U32, Kind::I32, Kind::U64, Kind::I64];

/// The fields of one column so far.
pub(crate) struct ColumnInference {
    has_empty: bool,
    /// `None` once a field is not a decimal.
    decimals: Option<Decimals>,
    /// Styles that restore every field.
    styles: Vec<FloatStyle>,
}

/// Ranges over the decimal numbers of one column so far.
#[derive(Clone, Copy)]
struct Decimals {
    /// Least and greatest value in units of 10^-[`PRECISION_MAX`].
    range: Option<(i128, i128)>,
    /// Least and greatest number of digits after the point.
    digits: (u8, u8),
    /// As `digits`, over the fields that end in a zero after the point. Least is above greatest if
    /// there are none.
    zeros: (u8, u8),
}

impl Default for ColumnInference {
    fn default() -> Self {
        let none = (u8::MAX, 0);
        Self {
            has_empty: false,
            decimals: Some(Decimals { range: None, digits: none, zeros: none }),
            styles: vec![FloatStyle::Shortest, FloatStyle::Point, FloatStyle::Exact],
        }
    }
}

impl ColumnInference {
    /// Adds a field.
    pub(crate) fn add(&mut self, field: &[u8]) {
        if field.is_empty() {
            self.has_empty = true;
            return;
        }
        self.decimals = self.decimals.and_then(|decimals| decimals.with(field));
        self.styles.retain(|style| FieldForm::F64(*style, false).read(field).is_some());
    }

    /// The column of the fields.
    pub(crate) fn column(&self, name: &str) -> ColumnHeader {
        let of_decimals = self.decimals.and_then(|decimals| decimals.column(name, self.has_empty));
        of_decimals.unwrap_or_else(|| match self.styles.first() {
            Some(style) => ColumnHeader {
                style: Some(*style),
                empty: self.has_empty,
                ..ColumnHeader::new(name, Kind::F64)
            },
            None => ColumnHeader::new(name, Kind::Text),
        })
    }
}

impl Decimals {
    /// Adds a field; `None` if it is not a decimal or has too many decimals.
    fn with(self, field: &[u8]) -> Option<Self> {
        let decimal = Decimal::parse(field)?;
        if decimal.decimals > PRECISION_MAX {
            return None;
        }
        let value = decimal.scaled(PRECISION_MAX);
        let (least, most) = self.range.unwrap_or((value, value));
        let widen =
            |(least, most): (u8, u8)| (least.min(decimal.decimals), most.max(decimal.decimals));
        Some(Self {
            range: Some((least.min(value), most.max(value))),
            digits: widen(self.digits),
            zeros: if decimal.ends_in_zero { widen(self.zeros) } else { self.zeros },
        })
    }

    /// The narrowest column of integers; `None` if none restores the fields.
    fn column(self, name: &str, has_empty: bool) -> Option<ColumnHeader> {
        let (digits_min, digits_max) = self.digits;
        let Some((least, most)) = self.range else {
            // All fields are empty, or there are no rows.
            return Some(ColumnHeader { empty: has_empty, ..ColumnHeader::new(name, Kind::U8) });
        };
        // A trailing zero is printed only if the field has the least number of decimals.
        let (zeros_min, zeros_max) = self.zeros;
        let zeros_are_printed =
            zeros_min > zeros_max || (zeros_min, zeros_max) == (digits_min, digits_min);
        if !zeros_are_printed {
            return None;
        }
        let unit = 10_i128.pow(u32::from(PRECISION_MAX - digits_max));
        let (least, most) = (least / unit, most / unit);
        let holds = |kind: &Kind| {
            kind.integers().is_some_and(|(type_min, type_max)| {
                let taken = i128::from(has_empty);
                let (low, high) =
                    if type_min < 0 { (type_min + taken, type_max) } else { (0, type_max - taken) };
                low <= least && most <= high
            })
        };
        let kind = *INTEGERS.iter().find(|kind| holds(kind))?;
        let has_point = digits_max > 0;
        Some(ColumnHeader {
            precision: has_point.then_some(digits_max),
            precision_min: (has_point && digits_min < digits_max).then_some(digits_min),
            empty: has_empty,
            ..ColumnHeader::new(name, kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(fields: &[&str]) -> ColumnHeader {
        let mut column = ColumnInference::default();
        for field in fields {
            column.add(field.as_bytes());
        }
        let column = column.column("v");
        if let Some(form) = FieldForm::new(&column) {
            for field in fields {
                let mut back = Vec::new();
                form.print(form.read(field.as_bytes()).unwrap(), &mut back);
                assert_eq!(String::from_utf8(back).unwrap(), *field, "{column:?}");
            }
        }
        column
    }

    #[test]
    fn integers_take_the_narrowest_type_that_has_room_for_empty_fields() {
        for (fields, kind) in [
            (&["0", "255"][..], Kind::U8),
            (&["0", "255", ""], Kind::U16),
            (&["-128", "127"], Kind::I8),
            (&["-128", ""], Kind::I16),
            (&["65535"], Kind::U16),
            (&["65536"], Kind::U32),
            (&["-40000"], Kind::I32),
            (&["4294967296"], Kind::U64),
            (&["18446744073709551615"], Kind::U64),
            (&["-1", "9223372036854775807"], Kind::I64),
            (&[], Kind::U8),
            (&["", ""], Kind::U8),
        ] {
            assert_eq!(inferred(fields).kind, kind, "{fields:?}");
        }
    }

    #[test]
    fn decimals_are_those_that_are_printed() {
        let column = inferred(&["-97.743", "30.2", "5", ""]);
        assert_eq!((column.kind, column.precision), (Kind::I32, Some(3)));
        assert_eq!((column.precision_min, column.empty), (Some(0), true));
        let column = inferred(&["1.50", "2.25"]);
        assert_eq!(
            (column.kind, column.precision, column.precision_min),
            (Kind::U8, Some(2), None)
        );
        let column = inferred(&["0.0", "12.5", "7.125"]);
        assert_eq!((column.precision, column.precision_min), (Some(3), Some(1)));
        assert_eq!(inferred(&["179.123456789012345"]).kind, Kind::U64);
    }

    #[test]
    fn what_integers_cannot_print_is_float_or_text() {
        assert_eq!(inferred(&["1.50", "2.255", "3.1"]).kind, Kind::Text);
        assert_eq!(inferred(&["0.0000000000000000001", "2"]).kind, Kind::F64);
        let column = inferred(&["12.0", "NaN", "1e-7", ""]);
        assert_eq!((column.kind, column.style), (Kind::F64, Some(FloatStyle::Point)));
        assert!(column.empty);
        let column = inferred(&["5.90030402876436710357666015625", "50.5"]);
        assert_eq!((column.kind, column.style), (Kind::F64, Some(FloatStyle::Exact)));
        for text in ["007", "+5", "a", "\"1\"", "1,5", "-0", " 1"] {
            let kind = inferred(&["3", text]).kind;
            assert!(kind == Kind::Text || text == "-0" && kind == Kind::F64, "{text}: {kind:?}");
        }
    }
}
