//! Measures: conversion of attributes between stored and user units, and their valid ranges.
//!
//! [`Measure::store`] is the only conversion from real numbers. Server and client share it, so
//! that rows and blocks give the same records.

use crate::columns::{self, FixColumns, FixRow};

/// How the values of one measure are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure<T> {
    /// Field of the protocol's `Fix` and `Filter`.
    pub name: &'static str,
    /// Value of a row in which it is unknown.
    pub unknown: T,
    /// Least stored value.
    pub least: T,
    /// Greatest stored value.
    pub greatest: T,
    /// Stored units in one unit of the user.
    pub per_unit: f64,
    /// True if values are on a circle, so that a range whose start is above its end wraps around.
    pub is_circular: bool,
}

/// The type of a stored measure.
pub trait Stored: Copy + PartialOrd + Into<f64> {
    /// Marks a value that cannot be stored; the engine refuses its row.
    const POISON: Self;
    /// The nearest value of the type.
    fn saturate(value: f64) -> Self;
}

macro_rules! stored {
    ($($type:ident = $poison:expr;)+) => {
        $(impl Stored for $type {
            const POISON: Self = $poison;
            #[inline]
            fn saturate(value: f64) -> Self {
                value as Self
            }
        })+
    };
}

stored! {
    u16 = Self::MAX - 1;
    u32 = Self::MAX - 1;
    i32 = Self::MIN + 1;
}

impl<T: Stored> Measure<T> {
    /// The stored value, rounded half to even, or [`Stored::POISON`]. A value that rounds to a full
    /// turn is stored as 0.
    #[inline]
    pub fn store(&self, value: impl Into<f64>) -> T {
        let value = value.into();
        let (stored, turn) = (self.round(value), self.turn());
        if self.is_circular {
            let is_stored = (0.0..turn / self.per_unit).contains(&value);
            let stored = if stored < turn { stored } else { 0.0 };
            return if is_stored { T::saturate(stored) } else { T::POISON };
        }
        let is_stored = (self.least.into()..=self.greatest.into()).contains(&stored);
        if is_stored { T::saturate(stored) } else { T::POISON }
    }

    /// [`Measure::store`] of an optional value: `None` is stored as unknown.
    #[inline]
    pub fn store_optional(&self, value: Option<impl Into<f64>>) -> T {
        value.map_or(self.unknown, |value| self.store(value))
    }

    /// The value in units of the user, `None` if it is unknown.
    #[inline]
    pub fn value(&self, stored: T) -> Option<f64> {
        self.known(stored).map(|stored| stored.into() / self.per_unit)
    }

    /// The stored value, `None` if it is unknown.
    #[inline(always)]
    pub fn known(&self, stored: T) -> Option<T> {
        (stored != self.unknown).then_some(stored)
    }

    /// True if a row may have this value: unknown, or from least to greatest.
    #[inline]
    pub fn is_valid(&self, stored: T) -> bool {
        stored == self.unknown || self.least <= stored && stored <= self.greatest
    }

    /// True if a value is known and lies in a closed range.
    #[inline]
    pub fn is_within(&self, stored: T, (from, to): (T, T)) -> bool {
        let (is_above, is_below) = (from <= stored, stored <= to);
        // The test has no branches, because `select` applies it to many values.
        let is_within =
            if self.is_circular && from > to { is_above | is_below } else { is_above & is_below };
        is_within & (stored != self.unknown)
    }

    /// Clears the flags of values that are not [within](Self::is_within) a range.
    pub fn select(&self, values: &[T], range: (T, T), flags: &mut [bool]) {
        let flags = flags.iter_mut().zip(values);
        flags.for_each(|(flag, value)| *flag &= self.is_within(*value, range));
    }

    /// A value in stored units, rounded half to even.
    #[inline]
    pub fn round(&self, value: f64) -> f64 {
        (value * self.per_unit).round_ties_even()
    }

    /// Stored units in a full turn.
    #[inline]
    pub fn turn(&self) -> f64 {
        self.greatest.into() + 1.0
    }
}

/// The last moment at which a fix is in force: its time plus the lesser of a fleet's time to live
/// and its own validity; `i64::MAX` with neither. All are in milliseconds.
#[inline(always)]
#[must_use]
pub fn deadline_ms(time_ms: i64, valid_ms: u32, ttl_ms: Option<i64>) -> i64 {
    let valid_ms = MEASURES.valid_ms.known(valid_ms).map_or(i64::MAX, i64::from);
    time_ms.saturating_add(ttl_ms.unwrap_or(i64::MAX).min(valid_ms))
}

