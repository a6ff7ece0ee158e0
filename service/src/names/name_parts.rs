//! Finds the number of a name by its hash: open addressing in many small tables.
//!
//! A full table doubles its size. With ten million names this takes a millisecond, because each
//! table holds few of them. A slot stores the hash with the number, so that growing reads no text,
//! and a search nearly always compares only one text.

/// Number of tables; the highest bits of a hash select one.
const PARTS: usize = 256;
/// Slots of a table when its first name is added.
const SLOTS_MIN: usize = 8;

/// The entry of a name; number 0 marks an empty slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u64,
    number: u64,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct NameParts {
    parts: Vec<Part>,
}

#[derive(Debug, Default)]
struct Part {
    /// Their number is a power of two; at most three quarters of them are in use.
    slots: Vec<Slot>,
    used: usize,
}

impl Part {
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        let full = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        full.into_iter().filter(|slot| slot.number != 0).for_each(|slot| self.place(slot));
    }

    fn place(&mut self, slot: Slot) {
        let mut at = self.home(slot.hash);
        while self.slots[at].number != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
    }
}

/// Index of the table that contains the names with this hash.
fn part_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTS.trailing_zeros())) as usize
}

impl NameParts {
    pub(super) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Part::default()).collect() }
    }

    /// The numbers of the names with this hash: nearly always one or none.
    #[inline]
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = u64> {
        let part = &self.parts[part_of(hash)];
        let mut at = if part.slots.is_empty() { 0 } else { part.home(hash) };
        std::iter::from_fn(move || {
            loop {
                // A table with slots has an empty one.
                let slot = *part.slots.get(at)?;
                if slot.number == 0 {
                    return None;
                }
                at = (at + 1) & (part.slots.len() - 1);
                if slot.hash == hash {
                    return Some(slot.number);
                }
            }
        })
    }

    /// Adds a name, which the table must not contain.
    pub(super) fn insert(&mut self, hash: u64, number: u64) {
        let part = &mut self.parts[part_of(hash)];
        if (part.used + 1) * 4 > part.slots.len() * 3 {
            part.grow();
        }
        part.place(Slot { hash, number });
        part.used += 1;
    }

    /// Removes a name; returns false if it is not there. Entries after it move into the gap where
    /// needed, so that searches still find them.
    pub(super) fn remove(&mut self, hash: u64, number: u64) -> bool {
        let part = &mut self.parts[part_of(hash)];
        let mask = part.slots.len().wrapping_sub(1);
        if part.slots.is_empty() {
            return false;
        }
        let mut hole = part.home(hash);
        while part.slots[hole].number != number {
            if part.slots[hole].number == 0 {
                return false;
            }
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = part.slots[at];
            if slot.number == 0 {
                break;
            }
            let (home, distance) = (part.home(slot.hash), at.wrapping_sub(hole) & mask);
            // The entry may move to the hole unless its home slot is after the hole.
            if at.wrapping_sub(home) & mask >= distance {
                part.slots[hole] = slot;
                hole = at;
            }
        }
        part.slots[hole] = Slot::default();
        part.used -= 1;
        true
    }

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.used).sum()
    }

    /// Memory of all tables.
    pub(super) fn memory_bytes(&self) -> u64 {
        let slots = self.parts.iter().map(|part| part.slots.capacity() * size_of::<Slot>());
        (PARTS * size_of::<Part>() + slots.sum::<usize>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shoal_testkit::Random;

    use super::*;

    #[test]
    fn random_insertions_and_removals_agree_with_a_map() {
        for seed in 1..=4_u64 {
            let (mut random, mut parts) = (Random::new(seed), NameParts::new());
            let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for number in 1..=20_000_u64 {
                // Few hashes of few parts, so that tables are full and hashes collide.
                let hash = (random.below(3_u64) << 62) | random.below(4_000_u64);
                if random.once_in(3) {
                    let known = model.get_mut(&hash).and_then(Vec::pop);
                    let removed = parts.remove(hash, known.unwrap_or(number));
                    assert_eq!(removed, known.is_some(), "seed {seed}");
                } else {
                    parts.insert(hash, number);
                    model.entry(hash).or_default().push(number);
                }
            }
            assert_eq!(parts.len(), model.values().map(Vec::len).sum::<usize>());
            for (hash, expected) in &mut model {
                let mut found: Vec<u64> = parts.candidates(*hash).collect();
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, *expected, "seed {seed}");
            }
        }
    }
}
