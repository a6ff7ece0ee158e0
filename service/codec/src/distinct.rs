//! Distinct values of a column with their counts, and the number of the value in each row.
//!
//! Values are found in a hash table with linear probing and a random key that clients do not know.
//! They are numbered in order of first appearance, so no result depends on the hash.

use crate::universal_hash::UniversalHash;
use crate::word::Word;

/// A free slot.
const FREE: u32 = u32::MAX;

/// The distinct values of a column.
pub(crate) struct Distinct<T> {
    /// Each value once, in order of first appearance.
    pub(crate) values: Vec<T>,
    /// Number of occurrences of each value of `values`.
    pub(crate) counts: Vec<u32>,
    /// For each row the index of its value in `values`.
    pub(crate) rows: Vec<u32>,
}

impl<T: Word> Distinct<T> {
    /// Counts all values; `None` if more than `limit` are distinct.
    pub(crate) fn of(values: &[T], limit: usize) -> Option<Self> {
        let mut found =
            Self { values: Vec::new(), counts: Vec::new(), rows: Vec::with_capacity(values.len()) };
        let mut table = Table::new(10);
        let mut before = None;
        for value in values {
            let number = match before {
                Some((same, number)) if same == *value => number,
                _ => table.number(*value, &mut found.values),
            };
            before = Some((*value, number));
            if number as usize == found.counts.len() {
                if number as usize == limit {
                    return None;
                }
                found.counts.push(0);
                if found.counts.len() * 2 > table.slots.len() {
                    table.grow(&found.values);
                }
            }
            found.counts[number as usize] += 1;
            found.rows.push(number);
        }
        Some(found)
    }
}

/// Slots that hold numbers of values.
struct Table {
    slots: Vec<u32>,
    bits: u32,
    hash: UniversalHash,
}

impl Table {
    fn new(bits: u32) -> Self {
        Self { slots: vec![FREE; 1 << bits], bits, hash: UniversalHash::random() }
    }

    /// Returns the number of `value`; appends it to `values` if it is absent.
    fn number<T: Word>(&mut self, value: T, values: &mut Vec<T>) -> u32 {
        let mut slot = (self.hash.hash(value.into()) >> (64 - self.bits)) as usize;
        loop {
            match self.slots[slot] {
                FREE => {
                    self.slots[slot] = values.len() as u32;
                    values.push(value);
                    return self.slots[slot];
                }
                number if values[number as usize] == value => return number,
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Doubles the slots.
    fn grow<T: Word>(&mut self, values: &[T]) {
        *self = Self::new(self.bits + 1);
        let mut again = Vec::with_capacity(values.len());
        for value in values {
            self.number(*value, &mut again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_collide_under_a_known_multiplier_are_spread() {
        // The products of these values and 2^64 over the golden ratio are 0, 1, 2 and so on: their
        // upper bits are equal.
        let values = (0..60_000_u64).map(|product| product.wrapping_mul(0xf1de_83e1_9937_733d));
        let (values, mut table, mut found): (Vec<u64>, _, _) =
            (values.collect(), Table::new(10), Vec::new());
        for value in &values {
            table.number(*value, &mut found);
            if found.len() * 2 > table.slots.len() {
                table.grow(&found);
            }
        }
        assert_eq!(found, values);
        let slots = table.slots.iter().enumerate().filter(|(_, number)| **number != FREE);
        let mask = table.slots.len() - 1;
        let passed = slots.map(|(slot, number)| {
            let first = table.hash.hash(values[*number as usize]) >> (64 - table.bits);
            slot.wrapping_sub(first as usize) & mask
        });
        let passed: Vec<usize> = passed.collect();
        let (sum, most) = (passed.iter().sum::<usize>(), passed.iter().max());
        assert!(sum < 2 * values.len() && *most.unwrap() < 300, "{sum}, at most {most:?}");
    }

    #[test]
    fn values_are_numbered_as_they_appear() {
        let found = Distinct::of(&[7_u64, 3, 7, 7, u64::MAX, 3], 3).unwrap();
        assert_eq!(found.values, [7, 3, u64::MAX]);
        assert_eq!(found.counts, [3, 2, 1]);
        assert_eq!(found.rows, [0, 1, 0, 0, 2, 1]);
        assert!(Distinct::of(&[1_u8, 2, 3], 2).is_none());
        let many: Vec<u32> = (0..50_000).map(|value| value * 77).collect();
        let found = Distinct::of(&many, 50_000).unwrap();
        assert_eq!(found.values, many);
        assert!(Distinct::of(&many, 49_999).is_none());
    }
}
