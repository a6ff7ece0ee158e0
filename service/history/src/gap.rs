//! Gaps: cycles of the log that the history does not have, because it was off or the log was cut.
//!
//! Answers lack the fixes of these cycles. A later import may contain these fixes, but the history
//! cannot know whether the import has all of them, so it keeps the gap.

use crate::limits::GAPS_MAX;
use crate::wire::{Reader, Writer};

/// Cycles that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// First epoch that is missing.
    pub first_epoch: u64,
    /// Last epoch that is missing.
    pub last_epoch: u64,
    /// The fleet's clock before the gap, Unix milliseconds; `i64::MIN` if it is not known.
    pub from_ms: i64,
    /// The fleet's clock after the next cycle, Unix milliseconds.
    pub to_ms: i64,
}

impl Gap {
    /// Bytes in a manifest.
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.first_epoch);
        out.u64(self.last_epoch);
        out.i64(self.from_ms);
        out.i64(self.to_ms);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Self {
        let (first_epoch, last_epoch) = (from.u64(), from.u64());
        Self { first_epoch, last_epoch, from_ms: from.i64(), to_ms: from.i64() }
    }

    /// True if the clock of a missing cycle may lie between `from_ms` and `to_ms`, both included.
    #[must_use]
    pub fn meets(&self, from_ms: i64, to_ms: i64) -> bool {
        self.from_ms <= to_ms && from_ms <= self.to_ms
    }

    fn join(&mut self, other: &Self) {
        self.first_epoch = self.first_epoch.min(other.first_epoch);
        self.last_epoch = self.last_epoch.max(other.last_epoch);
        self.from_ms = self.from_ms.min(other.from_ms);
        self.to_ms = self.to_ms.max(other.to_ms);
    }
}

/// Adds a gap to an ascending list. If the list has a gap with the same first epoch, which an
/// earlier start has recorded, both are joined. Beyond [`GAPS_MAX`] gaps, the two nearest to each
/// other are joined.
pub(crate) fn add_gap(gaps: &mut Vec<Gap>, gap: Gap) {
    match gaps.iter_mut().find(|known| known.first_epoch == gap.first_epoch) {
        Some(known) => known.join(&gap),
        None => gaps.push(gap),
    }
    gaps.sort_unstable_by_key(|gap| gap.first_epoch);
    if gaps.len() > GAPS_MAX {
        let between = |at: &usize| {
            gaps[at + 1].first_epoch - gaps[*at].last_epoch.min(gaps[at + 1].first_epoch)
        };
        let nearest = (0..gaps.len() - 1).min_by_key(between).unwrap_or(0);
        let next = gaps.remove(nearest + 1);
        gaps[nearest].join(&next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(first_epoch: u64, last_epoch: u64) -> Gap {
        let ms = |epoch: u64| 1_000 * epoch as i64;
        Gap { first_epoch, last_epoch, from_ms: ms(first_epoch - 1), to_ms: ms(last_epoch + 1) }
    }

    #[test]
    fn the_same_gap_counts_once_and_the_nearest_are_joined() {
        let mut gaps = Vec::new();
        add_gap(&mut gaps, gap(10, 12));
        add_gap(&mut gaps, gap(10, 14));
        assert_eq!(gaps, [gap(10, 14)]);
        // The gap added after this loop is nearer to a neighbour than any two others.
        for index in 1..GAPS_MAX as u64 {
            add_gap(&mut gaps, gap(100 * index, 100 * index + 1));
        }
        add_gap(&mut gaps, gap(550, 560));
        assert_eq!(gaps.len(), GAPS_MAX);
        assert!(gaps.contains(&gap(550, 601)) && !gaps.contains(&gap(600, 601)), "{gaps:?}");
        assert!(gaps.is_sorted_by_key(|gap| gap.first_epoch));
    }

    #[test]
    fn a_gap_meets_the_times_of_its_clock() {
        let gap = gap(10, 14);
        assert!(gap.meets(15_000, 16_000) && gap.meets(0, 9_000) && gap.meets(10_500, 10_600));
        assert!(!gap.meets(15_001, 16_000) && !gap.meets(0, 8_999));
    }
}
