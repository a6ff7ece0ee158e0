//! Which records pass, in stored units?
//!
//! Both ends of a range are rounded as values of that attribute are (half to even), so a record
//! stored from 0.29 m/s passes [0.29, 0.29]. A range that no stored value can lie in matches
//! nothing; one that is not a range is an error.

use shoal_engine::Filter;
use shoal_proto::v1;

use crate::error::ServiceError;

/// Matches nothing: its least is above its greatest.
const NOTHING_U32: (u32, u32) = (1, 0);
const NOTHING_I32: (i32, i32) = (1, 0);
/// Hundredths of a degree in a full turn.
const TURN_CDEG: u16 = 36_000;

/// The engine's filter; none passes everything.
///
/// # Errors
/// [`ServiceError::Field`] under `filter`.
pub(super) fn filter(sent: Option<&v1::Filter>) -> Result<Filter, ServiceError> {
    let Some(sent) = sent else {
        return Ok(Filter::default());
    };
    Ok(Filter {
        state_mask: sent.state_mask,
        state_value: sent.state_value,
        age_max_ms: sent.age_max_ms,
        speed_mm_s: sent.speed_m_s.as_ref().map(speed).transpose()?,
        heading_cdeg: sent.heading_deg.as_ref().map(heading).transpose()?,
        altitude_mm: sent.altitude_m.as_ref().map(altitude).transpose()?,
        object_after: None,
    })
}

fn speed(sent: &v1::Interval) -> Result<(u32, u32), ServiceError> {
    let (min, max) = ordered("filter.speed_m_s", sent)?;
    let (min, max) = (stored(min, 1e3), stored(max, 1e3));
    if max < 0.0 || min > f64::from(u32::MAX) {
        return Ok(NOTHING_U32);
    }
    // Casts saturate.
    Ok((min as u32, max as u32))
}

fn altitude(sent: &v1::Interval) -> Result<(i32, i32), ServiceError> {
    let (min, max) = ordered("filter.altitude_m", sent)?;
    let (min, max) = (stored(min, 1e3), stored(max, 1e3));
    if max < f64::from(i32::MIN) || min > f64::from(i32::MAX) {
        return Ok(NOTHING_I32);
    }
    Ok((min as i32, max as i32))
}

fn heading(sent: &v1::Interval) -> Result<(u16, u16), ServiceError> {
    for value in [sent.min, sent.max] {
        if !(0.0..=360.0).contains(&value) {
            let problem = format!("is {value}, it must lie in [0, 360]");
            return Err(ServiceError::field("filter.heading_deg", problem));
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
    let problem =
        format!("is [{}, {}], its least must not exceed its greatest", sent.min, sent.max);
    Err(ServiceError::field(field, problem))
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
        assert_eq!(speed(&interval(-5.0, -1.0)).unwrap(), NOTHING_U32);
        assert_eq!(speed(&interval(1e9, 2e9)).unwrap(), NOTHING_U32);
        assert_eq!(altitude(&interval(-1.5, 1e12)).unwrap(), (-1500, i32::MAX));
        assert_eq!(altitude(&interval(-1e12, -1e11)).unwrap(), NOTHING_I32);
        assert_eq!(heading(&interval(0.0, 360.0)).unwrap(), (0, TURN_CDEG));
        assert_eq!(heading(&interval(350.0, 360.0)).unwrap(), (35_000, 0));
        assert_eq!(heading(&interval(350.0, 10.0)).unwrap(), (35_000, 1_000));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (min, max) in [(2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::NAN)] {
            assert!(speed(&interval(min, max)).is_err());
            assert!(altitude(&interval(min, max)).is_err());
        }
        for (min, max) in [(-1.0, 1.0), (1.0, 360.1), (f64::NAN, 1.0)] {
            assert!(heading(&interval(min, max)).is_err());
        }
    }
}
