//! Converts filters to stored units.
//!
//! Both ends of a range are rounded like stored values (half to even), so that a record that was
//! reported with 0.29 m/s passes [0.29, 0.29]. A filter that no record can pass is an error.

use shoal_codec::{MEASURES, Measure, Stored};
use shoal_engine::Filter;
use shoal_proto::v1;

use crate::duration::millis;
use crate::error::ServiceError;

macro_rules! render {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        /// Converts a filter to stored units; `None` becomes a filter that every record passes.
        ///
        /// # Errors
        /// [`ServiceError::Field`] with a path relative to the filter.
        pub(super) fn filter(sent: Option<&v1::Filter>) -> Result<Filter, ServiceError> {
            let Some(sent) = sent else {
                return Ok(Filter::default());
            };
            let (mask, value) = (sent.state_mask, sent.state_value);
            if value & !mask != 0 {
                let problem =
                    format!("{value:#x} has bits outside state_mask {mask:#x}: no state matches");
                return Err(ServiceError::field("state_value", problem));
            }
            Ok(Filter {
                state_mask: mask,
                state_value: value,
                age_max_ms: millis("age_max", sent.age_max.as_ref())?,
                $($field: sent.$api.as_ref().map(|it| stored(&MEASURES.$field, it)).transpose()?,)+
                object_after: None,
            })
        }
    };
}

shoal_codec::measures!(render);

/// Converts a range of a measure to stored units.
fn stored<T: Stored>(measure: &Measure<T>, sent: &v1::Interval) -> Result<(T, T), ServiceError> {
    if measure.is_circular {
        return on_circle(measure, sent);
    }
    let (min, max) = ordered(measure.name, sent)?;
    let (min, max) = (measure.round(min), measure.round(max));
    if max < measure.least.into() || min > measure.greatest.into() {
        let problem = format!("no value can lie between {} and {}", sent.min, sent.max);
        return Err(ServiceError::field(measure.name, problem));
    }
    Ok((T::saturate(min), T::saturate(max)))
}

/// Converts a range of a measure in degrees to stored units.
fn on_circle<T: Stored>(measure: &Measure<T>, sent: &v1::Interval) -> Result<(T, T), ServiceError> {
    for value in [sent.min, sent.max] {
        if !(0.0..=360.0).contains(&value) {
            let problem = format!("{value} degrees is outside 0 to 360");
            return Err(ServiceError::field(measure.name, problem));
        }
    }
    let (min, max) = (measure.round(sent.min), measure.round(sent.max));
    // A full turn is north, which is stored as 0, so a range that ends there includes 0.
    let max = if max == measure.turn() && min > 0.0 { 0.0 } else { max };
    Ok((T::saturate(min), T::saturate(max)))
}

fn ordered(field: &str, sent: &v1::Interval) -> Result<(f64, f64), ServiceError> {
    // The comparison is false for NaN too.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(min: f64, max: f64) -> v1::Interval {
        v1::Interval { min, max }
    }

    #[test]
    fn ends_are_rounded_and_bounded() {
        assert_eq!(stored(&MEASURES.speed_mm_s, &interval(0.29, 0.29)).unwrap(), (290, 290));
        assert_eq!(
            stored(&MEASURES.speed_mm_s, &interval(f64::NEG_INFINITY, f64::INFINITY)).unwrap(),
            (0, u32::MAX)
        );
        assert!(stored(&MEASURES.speed_mm_s, &interval(-5.0, -1.0)).is_err());
        assert!(stored(&MEASURES.speed_mm_s, &interval(1e9, 2e9)).is_err());
        assert_eq!(
            stored(&MEASURES.altitude_mm, &interval(-1.5, 1e12)).unwrap(),
            (-1500, i32::MAX)
        );
        assert!(stored(&MEASURES.altitude_mm, &interval(-1e12, -1e11)).is_err());
        assert_eq!(stored(&MEASURES.heading_cdeg, &interval(0.0, 360.0)).unwrap(), (0, 36_000));
        assert_eq!(stored(&MEASURES.heading_cdeg, &interval(350.0, 360.0)).unwrap(), (35_000, 0));
        assert_eq!(
            stored(&MEASURES.heading_cdeg, &interval(350.0, 10.0)).unwrap(),
            (35_000, 1_000)
        );
    }

    #[test]
    fn invalid_ranges_are_refused() {
        for (min, max) in [(2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::NAN)] {
            assert!(stored(&MEASURES.speed_mm_s, &interval(min, max)).is_err());
            assert!(stored(&MEASURES.altitude_mm, &interval(min, max)).is_err());
        }
        for (min, max) in [(-1.0, 1.0), (1.0, 360.1), (f64::NAN, 1.0)] {
            assert!(stored(&MEASURES.heading_cdeg, &interval(min, max)).is_err());
        }
    }
}
