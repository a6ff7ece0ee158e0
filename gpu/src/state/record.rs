//! Conversion between rows and the records of the device.

use shoal_codec::FixRow;
use shoal_engine::layout::{AnswerRecord, Optional};

macro_rules! render {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        /// A record as a row.
        pub(crate) fn row(answered: &AnswerRecord) -> FixRow {
            FixRow {
                $($field: answered.$field as $type,)+
                state: answered.state,
                ..FixRow::new(answered.object, answered.time_ms, answered.x, answered.y)
            }
        }

        /// A row as a record.
        pub(crate) fn answered(row: &FixRow) -> AnswerRecord {
            let FixRow { object, time_ms, x, y, state, .. } = *row;
            let measured =
                AnswerRecord { $($field: row.$field.into(),)+ ..AnswerRecord::default() };
            AnswerRecord { object, time_ms, x, y, state, found: 1, ..measured }
        }

        /// The optional values of a record.
        pub(crate) fn optional(answered: &AnswerRecord) -> Optional {
            Optional { $($field: answered.$field,)+ }
        }
    };
}

shoal_codec::measures!(render);
