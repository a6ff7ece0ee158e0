//! Units of the values of a file.

use std::fmt;
use std::str::FromStr;

use crate::TableError;

/// Names of each unit: the first is the one in messages, the others are accepted too.
type Names<U> = &'static [(U, &'static [&'static str])];

/// Finds a unit by one of its names.
fn parse<U: Copy>(names: Names<U>, kind: &'static str, text: &str) -> Result<U, TableError> {
    let found = names.iter().find(|(_, names)| names.contains(&text));
    found.map(|(unit, _)| *unit).ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(_, names)| names[0]).collect();
        let (last, others) = known.split_last().expect("each kind has units");
        let known = format!("{} or {last}", others.join(", "));
        TableError::Unit { text: text.to_owned(), kind, known }
    })
}

/// Finds a unit whose name, without other characters than letters and digits, ends the name of a
/// column, as `kmh` in `speedkmh`.
fn parse_suffix<U: Copy>(names: Names<U>, suffix: &str) -> Option<U> {
    let matches = |name: &&str| super::fix_field::squeezed(name) == suffix;
    names.iter().find(|(_, names)| names.iter().any(matches)).map(|(unit, _)| *unit)
}

macro_rules! units {
    ($(
        #[doc = $doc:literal]
        $unit:ident $kind:literal { $($variant:ident = $($name:literal)+;)+ }
    )+) => {$(
        impl $unit {
            const NAMES: Names<Self> = &[$((Self::$variant, &[$($name),+]),)+];

            /// The unit that ends the name of a column.
            pub(super) fn of_suffix(suffix: &str) -> Option<Self> {
                parse_suffix(Self::NAMES, suffix)
            }
        }

        impl fmt::Display for $unit {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = Self::NAMES.iter().find(|(unit, _)| unit == self);
                formatter.write_str(name.map_or("", |(_, names)| names[0]))
            }
        }

        impl FromStr for $unit {
            type Err = TableError;

            #[doc = $doc]
            fn from_str(text: &str) -> Result<Self, TableError> {
                parse(Self::NAMES, $kind, text)
            }
        }
    )+};
}

units! {
    /// Parses `m/s`, `km/h`, `knots` or `mph`.
    SpeedUnit "speed" {
        MetresPerSecond = "m/s" "mps" "ms";
        KilometresPerHour = "km/h" "kmh" "kph" "kmph";
        Knots = "knots" "knot" "kn" "kt" "kts";
        MilesPerHour = "mph";
    }
    /// Parses `m` or `ft`.
    AltitudeUnit "altitude" {
        Metres = "m" "metres" "meters";
        Feet = "ft" "feet" "foot";
    }
    /// Parses `s`, `ms`, `us` or `ns`.
    TimeUnit "time" {
        Seconds = "s" "sec" "secs" "seconds";
        Milliseconds = "ms" "msec" "millis" "milliseconds";
        Microseconds = "us" "usec" "micros" "microseconds";
        Nanoseconds = "ns" "nsec" "nanos" "nanoseconds";
    }
}

/// Unit of the speeds of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpeedUnit {
    /// `m/s`
    #[default]
    MetresPerSecond,
    /// `km/h`
    KilometresPerHour,
    /// `knots`, 1,852 m an hour
    Knots,
    /// `mph`, 1,609.344 m an hour
    MilesPerHour,
}

impl SpeedUnit {
    /// A speed in this unit as metres per second.
    #[must_use]
    pub fn to_m_s(self, speed: f64) -> f64 {
        match self {
            Self::MetresPerSecond => speed,
            Self::KilometresPerHour => speed / 3.6,
            Self::Knots => speed * 1_852.0 / 3_600.0,
            Self::MilesPerHour => speed * 1_609.344 / 3_600.0,
        }
    }
}

/// Unit of the altitudes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AltitudeUnit {
    /// `m`
    #[default]
    Metres,
    /// `ft`, 0.3048 m
    Feet,
}

impl AltitudeUnit {
    /// An altitude in this unit as metres.
    #[must_use]
    pub fn to_m(self, altitude: f64) -> f64 {
        match self {
            Self::Metres => altitude,
            Self::Feet => altitude * 0.3048,
        }
    }
}

