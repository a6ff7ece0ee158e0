//! Exactly-once application of producers' numbered messages.
//!
//! The engine thread decides on messages in the order of the queue, so that a resend that races its
//! original on another stream is applied once. A producer numbers its messages 1, 2, 3 and so on. A
//! number counts as applied once its cycle was applied; until then a resend waits. A number whose
//! message failed is open: it can be sent again at any time.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use shoal_position_log::ProducerState;

use crate::limits::OPEN_NUMBERS_MAX;

/// The number that a producer gave a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchId {
    /// Name of the producer.
    pub producer: Arc<str>,
    /// Number of the message, from 1.
    pub batch_seq: u64,
}

/// Whether a message is to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Apply the message, then call [`Producers::settle`].
    Fresh,
    /// The message was applied before.
    Duplicate,
    /// Another message with this number is in progress. Judge this one again once the other is
    /// settled.
    Undecided,
    /// The number is neither the next one nor open.
    OutOfOrder {
        /// The number that the producer must send first.
        expected: u64,
    },
    /// The producer is unknown, and the number is not 1.
    Unknown,
}

/// The numbers of one producer.
#[derive(Debug, Default)]
struct Numbers {
    /// The greatest accepted number; each number up to it is applied, in progress or open.
    greatest: u64,
    /// In progress, in the order of acceptance.
    in_progress: VecDeque<u64>,
    /// Failed after a later number was accepted; ascending.
    open: Vec<u64>,
}

impl Numbers {
    fn judge(&mut self, number: u64) -> Verdict {
        if number <= self.greatest {
            return self.judge_earlier(number);
        }
        if let Some(&expected) = self.open.get(OPEN_NUMBERS_MAX - 1).and(self.open.first()) {
            return Verdict::OutOfOrder { expected };
        }
        if number - self.greatest > 1 {
            return Verdict::OutOfOrder { expected: self.greatest + 1 };
        }
        self.greatest = number;
        self.in_progress.push_back(number);
        Verdict::Fresh
    }

    fn judge_earlier(&mut self, number: u64) -> Verdict {
        if let Ok(place) = self.open.binary_search(&number) {
            self.open.remove(place);
            self.in_progress.push_back(number);
            Verdict::Fresh
        } else if self.in_progress.contains(&number) {
            Verdict::Undecided
        } else {
            Verdict::Duplicate
        }
    }

    fn settle(&mut self, number: u64, applied: bool) {
        // Cycles settle in the order in which they began, so the number is nearly always the first.
        let Some(place) = self.in_progress.iter().position(|&other| other == number) else {
            return;
        };
        self.in_progress.remove(place);
        if applied {
            return;
        }
        let place = self.open.partition_point(|&other| other < number);
        self.open.insert(place, number);
        // No later number was accepted: the next message must have this one.
        while self.open.last() == Some(&self.greatest) {
            self.open.pop();
            self.greatest -= 1;
        }
    }
}

/// The numbers of the producers that reported last.
#[derive(Debug)]
pub(crate) struct Producers {
    numbers: LruCache<Arc<str>, Numbers>,
}

impl Producers {
    /// Remembers the numbers of the `producers_max` most recent producers, at least one.
    pub(crate) fn with_limit(producers_max: usize) -> Self {
        Self::new(NonZeroUsize::new(producers_max).unwrap_or(NonZeroUsize::MIN))
    }

    fn new(producers_max: NonZeroUsize) -> Self {
        // Created unbounded and then resized: `LruCache::new` would allocate memory for all entries
        // at once.
        let mut numbers = LruCache::unbounded();
        numbers.resize(producers_max);
        Self { numbers }
    }

    /// Decides whether to apply a message. If it is fresh, its number is then in progress.
    pub(crate) fn judge(&mut self, id: &BatchId) -> Verdict {
        if let Some(numbers) = self.numbers.get_mut(&id.producer) {
            return numbers.judge(id.batch_seq);
        }
        if id.batch_seq != 1 {
            return Verdict::Unknown;
        }
        let numbers = self.numbers.get_or_insert_mut(id.producer.clone(), Numbers::default);
        numbers.judge(id.batch_seq)
    }

    /// Repeats the outcome of a fresh message that a log contains. Numbers between the greatest one
    /// so far and `number` become open, because their messages failed.
    pub(crate) fn restore(&mut self, producer: &str, number: u64, applied: bool) {
        if !applied {
            return;
        }
        let numbers = self.numbers.get_or_insert_mut(producer.into(), Numbers::default);
        if let Ok(place) = numbers.open.binary_search(&number) {
            numbers.open.remove(place);
        } else if number > numbers.greatest {
            numbers.open.extend(numbers.greatest + 1..number);
            numbers.greatest = number;
        }
    }

    /// Sets the numbers of a producer, which becomes the most recent one.
    pub(crate) fn restore_state(&mut self, state: ProducerState) {
        let ProducerState { producer, greatest, open } = state;
        let numbers = Numbers { greatest, in_progress: VecDeque::new(), open };
        self.numbers.put(producer.into(), numbers);
    }

    /// The numbers of all producers, the least recent first. Call it only while no message is in
    /// progress.
    pub(crate) fn states(&self) -> Vec<ProducerState> {
        let state = |(producer, numbers): (&Arc<str>, &Numbers)| ProducerState {
            producer: producer.to_string(),
            greatest: numbers.greatest,
            open: numbers.open.clone(),
        };
        self.numbers.iter().rev().map(state).collect()
    }

