//! Differences between answers of the history and the answers of the oracle's [`Past`].
//!
//! Comparison is exact; fixes of a passage may come in any order.

use std::collections::BTreeMap;

use shoal_client::{DensitySquare, QueryAnswer};
use shoal_codec::FixRow;
use shoal_engine::Space;
use shoal_proto::v1::{FixRecord, HistoryHeader};

use super::difference::api_record;
use super::past::Past;
use crate::history::{HistoryQuery, PastGrid};

/// The answer to a question about the past.
#[derive(Clone, Debug)]
pub struct PastAnswered {
    /// The question.
    pub question: HistoryQuery,
    /// Fleet, term, epoch and clock of the version that answered.
    pub header: HistoryHeader,
    /// The answer.
    pub answer: PastAnswer,
}

/// An answer to a question about the past.
#[derive(Clone, Debug)]
pub enum PastAnswer {
    /// Objects, or fixes.
    Rows(Box<QueryAnswer>),
    /// The squares of a density.
    Squares(Vec<DensitySquare>),
}

impl PastAnswer {
    /// The number of rows or squares.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Rows(answer) => answer.objects.len(),
            Self::Squares(squares) => squares.len(),
        }
    }
}

impl PastAnswered {
    /// Approximate bytes in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.answer.rows() * (8 + size_of::<FixRecord>())
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
    let answer = match (question, answer) {
        (HistoryQuery::Density(window_ms, _, grid), PastAnswer::Squares(found)) => {
            let right = squares(&expected, *window_ms, *grid);
            return (*found != right).then(|| {
                let (got, right) = (found.len(), right.len());
                format!("{got} squares, expected {right}, or others; {question:?}")
            });
        }
        (_, PastAnswer::Rows(answer)) => answer,
        (_, PastAnswer::Squares(_)) => return Some("an answer has squares".to_owned()),
    };
    if let HistoryQuery::Passed(_, _, false) = question {
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
    if matches!(question, HistoryQuery::Passed(..)) {
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

/// Returns the expected rows at an epoch in the order of the answer, except that rows of a passage
/// are ordered by (time, object). For a density, returns the rows that it counts.
fn expected(past: &Past, question: &HistoryQuery, epoch: u64) -> Vec<FixRow> {
    match question {
        HistoryQuery::Trajectory(objects, window_ms) => {
            // Objects are in the order of the request; repeated ids count once.
            let is_first = |(at, object): &(usize, &u64)| !objects[..*at].contains(object);
            let objects = objects.iter().enumerate().filter(is_first).map(|(_, object)| *object);
            objects.flat_map(|it| past.trajectory(epoch, it, *window_ms)).collect()
        }
        HistoryQuery::AsOf(time_ms, objects, region) => {
            let objects = if objects.is_empty() { past.objects() } else { distinct(objects) };
            let states = objects.iter().filter_map(|it| past.as_of(epoch, *it, *time_ms));
            let is_inside =
                |row: &FixRow| region.as_ref().is_none_or(|region| region.contains(row.x, row.y));
            states.filter(is_inside).collect()
        }
        HistoryQuery::Passed(window_ms, region, _) => past.passed(epoch, Some(region), *window_ms),
        HistoryQuery::Replay(window_ms, region) | HistoryQuery::Density(window_ms, region, _) => {
            past.passed(epoch, region.as_ref(), *window_ms)
        }
    }
}

/// Rows counted by step and square.
fn squares(rows: &[FixRow], (from_ms, _): (i64, i64), grid: PastGrid) -> Vec<DensitySquare> {
    let mut counts: BTreeMap<(i64, i32, i32), u64> = BTreeMap::new();
    for row in rows {
        let step = |step_ms: i64| (row.time_ms - from_ms).div_euclid(step_ms) * step_ms;
        let time_ms = from_ms + grid.step_ms.map_or(0, step);
        let place = (time_ms, row.y.div_euclid(grid.cell), row.x.div_euclid(grid.cell));
        *counts.entry(place).or_default() += 1;
    }
    let square = |((time_ms, row, column), fixes)| DensitySquare { time_ms, column, row, fixes };
    counts.into_iter().map(square).collect()
}

fn distinct(objects: &[u64]) -> Vec<u64> {
    let mut objects = objects.to_vec();
    objects.sort_unstable();
    objects.dedup();
    objects
}
