//! Differences between the server's replies and the model's.
//!
//! Comparison is exact: counts, refusals, totals, ids and their order, whole records, distances to
//! the bit. The first difference is reported with both values.

use std::collections::BTreeMap;

use shoal_client::{QueryAnswer, record_at};
use shoal_codec::FixRow;
use shoal_engine::query::Answer;
use shoal_engine::{Refusal, RequestOutcome, Space};
use shoal_proto::v1::{FixRecord, RefusedCount, RefusedRow, RemoveResponse, ReportAck, RowCounts};

/// Maximum number of refused rows listed by an ack: the server's limit.
const REFUSED_ROWS_LISTED_MAX: usize = 256;

/// The first difference between an answer and the model's, if any.
#[must_use]
pub fn answer_difference(
    space: &Space,
    expected: &Answer<'_>,
    got: &QueryAnswer,
) -> Option<String> {
    if let Some(error) = &got.error {
        return Some(format!("the query failed: {error}"));
    }
    if expected.objects != got.objects {
        return Some(object_difference(expected.objects, got));
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
    if expected.fixes.len() != got.fixes.len() {
        return Some(format!("{} records, expected {}", got.fixes.len(), expected.fixes.len()));
    }
    expected.fixes.iter().zip(&got.fixes).find_map(|(row, record)| {
        let right = api_record(space, row);
        let object = row.object;
        (*record != right)
            .then(|| format!("record of object {object} is {record:?}, expected {right:?}"))
    })
}

/// Names the first place at which the ids differ.
fn object_difference(expected: &[u64], got: &QueryAnswer) -> String {
    let place = expected.iter().zip(&got.objects).take_while(|(a, b)| a == b).count();
    let shown = |objects: &[u64]| match objects.get(place) {
        Some(object) => format!("object {object}"),
        None => "the end".to_owned(),
    };
    format!(
        "{} objects (total {}), expected {}; place {place} has {}, expected {}",
        got.objects.len(),
        got.total,
        expected.len(),
        shown(&got.objects),
        shown(expected)
    )
}

/// A stored record in the units of the API.
pub(super) fn api_record(space: &Space, row: &FixRow) -> FixRecord {
    record_at(space.to_api(row.x, row.y), row)
}

/// The difference between a removal's response and its outcome, if any.
#[must_use]
pub fn removal_difference(expected: &RequestOutcome, got: &RemoveResponse) -> Option<String> {
    let epoch = got.epoch;
    let expected = (expected.removed, expected.missing);
    let got = (got.removed_count, got.missing_count);
    (expected != got).then(|| {
        format!("removal in epoch {epoch}: (removed, missing) is {got:?}, expected {expected:?}")
    })
}

/// The first difference between an ack and the outcomes of its messages, by number. `is_loose`, for
/// messages with unknown epochs, compares the outcomes of accepted rows only as one sum. In a named
/// fleet a row with the reserved object has no name and is refused for that.
#[must_use]
pub fn ack_difference(
    expected: &[(u64, RequestOutcome)],
    ack: &ReportAck,
    is_loose: bool,
    is_named: bool,
) -> Option<String> {
    let differ = |what: &str, got: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
        Some(format!(
            "ack of messages {} to {} in epochs {} to {}: {what} {got:?}, expected {expected:?}",
            ack.first_message, ack.last_message, ack.first_epoch, ack.epoch
        ))
    };
    let (mut rows, mut got) = (row_counts(expected), ack.rows.unwrap_or_default());
    if is_loose {
        (rows, got) = (merged(&rows), merged(&got));
    }
    if rows != got {
        return differ("rows", &got, &rows);
    }
    let refused = expected.iter().flat_map(|(message, outcome)| {
        outcome.refused.iter().map(|(row, reason)| match reason {
            Refusal::Object if is_named => (*message, *row, Refusal::Name as i32),
            reason => (*message, *row, *reason as i32),
        })
    });
    let mut by_reason = BTreeMap::<i32, u64>::new();
    refused.clone().for_each(|(_, _, reason)| *by_reason.entry(reason).or_default() += 1);
    let count = |(reason, rows): (i32, u64)| RefusedCount { reason, rows };
    let by_reason: Vec<RefusedCount> = by_reason.into_iter().map(count).collect();
    if by_reason != ack.refused_by_reason {
        return differ("refusals", &ack.refused_by_reason, &by_reason);
    }
    let listed = |row: &RefusedRow| (row.message, row.row, row.reason);
    let listed: Vec<_> = ack.refused_rows.iter().map(listed).collect();
    let refused: Vec<_> = refused.take(REFUSED_ROWS_LISTED_MAX).collect();
    if listed == refused { None } else { differ("refused rows", &listed, &refused) }
}

/// The number of rows of all messages in `outcomes`, by outcome.
fn row_counts(outcomes: &[(u64, RequestOutcome)]) -> RowCounts {
    let mut sum = RowCounts::default();
    for (_, outcome) in outcomes {
        sum.applied += outcome.applied;
        sum.duplicate += outcome.duplicate;
        sum.superseded += outcome.superseded;
        sum.late += outcome.late;
        sum.expired += outcome.expired;
        sum.refused += outcome.refused.len() as u64;
    }
    sum
}

/// Accepted rows as one count.
fn merged(rows: &RowCounts) -> RowCounts {
    RowCounts {
        applied: rows.applied + rows.duplicate + rows.superseded + rows.late + rows.expired,
        refused: rows.refused,
        ..RowCounts::default()
    }
}
