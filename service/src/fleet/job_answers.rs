//! The answers to one query job: a slice of the answers of its cycle.
//!
//! A cycle answers many jobs at once, in shared pages. A slow client must not keep the pages of
//! other jobs alive, so the answers of a job are copied out of the shared pages, unless the cycle
//! answered no other job. The caller's task or a worker copies them, never the engine thread.

use std::sync::Arc;

use shoal_engine::query::{AnswerHead, AnswerPage};
use shoal_engine::{Answer, AnswerSet};

use crate::error::ServiceError;
use crate::limits::ROW_ANSWER_BYTES;
use crate::shares::{FairWorkers, Requester};

/// The answers to the queries of one job, in their order.
#[derive(Debug)]
pub struct JobAnswers {
    set: Arc<AnswerSet>,
    first: usize,
    count: usize,
    /// The epoch whose state the answers show.
    pub epoch: u64,
    /// The term of that epoch.
    pub term: u64,
    /// The fleet's clock at that epoch.
    pub clock_ms: i64,
    /// Cycles applied or in flight that the answers do not show.
    pub staleness_epochs: u64,
}

impl JobAnswers {
    /// Answers `first..first + count` of a cycle's set.
    pub(super) fn new(
        set: Arc<AnswerSet>,
        first: usize,
        count: usize,
        at: (u64, u64, i64),
        staleness_epochs: u64,
    ) -> Self {
        let (term, epoch, clock_ms) = at;
        Self { set, first, count, term, epoch, clock_ms, staleness_epochs }
    }

    /// How many answers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no answers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The answer to query `index` of the job; panics past the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Answer<'_> {
        assert!(index < self.count, "answer {index} of {}", self.count);
        self.set.get(self.first + index)
    }

    /// All answers in query order.
    pub fn iter(&self) -> impl Iterator<Item = Answer<'_>> {
        (0..self.count).map(|index| self.get(index))
    }

    /// Bytes of all rows.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.iter().map(answer_bytes).sum()
    }

    /// Like [`JobAnswers::detach`]. If the sorting of an answer was deferred, a worker sorts it and
    /// then detaches.
    ///
    /// # Errors
    /// [`ServiceError::ShuttingDown`].
    pub(crate) async fn detached(
        self,
        workers: &FairWorkers,
        client: Requester,
    ) -> Result<Self, ServiceError> {
        if !self.set.is_deferred(self.first..self.first + self.count) {
            return Ok(self.detach());
        }
        let detach = move || {
            self.iter().for_each(drop);
            self.detach()
        };
        workers.run(client, detach).await
    }

    /// These answers with other rows: one answer of the page for each.
    pub(crate) fn with_page(self, page: AnswerPage) -> Self {
        let count = page.heads.len();
        let places = (0..count).map(|head| (0, head as u32)).collect();
        Self { set: Arc::new(AnswerSet::new(vec![page], places)), first: 0, count, ..self }
    }

    /// Copies these answers out of their set if the set also holds answers to other jobs.
    #[must_use]
    pub fn detach(self) -> Self {
        if self.count == self.set.len() {
            return self;
        }
        let mut page = AnswerPage::default();
        for answer in self.iter() {
            let place = |before: usize, rows: usize| (before, before + rows);
            page.heads.push(AnswerHead {
                total: answer.total,
                truncated: answer.truncated,
                objects: place(page.objects.len(), answer.objects.len()),
                fixes: place(page.fixes.len(), answer.fixes.len()),
                ranks: place(page.ranks.len(), answer.ranks.len()),
            });
            page.objects.extend_from_slice(answer.objects);
            page.fixes.extend_from_slice(answer.fixes);
            page.ranks.extend_from_slice(answer.ranks);
        }
        self.with_page(page)
    }
}

/// Bytes of an answer's rows.
fn answer_bytes(answer: Answer<'_>) -> u64 {
    let fixes = answer.fixes.len() as u64 * ROW_ANSWER_BYTES.fix;
    let ids = (answer.objects.len() + answer.ranks.len()) as u64 * ROW_ANSWER_BYTES.id;
    fixes + ids
}

#[cfg(test)]
mod tests {
    use shoal_engine::DeferredAnswer;

    use super::*;

    #[test]
    fn detached_answers_are_the_same_answers() {
        let head = |from: usize, to: usize| AnswerHead {
            total: (to - from) as u64,
            truncated: from == 2,
            objects: (from, to),
            fixes: (0, 0),
            ranks: (0, to - from),
        };
        let page = AnswerPage {
            heads: vec![head(0, 2), head(2, 3), head(3, 6)],
            objects: vec![1, 2, 30, 4, 5, 6],
            fixes: Vec::new(),
            ranks: vec![7, 8, 9],
        };
        let set = Arc::new(AnswerSet::new(vec![page], vec![(0, 0), (0, 2), (0, 1)]));
        let shared = JobAnswers::new(set.clone(), 1, 2, (7, 5, 50), 0);
        let expected: Vec<Answer<'_>> = (1..3).map(|index| set.get(index)).collect();
        let detached = shared.detach();
        assert_eq!(Arc::strong_count(&set), 1);
        assert_eq!(detached.iter().collect::<Vec<_>>(), expected);
        assert_eq!(detached.bytes(), 8 * 8);
        assert_eq!((detached.epoch, detached.clock_ms, detached.len()), (5, 50, 2));
    }

    #[tokio::test]
    async fn deferred_answers_are_computed_before_they_are_returned() {
        let page = AnswerPage {
            heads: vec![AnswerHead { total: 1, objects: (0, 1), ..AnswerHead::default() }; 2],
            objects: vec![9],
            ..AnswerPage::default()
        };
        let objects = Arc::new(vec![1, 2, 3]);
        let late = DeferredAnswer::new(5, (3, 0), objects.clone(), Arc::new(Vec::new()));
        let set = AnswerSet::new(vec![page], vec![(0, 0), (0, 1)]).with_deferred(vec![(1, late)]);
        assert!(set.is_deferred(0..2) && set.is_deferred(1..2) && !set.is_deferred(0..1));
        let totals: Vec<u64> = set.iter().map(|answer| answer.total).collect();
        assert_eq!(totals, [1, 5]);
        let shared = JobAnswers::new(Arc::new(set), 1, 1, (7, 5, 50), 0);
        let workers = FairWorkers::start("worker", 1).unwrap();
        let detached = shared.detached(&workers, Requester::PROCESS).await.unwrap();
        assert_eq!(Arc::strong_count(&objects), 1);
        assert_eq!((detached.get(0).objects, detached.get(0).total), (&[1, 2, 3][..], 5));
        assert!(detached.get(0).truncated && detached.get(0).fixes.is_empty());
    }
}
