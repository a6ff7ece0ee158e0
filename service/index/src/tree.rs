//! The tree: build from sorted keys, and search.
//!
//! A place is the number of a key's leaf times the places of a leaf, plus the key's position in the
//! leaf. Places ascend with keys. In a tree built with full leaves, a place is a rank.

use thiserror::Error;

use crate::key::{FAN_OUT, Inner, Key, Leaf};
use crate::segmented::Segmented;
use crate::shape::Shape;

/// Requests that are searched together, so that their cache misses overlap.
const TOGETHER: usize = 16;

/// Keys from which no tree can be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// Keys must ascend strictly.
    #[error("key {at} is not above key {}: sort the keys and remove equal ones", at - 1)]
    NotAscending {
        /// The place of the second of two keys.
        at: usize,
    },
    /// Every key has a value.
    #[error("{keys} keys have {values} values, not one each")]
    Lengths {
        /// Number of keys.
        keys: usize,
        /// Number of values.
        values: usize,
    },
    /// A leaf has at least one key and at most as many as it has places.
    #[error("{fill} keys a leaf is not between 1 and {most}")]
    Fill {
        /// Keys of a leaf.
        fill: usize,
        /// Places of a leaf.
        most: usize,
    },
}

/// A map from keys to values.
#[derive(Clone, Debug)]
pub struct Tree<K: Key, V> {
    pub(crate) leaves: Segmented<Leaf<K>>,
    /// By leaf: its keys.
    pub(crate) lengths: Segmented<u8>,
    /// By place.
    pub(crate) values: Segmented<V>,
    /// Inner nodes, the level above the leaves first.
    pub(crate) levels: Vec<Segmented<Inner<K>>>,
    pub(crate) length: usize,
}

impl<K: Key, V: Copy + Default> Default for Tree<K, V> {
    fn default() -> Self {
        let (leaves, lengths) = (Segmented::filled(&Leaf::empty(), 1), Segmented::filled(&0, 1));
        let values = Segmented::filled(&V::default(), K::LEAF_KEYS);
        Self { leaves, lengths, values, levels: Vec::new(), length: 0 }
    }
}

