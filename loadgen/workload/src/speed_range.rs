//! A range of speeds, written `A-B` in metres per second.

use std::fmt;
use std::str::FromStr;

use crate::WorkloadError;
use crate::limits::SPEED_MAX_M_S;

/// A closed range of speeds; the default is that of the G-LFPP experiment, 1 to 1,000 m/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedRange {
    /// Lowest speed, metres per second.
    pub min_m_s: f64,
    /// Highest speed, metres per second.
    pub max_m_s: f64,
}

impl SpeedRange {
    /// Checks that the range is ordered and within 0 to [`SPEED_MAX_M_S`].
    pub(crate) fn check(self) -> Result<(), WorkloadError> {
        let Self { min_m_s, max_m_s } = self;
        if 0.0 <= min_m_s && min_m_s <= max_m_s && max_m_s <= SPEED_MAX_M_S {
            return Ok(());
        }
        Err(refuse(&self.to_string()))
    }
}

impl Default for SpeedRange {
    fn default() -> Self {
        Self { min_m_s: 1.0, max_m_s: 1_000.0 }
    }
}

impl fmt::Display for SpeedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min_m_s, self.max_m_s)
    }
}

impl FromStr for SpeedRange {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let ends = text.split_once('-').and_then(|(min, max)| {
            Some(Self { min_m_s: min.parse().ok()?, max_m_s: max.parse().ok()? })
        });
        let range = ends.ok_or_else(|| refuse(text))?;
        range.check().map(|()| range)
    }
}

fn refuse(text: &str) -> WorkloadError {
    WorkloadError::Parameter {
        parameter: "speed_range",
        value: format!("`{text}`"),
        range: format!("two speeds A-B in m/s, 0 to {SPEED_MAX_M_S}, A at most B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_as_they_are_displayed() {
        for text in ["1-20", "0-0", "0.5-100000", "1-1000"] {
            assert_eq!(text.parse::<SpeedRange>().unwrap().to_string(), text);
        }
        assert_eq!("1-1000".parse::<SpeedRange>().unwrap(), SpeedRange::default());
    }

    #[test]
    fn an_invalid_range_is_named_in_the_error() {
        for text in ["", "5", "20-1", "-1-5", "1-", "a-b", "1-NaN", "1-1000001", "1-2-3"] {
            let refusal = text.parse::<SpeedRange>().unwrap_err().to_string();
            assert!(
                refusal.starts_with(&format!("parameter speed_range is `{text}`")),
                "{refusal}"
            );
        }
    }
}
