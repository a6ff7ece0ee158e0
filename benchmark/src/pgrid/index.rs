//! The secondary index from objects to slots: one word per object, including its latch.
//!
//! Objects are numbered from 0, so the index is an array. The latch orders the updates of one
//! object; readers never acquire it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const LATCHED: u64 = 1 << 63;
/// The object has never reported.
const UNKNOWN: u64 = LATCHED - 1;
const SLOT_BITS: u32 = 6;

/// A slot of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: u32,
    pub(super) slot: u8,
}

impl Place {
    fn word(self) -> u64 {
        u64::from(self.bucket) << SLOT_BITS | u64::from(self.slot)
    }

    fn from_word(word: u64) -> Option<Self> {
        let word = word & !LATCHED;
        let place = Self {
            bucket: (word >> SLOT_BITS) as u32,
            slot: (word & ((1 << SLOT_BITS) - 1)) as u8,
        };
        (word != UNKNOWN).then_some(place)
    }
}

/// The slots of all objects.
#[derive(Debug)]
pub(super) struct Index {
    words: Vec<AtomicU64>,
}

impl Index {
    pub(super) fn new(objects: usize) -> Self {
        Self { words: (0..objects).map(|_| AtomicU64::new(UNKNOWN)).collect() }
    }

    /// The current slot of an object.
    #[inline(always)]
    pub(super) fn place(&self, object: u32) -> Option<Place> {
        Place::from_word(self.words[object as usize].load(Acquire))
    }

    /// Acquires an object's latch and returns its slot.
    #[inline(always)]
    pub(super) fn latch(&self, object: u32) -> Option<Place> {
        let word = &self.words[object as usize];
        loop {
            let before = word.load(Relaxed);
            let is_free = before & LATCHED == 0;
            if is_free && word.compare_exchange(before, before | LATCHED, Acquire, Relaxed).is_ok()
            {
                return Place::from_word(before);
            }
            std::hint::spin_loop();
        }
    }

    /// Changes the slot of an object while its latch is held.
    #[inline(always)]
    pub(super) fn relocate(&self, object: u32, place: Place) {
        self.words[object as usize].store(place.word() | LATCHED, Release);
    }

    /// Releases the latch of an object.
    #[inline(always)]
    pub(super) fn unlatch(&self, object: u32, place: Place) {
        self.words[object as usize].store(place.word(), Release);
    }

    /// Objects that have reported.
    pub(super) fn known(&self) -> u64 {
        let is_known = |word: &&AtomicU64| word.load(Relaxed) & !LATCHED != UNKNOWN;
        self.words.iter().filter(is_known).count() as u64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.words.len() * size_of::<AtomicU64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latching_preserves_slots() {
        let index = Index::new(2);
        assert_eq!((index.place(1), index.known()), (None, 0));
        assert_eq!(index.latch(1), None);
        let place = Place { bucket: u32::MAX - 1, slot: 61 };
        index.relocate(1, place);
        assert_eq!(index.place(1), Some(place), "readers see through the latch");
        index.unlatch(1, place);
        assert_eq!(index.latch(1), Some(place));
        assert_eq!(index.known(), 1);
    }
}
