//! The unit of the speeds of a file.

use std::str::FromStr;

use crate::TableError;

/// Unit of a file's `speed` column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpeedUnit {
    /// `m/s`
    #[default]
    MetresPerSecond,
    /// `km/h`
    KilometresPerHour,
    /// `knots`, 1,852 m an hour
    Knots,
}

impl SpeedUnit {
    /// A speed in this unit as metres per second.
    #[must_use]
    pub fn to_m_s(self, speed: f64) -> f64 {
        match self {
            Self::MetresPerSecond => speed,
            Self::KilometresPerHour => speed / 3.6,
            Self::Knots => speed * 1_852.0 / 3_600.0,
        }
    }
}

impl FromStr for SpeedUnit {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        match text {
            "m/s" => Ok(Self::MetresPerSecond),
            "km/h" => Ok(Self::KilometresPerHour),
            "knots" => Ok(Self::Knots),
            _ => Err(TableError::SpeedUnit { text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_by_name_and_convert_to_metres_per_second() {
        assert_eq!("m/s".parse::<SpeedUnit>().unwrap().to_m_s(3.25).to_bits(), 3.25_f64.to_bits());
        assert!(("km/h".parse::<SpeedUnit>().unwrap().to_m_s(36.0) - 10.0).abs() < 1e-12);
        assert!(("knots".parse::<SpeedUnit>().unwrap().to_m_s(36.0) - 18.52).abs() < 1e-12);
        let refusal = "mph".parse::<SpeedUnit>().unwrap_err().to_string();
        assert_eq!(refusal, "`mph` is no unit of speed; use m/s, km/h or knots");
    }
}
