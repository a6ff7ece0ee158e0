//! A buffer whose memory begins at a multiple of the page size, as direct I/O requires.
//!
//! It over-allocates a vector and uses it from the first aligned byte; the vector never grows, so
//! the alignment holds.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::limits::PAGE_BYTES;
use crate::wire::page_align;

/// Page-aligned bytes. Dereferences to a slice of its whole capacity.
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    capacity: usize,
}

impl AlignedBuffer {
    /// Creates a buffer of zeros with at least `capacity` bytes, rounded up to whole pages.
    #[must_use]
    pub fn zeroed(capacity: usize) -> Self {
        let capacity = page_align(capacity);
        let bytes = vec![0; capacity + PAGE_BYTES - 1];
        let start = bytes.as_ptr().align_offset(PAGE_BYTES);
        Self { bytes, start, capacity }
    }

    /// Ensures a capacity of at least `capacity` bytes; the first `keep` bytes keep their values,
    /// the others may lose them.
    pub fn grow(&mut self, capacity: usize, keep: usize) {
        if capacity > self.capacity {
            let mut grown = Self::zeroed(capacity.max(self.capacity.saturating_mul(2)));
            grown[..keep].copy_from_slice(&self[..keep]);
            *self = grown;
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.capacity]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.capacity]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_keeps_bytes_when_it_grows() {
        let mut buffer = AlignedBuffer::zeroed(1);
        assert_eq!(buffer.len(), PAGE_BYTES);
        buffer[7] = 9;
        for capacity in [PAGE_BYTES + 1, 10 * PAGE_BYTES, 1 << 20] {
            buffer.grow(capacity, 8);
            assert!(buffer.len() >= capacity && buffer[7] == 9);
            assert_eq!(buffer.as_ptr().align_offset(PAGE_BYTES), 0);
        }
    }
}
