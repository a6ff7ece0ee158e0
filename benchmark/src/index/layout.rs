//! Breadth-first layouts of sorted keys, and the rank of the key at a place, by arithmetic.
//!
//! The last level is filled from the left. A rank is the rank in a complete tree minus the number
//! of smaller keys missing from the last level.

use rayon::prelude::*;

use super::key_set::MadeKey;

/// The rank of place `place`, at least 1, of the Eytzinger layout of `length` keys; place 0 means
/// that all keys are smaller.
pub(super) fn eytzinger_rank(place: u64, length: u64) -> u64 {
    if place == 0 {
        return length;
    }
    let depth = place.ilog2();
    let height = length.ilog2();
    // In a complete tree of this height.
    let rank = ((2 * (place - (1 << depth)) + 1) << (height - depth)) - 1;
    let last_level = length - ((1 << height) - 1);
    rank - rank.div_ceil(2).saturating_sub(last_level)
}

/// The rank of a place of the k-ary layout of `length` keys with `node` keys a node; place `length`
/// means that all keys are smaller.
pub(super) fn k_ary_rank(place: u64, length: u64, node: u64) -> u64 {
    if place >= length {
        return length;
    }
    let fan_out = node + 1;
    // The first node and key of a level, and keys of a complete tree down to it.
    let below = |height: u32| fan_out.pow(height) - 1;
    let height_of = |keys: u64| (0..).find(|height| below(*height) >= keys).unwrap_or(0);
    let (height, depth) = (height_of(length), height_of(place + 1) - 1);
    let (number, key) = ((place - below(depth)) / node, place % node);
    let rank = (number * fan_out + key + 1) * fan_out.pow(height - 1 - depth) - 1;
    let last_level = length - below(height - 1);
    let of_last_level = rank / fan_out * node + (rank % fan_out).min(node);
    rank - of_last_level.saturating_sub(last_level)
}

/// The Eytzinger layout; place 0 has no key.
pub(super) fn eytzinger<K: MadeKey>(keys: &[K]) -> Vec<K> {
    let length = keys.len() as u64;
    let at = |place: u64| match place {
        0 => K::LEAST,
        _ => keys[eytzinger_rank(place, length) as usize],
    };
    (0..=length).into_par_iter().map(at).collect()
}

/// The k-ary layout, filled up to whole nodes.
pub(super) fn k_ary<K: MadeKey>(keys: &[K]) -> Vec<K> {
    let (length, node) = (keys.len() as u64, K::LEAF_KEYS as u64);
    let at = |place: u64| {
        let rank = k_ary_rank(place, length, node);
        keys.get(rank as usize).copied().unwrap_or(K::GREATEST)
    };
    (0..length.next_multiple_of(node)).into_par_iter().map(at).collect()
}

/// A table of buckets: a key is in bucket `(prefix - least) >> shift`.
pub(super) struct OffsetTable {
    /// Rank of the first key of each bucket, then the number of keys.
    pub(super) offsets: Vec<u32>,
    /// The prefix of the smallest key.
    pub(super) least: u64,
    pub(super) shift: u32,
}

impl OffsetTable {
    /// Builds a table with at most one bucket per four keys, and at most one per prefix value.
    pub(super) fn new<K: MadeKey>(keys: &[K]) -> Self {
        let (least, greatest) = (keys[0].prefix(), keys[keys.len() - 1].prefix());
        let most = (keys.len() as u64 / 4).max(1);
        let shift = (0..64).find(|shift| (greatest - least) >> shift < most).unwrap_or(63);
        let buckets = ((greatest - least) >> shift) + 1;
        let first = |bucket: u64| {
            let begins = |key: &K| (key.prefix() - least) >> shift < bucket;
            keys.partition_point(begins) as u32
        };
        Self { offsets: (0..=buckets).into_par_iter().map(first).collect(), least, shift }
    }
}

/// The source's tree for the device, level by level from the leaves: each node has a padding key,
/// then `node` keys.
#[cfg(any(test, feature = "cuda"))]
pub(super) struct SourceLayout<K> {
    pub(super) nodes: Vec<K>,
    /// The number of the first node of each level.
    pub(super) firsts: Vec<u32>,
}

#[cfg(any(test, feature = "cuda"))]
impl<K: MadeKey> SourceLayout<K> {
    pub(super) fn new(keys: &[K], node: usize) -> Self {
        let (mut nodes, mut firsts) = (Vec::new(), Vec::new());
        let mut spanned = 1;
        loop {
            firsts.push((nodes.len() / (node + 1)) as u32);
            let count = keys.len().div_ceil(spanned).div_ceil(node).max(1);
            for number in 0..count {
                nodes.push(K::LEAST);
                // The greatest key of each child.
                let last = |child: usize| ((number * node + child + 1) * spanned).checked_sub(1);
                let key = |child| last(child).and_then(|rank| keys.get(rank).copied());
                nodes.extend((0..node).map(|child| key(child).unwrap_or(K::GREATEST)));
            }
            if count == 1 {
                return Self { nodes, firsts };
            }
            spanned *= node;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_its_rank() {
        for length in (1..300).chain([4_095, 4_096, 4_097, 5_000]) {
            let keys: Vec<u64> = (0..length).map(|rank| 3 * rank + 1).collect();
            let mut places = eytzinger(&keys);
            places[1..].sort_unstable();
            assert_eq!(places[1..], keys[..], "{length} keys, Eytzinger");
            for place in 1..=length / 2 {
                let rank = |place| eytzinger_rank(place, length);
                assert!(rank(2 * place) < rank(place), "{length}: place {place}");
                let right = 2 * place + 1;
                assert!(right > length || rank(right) > rank(place), "{length}: place {place}");
            }
            let mut places = k_ary(&keys);
            assert!(places.chunks(16).all(|node| node.is_sorted()), "{length} keys, nodes");
            places.sort_unstable();
            assert_eq!(places[..keys.len()], keys[..], "{length} keys, k-ary");
        }
    }

    #[test]
    fn nodes_of_the_source_have_the_greatest_keys_of_their_children() {
        let keys: Vec<u64> = (0..70).map(|rank| 3 * rank + 1).collect();
        let SourceLayout { nodes, firsts } = SourceLayout::new(&keys, 8);
        assert_eq!((firsts, nodes.len()), (vec![0, 9, 11], 12 * 9));
        let node = |number: usize| &nodes[9 * number..9 * number + 9];
        assert_eq!(node(1), [0, 25, 28, 31, 34, 37, 40, 43, 46]);
        assert_eq!(node(8)[..7], [0, 193, 196, 199, 202, 205, 208]);
        assert_eq!(node(9), [0, 22, 46, 70, 94, 118, 142, 166, 190]);
        assert_eq!(
            node(11),
            [0, 190, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX]
        );
    }

    #[test]
    fn buckets_begin_at_their_keys() {
        let keys: Vec<u64> = (0..1_000).map(|rank| 1_000 * rank * rank + 5).collect();
        let table = OffsetTable::new(&keys);
        assert!(table.offsets.len() <= 251 && table.offsets.is_sorted());
        for (rank, key) in keys.iter().enumerate() {
            let bucket = ((key - table.least) >> table.shift) as usize;
            let ranks = table.offsets[bucket] as usize..table.offsets[bucket + 1] as usize;
            assert!(ranks.contains(&rank), "key {rank}");
        }
    }
}
