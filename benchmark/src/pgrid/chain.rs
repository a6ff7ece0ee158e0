//! What a cell knows of its chain beyond the first bucket: a latch, and where there was room.
//!
//! Apart from the buckets, for a cell whose objects fit its first bucket never touches it.

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

    /// A bucket of this chain that had room lately, or [`NO_BUCKET`]. Set only to one that cannot
    /// leave the chain meanwhile: the latch is held, or a slot of it that is not yet filled.
    pub(super) fn hint(&self) -> u32 {
        self.hint.load(Relaxed)
    }

    pub(super) fn set_hint(&self, bucket: u32) {
        self.hint.store(bucket, Relaxed);
    }

    /// Takes the latch; false when another has it.
    pub(super) fn try_latch(&self) -> bool {
        self.latch.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Takes the latch, which is held for a few stores only.
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
    fn one_has_the_latch() {
        let chain = Chain::new();
        assert_eq!(chain.hint(), NO_BUCKET);
        assert!(chain.try_latch() && !chain.try_latch());
        chain.unlatch();
        chain.latch();
        assert!(!chain.try_latch());
    }
}
