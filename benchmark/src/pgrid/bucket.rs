//! Memory layout of buckets, and consistent reads of 16-byte objects.
//!
//! A header of two words precedes entries of two words that never straddle a cache line. A position
//! is one word, so it is never torn. Identity and position are two loads that belong together:
//! a slot is reused only after every worker has passed a quiescent point since its object left
//! (`grace.rs`), so no reader sees two objects in it. Two loads cost no more than the 128-bit load
//! that safe Rust lacks, but the compiler may not vectorize a scan.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const LINE_WORDS: usize = 8;
const HEADER_WORDS: usize = 2;
const ENTRY_WORDS: usize = 2;

// Words of the header.
const OCCUPIED: usize = 0;
const NEXT: usize = 1;

/// Value of an identity word: the slot is vacant.
const VACANT: u64 = u64::MAX;
/// Bit of the word `OCCUPIED`: the bucket is unlinked and accepts no objects.
const CLOSED: u64 = 1 << 63;
/// Bit of an identity word: the object has moved to another slot (logical deletion).
const DELETED: u64 = 1 << 31;
/// The end of a chain.
pub(super) const NO_BUCKET: u32 = u32::MAX;
/// Maximum time of an entry, milliseconds: one bit of 32 marks logical deletion.
pub(crate) const TIME_MAX_MS: u32 = (1 << 31) - 1;
/// Maximum cache lines of a bucket, so that one bit per slot fits `OCCUPIED` next to the bit
/// `CLOSED`.
pub(crate) const BUCKET_LINES_MAX: usize = 16;

const _: () = assert!(bucket_objects(BUCKET_LINES_MAX) < 64, "one bit per slot, one for CLOSED");
const _: () = assert!((LINE_WORDS - HEADER_WORDS).is_multiple_of(ENTRY_WORDS));

/// Capacity in objects of a bucket of `lines` cache lines.
pub(crate) const fn bucket_objects(lines: usize) -> usize {
    (lines * LINE_WORDS - HEADER_WORDS) / ENTRY_WORDS
}

/// One cache line of words.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line([AtomicU64; LINE_WORDS]);

/// Lines of `buckets` vacant buckets.
pub(super) fn vacant_lines(buckets: usize, lines_per_bucket: usize) -> Vec<Line> {
    let line = |number: usize| {
        let is_head = number.is_multiple_of(lines_per_bucket);
        Line(std::array::from_fn(|word| match word {
            OCCUPIED if is_head => AtomicU64::new(0),
            NEXT if is_head => AtomicU64::new(NO_BUCKET.into()),
            _ => AtomicU64::new(VACANT),
        }))
    };
    (0..buckets * lines_per_bucket).map(line).collect()
}

/// The occupant of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64);

impl Identity {
    pub(super) fn new(object: u32, time_ms: u32) -> Self {
        debug_assert!(time_ms <= TIME_MAX_MS, "a time has 31 bits");
        Self(u64::from(object) << 32 | u64::from(time_ms))
    }

    pub(super) fn object(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn time_ms(self) -> u32 {
        self.0 as u32 & TIME_MAX_MS
    }

    #[inline(always)]
    pub(super) fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }
}

/// One bucket, borrowed from the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<'a> {
    lines: &'a [Line],
}

impl<'a> Bucket<'a> {
    #[inline(always)]
    pub(super) fn new(lines: &'a [Line]) -> Self {
        Self { lines }
    }

