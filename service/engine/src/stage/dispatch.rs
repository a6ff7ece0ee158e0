//! Validates rows: which are refused, and why.
//!
//! Rows are validated one by one; a refused row does not affect the rest of its batch. A row with
//! several faults is refused for the reason with the lowest number that is found here.
//! [`Refusal::ObjectLimit`] depends on the state; [`super::admission`] decides it.

use shoal_codec::{Attributes, FixColumns, FixRow, MEASURES};

use crate::layout::{NO_VALIDITY_MS, NOT_FINITE_X, Refusal, TIME_ORIGIN_MS};
use crate::limits::{TIME_MAX_MS, TIME_MIN_MS};
use crate::space::{QuantaRect, Space};

const _: () = assert!(TIME_ORIGIN_MS == TIME_MIN_MS, "host and device refuse the same times");
const _: () = assert!(NO_VALIDITY_MS == MEASURES.valid_ms.unknown, "both know no validity");

/// Validates the rows of one cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowValidator {
    bounds: QuantaRect,
    time_max_ms: i64,
}

impl RowValidator {
    /// A validator for one space; event times after `time_max_ms` or [`TIME_MAX_MS`] are too late.
    #[must_use]
    pub fn new(space: &Space, time_max_ms: i64) -> Self {
        Self { bounds: space.bounds(), time_max_ms: time_max_ms.min(TIME_MAX_MS) }
    }

    /// The first fault of a row's mandatory values.
    #[inline]
    #[must_use]
    pub fn validate(&self, object: u64, time_ms: i64, x: i32, y: i32) -> Option<Refusal> {
        // One branch for a valid row, as nearly all are.
        let is_valid = (object != u64::MAX)
            & self.bounds.contains(x, y)
            & (TIME_MIN_MS <= time_ms)
            & (time_ms <= self.time_max_ms);
        if is_valid { None } else { Some(self.fault(object, time_ms, x, y)) }
    }

    #[cold]
    fn fault(&self, object: u64, time_ms: i64, x: i32, y: i32) -> Refusal {
        if object == u64::MAX {
            Refusal::Object
        } else if x == NOT_FINITE_X {
            Refusal::NotFinite
        } else if !self.bounds.contains(x, y) {
            Refusal::OutsideSpace
        } else if time_ms < TIME_MIN_MS {
            Refusal::TimeTooEarly
        } else {
            Refusal::TimeTooLate
        }
    }

    /// The first fault of a row's attributes; unknown ones are valid.
    #[inline]
    #[must_use]
    pub fn validate_attributes(&self, attributes: &Attributes) -> Option<Refusal> {
        first_invalid(attributes)
    }

    /// Whether no row has a fault, apart from its object.
    #[must_use]
    pub fn are_valid(&self, columns: &FixColumns) -> bool {
        // Without branches in a loop, so that the compiler uses vectors.
        let times = TIME_MIN_MS..=self.time_max_ms;
        let are_times = columns.time_ms.iter().fold(true, |all, time| all & times.contains(time));
        let positions = columns.x.iter().zip(&columns.y);
        let are_inside = positions.fold(true, |all, (x, y)| all & self.bounds.contains(*x, *y));
        are_times && are_inside && are_attributes_valid(columns)
    }

    /// The first fault of a whole row.
    #[must_use]
    pub fn validate_row(&self, row: &FixRow) -> Option<Refusal> {
        self.validate(row.object, row.time_ms, row.x, row.y)
            .or_else(|| self.validate_attributes(&row.attributes()))
    }
}

macro_rules! render {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        #[inline]
        fn first_invalid(attributes: &Attributes) -> Option<Refusal> {
            $(if !MEASURES.$field.is_valid(attributes.$field) {
                return Some(Refusal::$column);
            })+
            None
        }

        fn are_attributes_valid(columns: &FixColumns) -> bool {
            true $(&& columns.$field.as_ref().is_none_or(|values| {
                values.iter().fold(true, |all, value| all & MEASURES.$field.is_valid(*value))
            }))+
        }
    };
}

shoal_codec::measures!(render);

#[cfg(test)]
mod tests {
    use super::*;

    const LATE_MS: i64 = TIME_MIN_MS + 1_000;

    fn validate(object: u64, time_ms: i64, x: i32, y: i32) -> Option<Refusal> {
        RowValidator::new(&Space::geographic(), LATE_MS).validate(object, time_ms, x, y)
    }

