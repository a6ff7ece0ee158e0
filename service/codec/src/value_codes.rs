//! Decoding of values from Huffman codes with low bits (FORMAT.md, section 6.17): several groups
//! of values at once.
//!
//! The steps of one group depend on each other, so several groups are decoded at once. Each read
//! decodes as many values as its bits contain for any code.

use std::array;

use crate::buckets::Buckets;
use crate::huffman_code::DecodeTable;
use crate::word::Word;

/// Groups that are decoded at once.
pub(crate) const LANES: usize = 4;
/// Minimum number of bits that a read returns, at any first bit.
const READ_BITS: u32 = 57;

/// Decoder of the values of a code.
pub(crate) struct ValueCodes {
    table: DecodeTable,
    /// Bits of the longest value.
    bits_max: u32,
}

/// Entry of the table. The low byte is the length of the value in bits, code and low bits together,
/// so that the sum of entries gives the length of several values.
#[derive(Clone, Copy)]
struct Entry(u32);

impl Entry {
    const LENGTH_AT: u32 = 8;
    const HIGH_AT: u32 = 16;

    fn new(length: u32, (high, low_bits): (u32, u32)) -> Self {
        Self((length + low_bits) | length << Self::LENGTH_AT | high << Self::HIGH_AT)
    }

    /// Bits of the value.
    #[inline(always)]
    fn bits(self) -> u32 {
        self.0 & 0xff
    }

    /// Bits of its code.
    #[inline(always)]
    fn length(self) -> u32 {
        self.0 >> Self::LENGTH_AT & 0xff
    }

    /// The bits of the value above its low bits.
    #[inline(always)]
    fn high(self) -> u64 {
        (self.0 >> Self::HIGH_AT).into()
    }
}

impl ValueCodes {
    /// Builds the decoder from code lengths by symbol; `None` if they do not form a valid code.
    pub(crate) fn new(lengths: &[u8], buckets: Buckets) -> Option<Self> {
        let entry = |symbol, length| Entry::new(length, buckets.parts(symbol)).0;
        let table = DecodeTable::of(lengths, entry)?;
        let used = lengths.iter().enumerate().filter(|(_, length)| **length > 0);
        let bits = used.map(|(symbol, length)| u32::from(*length) + buckets.parts(symbol).1);
        Some(Self { table, bits_max: bits.max().unwrap_or(0) })
    }

    /// Decodes groups that begin at `bits`, all equally long except the last, which may be shorter;
    /// advances each bit to the end of its group.
    pub(crate) fn decode<T: Word>(
        &self,
        bytes: &[u8],
        bits: &mut [usize; LANES],
        mut groups: [&mut [T]; LANES],
    ) {
        // Decodes all groups up to the length of the last one, then the rest of the others.
        loop {
            let used = groups.iter().filter(|group| !group.is_empty()).count();
            let Some(last) = used.checked_sub(1) else { return };
            let common = groups[last].len();
            let parts = groups.each_mut().map(|group| {
                let length = common.min(group.len());
                group.split_off_mut(..length).expect("a group has at least this length")
            });
            match self.bits_max {
                0..=14 => self.lanes(bytes, bits, parts, |bit| self.read::<T, 4>(bytes, bit)),
                15..=28 => self.lanes(bytes, bits, parts, |bit| self.read::<T, 2>(bytes, bit)),
                29..=READ_BITS => {
                    self.lanes(bytes, bits, parts, |bit| self.read::<T, 1>(bytes, bit));
                }
                _ => self.lanes(bytes, bits, parts, |bit| [self.read_long(bytes, bit)]),
            }
        }
    }

    /// Decodes parts of the groups with `read`, which returns `VALUES` values; the parts are
    /// equally long or empty.
    #[inline(always)]
    fn lanes<T: Word, const VALUES: usize>(
        &self,
        bytes: &[u8],
        bits: &mut [usize; LANES],
        parts: [&mut [T]; LANES],
        read: impl Fn(&mut usize) -> [T; VALUES],
    ) {
        let [mut a, mut b, mut c, mut d] = *bits;
        let [first, second, third, fourth] = parts.map(|part| part.as_chunks_mut::<VALUES>());
        if fourth.0.is_empty() {
            if second.0.is_empty() {
                first.0.iter_mut().for_each(|values| *values = read(&mut a));
            } else {
                for (first, second) in first.0.iter_mut().zip(second.0) {
                    (*first, *second) = (read(&mut a), read(&mut b));
                }
            }
            third.0.iter_mut().for_each(|values| *values = read(&mut c));
        } else {
            let pairs = first.0.iter_mut().zip(second.0).zip(third.0.iter_mut().zip(fourth.0));
            for ((first, second), (third, fourth)) in pairs {
                (*first, *second) = (read(&mut a), read(&mut b));
                (*third, *fourth) = (read(&mut c), read(&mut d));
            }
        }
        *bits = [a, b, c, d];
        for (rest, bit) in [first.1, second.1, third.1, fourth.1].into_iter().zip(bits) {
            rest.iter_mut().for_each(|value| *value = self.read_long(bytes, bit));
        }
    }

