//! Keys of a tree, 64-bit integers or pairs of object and time, and the sizes of its nodes.
//!
//! Leaves have 128 bytes, a cache line of a GPU and two of a CPU. Inner nodes have eight children:
//! on an H200 a search reads fewer bytes and runs fewer instructions than with 16 (21 G/s against
//! 17 at 25 M words), and the larger leaves keep the build of all inner keys short.

/// Bytes of the keys of a leaf.
pub const LEAF_BYTES: usize = 128;
/// Number of children of an inner node, and of its places for keys.
pub const FAN_OUT: usize = 8;

/// A key: ordered, of a size that divides a leaf.
pub trait TreeKey: Copy + Ord + Default + std::fmt::Debug + Send + Sync + 'static {
    /// Number of keys that fit in a leaf; a power of two.
    const LEAF_KEYS: usize = LEAF_BYTES / size_of::<Self>();
    /// The least key; fills place 0 of each inner node.
    const LEAST: Self;
    /// The greatest key; fills places without a key.
    const GREATEST: Self;
}

impl TreeKey for u64 {
    const LEAST: Self = Self::MIN;
    const GREATEST: Self = Self::MAX;
}

/// An object and a time, ordered by object, then time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ObjectTime {
    /// The id of the object. A 32-bit id would save nothing, as the time is aligned to 8 bytes.
    pub object: u64,
    /// Milliseconds.
    pub time: i64,
}

impl TreeKey for ObjectTime {
    const LEAST: Self = Self { object: u64::MIN, time: i64::MIN };
    const GREATEST: Self = Self { object: u64::MAX, time: i64::MAX };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_ordered_by_object_then_time() {
        let pair = |object, time| ObjectTime { object, time };
        assert!(pair(1, 9) < pair(2, -9) && pair(2, -9) < pair(2, 0));
        assert!(ObjectTime::LEAST < pair(0, 0) && pair(u64::MAX, 0) < ObjectTime::GREATEST);
    }
}
