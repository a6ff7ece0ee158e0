//! How are object ids hashed in the oracle's maps?
//!
//! By one multiplication and one fold: the standard hash costs more than the rest of applying a
//! row, and ids here come from the run itself, so nobody chooses them to collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by object id.
pub type IdMap<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;

/// Hashes one `u64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        // The golden ratio in 64 bits: successive ids land far apart. The high half of the product
        // depends on all bits, and the map looks at the low and the highest bits.
        let product = u128::from(self.0 ^ id) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_stride_spread_over_low_and_high_bits() {
        for stride in [1, 2, 1 << 20, 1 << 40] {
            let mut low = vec![0_u32; 256];
            let mut high = vec![0_u32; 128];
            for index in 0..25_600_u64 {
                let mut hasher = IdHasher::default();
                hasher.write_u64(index * stride);
                low[(hasher.finish() & 255) as usize] += 1;
                high[(hasher.finish() >> 57) as usize] += 1;
            }
            assert!(low.iter().all(|count| (40..200).contains(count)), "{stride} {low:?}");
            assert!(high.iter().all(|count| (80..400).contains(count)), "{stride} {high:?}");
        }
    }
}
