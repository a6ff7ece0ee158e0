//! Converts a record to a message: quanta and stored units become degrees, metres and seconds;
//! unknown attributes are left out.

use shoal_client::record_at;
use shoal_codec::{Column, FixRow};
use shoal_engine::Space;
use shoal_proto::v1::FixRecord;

/// Most encoded bytes of a record: time, two coordinates and the attributes with at most 9 bytes
/// each, and the key and length of the record.
pub(crate) const RECORD_BYTES_MAX: usize = (3 + Column::ATTRIBUTES.len()) * 9 + 2;

/// Converts a row to a record in degrees, metres and seconds.
pub(crate) fn record(space: &Space, row: &FixRow) -> FixRecord {
    record_at(space.to_api(row.x, row.y), row)
}

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
