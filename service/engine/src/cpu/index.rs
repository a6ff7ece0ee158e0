//! The secondary index of one shard: object id to slot.
//!
//! Open addressing with linear probing over 8-byte entries (32 bits of the id's hash, 32 of the
//! slot). The hash bits place an entry by multiplication, so growth and removal read no record,
//! capacity need not be a power of two, and a grown table is filled in order. The caller confirms
//! an entry against the record.

/// Entries per slot grow by half when three quarters are taken: between 10.7 and 16 bytes an
/// object.
const LOAD_MAX_PERCENT: usize = 75;
const CAPACITY_MIN: usize = 16;
const EMPTY: u64 = u64::MAX;

/// The 64-bit hash of an object: a folded multiplication, keyed so that clients cannot choose ids
/// that collide.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectHash {
    key: u64,
}

impl ObjectHash {
    pub(super) fn new(key: u64) -> Self {
        Self { key }
    }

    #[inline(always)]
    pub(super) fn shard_and_hash(self, object: u64) -> (usize, u32) {
        let product = u128::from(object ^ self.key) * 0x9E37_79B9_7F4A_7C15;
        let folded = (product as u64) ^ ((product >> 64) as u64);
        let mixed = folded.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((mixed >> 58) as usize, (mixed >> 20) as u32)
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

    /// Makes room for `len` entries; there is none yet.
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
            // The entry may move into the hole when its home does not lie between hole and entry.
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
    use super::*;
    use std::collections::BTreeMap;

    /// Random inserts and removals with few distinct hashes against a map, so that runs are long,
    /// wrap around the end and shift back.
    #[test]
    fn matches_a_map_under_collisions() {
        for seed in 0..20_u64 {
            let mut state = seed;
            let mut next = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u32
            };
            let mut index = Index::new();
            let mut map = BTreeMap::new();
            for step in 0..20_000 {
                let slot = next() % 300;
                let hash = slot % 7 * 0x2492_4924 + u32::from(slot % 2 == 0) * 0x1FFF_FFFF;
                if map.remove(&slot).is_some() {
                    index.remove(hash, slot);
                } else {
                    map.insert(slot, hash);
                    index.insert(hash, slot);
                }
                let probe = next() % 300;
                let hash = probe % 7 * 0x2492_4924 + u32::from(probe % 2 == 0) * 0x1FFF_FFFF;
                let found = index.find(hash, |slot| slot == probe);
                assert_eq!(found.is_some(), map.contains_key(&probe), "seed {seed} step {step}");
            }
            assert_eq!(index.len, map.len());
        }
    }
}
