//! Has this producer sent this message before?
//!
//! Decided by the engine thread, in the order of the queue, so a resend that races its original on
//! another stream is still applied once. A number counts as sent when its cycle applied it; while
//! that is open, the same number is undecided and waits. Knows the last 100,000 producers.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

/// Who sent a message, and which of its messages it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchId {
    /// Name of the producer.
    pub producer: Arc<str>,
    /// Number of the message, one more each.
    pub batch_seq: u64,
}

/// Whether a message is to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not seen yet: apply it, then settle it.
    Fresh,
    /// Applied before.
    Duplicate,
    /// The same or a later number is under way: ask again when that is settled.
    Undecided,
}

#[derive(Debug, Default)]
struct Numbers {
    /// Greatest number applied.
    applied: Option<u64>,
    /// Greatest number in a cycle that is not settled.
    under_way: Option<u64>,
}

/// The last number of each producer.
#[derive(Debug)]
pub(super) struct Producers {
    numbers: LruCache<Arc<str>, Numbers>,
}

impl Producers {
    pub(super) fn new(producers_max: NonZeroUsize) -> Self {
        // Unbounded inside, trimmed here: the cache would otherwise allocate its bound at once.
        let mut numbers = LruCache::unbounded();
        numbers.resize(producers_max);
        Self { numbers }
    }

    /// Judges a message; a fresh one counts as under way from now on.
    pub(super) fn judge(&mut self, id: &BatchId) -> Verdict {
        let numbers = self.numbers.get_or_insert_mut(id.producer.clone(), Numbers::default);
        if numbers.applied.is_some_and(|applied| id.batch_seq <= applied) {
            Verdict::Duplicate
        } else if numbers.under_way.is_some_and(|under_way| id.batch_seq <= under_way) {
            Verdict::Undecided
        } else {
            numbers.under_way = Some(id.batch_seq);
            Verdict::Fresh
        }
    }

    /// A fresh message was applied, or failed as a whole and does not count.
    pub(super) fn settle(&mut self, id: &BatchId, applied: bool) {
        let Some(numbers) = self.numbers.get_mut(&id.producer) else {
            return;
        };
        if applied {
            numbers.applied = numbers.applied.max(Some(id.batch_seq));
        }
        if numbers.under_way == Some(id.batch_seq) {
            numbers.under_way = None;
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

    #[test]
    fn a_number_counts_once_it_was_applied() {
        let mut producers = producers(10);
        assert_eq!(producers.judge(&id("a", 0)), Verdict::Fresh);
        assert_eq!(producers.judge(&id("a", 0)), Verdict::Undecided);
        assert_eq!(producers.judge(&id("b", 0)), Verdict::Fresh);
        producers.settle(&id("a", 0), true);
        assert_eq!(producers.judge(&id("a", 0)), Verdict::Duplicate);
        assert_eq!(producers.judge(&id("a", 5)), Verdict::Fresh);
        producers.settle(&id("a", 5), true);
        assert_eq!(producers.judge(&id("a", 4)), Verdict::Duplicate);
    }

    #[test]
    fn a_failed_message_does_not_consume_its_number() {
        let mut producers = producers(10);
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Fresh);
        producers.settle(&id("a", 1), false);
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Fresh);
        assert_eq!(producers.judge(&id("a", 2)), Verdict::Fresh);
        producers.settle(&id("a", 1), false);
        producers.settle(&id("a", 2), true);
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Duplicate);
    }

    #[test]
    fn the_longest_silent_producer_is_forgotten() {
        let mut producers = producers(2);
        for name in ["a", "b", "a", "c"] {
            let id = id(name, 1);
            producers.judge(&id);
            producers.settle(&id, true);
        }
        assert_eq!(producers.judge(&id("a", 1)), Verdict::Duplicate);
        assert_eq!(producers.judge(&id("b", 1)), Verdict::Fresh);
    }
}