    #[test]
    fn every_reason_is_found_at_its_border() {
        assert_eq!(validate(u64::MAX - 1, TIME_MIN_MS, -1_800_000_000, 900_000_000), None);
        assert_eq!(validate(0, LATE_MS, 1_799_999_999, -900_000_000), None);
        assert_eq!(validate(u64::MAX, LATE_MS, 0, 0), Some(Refusal::Object));
        assert_eq!(validate(0, LATE_MS, i32::MIN, 0), Some(Refusal::NotFinite));
        assert_eq!(validate(0, LATE_MS, i32::MIN + 1, 0), Some(Refusal::OutsideSpace));
        assert_eq!(validate(0, LATE_MS, 1_800_000_000, 0), Some(Refusal::OutsideSpace));
        assert_eq!(validate(0, LATE_MS, 0, 900_000_001), Some(Refusal::OutsideSpace));
        assert_eq!(validate(0, TIME_MIN_MS - 1, 0, 0), Some(Refusal::TimeTooEarly));
        assert_eq!(validate(0, LATE_MS + 1, 0, 0), Some(Refusal::TimeTooLate));
        let lenient = RowValidator::new(&Space::geographic(), i64::MAX);
        assert_eq!(lenient.validate(0, TIME_MAX_MS, 0, 0), None);
        assert_eq!(lenient.validate(0, TIME_MAX_MS + 1, 0, 0), Some(Refusal::TimeTooLate));
    }

    #[test]
    fn attributes_are_validated_and_unknown_is_valid() {
        let validator = RowValidator::new(&Space::geographic(), LATE_MS);
        let right = FixRow::new(1, LATE_MS, 0, 0);
        assert_eq!(validator.validate_row(&right), None);
        let rows = [
            (FixRow { speed_mm_s: u32::MAX - 1, ..right }, Some(Refusal::Speed)),
            (FixRow { speed_mm_s: u32::MAX - 2, ..right }, None),
            (FixRow { heading_cdeg: 36_000, ..right }, Some(Refusal::Heading)),
            (FixRow { heading_cdeg: u16::MAX - 1, ..right }, Some(Refusal::Heading)),
            (FixRow { heading_cdeg: 35_999, ..right }, None),
            (FixRow { altitude_mm: i32::MIN + 1, ..right }, Some(Refusal::Altitude)),
            (FixRow { altitude_mm: i32::MIN + 2, ..right }, None),
            (FixRow { valid_ms: u32::MAX - 1, ..right }, Some(Refusal::Validity)),
            (FixRow { valid_ms: u32::MAX - 2, ..right }, None),
        ];
        for (row, refusal) in rows {
            assert_eq!(validator.validate_row(&row), refusal, "{row:?}");
            are_valid_if_each_is(&validator, &[right, row]);
        }
    }

    /// Confirms that columns are valid if each of their rows is, wherever the rows are.
    fn are_valid_if_each_is(validator: &RowValidator, rows: &[FixRow]) {
        let is_valid = rows.iter().all(|row| validator.validate_row(row).is_none());
        for from in 0..rows.len() {
            let mut columns = FixColumns::new();
            rows[from..].iter().chain(&rows[..from]).for_each(|row| columns.push_row(*row));
            assert_eq!(validator.are_valid(&columns), is_valid, "{rows:?}");
        }
    }

    #[test]
    fn columns_are_valid_if_each_row_is() {
        let validator = RowValidator::new(&Space::geographic(), LATE_MS);
        let right = FixRow::new(1, LATE_MS, 0, 0);
        are_valid_if_each_is(&validator, &[]);
        are_valid_if_each_is(&validator, &[right; 100]);
        for wrong in [
            FixRow { time_ms: LATE_MS + 1, ..right },
            FixRow { time_ms: TIME_MIN_MS - 1, ..right },
            FixRow { x: 1_800_000_000, ..right },
            FixRow { y: -900_000_001, ..right },
            FixRow { x: i32::MIN, ..right },
        ] {
            are_valid_if_each_is(&validator, &[right, wrong, right]);
        }
    }

    #[test]
    fn the_lowest_number_wins() {
        assert_eq!(validate(u64::MAX, i64::MIN, i32::MIN, 0), Some(Refusal::Object));
        assert_eq!(validate(0, i64::MAX, i32::MIN, 0), Some(Refusal::NotFinite));
        assert_eq!(validate(0, i64::MIN, 0, i32::MAX), Some(Refusal::OutsideSpace));
    }
}
