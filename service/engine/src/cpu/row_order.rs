//! Orders found rows by object.

use super::parallel;

/// Fewer rows are sorted by comparisons.
const RADIX_ROWS: usize = 1 << 9;

/// An object and the slot of its record.
pub(super) type FoundRow = (u64, u32);

/// Sorts rows; keeps its memory for the next ones.
#[derive(Debug, Default)]
pub(super) struct RowOrder {
    /// Each has an object, less the least one, above its slot.
    words: Vec<u64>,
    work: Vec<u64>,
}

impl RowOrder {
    /// Sorts rows of different objects ascending by object.
    pub(super) fn sort(&mut self, rows: &mut [FoundRow]) {
        if !(RADIX_ROWS..parallel::PARALLEL_SORT).contains(&rows.len()) {
            return parallel::sort(rows, |row| *row);
        }
        let objects = || rows.iter().map(|(object, _)| *object);
        let (least, greatest) = (objects().min().unwrap_or(0), objects().max().unwrap_or(0));
        let bits = u64::BITS - (greatest - least).leading_zeros();
        if bits > u32::BITS {
            return rows.sort_unstable();
        }
        self.words.clear();
        let word = |&(object, slot): &FoundRow| (object - least) << u32::BITS | u64::from(slot);
        self.words.extend(rows.iter().map(word));
        shoal_codec::sort_words(&mut self.words, u32::BITS..u32::BITS + bits, &mut self.work);
        for (row, word) in rows.iter_mut().zip(&self.words) {
            *row = (least + (word >> u32::BITS), *word as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    #[test]
    fn rows_are_ascending_however_far_apart_their_objects_are() {
        let (mut random, mut order) = (Random::new(0x07de), RowOrder::default());
        for (count, step) in [(0, 1), (1, 1), (511, 9), (512, 1), (9_000, 3), (9_000, 1 << 30)] {
            for least in [0, 1 << 40] {
                let place = |at: u64| (least + at * step, random.below(u32::MAX));
                let expected: Vec<FoundRow> = (0..count).map(place).collect();
                let mut rows = expected.clone();
                for at in 1..rows.len() {
                    rows.swap(at, random.below(at as u64 + 1) as usize);
                }
                order.sort(&mut rows);
                assert!(rows == expected, "{count} rows, {step} apart, from {least}");
            }
        }
    }
}
