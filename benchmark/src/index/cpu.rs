//! The structures on the CPU. Requests are searched on all cores, in portions.
//!
//! Answers are places, as on the device; `Searched` gives their ranks.

use std::collections::BTreeMap;
use std::time::Instant;

use rayon::prelude::*;

use super::case::leaf_keys;
use super::key_set::MadeKey;
use super::layout::{self, OffsetTable};
use super::options::{Options, Structure};
use super::tree::Tree;

/// Requests of a portion.
const PORTION: usize = 1 << 12;
/// Marks a free slot of the hash table, in place of a rank.
const FREE: u32 = u32::MAX;

/// A structure over sorted keys.
pub(super) enum CpuStructure<'a, K: MadeKey> {
    Tree(Tree<K>),
    LowerBound(&'a [K]),
    Eytzinger(Vec<K>),
    KAry(Vec<K>, usize),
    Offsets(&'a [K], OffsetTable),
    Hash { slots: Vec<K>, ranks: Vec<u32> },
    BtreeMap(BTreeMap<K, u32>),
}

impl<'a, K: MadeKey> CpuStructure<'a, K> {
    pub(super) fn build(structure: Structure, keys: &'a [K], options: &Options) -> Self {
        match structure {
            Structure::Tree => Self::Tree(Tree::build(keys, leaf_keys::<K>(options))),
            Structure::LowerBound => Self::LowerBound(keys),
            Structure::Eytzinger => Self::Eytzinger(layout::eytzinger(keys)),
            Structure::KAry => Self::KAry(layout::k_ary(keys), keys.len()),
            Structure::Offsets => Self::Offsets(keys, OffsetTable::new(keys)),
            Structure::Hash => hash_table(keys),
            Structure::BtreeMap => Self::BtreeMap(keys.iter().copied().zip(0..).collect()),
        }
    }

    /// Bytes of the structure, the sorted keys included if it searches them.
    pub(super) fn bytes(&self) -> Option<usize> {
        match self {
            Self::Tree(tree) => Some(tree.bytes()),
            Self::LowerBound(keys) => Some(size_of_val(*keys)),
            Self::Eytzinger(places) | Self::KAry(places, _) => Some(size_of_val(&places[..])),
            Self::Offsets(keys, table) => {
                Some(size_of_val(*keys) + size_of_val(&table.offsets[..]))
            }
            Self::Hash { slots, ranks } => Some(size_of_val(&slots[..]) + size_of_val(&ranks[..])),
            // The standard library does not report it.
            Self::BtreeMap(_) => None,
        }
    }

    /// Searches all requests on all cores; returns the milliseconds.
    pub(super) fn find(&self, requests: &[K], found: &mut [u32]) -> f64 {
        let start = Instant::now();
        let portions = found.par_chunks_mut(PORTION).zip(requests.par_chunks(PORTION));
        portions.for_each(|(found, requests)| self.find_portion(requests, found));
        start.elapsed().as_secs_f64() * 1e3
    }

    fn find_portion(&self, requests: &[K], found: &mut [u32]) {
        match self {
            Self::Tree(tree) => tree.lower_bounds(requests, found),
            Self::LowerBound(keys) => each(requests, found, |key| lower_bound(keys, key) as u32),
            Self::Eytzinger(places) => each(requests, found, |key| find_eytzinger(places, key)),
            Self::KAry(places, length) => {
                each(requests, found, |key| find_k_ary(places, *length, key));
            }
            Self::Offsets(keys, table) => {
                each(requests, found, |key| find_offsets(keys, table, key));
            }
            Self::Hash { slots, ranks } => {
                each(requests, found, |key| find_hash(slots, ranks, key));
            }
            Self::BtreeMap(map) => each(requests, found, |key| {
                map.range(key..).next().map_or(map.len() as u32, |(_, rank)| *rank)
            }),
        }
    }
}

fn each<K: MadeKey>(requests: &[K], found: &mut [u32], find: impl Fn(K) -> u32) {
    found.iter_mut().zip(requests).for_each(|(found, key)| *found = find(*key));
}

/// Times the build of all inner nodes of the tree, milliseconds.
pub(super) fn build_inner<K: MadeKey>(tree: &mut Tree<K>) -> f64 {
    let start = Instant::now();
    tree.build_inner();
    start.elapsed().as_secs_f64() * 1e3
}

/// Returns the index of the first key not below `key`, without branches.
fn lower_bound<K: MadeKey>(keys: &[K], key: K) -> usize {
    let (mut low, mut length) = (0, keys.len());
    while length > 1 {
        let half = length / 2;
        low += usize::from(keys[low + half - 1] < key) * half;
        length -= half;
    }
    low + usize::from(length == 1 && keys[low] < key)
}

fn find_eytzinger<K: MadeKey>(places: &[K], key: K) -> u32 {
    let mut at = 1;
    while at < places.len() {
        at = 2 * at + usize::from(places[at] < key);
    }
    // The answer is the last node from which the path went left.
    (at >> (at.trailing_ones() + 1)) as u32
}

fn find_k_ary<K: MadeKey>(places: &[K], length: usize, key: K) -> u32 {
    let (mut node, mut found) = (0, length);
    while node * K::LEAF_KEYS < length {
        let keys = &places[node * K::LEAF_KEYS..][..K::LEAF_KEYS];
        let below: usize = keys.iter().map(|at| usize::from(*at < key)).sum();
        let candidate = node * K::LEAF_KEYS + below;
        if below < K::LEAF_KEYS && candidate < length {
            found = candidate;
        }
        node = node * (K::LEAF_KEYS + 1) + 1 + below;
    }
    found as u32
}

fn find_offsets<K: MadeKey>(keys: &[K], table: &OffsetTable, key: K) -> u32 {
    let bucket = key.prefix().checked_sub(table.least).map_or(0, |above| above >> table.shift);
    match table.offsets.get(bucket as usize..bucket as usize + 2) {
        None => keys.len() as u32,
        Some(bounds) => {
            let bucket = &keys[bounds[0] as usize..bounds[1] as usize];
            bounds[0] + lower_bound(bucket, key) as u32
        }
    }
}

fn hash_table<'a, K: MadeKey>(keys: &[K]) -> CpuStructure<'a, K> {
    let length = (2 * keys.len()).max(2).next_power_of_two();
    let (mut slots, mut ranks) = (vec![K::GREATEST; length], vec![FREE; length]);
    for (key, rank) in keys.iter().zip(0..) {
        let mut slot = key.hash() as usize & (length - 1);
        while ranks[slot] != FREE {
            slot = (slot + 1) & (length - 1);
        }
        (slots[slot], ranks[slot]) = (*key, rank);
    }
    CpuStructure::Hash { slots, ranks }
}

fn find_hash<K: MadeKey>(slots: &[K], ranks: &[u32], key: K) -> u32 {
    let mut slot = key.hash() as usize & (slots.len() - 1);
    while ranks[slot] != FREE && slots[slot] != key {
        slot = (slot + 1) & (slots.len() - 1);
    }
    ranks[slot]
}
