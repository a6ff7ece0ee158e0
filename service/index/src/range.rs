//! Scans of ranges of keys: along the leaves, which lie in order.

use std::ops::{Bound, RangeBounds};

use crate::key::Key;
use crate::tree::Tree;

/// The entries of a range of keys, ascending.
#[derive(Clone, Debug)]
pub struct Range<'a, K: Key, V> {
    tree: &'a Tree<K, V>,
    leaf: usize,
    /// Position in the leaf.
    at: usize,
    end: Bound<K>,
}

impl<K: Key, V: Copy + Default> Tree<K, V> {
    /// The entries of a range of keys, ascending.
    pub fn range(&self, range: impl RangeBounds<K>) -> Range<'_, K, V> {
        let place = match range.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => self.lower_bound(*key),
        };
        // A full last leaf ends where a next one would begin.
        let leaf = (place / K::LEAF_KEYS).min(self.leaves.len() - 1);
        let at = place - leaf * K::LEAF_KEYS;
        let mut entries = Range { tree: self, leaf, at, end: range.end_bound().cloned() };
        if let Bound::Excluded(key) = range.start_bound()
            && self.entry(place).is_some_and(|(found, _)| found == *key)
        {
            entries.at += 1;
        }
        entries
    }

    /// All entries, ascending.
    pub fn iter(&self) -> Range<'_, K, V> {
        self.range(..)
    }
}

impl<'a, K: Key, V: Copy + Default> IntoIterator for &'a Tree<K, V> {
    type IntoIter = Range<'a, K, V>;
    type Item = (K, &'a V);

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K: Key, V: Clone> Iterator for Range<'a, K, V> {
    type Item = (K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let tree = self.tree;
        while self.at >= usize::from(*tree.lengths.at(self.leaf)) {
            if self.leaf + 1 == tree.leaves.len() {
                return None;
            }
            (self.leaf, self.at) = (self.leaf + 1, 0);
        }
        let key = tree.leaves.at(self.leaf).keys()[self.at];
        let ends = match self.end {
            Bound::Unbounded => false,
            Bound::Included(end) => key > end,
            Bound::Excluded(end) => key >= end,
        };
        let place = self.leaf * K::LEAF_KEYS + self.at;
        self.at += 1;
        (!ends).then(|| (key, tree.values.at(place)))
    }
}
