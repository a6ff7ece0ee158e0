//! The first difference between two outputs, in one line.
//!
//! All fields are compared exactly: numbers of the cycle, outcomes by request, answers by query,
//! events by region.

use std::fmt::Debug;

use shoal_codec::FixRow;

use crate::cycle::{CycleOutput, RequestOutcome, Snapshot};
use crate::events::RegionEvents;
use crate::query::{Answer, AnswerSet};
use crate::subscription::EventKind;

/// The first difference between two outputs; `None` when they are equal.
#[must_use]
pub fn first_difference(expected: &CycleOutput, actual: &CycleOutput) -> Option<String> {
    cycle_difference(expected, actual)
        .or_else(|| {
            let pairs = expected.requests.iter().zip(&actual.requests).enumerate();
            pairs.into_iter().find_map(|(request, (expected, actual))| {
                let difference = outcome_difference(expected, actual)?;
                Some(format!("request {request}: {difference}"))
            })
        })
        .or_else(|| answers_difference(&expected.answers, &actual.answers))
        .or_else(|| lists("unfinished query", &expected.unfinished, &actual.unfinished))
        .or_else(|| lists("query returned", &expected.queries, &actual.queries))
        .or_else(|| {
            let pairs = expected.events.iter().zip(actual.events.iter());
            pairs.into_iter().find_map(|(expected, actual)| events_difference(&expected, &actual))
        })
        .or_else(|| values("regions with events", &expected.events.len(), &actual.events.len()))
}

/// The first difference between two sets of answers.
pub(super) fn answers_difference(expected: &AnswerSet, actual: &AnswerSet) -> Option<String> {
    let pairs = expected.iter().zip(actual.iter()).enumerate();
    pairs
        .into_iter()
        .find_map(|(query, (expected, actual))| {
            let difference = answer_difference(&expected, &actual)?;
            Some(format!("query {query}: {difference}"))
        })
        .or_else(|| values("answers", &expected.len(), &actual.len()))
}

/// The first difference between the rows of two snapshots. The term and the set of optional columns
/// may differ.
pub(super) fn snapshot_difference(expected: &Snapshot, actual: &Snapshot) -> Option<String> {
    let rows = |snapshot: &Snapshot| -> Vec<FixRow> {
        let batches = snapshot.batches.iter();
        batches.flat_map(|batch| (0..batch.len()).map(|row| batch.row(row))).collect()
    };
    let lengths =
        |snapshot: &Snapshot| snapshot.batches.iter().map(|batch| batch.len()).collect::<Vec<_>>();
    values("epoch", &expected.epoch, &actual.epoch)
        .or_else(|| values("clock_ms", &expected.clock_ms, &actual.clock_ms))
        .or_else(|| values("rows of the batches", &lengths(expected), &lengths(actual)))
        .or_else(|| lists("row", &rows(expected), &rows(actual)))
}

fn cycle_difference(expected: &CycleOutput, actual: &CycleOutput) -> Option<String> {
    values("epoch", &expected.epoch, &actual.epoch)
        .or_else(|| values("clock_ms", &expected.clock_ms, &actual.clock_ms))
        .or_else(|| values("expired", &expected.expired, &actual.expired))
        .or_else(|| values("objects", &expected.objects, &actual.objects))
        .or_else(|| values("answer_epoch", &expected.answer_epoch, &actual.answer_epoch))
        .or_else(|| values("answer_clock_ms", &expected.answer_clock_ms, &actual.answer_clock_ms))
        .or_else(|| values("outcomes", &expected.requests.len(), &actual.requests.len()))
        .or_else(|| values("answers", &expected.answers.len(), &actual.answers.len()))
}

fn outcome_difference(expected: &RequestOutcome, actual: &RequestOutcome) -> Option<String> {
    lists("refused row", &expected.refused, &actual.refused).or_else(|| {
        let rest =
            |outcome: &RequestOutcome| RequestOutcome { refused: Vec::new(), ..outcome.clone() };
        values("outcome", &rest(expected), &rest(actual))
    })
}

fn answer_difference(expected: &Answer<'_>, actual: &Answer<'_>) -> Option<String> {
    values("total", &expected.total, &actual.total)
        .or_else(|| values("truncated", &expected.truncated, &actual.truncated))
        .or_else(|| lists("object", expected.objects, actual.objects))
        .or_else(|| lists("rank", expected.ranks, actual.ranks))
        .or_else(|| lists("fix", expected.fixes, actual.fixes))
}

fn events_difference(expected: &RegionEvents<'_>, actual: &RegionEvents<'_>) -> Option<String> {
    let kinds = |events: &RegionEvents<'_>| -> Vec<(u64, EventKind)> {
        events.iter().map(|(object, kind, _)| (object, kind)).collect()
    };
    let region = expected.region;
    values("region", &region, &actual.region).or_else(|| {
        let difference = values("is_lagged", &expected.is_lagged, &actual.is_lagged)
            .or_else(|| values("is_snapshot", &expected.is_snapshot, &actual.is_snapshot))
            .or_else(|| lists("event", &kinds(expected), &kinds(actual)))
            .or_else(|| lists("fix of event", expected.fixes, actual.fixes))?;
        Some(format!("region {}: {difference}", region.0))
    })
}

fn values<T: PartialEq + Debug>(what: &str, expected: &T, actual: &T) -> Option<String> {
    (expected != actual).then(|| format!("{what} is {actual:?}, the model has {expected:?}"))
}

pub(super) fn lists<T: PartialEq + Debug>(
    what: &str,
    expected: &[T],
    actual: &[T],
) -> Option<String> {
    let at = expected.iter().zip(actual).position(|(expected, actual)| expected != actual);
    match at {
        Some(at) => values(&format!("{what} {at}"), &expected[at], &actual[at]),
        None if expected.len() == actual.len() => None,
        None => {
            let at = expected.len().min(actual.len());
            let (expected, actual) = (expected.get(at), actual.get(at));
            Some(format!("{what} {at} is {actual:?}, the model has {expected:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{AnswerHead, AnswerPage};

    fn output(objects: Vec<u64>, refused: Vec<(u32, crate::Refusal)>) -> CycleOutput {
        let heads = vec![AnswerHead { objects: (0, objects.len()), ..AnswerHead::default() }];
        let page = AnswerPage { heads, objects, ..AnswerPage::default() };
        CycleOutput {
            requests: vec![RequestOutcome { refused, ..RequestOutcome::default() }],
            answers: AnswerSet::new(vec![page], vec![(0, 0)]),
            ..CycleOutput::default()
        }
    }

    #[test]
    fn the_first_difference_is_reported() {
        let refused = vec![(3, crate::Refusal::Speed)];
        let expected = output(vec![1, 2], refused.clone());
        assert_eq!(first_difference(&expected, &expected.clone()), None);
        let difference = |actual: &CycleOutput| first_difference(&expected, actual).unwrap();
        let text = difference(&output(vec![1, 2, 5], refused.clone()));
        assert!(text.contains("query 0: object 2 is Some(5)"), "{text}");
        let text = difference(&output(vec![1, 4], refused));
        assert!(text.contains("query 0: object 1 is 4, the model has 2"), "{text}");
        let text = difference(&output(vec![1, 2], Vec::new()));
        assert!(text.contains("request 0: refused row 0 is None"), "{text}");
        let text = difference(&CycleOutput { epoch: 9, ..expected.clone() });
        assert!(text.contains("epoch is 9"), "{text}");
    }
}
