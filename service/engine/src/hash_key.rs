//! The secret key of an engine's hash tables.
//!
//! Clients choose the ids of objects, and on a device the cells of regions; without knowing the key
//! they cannot choose values that collide. No answer, log or message contains the key, and no
//! result depends on it.

/// The key: 128 secret random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    words: [u64; 2],
}

impl HashKey {
    /// A fixed key for reproducible tests and measurements.
    pub const FIXED: Self = Self::new([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);

    /// A key from two random words.
    #[must_use]
    pub const fn new(words: [u64; 2]) -> Self {
        Self { words }
    }

    /// The words, for a device.
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        self.words
    }

    /// SipHash-1-3 of the eight bytes of a word, the least first (Aumasson and Bernstein,
    /// "SipHash: a fast short-input PRF", 2012). `kernels/records/siphash.cuh` has it for the
    /// device.
    #[inline(always)]
    #[must_use]
    pub fn hash(self, word: u64) -> u64 {
        /// The last block: the length, 8 bytes.
        const LENGTH: u64 = 8 << 56;
        let [key, key_high] = self.words;
        let mut state = [
            key ^ 0x736f_6d65_7073_6575,
            key_high ^ 0x646f_7261_6e64_6f6d,
            key ^ 0x6c79_6765_6e65_7261,
            key_high ^ 0x7465_6462_7974_6573,
        ];
        for block in [word, LENGTH] {
            state[3] ^= block;
            round(&mut state);
            state[0] ^= block;
        }
        state[2] ^= 0xff;
        for _ in 0..3 {
            round(&mut state);
        }
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

#[inline(always)]
fn round(state: &mut [u64; 4]) {
    let [mut v0, mut v1, mut v2, mut v3] = *state;
    v0 = v0.wrapping_add(v1);
    v2 = v2.wrapping_add(v3);
    v1 = v1.rotate_left(13) ^ v0;
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.rotate_left(32).wrapping_add(v3);
    v2 = v2.wrapping_add(v1);
    v3 = v3.rotate_left(21) ^ v0;
    v1 = v1.rotate_left(17) ^ v2;
    v2 = v2.rotate_left(32);
    *state = [v0, v1, v2, v3];
}

/// Does not print the key.
impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher as _};

    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard_library() {
        // Its hasher is SipHash-1-3 with a key of zeros.
        for word in [0, 1, 0xff00, 0x0123_4567_89ab_cdef, u64::MAX] {
            let mut reference = DefaultHasher::new();
            reference.write(&word.to_le_bytes());
            assert_eq!(HashKey::new([0, 0]).hash(word), reference.finish(), "{word:x}");
        }
    }

    #[test]
    fn both_words_of_the_key_count_and_none_is_shown() {
        let keys = [[0, 0], [1, 0], [0, 1], [1 << 63, 0], [0, 1 << 63]];
        let mut hashes: Vec<u64> = keys.map(|words| HashKey::new(words).hash(7)).into();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), keys.len());
        assert_eq!(format!("{:?}", HashKey::FIXED), "HashKey { .. }");
    }
}