macro_rules! render {
    ($($column:ident $field:ident: $type:ident, $api:ident: $api_type:ident, $number:ident {
        [$($device:ident)+]
        $unknown:ident, $least:expr, $greatest:expr, $per_unit:literal,
        is_circular: $circular:literal
    };)+) => {
        /// Every measure by the field of a row.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Measures {
            $(#[doc = concat!("See [`crate::Column::", stringify!($column), "`].")]
            pub $field: Measure<$type>,)+
        }

        /// The measures.
        pub const MEASURES: Measures = Measures {
            $($field: Measure {
                name: stringify!($api),
                unknown: columns::$unknown,
                least: $least,
                greatest: $greatest,
                per_unit: $per_unit,
                is_circular: $circular,
            },)+
        };

        /// The measures of one row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "fields are those of `Measures`")]
        pub struct Attributes { $(pub $field: $type,)+ }

        impl Attributes {
            /// All are unknown.
            pub const UNKNOWN: Self = Self { $($field: columns::$unknown,)+ };
        }

        impl FixRow {
            /// Its measures.
            #[inline]
            pub const fn attributes(&self) -> Attributes {
                Attributes { $($field: self.$field,)+ }
            }

            /// The row with these measures.
            #[inline]
            #[must_use]
            pub const fn with_attributes(self, attributes: Attributes) -> Self {
                Self { $($field: attributes.$field,)+ ..self }
            }
        }

        impl FixColumns {
            /// True if a column of a measure is present.
            pub fn has_attributes(&self) -> bool {
                false $(|| self.$field.is_some())+
            }

            /// The measures of one row.
            ///
            /// # Panics
            /// If a column that is present has no such row.
            #[inline]
            pub fn attributes(&self, row: usize) -> Attributes {
                Attributes {
                    $($field: match &self.$field {
                        Some(values) => values[row],
                        None => columns::$unknown,
                    },)+
                }
            }
        }

        $(const _: () = {
            let (poison, measure) = ($type::POISON as i64, &MEASURES.$field);
            assert!(poison < measure.least as i64 || poison > measure.greatest as i64);
            assert!(poison != measure.unknown as i64, "a poisoned value is not an unknown one");
        };)+
    };
}

crate::measures!(render);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_stored_or_poisoned_at_their_borders() {
        let Measures {
            speed_mm_s: speed,
            heading_cdeg: heading,
            altitude_mm: altitude,
            valid_ms: validity,
        } = MEASURES;
        // Values are rounded before they are checked.
        for (value, stored) in
            [(0.0, 0), (-0.0, 0), (1.25, 1_250), (4_294_967.0, 4_294_967_000), (-0.0001, 0)]
        {
            assert_eq!(speed.store(value), stored, "{value}");
        }
        for bad in [-0.001, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 4_294_968.0] {
            assert_eq!(speed.store(bad), u32::POISON, "{bad}");
        }
        for (value, stored) in [(359.99_f32, 35_999), (359.999_9, 0), (0.0, 0)] {
            assert_eq!(heading.store(value), stored, "{value}");
        }
        for bad in [-0.01, 360.0, f32::NAN, f32::INFINITY] {
            assert_eq!(heading.store(bad), u16::POISON, "{bad}");
        }
        for (value, stored) in
            [(-12.345_6, -12_346), (2_147_483.647, i32::MAX), (-2_147_483.646, i32::MIN + 2)]
        {
            assert_eq!(altitude.store(value), stored, "{value}");
        }
        for bad in [-2_147_483.647, 2_147_483.648, f64::NAN, f64::INFINITY] {
            assert_eq!(altitude.store(bad), i32::POISON, "{bad}");
        }
        for (value, stored) in [(0.0, 0), (-0.000_4, 0), (0.001, 1), (4_294_967.293, u32::MAX - 2)]
        {
            assert_eq!(validity.store(value), stored, "{value}");
        }
        for bad in [-0.001, 4_294_967.294, f64::NAN, f64::INFINITY] {
            assert_eq!(validity.store(bad), u32::POISON, "{bad}");
        }
    }
}
