//! Radix sort of words.

use std::ops::Range;

/// Bits of the digit that one pass orders.
const DIGIT_BITS: u32 = 11;

/// Sorts fewer than 2^32 words by a range of their bits. Words whose bits are equal keep their
/// order. The bits above the range must be 0, because each pass sorts by eleven bits, of which the
/// last may be above it. `work` is memory for the passes, which further calls use again.
pub fn sort_words(words: &mut Vec<u64>, bits: Range<u32>, work: &mut Vec<u64>) {
    for shift in bits.step_by(DIGIT_BITS as usize) {
        pass(words, shift, work);
        std::mem::swap(words, work);
    }
}

/// Replaces `out` with `words` stably sorted by the digit at bit `shift`.
fn pass(words: &[u64], shift: u32, out: &mut Vec<u64>) {
    let digit = |word: u64| (word >> shift) as usize & ((1 << DIGIT_BITS) - 1);
    let mut places = [0_u32; 1 << DIGIT_BITS];
    for word in words {
        places[digit(*word)] += 1;
    }
    let mut sum = 0;
    for place in &mut places {
        let count = *place;
        *place = sum;
        sum += count;
    }
    out.clear();
    out.resize(words.len(), 0);
    for word in words {
        let place = &mut places[digit(*word)];
        out[*place as usize] = *word;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    #[test]
    fn words_are_ordered_by_their_bits_alone() {
        let (mut random, mut work) = (Random::new(0x7ad1), Vec::new());
        for bits in [1..1, 0..1, 16..27, 16..28, 32..64, 0..64] {
            for count in [0, 1, 2, 100, 5000] {
                let mut words: Vec<u64> = (0..count).map(|_| random.below(u64::MAX)).collect();
                let above = u64::BITS - bits.end;
                words.iter_mut().for_each(|word| *word = *word << above >> above);
                let mut expected = words.clone();
                expected.sort_by_key(|word| word >> bits.start);
                sort_words(&mut words, bits.clone(), &mut work);
                assert_eq!(words, expected, "{bits:?}, {count} words");
            }
        }
    }
}
