//! Converts filters to stored units.
//!
//! Both ends of a range are rounded as stored values are (half to even), so that a record stored
//! from 0.29 m/s passes [0.29, 0.29]. A filter that no record can pass is an error.

use shoal_engine::{Filter, Refusal};
use shoal_proto::v1;

use super::duration::millis;
use crate::error::ServiceError;
use crate::stored::TURN_CDEG;

/// The greatest stored speed and the least stored altitude; values beyond them mark refusals and
/// unknown attributes.
const SPEED_MM_S_MAX: f64 = (Refusal::POISON_SPEED - 1) as f64;
const ALTITUDE_MM_MIN: f64 = (Refusal::POISON_ALTITUDE + 1) as f64;

/// The filter in stored units; without one, every record passes.
///
/// # Errors
/// [`ServiceError::Field`], relative to the filter.
pub(super) fn filter(sent: Option<&v1::Filter>) -> Result<Filter, ServiceError> {
    let Some(sent) = sent else {
        return Ok(Filter::default());
    };
    let (mask, value) = (sent.state_mask, sent.state_value);
    if value & !mask != 0 {
        let problem = format!("{value:#x} has bits outside state_mask {mask:#x}: no state matches");
        return Err(ServiceError::field("state_value", problem));
    }
    Ok(Filter {
        state_mask: mask,
        state_value: value,
        age_max_ms: millis("age_max", sent.age_max.as_ref())?,
        speed_mm_s: sent.speed_mps.as_ref().map(speed).transpose()?,
        heading_cdeg: sent.heading_deg.as_ref().map(heading).transpose()?,
        altitude_mm: sent.altitude_m.as_ref().map(altitude).transpose()?,
        object_after: None,
    })
}

fn speed(sent: &v1::Interval) -> Result<(u32, u32), ServiceError> {
    let (min, max) = ordered("speed_mps", sent)?;
    let (min, max) = (stored(min, 1e3), stored(max, 1e3));
    if max < 0.0 || min > SPEED_MM_S_MAX {
        return Err(no_value("speed_mps", sent));
    }
    // Casts saturate.
    Ok((min as u32, max as u32))
}

fn altitude(sent: &v1::Interval) -> Result<(i32, i32), ServiceError> {
    let (min, max) = ordered("altitude_m", sent)?;
    let (min, max) = (stored(min, 1e3), stored(max, 1e3));
    if max < ALTITUDE_MM_MIN || min > f64::from(i32::MAX) {
        return Err(no_value("altitude_m", sent));
    }
    Ok((min as i32, max as i32))
}

fn heading(sent: &v1::Interval) -> Result<(u16, u16), ServiceError> {
    for value in [sent.min, sent.max] {
        if !(0.0..=360.0).contains(&value) {
            let problem = format!("{value} degrees is outside 0 to 360");
            return Err(ServiceError::field("heading_deg", problem));
        }
    }
    let (min, max) = (stored(sent.min, 1e2) as u16, stored(sent.max, 1e2) as u16);
    // 360 is north, which is stored as 0: a range that ends there passes through north.
    Ok(if max == TURN_CDEG && min > 0 { (min, 0) } else { (min, max) })
}

fn ordered(field: &str, sent: &v1::Interval) -> Result<(f64, f64), ServiceError> {
    // False for NaN too.
    if sent.min <= sent.max {
        return Ok((sent.min, sent.max));
    }
    let problem = if sent.min.is_nan() || sent.max.is_nan() {
        "min and max must be numbers".to_owned()
    } else {
        format!("min {} must not exceed max {}", sent.min, sent.max)
    };
    Err(ServiceError::field(field, problem))
}

fn no_value(field: &str, sent: &v1::Interval) -> ServiceError {
    let problem = format!("no value can lie between {} and {}", sent.min, sent.max);
    ServiceError::field(field, problem)
}

fn stored(value: f64, per_unit: f64) -> f64 {
    (value * per_unit).round_ties_even()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(min: f64, max: f64) -> v1::Interval {
        v1::Interval { min, max }
    }

    #[test]
    fn ends_are_rounded_and_bounded() {
        assert_eq!(speed(&interval(0.29, 0.29)).unwrap(), (290, 290));
        assert_eq!(speed(&interval(f64::NEG_INFINITY, f64::INFINITY)).unwrap(), (0, u32::MAX));
        assert!(speed(&interval(-5.0, -1.0)).is_err());
        assert!(speed(&interval(1e9, 2e9)).is_err());
        assert_eq!(altitude(&interval(-1.5, 1e12)).unwrap(), (-1500, i32::MAX));
        assert!(altitude(&interval(-1e12, -1e11)).is_err());
        assert_eq!(heading(&interval(0.0, 360.0)).unwrap(), (0, TURN_CDEG));
        assert_eq!(heading(&interval(350.0, 360.0)).unwrap(), (35_000, 0));
        assert_eq!(heading(&interval(350.0, 10.0)).unwrap(), (35_000, 1_000));
    }

    #[test]
    fn invalid_ranges_are_refused() {
        for (min, max) in [(2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::NAN)] {
            assert!(speed(&interval(min, max)).is_err());
            assert!(altitude(&interval(min, max)).is_err());
        }
        for (min, max) in [(-1.0, 1.0), (1.0, 360.1), (f64::NAN, 1.0)] {
            assert!(heading(&interval(min, max)).is_err());
        }
    }
}
