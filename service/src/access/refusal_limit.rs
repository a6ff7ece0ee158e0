//! Limits the refusals that the audit log records, so that a flood of refused calls neither fills
//! the disk nor displaces other records.
//!
//! In each second a source has a number of records, and all sources together have one. Further
//! refusals are counted only.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{AUDIT_REFUSALS_MAX, AUDIT_SOURCE_REFUSALS_MAX};

const SECOND: Duration = Duration::from_secs(1);

/// Where refused calls come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RefusalSource {
    /// The account of a token, by its number.
    Account(u64),
    /// The network of a peer without an account; `None` within the process.
    Network(Option<IpAddr>),
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct RefusalLimit(Mutex<Second>);

/// The second in progress.
#[derive(Debug)]
struct Second {
    begin: Instant,
    /// Records of each source. Their sum bounds the number of entries.
    recorded: HashMap<RefusalSource, usize>,
    total: usize,
    left_out: u64,
    /// When `left_out` was last taken.
    taken: Instant,
}

impl Default for RefusalLimit {
    fn default() -> Self {
        let (recorded, total, left_out) = Default::default();
        let now = Instant::now();
        Self(Mutex::new(Second { begin: now, recorded, total, left_out, taken: now }))
    }
}

impl RefusalLimit {
    /// Whether a refusal is recorded; counts it if not.
    pub(super) fn admits(&self, source: RefusalSource, now: Instant) -> bool {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(second.begin) >= SECOND {
            second.begin = now;
            second.recorded.clear();
            second.total = 0;
        }
        let of_source = second.recorded.get(&source).copied().unwrap_or(0);
        if second.total >= AUDIT_REFUSALS_MAX || of_source >= AUDIT_SOURCE_REFUSALS_MAX {
            second.left_out += 1;
            return false;
        }
        second.recorded.insert(source, of_source + 1);
        second.total += 1;
        true
    }

    /// Returns the number of refusals that were not recorded and not returned yet, at most once a
    /// second unless `is_last`; otherwise 0.
    pub(super) fn take_left_out(&self, now: Instant, is_last: bool) -> u64 {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_last && now.saturating_duration_since(second.taken) < SECOND {
            return 0;
        }
        second.taken = now;
        std::mem::take(&mut second.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_and_all_sources_have_a_number_of_records_a_second() {
        let limit = RefusalLimit::default();
        let start = Instant::now() + SECOND;
        let of = |number| RefusalSource::Account(number);
        for source in 0..2 {
            for count in 0..AUDIT_SOURCE_REFUSALS_MAX + 10 {
                assert_eq!(limit.admits(of(source), start), count < AUDIT_SOURCE_REFUSALS_MAX);
            }
        }
        assert_eq!(limit.take_left_out(start, false), 20);
        assert!(!limit.admits(of(0), start));
        assert_eq!(limit.take_left_out(start, false), 0, "once a second");
        assert_eq!(limit.take_left_out(start, true), 1);
        assert!(limit.admits(RefusalSource::Network(None), start), "others have their own");
        let later = start + SECOND;
        let admitted = (0..10_000).filter(|source| limit.admits(of(*source), later)).count();
        assert_eq!(admitted, AUDIT_REFUSALS_MAX);
        assert!(limit.0.lock().unwrap().recorded.len() <= AUDIT_REFUSALS_MAX);
        assert_eq!(limit.take_left_out(later, false), 10_000 - AUDIT_REFUSALS_MAX as u64);
    }
}