    /// Decodes the next values from one read; advances `bit` past them.
    #[inline(always)]
    fn read<T: Word, const VALUES: usize>(&self, bytes: &[u8], bit: &mut usize) -> [T; VALUES] {
        let mut word = bits_from(bytes, *bit);
        let mut taken = 0_u32;
        let values = array::from_fn(|_| {
            let entry = Entry(self.table.entry(word));
            let (low, next) = (word >> (entry.length() & 63), word >> (entry.bits() & 63));
            // Above its low bits, `low` holds `next`, which the high part replaces. Unlike a mask,
            // this takes one shift by the number of low bits.
            let low_bits = entry.0.wrapping_sub(entry.0 >> Entry::LENGTH_AT) & 63;
            word = next;
            taken = taken.wrapping_add(entry.0);
            T::low(low.wrapping_add(entry.high().wrapping_sub(next) << low_bits))
        });
        *bit += (taken & 0xff) as usize;
        values
    }

    /// Decodes the next value, of any length; advances `bit` past it.
    #[inline(always)]
    fn read_long<T: Word>(&self, bytes: &[u8], bit: &mut usize) -> T {
        let entry = Entry(self.table.entry(bits_from(bytes, *bit)));
        let at = *bit + entry.length() as usize;
        let low = bits_from(bytes, at) & u64::from(u32::MAX) | bits_from(bytes, at + 32) << 32;
        let low_bits = entry.bits() - entry.length();
        *bit = at + low_bits as usize;
        T::low(entry.high() << low_bits | low & ((1 << low_bits) - 1))
    }
}

/// Returns at least 57 bits from bit `bit` on; bits after the end are 0.
#[inline(always)]
fn bits_from(bytes: &[u8], bit: usize) -> u64 {
    let at = bit / 8;
    let word = match bytes.get(at..at + 8) {
        Some(word) => u64::from_le_bytes(*word.as_array().expect("they are eight")),
        None => padded(bytes.get(at..).unwrap_or(&[])),
    };
    word >> (bit % 8)
}

/// Reads fewer than eight bytes and pads them with zeros.
#[cold]
#[inline(never)]
fn padded(rest: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;
    use crate::huffman_code::{Code, code_lengths, codes};

    /// Packs values, each code followed by its low bits, and decodes them as groups of `length`,
    /// the last of which is shorter.
    fn decodes(values: &[u64], length: usize) {
        let buckets = Buckets::finest(64);
        let mut counts = vec![0; 256];
        values.iter().for_each(|value| counts[buckets.symbol(*value).0] += 1);
        let lengths = code_lengths(&counts);
        let codes = codes(&lengths);
        let (mut stream, mut ends) = (Vec::<bool>::new(), Vec::new());
        for group in values.chunks(length) {
            for value in group {
                let (symbol, low_bits) = buckets.symbol(*value);
                let Code { bits, length } = codes[symbol];
                stream.extend((0..length).map(|bit| bits >> bit & 1 != 0));
                stream.extend((0..low_bits).map(|bit| value >> bit & 1 != 0));
            }
            ends.push(stream.len());
        }
        let byte =
            |bits: &[bool]| bits.iter().rev().fold(0_u8, |byte, bit| byte << 1 | u8::from(*bit));
        let bytes: Vec<u8> = stream.chunks(8).map(byte).collect();
        let decoder = ValueCodes::new(&lengths, buckets).unwrap();
        let mut out = vec![0_u64; values.len()];
        let mut bits = [0; LANES];
        bits[1..].iter_mut().zip(&ends).for_each(|(bit, end)| *bit = *end);
        let mut groups = out.chunks_mut(length);
        let groups = array::from_fn(|_| groups.next().unwrap_or_default());
        decoder.decode(&bytes, &mut bits, groups);
        assert_eq!(bits[..ends.len()], ends, "{} bits at most", decoder.bits_max);
        assert_eq!(out, values, "{} bits at most", decoder.bits_max);
    }

    #[test]
    fn groups_of_values_of_any_length_decode_together() {
        let mut random = Random::new(3);
        for widest in [0, 1, 3, 9, 13, 20, 31, 40, 63, 64] {
            for count in [1, 7, 8, 9, 13, 16, 25, 31, 32] {
                let value = |_| {
                    let width = random.below(widest + 1);
                    random.word().checked_shr(64 - width).unwrap_or(0)
                };
                decodes(&(0..count).map(value).collect::<Vec<u64>>(), 8);
            }
        }
    }
}