    /// Records that a fresh message was applied, or failed as a whole.
    pub(crate) fn settle(&mut self, id: &BatchId, applied: bool) {
        if let Some(numbers) = self.numbers.get_mut(&id.producer) {
            numbers.settle(id.batch_seq, applied);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(producer: &str, batch_seq: u64) -> BatchId {
        BatchId { producer: producer.into(), batch_seq }
    }

    fn producers(max: usize) -> Producers {
        Producers::new(NonZeroUsize::new(max).unwrap())
    }

    fn apply(producers: &mut Producers, id: &BatchId) {
        assert_eq!(producers.judge(id), Verdict::Fresh, "{id:?}");
        producers.settle(id, true);
    }

    #[test]
    fn a_number_counts_once_it_was_applied() {
        let mut producers = producers(10);
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Fresh);
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Undecided);
        assert_eq!(producers.judge(&id("b", 1)), Verdict::Fresh);
        producers.settle(&id("a", 1), true);
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Duplicate);
        assert_eq!(producers.judge(&id("a", 2)), Verdict::Fresh);
    }

    #[test]
    fn a_skipped_number_is_out_of_order_and_takes_nothing() {
        let mut producers = producers(10);
        apply(&mut producers, &id("a", 1));
        for number in [3, 4, u64::MAX] {
            let expected = Verdict::OutOfOrder { expected: 2 };
            assert_eq!(producers.judge(&id("a", number)), expected);
        }
        apply(&mut producers, &id("a", 2));
        apply(&mut producers, &id("a", 3));
        assert_eq!(producers.judge(&id("a", 2)), Verdict::Duplicate);
    }

    #[test]
    fn a_failed_number_is_the_next_until_a_later_one_is_accepted() {
        let mut producers = producers(10);
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Fresh);
        producers.settle(&id("a", 1), false);
        assert_eq!(producers.judge(&id("a", 2)), Verdict::OutOfOrder { expected: 1 });
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Fresh);
        // The second is in progress when the first fails again.
        assert_eq!(producers.judge(&id("a", 2)), Verdict::Fresh);
        producers.settle(&id("a", 1), false);
        producers.settle(&id("a", 2), true);
        apply(&mut producers, &id("a", 3));
        assert_eq!(producers.judge(&id("a", 2)), Verdict::Duplicate);
        apply(&mut producers, &id("a", 1));
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Duplicate);
        apply(&mut producers, &id("a", 4));
    }

    #[test]
    fn open_numbers_are_bounded() {
        let mut producers = producers(10);
        let last = OPEN_NUMBERS_MAX as u64 + 1;
        for number in 1..=last {
            assert_eq!(producers.judge(&id("a", number)), Verdict::Fresh);
        }
        for number in 1..=last {
            producers.settle(&id("a", number), number == last);
        }
        assert_eq!(producers.judge(&id("a", last + 1)), Verdict::OutOfOrder { expected: 1 });
        assert_eq!(producers.judge(&id("a", last)), Verdict::Duplicate);
        apply(&mut producers, &id("a", 5));
        apply(&mut producers, &id("a", last + 1));
    }

    #[test]
    fn all_numbers_of_a_refused_cycle_are_taken_back() {
        let mut producers = producers(10);
        for number in 1..=100 {
            assert_eq!(producers.judge(&id("a", number)), Verdict::Fresh);
        }
        for number in 1..=100 {
            producers.settle(&id("a", number), number <= 40);
        }
        assert_eq!(producers.judge(&id("a", 42)), Verdict::OutOfOrder { expected: 41 });
        for number in 41..=100 {
            apply(&mut producers, &id("a", number));
        }
    }

    #[test]
    fn numbers_are_restored_by_outcomes_and_by_states() {
        let mut live = producers(10);
        for number in 1..=6 {
            assert_eq!(live.judge(&id("a", number)), Verdict::Fresh);
        }
        for number in 1..=6 {
            live.settle(&id("a", number), ![2, 3, 6].contains(&number));
        }
        assert_eq!(live.judge(&id("a", 3)), Verdict::Fresh);
        live.settle(&id("a", 3), true);
        let mut restored = producers(10);
        for (number, applied) in
            [(1, true), (2, false), (3, false), (4, true), (5, true), (6, false), (3, true)]
        {
            restored.restore("a", number, applied);
        }
        assert_eq!(restored.states(), live.states());
        let expected = ProducerState { producer: "a".into(), greatest: 5, open: vec![2] };
        assert_eq!(restored.states(), [expected]);
        let mut copy = producers(10);
        restored.restore("b", 1, true);
        restored.states().into_iter().for_each(|state| copy.restore_state(state));
        assert_eq!(copy.states(), restored.states());
        assert_eq!(copy.judge(&id("a", 2)), Verdict::Fresh);
        assert_eq!(copy.judge(&id("a", 6)), Verdict::Fresh);
        assert_eq!(copy.judge(&id("b", 1)), Verdict::Duplicate);
    }

    #[test]
    fn the_least_recent_producer_is_forgotten_and_must_restart_at_1() {
        let mut producers = producers(2);
        for (name, number) in [("a", 1), ("b", 1), ("a", 2), ("c", 1)] {
            apply(&mut producers, &id(name, number));
        }
        assert_eq!(producers.judge(&id("a", 2)), Verdict::Duplicate);
        assert_eq!(producers.judge(&id("b", 2)), Verdict::Unknown);
        assert_eq!(producers.judge(&id("b", 0)), Verdict::Unknown);
        apply(&mut producers, &id("b", 1));
    }
}
