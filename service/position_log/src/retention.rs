//! Which segments a log keeps beyond what recovery needs.

use std::collections::VecDeque;

use crate::position::SegmentInfo;

/// How much of the log is kept beyond what recovery and followers need. The default keeps nothing
/// more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// No segment is retired while all segments together have at most this many bytes.
    pub keep_bytes: u64,
    /// Segments are kept while their last cycle is younger than this, in milliseconds.
    pub keep_ms: u64,
}

impl Retention {
    /// Returns how many of the oldest segments can be retired, because they have no cycle at or
    /// after `needed_epoch` and neither rule keeps them. The last segment is never retired.
    pub(crate) fn retired(
        &self,
        segments: &VecDeque<SegmentInfo>,
        needed_epoch: u64,
        now_ms: i64,
    ) -> usize {
        let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let mut count = 0;
        for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
            let age_ms = now_ms.saturating_sub(next.system_ms_before);
            let is_young = u64::try_from(age_ms).unwrap_or(0) < self.keep_ms;
            // The segment that ends with `needed_epoch` stays: it may hold the start mark of a new
            // term after that epoch.
            if next.epoch_before >= needed_epoch || bytes <= self.keep_bytes || is_young {
                break;
            }
            bytes -= segment.bytes;
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stay_while_they_are_needed_small_or_young() {
        let info = |number: u64| SegmentInfo {
            number,
            bytes: 100,
            epoch_before: number * 10,
            system_ms_before: number as i64 * 1000,
        };
        let segments: VecDeque<_> = (0..5).map(info).collect();
        let retired = |keep_bytes, keep_ms, needed_epoch| {
            Retention { keep_bytes, keep_ms }.retired(&segments, needed_epoch, 5000)
        };
        assert_eq!(retired(0, 0, u64::MAX), 4);
        assert_eq!(retired(0, 0, 31), 3);
        assert_eq!(retired(0, 0, 30), 2);
        assert_eq!(retired(300, 0, u64::MAX), 2);
        assert_eq!(retired(1000, 0, u64::MAX), 0);
        assert_eq!(retired(0, 3001, u64::MAX), 1);
        assert_eq!(retired(0, u64::MAX, u64::MAX), 0);
        assert_eq!(Retention::default().retired(&VecDeque::new(), 1, 1), 0);
    }
}
