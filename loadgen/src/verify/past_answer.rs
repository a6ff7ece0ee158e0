//! Differences between answers of the history and those of the past that the oracle holds.
//!
//! Comparison is exact; fixes of a passage may come in any order.

use shoal_client::QueryAnswer;
use shoal_codec::FixRow;
use shoal_engine::Space;
use shoal_proto::v1::{FixRecord, HistoryHeader};

use super::difference::api_record;
use super::past::Past;
use crate::history::PastQuestion;

/// The answer to a question about the past.
#[derive(Clone, Debug)]
pub struct PastAnswered {
    /// The question.
    pub question: PastQuestion,
    /// Fleet, term, epoch and clock of the version that answered.
    pub header: HistoryHeader,
    /// The answer.
    pub answer: QueryAnswer,
}

impl PastAnswered {
    /// Approximate bytes in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.answer.objects.len() * (8 + size_of::<FixRecord>())
    }

    /// Whether the version still had everything that the question concerns.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.header.kept_from_ms.is_none()
    }
}

/// The first difference between an answer and the past at the answer's epoch, if any.
#[must_use]
pub fn past_difference(space: &Space, past: &Past, answered: &PastAnswered) -> Option<String> {
    let PastAnswered { question, header, answer } = answered;
    let expected = expected(past, question, header.epoch);
    if let PastQuestion::Passed(_, _, false) = question {
        let mut objects: Vec<u64> = expected.iter().map(|row| row.object).collect();
        objects.sort_unstable();
        objects.dedup();
        return (objects != answer.objects).then(|| {
            let (got, right) = (answer.objects.len(), objects.len());
            format!("{got} objects passed, expected {right}; {question:?}")
        });
    }
    if answer.objects.len() != answer.fixes.len() {
        return Some("an answer has more objects than fixes".to_owned());
    }
    let mut got: Vec<(u64, &FixRecord)> =
        answer.objects.iter().copied().zip(&answer.fixes).collect();
    if matches!(question, PastQuestion::Passed(..)) {
        got.sort_by_key(|(object, fix)| (fix.time_ms, *object));
    }
    let right: Vec<(u64, FixRecord)> =
        expected.iter().map(|row| (row.object, api_record(space, row))).collect();
    let same = |((object, fix), (right, record)): (&(u64, &FixRecord), &(u64, FixRecord))| {
        object == right && *fix == record
    };
    let place = got.iter().zip(&right).take_while(|pair| same(*pair)).count();
    (place < got.len().max(right.len())).then(|| {
        let (have, want) = (got.len(), right.len());
        let (have_place, want_place) = (got.get(place), right.get(place));
        format!(
            "{have} fixes, expected {want}; place {place} has {have_place:?}, expected \
             {want_place:?}; {question:?}"
        )
    })
}

/// The rows of an answer at an epoch, in the order of answers; passages by (time, object).
fn expected(past: &Past, question: &PastQuestion, epoch: u64) -> Vec<FixRow> {
    match question {
        PastQuestion::Trajectory(objects, window_ms) => {
            // In the order of the request; repeated ids count once.
            let is_first = |(at, object): &(usize, &u64)| !objects[..*at].contains(object);
            let objects = objects.iter().enumerate().filter(is_first).map(|(_, object)| *object);
            objects.flat_map(|it| past.trajectory(epoch, it, *window_ms)).collect()
        }
        PastQuestion::AsOf(time_ms, objects, region) => {
            let objects = if objects.is_empty() { past.objects() } else { distinct(objects) };
            let states = objects.iter().filter_map(|it| past.as_of(epoch, *it, *time_ms));
            let is_inside =
                |row: &FixRow| region.as_ref().is_none_or(|region| region.contains(row.x, row.y));
            states.filter(is_inside).collect()
        }
        PastQuestion::Passed(window_ms, region, _) => past.passed(epoch, region, *window_ms),
    }
}

fn distinct(objects: &[u64]) -> Vec<u64> {
    let mut objects = objects.to_vec();
    objects.sort_unstable();
    objects.dedup();
    objects
}