    #[inline(always)]
    fn word(self, at: usize) -> &'a AtomicU64 {
        &self.lines[at / LINE_WORDS].0[at % LINE_WORDS]
    }

    /// One bit per slot that may hold an object.
    #[inline(always)]
    pub(super) fn occupied(self) -> u64 {
        self.word(OCCUPIED).load(Acquire) & !CLOSED
    }

    /// Claims a free slot; `None` if the bucket is full or closed.
    #[inline(always)]
    pub(super) fn claim(self) -> Option<usize> {
        let all = (1_u64 << bucket_objects(self.lines.len())) - 1;
        let word = self.word(OCCUPIED);
        let mut occupied = word.load(Relaxed);
        loop {
            let free = !occupied & all;
            if free == 0 || occupied & CLOSED != 0 {
                return None;
            }
            let bit = free & free.wrapping_neg();
            match word.compare_exchange_weak(occupied, occupied | bit, Acquire, Relaxed) {
                Ok(_) => return Some(bit.trailing_zeros() as usize),
                Err(now) => occupied = now,
            }
        }
    }

    /// Prefetches the slot that [`Bucket::claim`] would take, if any.
    #[inline(always)]
    pub(super) fn look_at_free_slot(self) {
        let slot = (!self.word(OCCUPIED).load(Relaxed)).trailing_zeros() as usize;
        if slot < bucket_objects(self.lines.len()) {
            black_box(self.identity(slot));
        }
    }

    /// Frees a slot without readers; returns whether the bucket is empty.
    pub(super) fn vacate(self, slot: usize) -> bool {
        self.word(HEADER_WORDS + ENTRY_WORDS * slot).store(VACANT, Relaxed);
        let bit = 1 << slot;
        self.word(OCCUPIED).fetch_and(!bit, AcqRel) == bit
    }

    /// Closes an empty bucket; false if a slot was claimed concurrently.
    pub(super) fn close(self) -> bool {
        self.word(OCCUPIED).compare_exchange(0, CLOSED, AcqRel, Relaxed).is_ok()
    }

    /// Whether the bucket is unlinked.
    pub(super) fn is_closed(self) -> bool {
        self.word(OCCUPIED).load(Acquire) & CLOSED != 0
    }

    /// Opens an unlinked bucket with its first slot claimed and `next` as successor.
    pub(super) fn open(self, next: u32) -> usize {
        self.set_next(next);
        self.word(OCCUPIED).store(1, Release);
        0
    }

    /// Writes an object into a slot, or replaces its position and time. Readers see either the old
    /// or the new position, never a mixture.
    #[inline(always)]
    pub(super) fn write(self, slot: usize, identity: Identity, x: i32, y: i32) {
        let at = HEADER_WORDS + ENTRY_WORDS * slot;
        let position = u64::from(x as u32) << 32 | u64::from(y as u32);
        self.word(at + 1).store(position, Release);
        self.word(at).store(identity.0, Release);
    }

    /// The occupant of a slot, if any.
    #[inline(always)]
    pub(super) fn identity(self, slot: usize) -> Option<Identity> {
        let word = self.word(HEADER_WORDS + ENTRY_WORDS * slot).load(Acquire);
        (word != VACANT).then_some(Identity(word))
    }

    /// The current or last position of a slot's object.
    #[inline(always)]
    pub(super) fn position(self, slot: usize) -> (i32, i32) {
        let word = self.word(HEADER_WORDS + ENTRY_WORDS * slot + 1).load(Acquire);
        ((word >> 32) as u32 as i32, word as u32 as i32)
    }

    /// Marks the entry of a slot as logically deleted.
    pub(super) fn delete_logically(self, slot: usize, identity: Identity) {
        let at = HEADER_WORDS + ENTRY_WORDS * slot;
        self.word(at).store(identity.0 | DELETED, Release);
    }

    /// The next bucket of the chain, or [`NO_BUCKET`].
    #[inline(always)]
    pub(super) fn next(self) -> u32 {
        self.word(NEXT).load(Acquire) as u32
    }

    pub(super) fn set_next(self, next: u32) {
        self.word(NEXT).store(next.into(), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_claimed_once_and_can_be_freed() {
        let lines = vacant_lines(1, 2);
        let bucket = Bucket::new(&lines);
        let slots: Vec<_> = std::iter::from_fn(|| bucket.claim()).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(bucket.identity(3), None, "claimed is not yet written");
        bucket.write(3, Identity::new(7, 9), -5, i32::MAX);
        let identity = bucket.identity(3).unwrap();
        assert_eq!((identity.object(), identity.time_ms()), (7, 9));
        assert_eq!(bucket.position(3), (-5, i32::MAX));
        bucket.delete_logically(3, identity);
        let deleted = bucket.identity(3).unwrap();
        assert!(deleted.is_deleted() && !identity.is_deleted());
        assert_eq!((deleted.object(), deleted.time_ms()), (7, 9));
        assert!(!bucket.vacate(3));
        assert_eq!(bucket.claim(), Some(3));
    }

    #[test]
    fn only_an_empty_bucket_closes_and_then_rejects_claims() {
        let lines = vacant_lines(2, 4);
        let bucket = Bucket::new(&lines[4..]);
        assert_eq!(bucket.claim(), Some(0));
        assert!(!bucket.close());
        assert!(bucket.vacate(0), "the last one out says so");
        assert!(bucket.close() && !bucket.close());
        assert_eq!((bucket.claim(), bucket.occupied()), (None, 0));
        assert_eq!(bucket.open(5), 0);
        assert_eq!((bucket.claim(), bucket.next()), (Some(1), 5));
    }

    #[test]
    fn the_largest_identity_is_not_vacancy() {
        let lines = vacant_lines(1, 1);
        let bucket = Bucket::new(&lines);
        let identity = Identity::new(u32::MAX - 1, TIME_MAX_MS);
        bucket.write(0, identity, 0, 0);
        bucket.delete_logically(0, identity);
        assert_eq!(bucket.identity(0).map(Identity::object), Some(u32::MAX - 1));
    }
}
