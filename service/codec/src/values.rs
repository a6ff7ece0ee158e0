//! Typed columns in memory: one vector for each value type of the format.
//!
//! They hold the columns of tables and of other data that is not fixes. Floats keep every bit.

use std::borrow::Cow;

use crate::column_encode::Source;
use crate::section::Fault;
use crate::value_type::ValueType;
use crate::word::Word;

/// A value in memory that has a bit pattern.
pub(crate) trait Native: Copy + Default {
    /// Its bit pattern.
    type Pattern: Word;

    /// The bit patterns of values.
    fn patterns(values: &[Self]) -> Cow<'_, [Self::Pattern]>;
    /// The value of a bit pattern.
    fn of_pattern(pattern: Self::Pattern) -> Self;
}

macro_rules! values {
    ($(($variant:ident, $native:ty, $word:ty, $patterns:expr, $from:expr)),*) => {
        $(impl Native for $native {
            type Pattern = $word;

            fn patterns(values: &[Self]) -> Cow<'_, [$word]> {
                ($patterns)(values)
            }

            #[inline(always)]
            fn of_pattern(pattern: $word) -> Self {
                ($from)(pattern)
            }
        })*

        /// A column of values of one type.
        #[derive(Clone, Debug)]
        pub enum Values {
            $(
                #[doc = concat!("Values of type ", stringify!($native), ".")]
                $variant(Vec<$native>),
            )*
        }

        impl Values {
            /// A column without values.
            pub fn empty(value_type: ValueType) -> Self {
                match value_type {
                    $(ValueType::$variant => Self::$variant(Vec::new()),)*
                }
            }

            /// Their type.
            pub fn value_type(&self) -> ValueType {
                match self {
                    $(Self::$variant(_) => ValueType::$variant,)*
                }
            }

            /// Number of values.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(values) => values.len(),)*
                }
            }

            /// Their bit patterns.
            pub(crate) fn patterns(&self) -> Patterns<'_> {
                match self {
                    $(Self::$variant(values) => Native::patterns(values).into(),)*
                }
            }

            /// Replaces the values by the rows of `source`, an encoded column of the same type.
            pub(crate) fn fill(&mut self, source: &Source<'_>) -> Result<(), Fault> {
                match self {
                    $(Self::$variant(values) => source.decode(<$native>::of_pattern, values),)*
                }
            }

            /// Creates values from little-endian bytes; an incomplete last value is ignored.
            pub fn from_le_bytes(value_type: ValueType, bytes: &[u8]) -> Self {
                match value_type {
                    $(ValueType::$variant => {
                        let values = bytes.as_chunks().0.iter();
                        Self::$variant(values.map(|it| <$native>::from_le_bytes(*it)).collect())
                    })*
                }
            }

            /// Their little-endian bytes.
            pub fn to_le_bytes(&self) -> Vec<u8> {
                match self {
                    $(Self::$variant(values) => {
                        values.iter().flat_map(|value| value.to_le_bytes()).collect()
                    })*
                }
            }

            /// The same values from row `start` to `end`.
            pub fn slice(&self, start: usize, end: usize) -> Self {
                match self {
                    $(Self::$variant(values) => Self::$variant(values[start..end].to_vec()),)*
                }
            }
        }
    };
}

values!(
    (U8, u8, u8, Cow::Borrowed, |pattern| pattern),
    (U16, u16, u16, Cow::Borrowed, |pattern| pattern),
    (U32, u32, u32, Cow::Borrowed, |pattern| pattern),
    (U64, u64, u64, Cow::Borrowed, |pattern| pattern),
    (I8, i8, u8, |values| owned(values, |value: &i8| *value as u8), |pattern| pattern as i8),
    (I16, i16, u16, |values| owned(values, |value: &i16| *value as u16), |pattern| pattern as i16),
    (I32, i32, u32, |values| owned(values, |value: &i32| *value as u32), |pattern| pattern as i32),
    (I64, i64, u64, |values| owned(values, |value: &i64| *value as u64), |pattern| pattern as i64),
    (F32, f32, u32, |values| owned(values, |value: &f32| value.to_bits()), f32::from_bits),
    (F64, f64, u64, |values| owned(values, |value: &f64| value.to_bits()), f64::from_bits)
);

/// Bit patterns that take a conversion.
fn owned<V, P: Clone>(values: &[V], to_pattern: impl Fn(&V) -> P) -> Cow<'_, [P]> {
    Cow::Owned(values.iter().map(to_pattern).collect())
}

/// Bit patterns of a column of any width.
pub(crate) enum Patterns<'a> {
    U8(Cow<'a, [u8]>),
    U16(Cow<'a, [u16]>),
    U32(Cow<'a, [u32]>),
    U64(Cow<'a, [u64]>),
}

macro_rules! patterns {
    ($($variant:ident $word:ty),+) => {
        $(impl<'a> From<Cow<'a, [$word]>> for Patterns<'a> {
            fn from(patterns: Cow<'a, [$word]>) -> Self {
                Self::$variant(patterns)
            }
        })+
    };
}

patterns!(U8 u8, U16 u16, U32 u32, U64 u64);

/// Evaluates an expression on the slice of bit patterns, whatever their width.
macro_rules! with_patterns {
    ($patterns:expr, |$slice:ident| $body:expr) => {
        match $patterns {
            $crate::values::Patterns::U8(patterns) => {
                let $slice = &*patterns;
                $body
            }
            $crate::values::Patterns::U16(patterns) => {
                let $slice = &*patterns;
                $body
            }
            $crate::values::Patterns::U32(patterns) => {
                let $slice = &*patterns;
                $body
            }
            $crate::values::Patterns::U64(patterns) => {
                let $slice = &*patterns;
                $body
            }
        }
    };
}
pub(crate) use with_patterns;

/// Bit patterns, zero-extended.
fn widened<T: Word>(patterns: &[T]) -> Vec<u64> {
    patterns.iter().map(|pattern| (*pattern).into()).collect()
}

impl Values {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their bit patterns, zero-extended: keys of keyed trees.
    pub fn keys(&self) -> Vec<u64> {
        with_patterns!(self.patterns(), |patterns| widened(patterns))
    }
}

/// Equal type and equal bits: NaN equals itself here, and 0.0 is not -0.0.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.value_type() == other.value_type() && self.keys() == other.keys()
    }
}
