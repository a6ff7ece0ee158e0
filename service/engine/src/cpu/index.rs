//! The secondary index of one shard: object id to slot.
//!
//! Open addressing with linear probing over 8-byte entries (32 bits of the id's hash, 32 of the
//! slot). The hash bits place an entry by multiplication, so growth and removal read no record,
//! capacity need not be a power of two, and a grown table is filled in order. The caller confirms
//! an entry against the record.

use crate::hash_key::HashKey;

/// Percentage of entries in use above which the table grows by half. The table therefore takes
/// between 10.7 and 16 bytes an object.
const LOAD_MAX_PERCENT: usize = 75;
const CAPACITY_MIN: usize = 16;
const EMPTY: u64 = u64::MAX;

/// The hash of an object under the engine's secret key: its shard, and its place there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectHash {
    key: HashKey,
}

impl ObjectHash {
    pub(super) fn new(key: HashKey) -> Self {
        Self { key }
    }

    #[inline(always)]
    pub(super) fn shard_and_hash(self, object: u64) -> (usize, u32) {
        let hash = self.key.hash(object);
        ((hash >> 58) as usize, (hash >> 20) as u32)
    }
}

/// Hash bits to slots; ids live in the records.
#[derive(Debug)]
pub(super) struct Index {
    entries: Vec<u64>,
    len: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        Self { entries: vec![EMPTY; CAPACITY_MIN], len: 0 }
    }

    /// Reserves memory for `len` entries in an empty index.
    pub(super) fn reserve(&mut self, len: usize) {
        debug_assert_eq!(self.len, 0, "entries would be lost");
        let capacity = (len * 100).div_ceil(LOAD_MAX_PERCENT).max(CAPACITY_MIN);
        self.entries = vec![EMPTY; capacity];
    }

    /// Where the search for `hash` begins.
    #[inline(always)]
    pub(super) fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.entries.len() as u64) >> 32) as usize
    }

    /// Prefetches the place where the search for `hash` begins.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u32) {
        super::prefetch::read(&self.entries, self.home(hash));
    }

    /// The first slot entered under `hash` that `is_it` confirms.
    #[inline(always)]
    pub(super) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let entry = self.entries[at];
            if (entry >> 32) as u32 == hash && entry != EMPTY && is_it(entry as u32) {
                return Some(entry as u32);
            }
            if entry == EMPTY {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Enters a slot; the caller knows that its object is not entered yet.
    pub(super) fn insert(&mut self, hash: u32, slot: u32) {
        if (self.len + 1) * 100 > self.entries.len() * LOAD_MAX_PERCENT {
            self.grow();
        }
        self.place(hash, slot);
        self.len += 1;
    }

    /// Removes a slot; shifts back the entries after it so that every search still finds them.
    pub(super) fn remove(&mut self, hash: u32, slot: u32) {
        let wanted = entry(hash, slot);
        let mut hole = self.home(hash);
        while self.entries[hole] != wanted {
            assert!(self.entries[hole] != EMPTY, "slot {slot} is not in the index");
            hole = self.after(hole);
        }
        let mut at = self.after(hole);
        while self.entries[at] != EMPTY {
            let home = self.home((self.entries[at] >> 32) as u32);
            // The entry may move into the hole if its home is not between the hole and the entry.
            let reaches =
                if hole <= at { home <= hole || home > at } else { home <= hole && home > at };
            if reaches {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.entries[hole] = EMPTY;
        self.len -= 1;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.entries.len() { 0 } else { at + 1 }
    }

    fn place(&mut self, hash: u32, slot: u32) {
        let mut at = self.home(hash);
        while self.entries[at] != EMPTY {
            at = self.after(at);
        }
        self.entries[at] = entry(hash, slot);
    }

    /// For each entry, the number of entries that a search for it reads, itself included.
    #[cfg(test)]
    pub(super) fn probes(&self) -> impl Iterator<Item = usize> {
        let length = self.entries.len();
        let taken = self.entries.iter().enumerate().filter(|(_, entry)| **entry != EMPTY);
        taken.map(move |(at, entry)| (at + length - self.home((entry >> 32) as u32)) % length + 1)
    }

    fn grow(&mut self) {
        let capacity = self.entries.len() + self.entries.len() / 2;
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; capacity]);
        for entry in old.into_iter().filter(|entry| *entry != EMPTY) {
            self.place((entry >> 32) as u32, entry as u32);
        }
    }
}

