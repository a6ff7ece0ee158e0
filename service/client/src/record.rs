//! Conversion of attributes between the wire and stored rows.
//!
//! Does not convert positions: [`crate::Quantizer`] converts them to quanta, and the space of an
//! engine converts them back.

use shoal_codec::{FixRow, MEASURES};
use shoal_proto::v1::{Fix, FixRecord};

macro_rules! render {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        /// The row of `fix` at a position in quanta.
        #[inline]
        pub(crate) fn row_at(x: i32, y: i32, fix: &Fix) -> FixRow {
            FixRow {
                $($field: MEASURES.$field.store_optional(fix.$api),)+
                state: fix.state,
                ..FixRow::new(fix.object, fix.time_ms, x, y)
            }
        }

        /// The message of `row` at a position in degrees or metres; unknown attributes are absent.
        #[inline]
        #[must_use]
        pub fn record_at((x, y): (f64, f64), row: &FixRow) -> FixRecord {
            FixRecord {
                time_ms: row.time_ms,
                x,
                y,
                $($api: MEASURES.$field.value(row.$field),)+
                state: row.state,
            }
        }
    };
}

shoal_codec::measures!(render);
