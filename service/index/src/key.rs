//! Keys of a tree: 64-bit integers, and pairs of object and time.
//!
//! A node of any key has 128 bytes, the cache line of a GPU and two of a CPU.

/// Bytes of the keys of a node.
pub const NODE_BYTES: usize = 128;

/// A key: ordered, of a size that divides a node.
pub trait Key: Copy + Ord + Default + std::fmt::Debug + Send + Sync + 'static {
    /// The keys of a node.
    type Keys: AsRef<[Self]> + AsMut<[Self]> + Copy + std::fmt::Debug + Send + Sync;

    /// The number of keys of a node, and of its children; a power of two.
    const NODE_KEYS: usize = NODE_BYTES / size_of::<Self>();
    /// The least key; fills the place on the left of each inner node.
    const LEAST: Self;
    /// The greatest key; fills places without a key.
    const GREATEST: Self;

    /// The keys of a node without keys.
    fn empty() -> Self::Keys;
}

impl Key for u64 {
    type Keys = [Self; NODE_BYTES / size_of::<Self>()];

    const LEAST: Self = Self::MIN;
    const GREATEST: Self = Self::MAX;

    fn empty() -> Self::Keys {
        [Self::GREATEST; _]
    }
}

/// An object and a time, ordered by object, then time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ObjectTime {
    /// The id of the object. An id of 32 bits would save nothing: the time is aligned to 8 bytes.
    pub object: u64,
    /// Milliseconds.
    pub time: i64,
}

impl Key for ObjectTime {
    type Keys = [Self; NODE_BYTES / size_of::<Self>()];

    const LEAST: Self = Self { object: u64::MIN, time: i64::MIN };
    const GREATEST: Self = Self { object: u64::MAX, time: i64::MAX };

    fn empty() -> Self::Keys {
        [Self::GREATEST; _]
    }
}

/// The keys of one node, aligned to cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
pub(crate) struct Node<K: Key>(K::Keys);

impl<K: Key> Node<K> {
    /// A node without keys.
    pub(crate) fn empty() -> Self {
        Self(K::empty())
    }

    /// An inner node without bounds: the padding key alone.
    pub(crate) fn inner() -> Self {
        let mut node = Self::empty();
        node.keys_mut()[0] = K::LEAST;
        node
    }

    /// All places.
    #[inline]
    pub(crate) fn keys(&self) -> &[K] {
        &self.0.as_ref()[..K::NODE_KEYS]
    }

    /// All places.
    #[inline]
    pub(crate) fn keys_mut(&mut self) -> &mut [K] {
        &mut self.0.as_mut()[..K::NODE_KEYS]
    }

    /// The number of keys below `key` from place `FIRST` on; without branches.
    #[inline]
    pub(crate) fn below<const FIRST: usize>(&self, key: K) -> usize {
        self.keys()[FIRST..].iter().map(|at| usize::from(*at < key)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_fill_their_cache_lines() {
        assert_eq!((size_of::<Node<u64>>(), u64::NODE_KEYS), (NODE_BYTES, 16));
        assert_eq!((size_of::<Node<ObjectTime>>(), ObjectTime::NODE_KEYS), (NODE_BYTES, 8));
    }

    #[test]
    fn pairs_are_ordered_by_object_then_time() {
        let pair = |object, time| ObjectTime { object, time };
        assert!(pair(1, 9) < pair(2, -9) && pair(2, -9) < pair(2, 0));
        assert!(ObjectTime::LEAST < pair(0, 0) && pair(u64::MAX, 0) < ObjectTime::GREATEST);
    }
}
