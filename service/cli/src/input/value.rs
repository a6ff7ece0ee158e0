//! Values of rows, whatever the format of their file.

use std::fmt;

use shoal_table::{TimeReader, measure_text, state_bits};

/// Stands for a list or an object of JSON, which is no value of a column.
pub(super) const NESTED: &[u8] = b"[...]";

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'row> {
    /// An integer.
    Integer(i64),
    /// An integer of an unsigned type.
    Natural(u64),
    /// A float.
    Real(f64),
    /// Bytes: WKB or text.
    Bytes(&'row [u8]),
}

impl Value<'_> {
    /// The value as a number; `None` if it is a text that means "unknown".
    ///
    /// # Errors
    /// The value, if it is a text that is no number.
    #[inline]
    pub(crate) fn real(self) -> Result<Option<f64>, String> {
        match self {
            Self::Integer(value) => Ok(Some(value as f64)),
            Self::Natural(value) => Ok(Some(value as f64)),
            Self::Real(value) => Ok(Some(value)),
            Self::Bytes(bytes) => real_text(bytes),
        }
    }

    /// The value as a finite number.
    ///
    /// # Errors
    /// The value is none.
    #[inline]
    pub(crate) fn coordinate(self) -> Result<f64, String> {
        let value = self.real()?.filter(|value| value.is_finite());
        value.ok_or_else(|| format!("`{self}` is not a finite number"))
    }

    /// State bits.
    ///
    /// # Errors
    /// The value is none.
    pub(super) fn bits(self) -> Result<u32, String> {
        let value = match self {
            Self::Integer(value) => u32::try_from(value).ok(),
            Self::Natural(value) => u32::try_from(value).ok(),
            // Programs write integers with nulls as floats.
            Self::Real(value) if value.is_nan() => Some(0),
            _ => state_bits(self.to_string().trim()),
        };
        value.ok_or_else(|| format!("`{self}` is not 0 to {}", u32::MAX))
    }

    /// A Unix time in the unit of the file or a text, as Unix milliseconds; `date` belongs to a time
    /// of day.
    ///
    /// # Errors
    /// The value is none.
    pub(crate) fn time_ms(self, times: &mut TimeReader, date: &str) -> Result<i64, String> {
        match self {
            Self::Integer(time) => times.number(time),
            Self::Natural(time) => {
                times.number(i64::try_from(time).map_err(|_| format!("`{time}` is no time"))?)
            }
            Self::Real(time) => times.real(time, &time.to_string()),
            Self::Bytes(bytes) => times.text(String::from_utf8_lossy(bytes).trim(), date),
        }
    }
}

/// As [`Value::real`], of a text.
fn real_text(bytes: &[u8]) -> Result<Option<f64>, String> {
    let text = String::from_utf8_lossy(bytes);
    measure_text(text.trim()).map_err(|error| format!("`{text}` is {error}"))
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(formatter),
            Self::Natural(value) => value.fmt(formatter),
            Self::Real(value) => value.fmt(formatter),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).fmt(formatter),
        }
    }
}
