//! Insertion: into a leaf with room, else into room of the neighbourhood, else into a new tree.
//!
//! Children have no pointers, so a leaf cannot split by itself. The entries of the smallest aligned
//! neighbourhood of leaves that is not too full are spread evenly (Itai, Konheim and Rodeh's sparse
//! table); without one, the tree is filled again. Either way the cost of an insertion is
//! O(log^2 n) moves on average. Keys above all others append leaves, which moves nothing.

use crate::key::{FAN_OUT, Inner, Key, Leaf};
use crate::shape::Shape;
use crate::tree::Tree;

/// Sixteenths of a leaf that are filled when a tree is filled again.
const REFILL_SIXTEENTHS: usize = 11;

/// 64ths of the places of a neighbourhood that a spread may fill, by level above the leaves: the
/// larger, the emptier, so that a large spread makes room for many small ones.
const fn spread_limit_64(level: usize) -> usize {
    62 - 2 * level
}

impl<K: Key, V: Copy + Default> Tree<K, V> {
    /// Inserts an entry; returns the value that the key had before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let leaf = self.leaf_of(key);
        let at = self.leaves.at(leaf).below(key);
        let length = usize::from(*self.lengths.at(leaf));
        if at < length && self.leaves.at(leaf).keys()[at] == key {
            let old = self.values.at_mut(leaf * K::LEAF_KEYS + at);
            return Some(std::mem::replace(old, value));
        }
        self.length += 1;
        if length < K::LEAF_KEYS {
            self.insert_into(leaf, at, (key, value));
        } else if leaf + 1 == self.leaves.len() && at == length {
            self.append((key, value));
        } else {
            self.insert_beside(leaf, at, (key, value));
        }
        None
    }

    /// Inserts into a leaf with room. A greatest key can only change in the last leaf, which no
    /// inner key bounds.
    fn insert_into(&mut self, leaf: usize, at: usize, (key, value): (K, V)) {
        let length = usize::from(*self.lengths.at(leaf));
        let keys = self.leaves.at_mut(leaf).keys_mut();
        keys.copy_within(at..length, at + 1);
        keys[at] = key;
        let first = leaf * K::LEAF_KEYS;
        for place in (first + at..first + length).rev() {
            *self.values.at_mut(place + 1) = *self.values.at(place);
        }
        *self.values.at_mut(first + at) = value;
        *self.lengths.at_mut(leaf) += 1;
    }

    /// Appends a leaf with one key, above all others.
    fn append(&mut self, (key, value): (K, V)) {
        let mut node = Leaf::empty();
        node.keys_mut()[0] = key;
        self.leaves.push(node);
        self.lengths.push(1);
        self.values.push(value);
        self.values.resize(self.leaves.len() * K::LEAF_KEYS, &V::default());
        let shape = self.shape();
        for level in 0..shape.levels() {
            if level == self.levels.len() {
                self.levels.push(crate::Segmented::default());
            }
            while self.levels[level].len() < shape.nodes_of(level) {
                self.levels[level].push(Inner::unbounded());
            }
        }
        // Only the former last leaf gains a bound.
        let last = self.leaves.len() - 1;
        self.set_bounds(&shape, last - 1..last + 1);
    }

    /// Inserts at a place of a leaf without room.
    fn insert_beside(&mut self, leaf: usize, at: usize, entry: (K, V)) {
        let shape = self.shape();
        for level in 1..=shape.levels() {
            let spanned = shape.leaves_of_child(level);
            let first = leaf / spanned * spanned;
            let leaves = first..(first + spanned).min(shape.leaves());
            let keys: usize = leaves.clone().map(|at| usize::from(*self.lengths.at(at))).sum();
            if (keys + 1) * 64 <= leaves.len() * K::LEAF_KEYS * spread_limit_64(level) {
                let entries = self.entries_with(leaves.clone(), (leaf, at), entry);
                self.spread(leaves.clone(), &entries);
                return self.set_bounds(&shape, leaves);
            }
        }
        let entries = self.entries_with(0..shape.leaves(), (leaf, at), entry);
        let fill = (K::LEAF_KEYS * REFILL_SIXTEENTHS).div_ceil(16);
        self.fill_leaves(entries.into_iter(), fill);
    }

    /// The entries of some leaves with one more at a place of a leaf.
    fn entries_with(
        &self,
        leaves: std::ops::Range<usize>,
        (leaf, at): (usize, usize),
        entry: (K, V),
    ) -> Vec<(K, V)> {
        let mut entries = Vec::with_capacity(leaves.len() * K::LEAF_KEYS + 1);
        for number in leaves {
            let length = usize::from(*self.lengths.at(number));
            let keys = &self.leaves.at(number).keys()[..length];
            let first = number * K::LEAF_KEYS;
            let begin = entries.len();
            let values = (first..).map(|place| *self.values.at(place));
            entries.extend(keys.iter().copied().zip(values));
            if number == leaf {
                entries.insert(begin + at, entry);
            }
        }
        entries
    }

    /// Spreads entries evenly over some leaves; each gets at least one.
    fn spread(&mut self, leaves: std::ops::Range<usize>, entries: &[(K, V)]) {
        let count = leaves.len();
        for (number, leaf) in leaves.enumerate() {
            let range = number * entries.len() / count..(number + 1) * entries.len() / count;
            *self.lengths.at_mut(leaf) = range.len() as u8;
            let node = self.leaves.at_mut(leaf);
            *node = Leaf::empty();
            for (at, (key, value)) in entries[range].iter().enumerate() {
                node.keys_mut()[at] = *key;
                *self.values.at_mut(leaf * K::LEAF_KEYS + at) = *value;
            }
        }
    }

    /// Computes again the inner keys that come from some leaves.
    fn set_bounds(&mut self, shape: &Shape, leaves: std::ops::Range<usize>) {
        for level in 0..shape.levels() {
            let spanned = shape.leaves_of_child(level);
            // The child that contains a leaf has its bound at the child's number plus one.
            for child in leaves.start / spanned..leaves.end.div_ceil(spanned) {
                let (node, place) = (child / FAN_OUT, child % FAN_OUT + 1);
                if place < FAN_OUT {
                    let key = self.inner_key(shape, level, node, place);
                    self.levels[level].at_mut(node).0[place] = key;
                }
            }
        }
    }
}
