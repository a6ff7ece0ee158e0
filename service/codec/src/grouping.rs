//! Grouped order: each segment of 65,536 rows is sorted by key, and rows of equal key by row number
//! (FORMAT.md, section 6.13).
//!
//! The order depends only on the decoded key column, so all keyed columns with that key share it.

use std::ops::Range;

use crate::radix::sort_words;
use crate::tile::{SEGMENT_ROWS, TILE_VALUES};

/// Bits of a row number within its segment.
const ROW_BITS: u32 = 16;
/// Keys are sorted by counting if their span is below this and below [`COUNTED_SHARE`] times the
/// number of rows.
const COUNTED_MAX: u64 = 1 << 16;
/// See [`COUNTED_MAX`].
const COUNTED_SHARE: u64 = 4;
/// The counting sort divides the rows into [`RANGES_NARROW`] ranges if the span of keys is below
/// this, else into [`RANGES_WIDE`]. Each range has a counter for each key.
const NARROW_MAX: u64 = 1 << 13;
/// See [`NARROW_MAX`].
const RANGES_NARROW: usize = 4;
/// See [`NARROW_MAX`].
const RANGES_WIDE: usize = 2;

const _: () = assert!(1 << ROW_BITS == SEGMENT_ROWS);
// A counter has 16 bits, which must hold all rows of the longest range. The division of a segment
// into ranges has a remainder.
const _: () = assert!(SEGMENT_ROWS / RANGES_WIDE + RANGES_WIDE <= u16::MAX as usize);

/// Grouped order of some whole segments of a block.
#[derive(Debug)]
pub struct Grouping {
    /// Number of the first row within the block; a multiple of [`SEGMENT_ROWS`].
    first_row: usize,
    /// Position of each row within its segment.
    places: Vec<u16>,
    heads: Heads,
}

/// The heads. A position is a head if it is the first of a tile or its key differs from that of the
/// previous position.
#[derive(Debug)]
pub(crate) struct Heads {
    /// Number of the first tile within the block.
    first_tile: usize,
    /// One bit for each position: 1 if it is a head.
    bits: Vec<u64>,
}

/// Starts of the runs of one key in a tile.
pub(crate) struct Starts {
    starts: [u16; TILE_VALUES + 1],
    count: usize,
}

impl Grouping {
    /// Groups all rows of a column by `keys` (bit patterns, compared as unsigned).
    pub fn new(keys: &[u64]) -> Self {
        Self::of_segments(0, keys)
    }

    /// Groups rows by `keys`; the first key is that of `first_row`, the start of a segment.
    pub(crate) fn of_segments(first_row: usize, keys: &[u64]) -> Self {
        assert!(first_row.is_multiple_of(SEGMENT_ROWS), "segments are grouped whole");
        let mut places = vec![0; keys.len()];
        let mut bits = vec![0; keys.len().div_ceil(64)];
        let segments = keys.chunks(SEGMENT_ROWS).zip(places.chunks_mut(SEGMENT_ROWS));
        for ((keys, places), bits) in segments.zip(bits.chunks_mut(SEGMENT_ROWS / 64)) {
            let counted_max = COUNTED_MAX.min(COUNTED_SHARE * keys.len() as u64);
            let (min, span) = limits(keys, counted_max);
            if span < counted_max.min(NARROW_MAX) {
                count::<RANGES_NARROW>(keys, min, span as usize, places, bits);
            } else if span < counted_max {
                count::<RANGES_WIDE>(keys, min, span as usize, places, bits);
            } else {
                place(keys, sorted(keys, min, span), places, bits);
            }
            for tile in (0..keys.len()).step_by(TILE_VALUES) {
                bits[tile / 64] |= 1;
            }
        }
        Self { first_row, places, heads: Heads { first_tile: first_row / TILE_VALUES, bits } }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.places.len()
    }

    /// Its heads.
    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Positions of `rows` within their segment; all rows must lie in one segment.
    pub(crate) fn places(&self, rows: Range<usize>) -> &[u16] {
        &self.places[rows.start - self.first_row..rows.end - self.first_row]
    }

    /// Values of all rows in grouped order.
    pub(crate) fn group<T: Copy + Default>(&self, values: &[T]) -> Vec<T> {
        assert_eq!(values.len(), self.places.len(), "columns are equally long");
        let mut grouped = vec![T::default(); values.len()];
        let segments = values.chunks(SEGMENT_ROWS).zip(self.places.chunks(SEGMENT_ROWS));
        for ((values, places), out) in segments.zip(grouped.chunks_mut(SEGMENT_ROWS)) {
            // In a whole segment every 16-bit number is a position, so no bound is checked.
            if let Some(out) = out.as_mut_array::<SEGMENT_ROWS>() {
                for (value, place) in values.iter().zip(places) {
                    out[usize::from(*place)] = *value;
                }
            } else {
                for (value, place) in values.iter().zip(places) {
                    out[usize::from(*place)] = *value;
                }
            }
        }
        grouped
    }
}

impl Heads {
    /// Starts of the runs in tile `tile` of `count` values.
    pub(crate) fn starts(&self, tile: usize, count: usize) -> Starts {
        let mut starts = Starts { starts: [0; TILE_VALUES + 1], count: 0 };
        let words = TILE_VALUES / 64;
        let first = (tile - self.first_tile) * words;
        let last = (first + words).min(self.bits.len());
        for (index, word) in self.bits[first..last].iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                starts.starts[starts.count] = (index * 64) as u16 + word.trailing_zeros() as u16;
                starts.count += 1;
                word &= word - 1;
            }
        }
        starts.starts[starts.count] = count as u16;
        starts
    }
}

