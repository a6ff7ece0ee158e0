//! Rows of answers as messages.
//!
//! Converts quanta and stored units to degrees, metres and seconds; unknown attributes are absent.

use shoal_codec::{Column, FixRow, MEASURES};
use shoal_engine::{Answer, Space};
use shoal_proto::v1::FixRecord;

use super::object_names::names_of;
use crate::fleet::Fleet;
use crate::limits::NAME_BYTES_MAX;

/// Encoded bytes of an id and of a distance.
const NUMBER_BYTES: usize = 8;
/// Most encoded bytes of a record: time, position and attributes of at most 9 bytes, and their
/// frame.
pub(crate) const RECORD_BYTES_MAX: usize = (3 + Column::ATTRIBUTES.len()) * 9 + 2;

/// Most encoded bytes of a name: its key, its length and its text.
const NAME_FIELD_BYTES_MAX: usize = 3 + NAME_BYTES_MAX;

/// Some rows of one answer, as lists of a message.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) objects: Vec<u64>,
    pub(super) fixes: Vec<FixRecord>,
    pub(super) distance_m: Vec<f64>,
    /// In a named fleet.
    pub(super) names: Vec<String>,
}

impl Records {
    /// Rows `from..to` of an answer.
    pub(super) fn of(fleet: &Fleet, answer: &Answer<'_>, from: usize, to: usize) -> Self {
        let space = fleet.space();
        // Absent lists are empty.
        let fixes = answer.fixes.get(from..to).unwrap_or_default();
        let ranks = answer.ranks.get(from..to).unwrap_or_default();
        Self {
            objects: answer.objects[from..to].to_vec(),
            fixes: fixes.iter().map(|row| record(space, row)).collect(),
            distance_m: ranks.iter().map(|&rank| space.distance_m(rank)).collect(),
            names: names_of(fleet, &answer.objects[from..to]),
        }
    }
}

/// Most encoded bytes of one row of an answer.
pub(super) fn row_bytes_max(fleet: &Fleet, answer: &Answer<'_>) -> usize {
    let fix = if answer.fixes.is_empty() { 0 } else { RECORD_BYTES_MAX };
    let rank = if answer.ranks.is_empty() { 0 } else { NUMBER_BYTES };
    let name = if fleet.names().is_some() { NAME_FIELD_BYTES_MAX } else { 0 };
    NUMBER_BYTES + fix + rank + name
}

macro_rules! render {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        /// A record in degrees, metres and seconds.
        pub(crate) fn record(space: &Space, row: &FixRow) -> FixRecord {
            let (x, y) = space.to_api(row.x, row.y);
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

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn the_largest_record_fits_its_bound() {
        let row = FixRow {
            speed_mm_s: 1,
            heading_cdeg: 2,
            altitude_mm: -3,
            state: 4,
            ..FixRow::new(1, -1, -1, 1)
        };
        let record = record(&Space::geographic(), &row);
        assert_eq!((record.speed_mps, record.heading_deg), (Some(0.001), Some(0.02)));
        assert_eq!((record.altitude_m, record.state), (Some(-0.003), 4));
        let answer = shoal_proto::v1::RangeResponse { fixes: vec![record], ..Default::default() };
        assert!(answer.encoded_len() <= RECORD_BYTES_MAX, "{} bytes", answer.encoded_len());
    }
}
