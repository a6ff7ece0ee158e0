//! Checks that each sequence number of a session arrives once and in order.
//!
//! A skipped number counts as lost; if it arrives later, it counts as misordered instead. A number
//! that arrives again counts as repeated.

use std::collections::BTreeSet;

use super::counts::Counts;

/// Maximum number of tracked skipped numbers; others remain lost.
const MISSING_MAX: usize = 4_096;

/// The numbers of one session so far.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The next expected number.
    next: u64,
    /// Skipped numbers.
    missing: BTreeSet<u64>,
}

impl Default for Sequence {
    fn default() -> Self {
        Self { next: 1, missing: BTreeSet::new() }
    }
}

impl Sequence {
    /// The next expected number.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records a message with the numbers `first` to `last`. Returns false if none of them is
    /// new; true for invalid numbers, which are counted as misordered.
    pub fn take(&mut self, first: u64, last: u64, counts: &mut Counts) -> bool {
        if first == 0 || last < first {
            counts.misorder(1, || format!("a message has the numbers {first} to {last}"));
            return true;
        }
        let next = self.next;
        if first > next {
            counts.lose(first - next, || format!("message {first} follows {}", next - 1));
            let left = MISSING_MAX.saturating_sub(self.missing.len());
            self.missing.extend((next..first).take(left));
        }
        // A message may span many numbers; only those already passed need a check.
        let passed = first..(last + 1).min(next).max(first);
        let late: Vec<u64> = self.missing.range(passed.clone()).copied().collect();
        for number in &late {
            self.missing.remove(number);
        }
        let late = late.len() as u64;
        let again = (passed.end - passed.start) - late;
        if late > 0 {
            counts.lost -= late;
            counts.misorder(late, || format!("message {first} comes after {}", next - 1));
        }
        counts.repeat(again, || format!("message {first} to {last} after {}", next - 1));
        self.next = next.max(last + 1);
        last >= next || late > 0
    }

    /// Continues at the server's `next`; counts the numbers in between, at least one, as lost.
    pub fn skip_to(&mut self, next: u64, counts: &mut Counts) {
        let missing = if next > self.next { next - self.next } else { 1 };
        counts.lose(missing, || format!("the server resumes at {next} after {}", self.next - 1));
        self.next = next.max(1);
        self.missing.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of lost, repeated and misordered messages after `messages`.
    fn counted(messages: &[(u64, u64)]) -> (u64, u64, u64) {
        let (mut sequence, mut counts) = (Sequence::default(), Counts::default());
        for (first, last) in messages {
            sequence.take(*first, *last, &mut counts);
        }
        (counts.lost, counts.repeated, counts.misordered)
    }

    #[test]
    fn numbers_in_order_are_fine() {
        assert_eq!(counted(&[(1, 1), (2, 2), (3, 9), (10, 10)]), (0, 0, 0));
    }

    #[test]
    fn faults_are_distinguished() {
        assert_eq!(counted(&[(1, 1), (3, 3)]), (1, 0, 0));
        assert_eq!(counted(&[(1, 1), (1, 1)]), (0, 1, 0));
        assert_eq!(counted(&[(1, 1), (3, 3), (2, 2), (4, 4)]), (0, 0, 1));
        assert_eq!(counted(&[(1, 1), (3, 3), (2, 2), (2, 2)]), (0, 1, 1));
        assert_eq!(counted(&[(1, 4), (3, 6)]), (0, 2, 0));
        assert_eq!(counted(&[(2, 1)]), (0, 0, 1));
        assert_eq!(counted(&[(1_000_000, u64::MAX - 1), (5, 5)]), (999_998, 0, 1));
    }

    #[test]
    fn a_gap_is_lost_and_the_stream_resumes_after_it() {
        let (mut sequence, mut counts) = (Sequence::default(), Counts::default());
        sequence.take(1, 1, &mut counts);
        sequence.skip_to(7, &mut counts);
        assert!(sequence.take(7, 7, &mut counts));
        assert_eq!((counts.lost, sequence.next()), (5, 8));
        sequence.skip_to(1, &mut counts);
        assert!(sequence.take(1, 1, &mut counts));
        assert_eq!((counts.lost, counts.repeated), (6, 0), "a new session loses what was left");
    }
}