impl Starts {
    /// Number of runs.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Start of run `index`. If `index` is the number of runs: the end of the tile.
    pub(crate) fn start(&self, index: usize) -> usize {
        self.starts[index].into()
    }
}

/// Returns a lower bound of the keys and an upper bound of their span. They are derived from the
/// bits that all keys share if that span is below `enough`, which needs no comparisons; otherwise
/// they are exact.
fn limits(keys: &[u64], enough: u64) -> (u64, u64) {
    let (any, all) = keys.iter().fold((0, u64::MAX), |(any, all), key| (any | key, all & key));
    let span = u64::MAX.checked_shr((any ^ all).leading_zeros()).unwrap_or(0);
    if span < enough {
        return (all & !span, span);
    }
    let min = keys.iter().copied().min().unwrap_or(0);
    (min, keys.iter().copied().max().unwrap_or(0) - min)
}

/// Computes by counting sort the position of each row of one segment in stable order by key, and
/// marks the heads. The span of the keys must be small.
fn count<const RANGES: usize>(
    keys: &[u64],
    min: u64,
    span: usize,
    places: &mut [u16],
    heads: &mut [u64],
) {
    let mut next = vec![[0_u16; RANGES]; span + 1];
    interleaved::<RANGES>(keys.len(), |range, row| {
        next[(keys[row] - min) as usize][range] += 1;
    });
    let mut sum = 0;
    for ranges in &mut next {
        let first = sum;
        for place in ranges {
            let count = usize::from(*place);
            // The entry after the last row is unused.
            *place = sum as u16;
            sum += count;
        }
        if sum > first {
            heads[first / 64] |= 1 << (first % 64);
        }
    }
    interleaved::<RANGES>(keys.len(), |range, row| {
        let place = &mut next[(keys[row] - min) as usize][range];
        places[row] = *place;
        *place = place.wrapping_add(1);
    });
}

/// Visits all rows with the number of their range, one row of each range in turn. Adjacent rows
/// often have equal keys, and consecutive increments of one counter would stall.
#[inline(always)]
fn interleaved<const RANGES: usize>(rows: usize, mut visit: impl FnMut(usize, usize)) {
    let length = rows / RANGES;
    for at in 0..length {
        for range in 0..RANGES {
            visit(range, range * length + at);
        }
    }
    for row in RANGES * length..rows {
        visit(RANGES - 1, row);
    }
}

/// The rows of one segment in stable order by key.
fn sorted(keys: &[u64], min: u64, span: u64) -> Vec<u16> {
    let bits = u64::BITS - span.leading_zeros();
    if bits + ROW_BITS > u64::BITS {
        let mut pairs: Vec<(u64, u16)> = keys.iter().copied().zip(0..=u16::MAX).collect();
        pairs.sort_unstable();
        return pairs.into_iter().map(|(_, row)| row).collect();
    }
    // Key and row are in one word, so every pass reads sequentially.
    let mut items: Vec<u64> =
        keys.iter().zip(0_u64..).map(|(key, row)| (key - min) << ROW_BITS | row).collect();
    sort_words(&mut items, ROW_BITS..ROW_BITS + bits, &mut Vec::new());
    items.into_iter().map(|item| item as u16).collect()
}

/// Inverts an order of rows, and marks the starts of keys.
fn place(keys: &[u64], order: Vec<u16>, places: &mut [u16], heads: &mut [u64]) {
    let mut before = None;
    for (position, row) in order.into_iter().enumerate() {
        let row = usize::from(row);
        places[row] = position as u16;
        heads[position / 64] |= u64::from(before != Some(keys[row])) << (position % 64);
        before = Some(keys[row]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_key_then_row_in_each_segment() {
        let spread: [fn(u64) -> u64; 4] = [
            |key| key % 7,
            |key| key * 5,
            |key| key % 5000 * 1_000_003,
            |key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ];
        for key_of in spread {
            let keys: Vec<u64> = (0..70_001).map(|row: u64| key_of(row * row % 9973)).collect();
            let grouping = Grouping::new(&keys);
            let mut expected = Vec::new();
            for start in (0..keys.len()).step_by(SEGMENT_ROWS) {
                let mut rows: Vec<usize> = (start..keys.len().min(start + SEGMENT_ROWS)).collect();
                rows.sort_by_key(|row| keys[*row]);
                expected.append(&mut rows);
            }
            assert_eq!(grouping.group(&(0..keys.len()).collect::<Vec<_>>()), expected);
            let starts = grouping.heads().starts(1, TILE_VALUES);
            let heads = (TILE_VALUES..2 * TILE_VALUES).filter(|at| {
                at % TILE_VALUES == 0 || keys[expected[*at]] != keys[expected[at - 1]]
            });
            let heads: Vec<usize> = heads.map(|at| at - TILE_VALUES).collect();
            let found: Vec<usize> = (0..starts.len()).map(|index| starts.start(index)).collect();
            assert_eq!(found, heads);
            assert_eq!(starts.start(starts.len()), TILE_VALUES);
        }
    }
}
