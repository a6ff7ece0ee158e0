//! The overflow chain of a cell: a latch, and a hint to a bucket with a free slot.
//!
//! It is stored apart from the buckets, because a cell that fits its first bucket never reads it.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::bucket::NO_BUCKET;

/// The chain of one cell.
#[derive(Debug)]
pub(super) struct Chain {
    latch: AtomicU32,
    hint: AtomicU32,
}

impl Chain {
    pub(super) fn new() -> Self {
        Self { latch: AtomicU32::new(0), hint: AtomicU32::new(NO_BUCKET) }
    }

    /// The bucket of this chain where a search for a free slot begins, or [`NO_BUCKET`]. A worker
    /// may set it only while it holds the latch or a claimed slot of that bucket, so that the
    /// bucket cannot be unlinked.
    pub(super) fn hint(&self) -> u32 {
        self.hint.load(Relaxed)
    }

    pub(super) fn set_hint(&self, bucket: u32) {
        self.hint.store(bucket, Relaxed);
    }

    /// Tries to acquire the latch.
    pub(super) fn try_latch(&self) -> bool {
        self.latch.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Acquires the latch. Workers hold it only for a few stores.
    pub(super) fn latch(&self) {
        while !self.try_latch() {
            std::hint::spin_loop();
        }
    }

    pub(super) fn unlatch(&self) {
        self.latch.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latch_is_exclusive() {
        let chain = Chain::new();
        assert_eq!(chain.hint(), NO_BUCKET);
        assert!(chain.try_latch() && !chain.try_latch());
        chain.unlatch();
        chain.latch();
        assert!(!chain.try_latch());
    }
}
