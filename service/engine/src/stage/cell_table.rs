//! The cells of one level of a region index, found by hash.
//!
//! Open addressing with linear probing. Because clients choose the cells, the hash has a secret key
//! that changes whenever the table is filled again. No search passes more than a fixed number of
//! places.

use std::ops::{Index, IndexMut};

use shoal_codec::UniversalHash;

/// The key of a free place. No cell has this key: the low 32 bits of a cell's key are its row,
/// which is less than 2^31.
const FREE: u64 = u64::MAX;
/// Number of places of a new table.
const PLACES_MIN: usize = 16;
/// Maximum number of places that a search for a cell passes. If an insertion exceeds it (chance
/// below 2^-30 in a full table of random hashes), the table is filled again under a new key.
const PASSED_MAX: usize = 1 << 10;

/// One cell and the place of its list.
#[derive(Clone, Copy, Debug)]
pub struct CellPlace {
    pub(super) key: u64,
    pub(super) at: u32,
    pub(super) partial: u32,
    pub(super) whole: u32,
    /// The list has a capacity of `1 << class`.
    pub(super) class: u32,
}

const EMPTY: CellPlace = CellPlace { key: FREE, at: 0, partial: 0, whole: 0, class: 0 };

/// Cells by key.
#[derive(Clone, Debug)]
pub(super) struct CellTable {
    /// A power of two, at most three quarters full.
    places: Vec<CellPlace>,
    length: usize,
    hash: UniversalHash,
    /// 64 minus the number of bits of a place's index.
    shift: u32,
}

impl CellTable {
    pub(super) fn new() -> Self {
        let places = vec![EMPTY; PLACES_MIN];
        let shift = 64 - PLACES_MIN.ilog2();
        Self { places, length: 0, hash: UniversalHash::random(), shift }
    }

    /// All cells, in no order.
    pub(super) fn taken(&self) -> impl Iterator<Item = &CellPlace> {
        self.places.iter().filter(|place| place.key != FREE)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<CellPlace>()
    }

    /// The place that a search for a cell reads first.
    #[inline]
    pub(super) fn first_look(&self, key: u64) -> &CellPlace {
        &self.places[self.first(key)]
    }

    #[inline]
    fn first(&self, key: u64) -> usize {
        (self.hash.hash(key) >> self.shift) as usize
    }

    /// The place of a cell.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        let mut at = self.first(key);
        for _ in 0..PASSED_MAX {
            let held = self.places[at].key;
            if held == key {
                return Some(at);
            }
            if held == FREE {
                return None;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        None
    }

    /// A place for a new cell with the list at `list`, of class 0.
    pub(super) fn claim(&mut self, key: u64, list: u32) -> usize {
        if (self.length + 1) * 4 > self.places.len() * 3 {
            self.shift -= 1;
            self.refill();
        }
        self.length += 1;
        let at = loop {
            match self.vacant(key) {
                Some(at) => break at,
                None => self.refill(),
            }
        };
        self.places[at] = CellPlace { key, at: list, ..EMPTY };
        at
    }

    /// Inserts all cells into a new table of the size that `shift` gives, under a new random key.
    fn refill(&mut self) {
        let held = std::mem::take(&mut self.places);
        loop {
            self.hash = UniversalHash::random();
            self.places = vec![EMPTY; 1 << (64 - self.shift)];
            let mut taken = held.iter().filter(|place| place.key != FREE);
            let is_entered = taken.all(|place| {
                let at = self.vacant(place.key);
                at.is_some_and(|at| {
                    self.places[at] = *place;
                    true
                })
            });
            if is_entered {
                return;
            }
        }
    }

    /// A free place for a new cell; `None` if the search passes [`PASSED_MAX`] places.
    fn vacant(&self, key: u64) -> Option<usize> {
        let (first, mask) = (self.first(key), self.places.len() - 1);
        let mut places = (0..PASSED_MAX).map(|passed| (first + passed) & mask);
        places.find(|at| self.places[*at].key == FREE)
    }

    /// Frees a place and shifts back the entries after it that a search would miss.
    pub(super) fn vacate(&mut self, mut hole: usize) {
        self.length -= 1;
        let mask = self.places.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.key == FREE {
                break;
            }
            let home = self.first(place.key);
            // The hole is between the entry's home and its place.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole] = EMPTY;
    }
}

impl Index<usize> for CellTable {
    type Output = CellPlace;

    #[inline]
    fn index(&self, at: usize) -> &CellPlace {
        &self.places[at]
    }
}

impl IndexMut<usize> for CellTable {
    fn index_mut(&mut self, at: usize) -> &mut CellPlace {
        &mut self.places[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl CellTable {
        /// Places read in the search for each cell.
        fn probes(&self) -> Vec<usize> {
            let (mask, places) = (self.places.len() - 1, self.places.iter().enumerate());
            let taken = places.filter(|(_, place)| place.key != FREE);
            taken.map(|(at, place)| (at.wrapping_sub(self.first(place.key)) & mask) + 1).collect()
        }
    }

    #[test]
    fn cells_that_collide_under_a_known_multiplier_are_spread() {
        // The products of these keys and the multiplier are 0, 1, 2 and so on. If the upper bits of
        // the product gave the first place, all these keys would have the same one.
        const INVERSE: u64 = 0xf1de_83e1_9937_733d;
        assert_eq!(INVERSE.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1);
        let keys = (0..40_000_u64).map(|product| product.wrapping_mul(INVERSE));
        let mut table = CellTable::new();
        let mut expected: Vec<(u64, u32)> = keys.zip(0..).collect();
        for (key, list) in &expected {
            table.claim(*key, *list);
        }
        let probes = table.probes();
        assert_eq!(probes.len(), expected.len());
        let (sum, most) = (probes.iter().sum::<usize>(), probes.iter().max());
        assert!(sum < 4 * probes.len() && *most.unwrap() < 300, "{sum}, at most {most:?}");
        for (key, list) in expected.drain(10_000..) {
            let at = table.find(key).unwrap();
            assert_eq!(table[at].at, list);
            table.vacate(at);
            assert_eq!(table.find(key), None);
        }
        assert!(expected.iter().all(|(key, list)| table[table.find(*key).unwrap()].at == *list));
    }

    #[test]
    fn a_search_that_would_be_too_long_draws_another_key() {
        let mut table = CellTable::new();
        for key in 0..1_600 {
            table.claim(key, 0);
        }
        // Fills all places that a search for this key may read, so that it finds no free place.
        let place = CellPlace { key: u64::MAX - 1, ..EMPTY };
        let first = table.first(1 << 40);
        let run = (0..PASSED_MAX).map(|passed| (first + passed) & (table.places.len() - 1));
        let run: Vec<usize> = run.filter(|at| table.places[*at].key == FREE).collect();
        for (number, at) in (0..).zip(run) {
            table.places[at] = CellPlace { key: place.key - number, ..place };
        }
        assert_eq!(table.vacant(1 << 40), None);
        let at = table.claim(1 << 40, 7);
        assert_eq!((table.find(1 << 40), table[at].at), (Some(at), 7));
        assert!((0..1_600).all(|key| table.find(key).is_some()));
    }
}
