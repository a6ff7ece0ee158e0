//! How does an answer differ from the right one?
//!
//! Exactly: totals, ids and their order, whole records, distances to the bit. The first difference
//! is told with both values, so that it can be looked into without running again.

use shoal_codec::{ALTITUDE_UNKNOWN, FixRow, HEADING_UNKNOWN, SPEED_UNKNOWN};
use shoal_engine::{Projection, Query, Space};
use shoal_proto::v1::FixRecord;

use super::event::GotAnswer;
use super::expected::Expected;

/// The first difference between an answer and the right one, `None` when they are equal.
#[must_use]
pub fn difference(
    space: &Space,
    query: &Query,
    expected: &Expected,
    got: &GotAnswer,
) -> Option<String> {
    if let Some(failed) = &got.failed {
        return Some(format!("the query failed: {failed}"));
    }
    let objects: Vec<u64> = expected.rows.iter().map(|row| row.object).collect();
    if objects != got.objects {
        return Some(object_difference(&objects, got));
    }
    if expected.total != got.total {
        return Some(format!("total is {}, expected {}", got.total, expected.total));
    }
    if expected.truncated != got.truncated {
        return Some(format!("truncated is {}, expected {}", got.truncated, expected.truncated));
    }
    let distances: Vec<f64> = expected.ranks.iter().map(|rank| space.distance_m(*rank)).collect();
    if !distances.iter().map(|m| m.to_bits()).eq(got.distance_m.iter().map(|m| m.to_bits())) {
        return Some(format!("distances are {:?}, expected {distances:?}", got.distance_m));
    }
    let wanted = if query.projection == Projection::Fixes { expected.rows.as_slice() } else { &[] };
    if wanted.len() != got.fixes.len() {
        return Some(format!("{} records, expected {}", got.fixes.len(), wanted.len()));
    }
    let records = wanted.iter().zip(&got.fixes);
    records
        .map(|(row, record)| (row, api_record(space, row), record))
        .find(|(_, expected, record)| *record != expected)
        .map(|(row, expected, record)| {
            format!("record of object {} is {record:?}, expected {expected:?}", row.object)
        })
}

/// Names the first place at which the ids differ.
fn object_difference(expected: &[u64], got: &GotAnswer) -> String {
    let place = expected.iter().zip(&got.objects).take_while(|(a, b)| a == b).count();
    let shown = |objects: &[u64]| match objects.get(place) {
        Some(object) => format!("object {object}"),
        None => "the end".to_owned(),
    };
    format!(
        "{} objects (total {}), expected {}; at place {place} stands {}, expected {}",
        got.objects.len(),
        got.total,
        expected.len(),
        shown(&got.objects),
        shown(expected)
    )
}

/// A stored record as the API states it.
fn api_record(space: &Space, row: &FixRow) -> FixRecord {
    let (x, y) = space.to_api(row.x, row.y);
    let known = |is_known: bool, value: f64| is_known.then_some(value);
    FixRecord {
        time_ms: row.time_ms,
        x,
        y,
        speed_mps: known(row.speed_mm_s != SPEED_UNKNOWN, f64::from(row.speed_mm_s) / 1e3),
        heading_deg: known(row.heading_cdeg != HEADING_UNKNOWN, f64::from(row.heading_cdeg) / 1e2),
        altitude_m: known(row.altitude_mm != ALTITUDE_UNKNOWN, f64::from(row.altitude_mm) / 1e3),
        state: row.state,
    }
}