fn entry(hash: u32, slot: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(slot)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shoal_codec::{FixColumns, FixRow};

    use shoal_testkit::Random;

    use super::*;
    use crate::backend::{Backend as _, EngineOptions};
    use crate::cpu::CpuBackend;
    use crate::cycle::{CycleInput, Request};
    use crate::limits::TIME_MIN_MS;
    use crate::space::Space;

    /// The shard and the first place of an object in earlier versions, whose key was the term.
    fn place_under_the_term(object: u64, term: u64) -> u64 {
        let product = u128::from(object ^ term) * 0x9E37_79B9_7F4A_7C15;
        let folded = (product as u64) ^ ((product >> 64) as u64);
        folded.wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    #[test]
    fn ids_that_collide_under_the_term_are_spread() {
        const TERM: u64 = 0x1234_5678_9abc_def0;
        // One shard, and one of 64 parts of its places.
        let collide = |object: &u64| {
            let place = place_under_the_term(*object, TERM);
            place >> 58 == 21 && place >> 46 & 63 == 42
        };
        let objects: Vec<u64> = (0..).filter(collide).take(3_000).collect();
        let mut before = Index::new();
        for (object, slot) in objects.iter().zip(0..) {
            before.insert((place_under_the_term(*object, TERM) >> 20) as u32, slot);
        }
        let sum: usize = before.probes().sum();
        assert!(sum > 1_000 * objects.len(), "the ids would cost little: {sum}");

        let mut rows = FixColumns::new();
        objects.iter().for_each(|object| rows.push_row(FixRow::new(*object, TIME_MIN_MS, 0, 0)));
        let options = EngineOptions { term: TERM, ..EngineOptions::new(Space::geographic()) };
        for key in [[1, 2], [TERM, TERM], [u64::MAX, 0]] {
            let hash_key = HashKey::new(key);
            let mut engine = CpuBackend::new(EngineOptions { hash_key, ..options.clone() });
            let requests = vec![Request::Fixes(rows.clone())].into();
            let input = CycleInput { time_max_ms: i64::MAX, requests, ..CycleInput::default() };
            engine.run(input).unwrap();
            let probes: Vec<usize> = engine.shards.iter().flat_map(|it| it.probes()).collect();
            let (sum, most) = (probes.iter().sum::<usize>(), probes.iter().max());
            assert_eq!(probes.len(), objects.len());
            assert!(sum < 4 * probes.len() && *most.unwrap() < 60, "{sum}, at most {most:?}");
            let most = engine.shards.iter().map(|shard| shard.objects()).max();
            assert!(most.unwrap() < 100, "{most:?} of 47 on average in one shard");
        }
    }

    /// Random inserts and removals with few distinct hashes against a map, so that runs are long,
    /// wrap around the end and shift back.
    #[test]
    fn matches_a_map_under_collisions() {
        for seed in 0..20_u64 {
            let mut random = Random::new(seed);
            let mut index = Index::new();
            let mut map = BTreeMap::new();
            for step in 0..20_000 {
                let slot = random.below(300_u32);
                let hash = slot % 7 * 0x2492_4924 + u32::from(slot.is_multiple_of(2)) * 0x1FFF_FFFF;
                if map.remove(&slot).is_some() {
                    index.remove(hash, slot);
                } else {
                    map.insert(slot, hash);
                    index.insert(hash, slot);
                }
                let probe = random.below(300_u32);
                let hash =
                    probe % 7 * 0x2492_4924 + u32::from(probe.is_multiple_of(2)) * 0x1FFF_FFFF;
                let found = index.find(hash, |slot| slot == probe);
                assert_eq!(found.is_some(), map.contains_key(&probe), "seed {seed} step {step}");
            }
            assert_eq!(index.len, map.len());
        }
    }
}