/// Unit of Unix times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// `s`
    Seconds,
    /// `ms`
    Milliseconds,
    /// `us`
    Microseconds,
    /// `ns`
    Nanoseconds,
}

impl TimeUnit {
    const ALL: [Self; 4] =
        [Self::Seconds, Self::Milliseconds, Self::Microseconds, Self::Nanoseconds];
    /// 2000-01-01 and 2100-01-01, Unix seconds.
    const YEARS_S: std::ops::Range<f64> = 946_684_800.0..4_102_444_800.0;

    /// Units in a second.
    fn per_s(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Milliseconds => 1_000,
            Self::Microseconds => 1_000_000,
            Self::Nanoseconds => 1_000_000_000,
        }
    }

    /// The unit in which a Unix time lies in the years 2000 to 2099; there is at most one.
    #[must_use]
    pub fn of(time: f64) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| Self::YEARS_S.contains(&(time / unit.per_s() as f64)))
    }

    /// A Unix time in this unit as milliseconds, rounded down; `None` if it does not fit.
    #[inline]
    #[must_use]
    pub fn to_ms(self, time: i64) -> Option<i64> {
        match self {
            Self::Milliseconds => Some(time),
            Self::Seconds => time.checked_mul(1_000),
            _ => Some(time.div_euclid(self.per_s() / 1_000)),
        }
    }

    /// A Unix time with decimals as milliseconds, rounded; `None` if it does not fit.
    pub(super) fn real_to_ms(self, time: f64) -> Option<i64> {
        let time_ms = (time * (1_000.0 / self.per_s() as f64)).round();
        // The range of `i64` in doubles; NaN is not in it.
        (-9.2e18..9.2e18).contains(&time_ms).then_some(time_ms as i64)
    }

    /// A length of time in this unit as seconds.
    #[must_use]
    pub fn to_s(self, length: f64) -> f64 {
        length / self.per_s() as f64
    }

    /// The unit as a word: `seconds`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_by_name_and_convert() {
        assert_eq!("m/s".parse::<SpeedUnit>().unwrap().to_m_s(3.25).to_bits(), 3.25_f64.to_bits());
        for (unit, m_s) in [("km/h", 10.0), ("knots", 18.52), ("mph", 16.093_44)] {
            let speed = unit.parse::<SpeedUnit>().unwrap().to_m_s(36.0);
            assert!((speed - m_s).abs() < 1e-12, "{unit}");
        }
        assert!(("ft".parse::<AltitudeUnit>().unwrap().to_m(1_000.0) - 304.8).abs() < 1e-9);
        let refusal = "furlongs".parse::<SpeedUnit>().unwrap_err().to_string();
        assert_eq!(refusal, "`furlongs` is no unit of speed; use m/s, km/h, knots or mph");
        assert_eq!(SpeedUnit::of_suffix("kmh"), Some(SpeedUnit::KilometresPerHour));
        assert_eq!(SpeedUnit::Knots.to_string(), "knots");
    }

    #[test]
    fn the_unit_of_a_time_is_found_from_its_size() {
        for (time, unit) in [
            (1_480_140_066, TimeUnit::Seconds),
            (1_480_140_066_000, TimeUnit::Milliseconds),
            (1_480_140_066_000_000, TimeUnit::Microseconds),
            (1_480_140_066_000_000_000, TimeUnit::Nanoseconds),
        ] {
            assert_eq!(TimeUnit::of(time as f64), Some(unit));
            assert_eq!(unit.to_ms(time), Some(1_480_140_066_000));
        }
        assert_eq!(TimeUnit::of(0.0).or(TimeUnit::of(f64::NAN)).or(TimeUnit::of(1e13)), None);
        assert_eq!(TimeUnit::Seconds.to_ms(i64::MAX), None);
        assert_eq!(TimeUnit::Microseconds.to_ms(-1), Some(-1));
        assert_eq!(TimeUnit::Seconds.real_to_ms(1_480_140_066.123), Some(1_480_140_066_123));
        assert_eq!(TimeUnit::Seconds.real_to_ms(1e300), None);
    }
}
