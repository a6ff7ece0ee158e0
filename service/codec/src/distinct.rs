//! Distinct values of a column with their counts, and the number of the value in each row.
//!
//! A hash table with linear probing. Values are numbered in order of first appearance, so no
//! result depends on the hash.

use crate::word::Word;

/// Multiplier of the hash: 2^64 over the golden ratio (Knuth, volume 3, section 6.4).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// A free slot.
const FREE: u32 = u32::MAX;

/// The distinct values of a column.
pub(crate) struct Distinct<T> {
    /// Each value once, in order of first appearance.
    pub(crate) values: Vec<T>,
    /// Occurrences of each.
    pub(crate) counts: Vec<u32>,
    /// Number of the value in every row.
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
}

impl Table {
    fn new(bits: u32) -> Self {
        Self { slots: vec![FREE; 1 << bits], bits }
    }

    /// Number of `value`, a new one if it is absent.
    fn number<T: Word>(&mut self, value: T, values: &mut Vec<T>) -> u32 {
        let pattern: u64 = value.into();
        let mut slot = (pattern.wrapping_mul(MULTIPLIER) >> (64 - self.bits)) as usize;
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