impl<K: Key, V: Copy + Default> Tree<K, V> {
    /// Builds a tree of ascending keys, with `fill` keys in each leaf but the last. Leaves of fewer
    /// keys than it has places leave room for insertions.
    ///
    /// # Errors
    /// [`BuildError`] if keys do not ascend strictly, lack values, or no leaf can hold `fill` keys.
    pub fn build(keys: &[K], values: &[V], fill: usize) -> Result<Self, BuildError> {
        if keys.len() != values.len() {
            return Err(BuildError::Lengths { keys: keys.len(), values: values.len() });
        }
        if !(1..=K::LEAF_KEYS).contains(&fill) {
            return Err(BuildError::Fill { fill, most: K::LEAF_KEYS });
        }
        if let Some(before) = keys.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(BuildError::NotAscending { at: before + 1 });
        }
        let mut tree = Self::default();
        tree.fill_leaves(keys.iter().copied().zip(values.iter().copied()), fill);
        Ok(tree)
    }

    /// Replaces everything by ascending entries.
    pub(crate) fn fill_leaves(
        &mut self,
        entries: impl ExactSizeIterator<Item = (K, V)>,
        fill: usize,
    ) {
        self.length = entries.len();
        let leaves = self.length.div_ceil(fill).max(1);
        self.leaves = Segmented::filled(&Leaf::empty(), leaves);
        self.lengths = Segmented::filled(&0, leaves);
        self.values = Segmented::filled(&V::default(), leaves * K::LEAF_KEYS);
        for (rank, (key, value)) in entries.enumerate() {
            let (leaf, at) = (rank / fill, rank % fill);
            self.leaves.at_mut(leaf).keys_mut()[at] = key;
            *self.values.at_mut(leaf * K::LEAF_KEYS + at) = value;
            *self.lengths.at_mut(leaf) = at as u8 + 1;
        }
        self.build_inner();
    }

    /// Builds all inner nodes anew, as [`Tree::build`] does. Each key comes from a leaf; no level
    /// needs another level.
    pub fn build_inner(&mut self) {
        let shape = self.shape();
        self.levels.clear();
        for level in 0..shape.levels() {
            let mut nodes = Segmented::default();
            for number in 0..shape.nodes_of(level) {
                let mut node = Inner::unbounded();
                for (place, key) in node.0.iter_mut().enumerate() {
                    *key = self.inner_key(&shape, level, number, place);
                }
                nodes.push(node);
            }
            self.levels.push(nodes);
        }
    }

    /// The key at a place of an inner node, by arithmetic and one leaf.
    pub(crate) fn inner_key(&self, shape: &Shape, level: usize, node: usize, place: usize) -> K {
        match shape.leaf_of(level, node, place) {
            Some(leaf) => self.greatest_of(leaf),
            None if place == 0 => K::LEAST,
            None => K::GREATEST,
        }
    }

    /// The greatest key of a leaf with keys.
    pub(crate) fn greatest_of(&self, leaf: usize) -> K {
        self.leaves.at(leaf).keys()[usize::from(*self.lengths.at(leaf)) - 1]
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape::new::<K>(self.leaves.len())
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes of all arrays.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let inner = self.levels.iter().map(Segmented::len).sum::<usize>() * size_of::<Inner<K>>();
        let leaves = self.leaves.len() * size_of::<Leaf<K>>();
        inner + leaves + self.values.len() * size_of::<V>() + self.lengths.len()
    }

    /// The leaf in which a key is, or into which it belongs; without branches.
    #[inline]
    pub(crate) fn leaf_of(&self, key: K) -> usize {
        let levels = self.levels.iter().rev();
        levels.fold(0, |node, level| node * FAN_OUT + level.at(node).child(key))
    }

    /// The place of the first key not below `key`; the place behind the last key if all are.
    #[must_use]
    #[inline]
    pub fn lower_bound(&self, key: K) -> usize {
        let leaf = self.leaf_of(key);
        leaf * K::LEAF_KEYS + self.leaves.at(leaf).below(key)
    }

    /// [`Tree::lower_bound`] of many keys, whose cache misses overlap.
    ///
    /// # Panics
    /// When the lists differ in length.
    pub fn lower_bounds(&self, keys: &[K], places: &mut [usize]) {
        assert_eq!(keys.len(), places.len(), "a place a key");
        for (keys, places) in keys.chunks(TOGETHER).zip(places.chunks_mut(TOGETHER)) {
            places.fill(0);
            for level in self.levels.iter().rev() {
                for (key, node) in keys.iter().zip(&mut *places) {
                    *node = *node * FAN_OUT + level.at(*node).child(*key);
                }
            }
            for (key, leaf) in keys.iter().zip(places) {
                *leaf = *leaf * K::LEAF_KEYS + self.leaves.at(*leaf).below(*key);
            }
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&V> {
        let place = self.lower_bound(key);
        self.entry(place).filter(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// The last entry whose key is not above `key`.
    #[must_use]
    pub fn last_not_above(&self, key: K) -> Option<(K, &V)> {
        let place = self.lower_bound(key);
        match self.entry(place) {
            Some(entry) if entry.0 == key => Some(entry),
            _ => self.entry(self.place_before(place)?),
        }
    }

    /// The entry at a place; `None` where there is none.
    #[must_use]
    pub fn entry(&self, place: usize) -> Option<(K, &V)> {
        let (leaf, at) = (place / K::LEAF_KEYS, place % K::LEAF_KEYS);
        let exists = leaf < self.leaves.len() && at < usize::from(*self.lengths.at(leaf));
        exists.then(|| (self.leaves.at(leaf).keys()[at], self.values.at(place)))
    }

    /// The place of the entry before a place that [`Tree::lower_bound`] returned.
    fn place_before(&self, place: usize) -> Option<usize> {
        if !place.is_multiple_of(K::LEAF_KEYS) {
            return Some(place - 1);
        }
        let leaf = (place / K::LEAF_KEYS).checked_sub(1)?;
        Some(leaf * K::LEAF_KEYS + usize::from(*self.lengths.at(leaf)) - 1)
    }
}
