//! The tree on the CPU: build from sorted keys, and search. The device has the same nodes.
//!
//! A place is the number of a key's leaf times the places of a leaf, plus the key's position in the
//! leaf. Places ascend with keys. In a tree built with full leaves, a place is a rank.

use shoal_history::{FAN_OUT, TreeShape};

use super::key_set::MadeKey;

/// Requests that are searched together, so that their cache misses overlap.
const TOGETHER: usize = 16;

/// A tree of keys.
pub(super) struct Tree<K: MadeKey> {
    leaves: Vec<Leaf<K>>,
    /// Keys of each leaf but the last.
    fill: usize,
    /// Inner nodes, the level above the leaves first.
    levels: Vec<Vec<Inner<K>>>,
}

/// The keys of a leaf, then fillers, aligned to cache lines.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Leaf<K: MadeKey>(K::Keys);

/// An inner node: the left padding key, then the greatest keys of all children but the last.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Inner<K>([K; FAN_OUT]);

impl<K: MadeKey> Leaf<K> {
    #[inline]
    fn keys(&self) -> &[K] {
        &self.0.as_ref()[..K::LEAF_KEYS]
    }

    /// The number of keys below `key`; without branches.
    #[inline]
    fn below(&self, key: K) -> usize {
        self.keys().iter().map(|at| usize::from(*at < key)).sum()
    }
}

impl<K: MadeKey> Inner<K> {
    /// The child in which `key` is, or into which it belongs; without branches.
    #[inline]
    fn child(&self, key: K) -> usize {
        self.0[1..].iter().map(|at| usize::from(*at < key)).sum()
    }
}

impl<K: MadeKey> Tree<K> {
    /// Builds a tree of keys that ascend strictly, with `fill` keys, at least 1 and at most
    /// `LEAF_KEYS`, in each leaf but the last.
    pub(super) fn build(keys: &[K], fill: usize) -> Self {
        let leaf = |keys: &[K]| {
            let mut leaf = K::empty();
            leaf.as_mut()[..keys.len()].copy_from_slice(keys);
            Leaf(leaf)
        };
        let mut leaves: Vec<Leaf<K>> = keys.chunks(fill).map(leaf).collect();
        leaves.resize(leaves.len().max(1), Leaf(K::empty()));
        let mut tree = Self { leaves, fill, levels: Vec::new() };
        tree.build_inner();
        tree
    }

    /// Builds all inner nodes anew. Each key comes from a leaf; no level needs another level.
    pub(super) fn build_inner(&mut self) {
        let shape = TreeShape::new::<K>(self.leaves.len());
        let node = |level, number| {
            let key = |place| match shape.leaf_of(level, number, place) {
                Some(leaf) => self.leaves[leaf].keys()[self.fill - 1],
                None if place == 0 => K::LEAST,
                None => K::GREATEST,
            };
            Inner(std::array::from_fn(key))
        };
        let level = |level| (0..shape.nodes_of(level)).map(|number| node(level, number)).collect();
        self.levels = (0..shape.levels()).map(level).collect();
    }

    /// Bytes of all nodes.
    pub(super) fn bytes(&self) -> usize {
        let inner = self.levels.iter().map(Vec::len).sum::<usize>() * size_of::<Inner<K>>();
        inner + size_of_val(&self.leaves[..])
    }

    /// Writes for each request the place of the first key not below it, or the place after the last
    /// key if all keys are below it. Requests of a group descend level by level, so that their
    /// cache misses overlap.
    pub(super) fn lower_bounds(&self, requests: &[K], places: &mut [u32]) {
        assert_eq!(requests.len(), places.len(), "a place a request");
        for (requests, places) in requests.chunks(TOGETHER).zip(places.chunks_mut(TOGETHER)) {
            let mut nodes = [0; TOGETHER];
            for level in self.levels.iter().rev() {
                for (key, node) in requests.iter().zip(&mut nodes) {
                    *node = *node * FAN_OUT + level[*node].child(*key);
                }
            }
            for ((key, leaf), place) in requests.iter().zip(nodes).zip(places) {
                *place = (leaf * K::LEAF_KEYS + self.leaves[leaf].below(*key)) as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_history::{LEAF_BYTES, ObjectTime, TreeKey};

    #[test]
    fn nodes_fill_their_cache_lines() {
        assert_eq!((size_of::<Leaf<u64>>(), u64::LEAF_KEYS), (LEAF_BYTES, 16));
        assert_eq!((size_of::<Leaf<ObjectTime>>(), ObjectTime::LEAF_KEYS), (LEAF_BYTES, 8));
        assert_eq!(size_of::<Inner<u64>>(), FAN_OUT * size_of::<u64>());
        assert_eq!(size_of::<Inner<ObjectTime>>(), FAN_OUT * size_of::<ObjectTime>());
    }

    #[test]
    fn requests_between_keys_and_at_the_ends_find_their_places() {
        for (length, fill) in [(0, 16), (1, 16), (16, 16), (17, 16), (3_000, 16), (3_000, 7)] {
            let keys: Vec<u64> = (0..length).map(|rank| 3 * rank + 2).collect();
            let tree = Tree::build(&keys, fill);
            let last = keys.len().div_ceil(fill).saturating_sub(1);
            let place = |rank: usize| match rank == keys.len() {
                true => (last * 16 + rank - last * fill) as u32,
                false => (rank / fill * 16 + rank % fill) as u32,
            };
            let requests: Vec<u64> = (0..3 * length + 9).chain([u64::MAX]).collect();
            let mut places = vec![u32::MAX; requests.len()];
            tree.lower_bounds(&requests, &mut places);
            for (request, found) in requests.iter().zip(places) {
                let rank = keys.partition_point(|key| key < request);
                assert_eq!(found, place(rank), "{request} of {length} keys, {fill} a leaf");
            }
        }
    }
}
