//! Canonical Huffman codes of at most 12 bits (FORMAT.md, section 6.17): lengths from frequencies,
//! codes from lengths, and the decoder's table.
//!
//! Package-merge (Larmore and Hirschberg, 1990) gives the optimal lengths under the limit.

/// Bits of the longest code.
pub(crate) const CODE_BITS_MAX: u32 = 12;
/// Lists of package-merge.
const LISTS: usize = CODE_BITS_MAX as usize;
/// Symbols at most.
pub const SYMBOLS_MAX: usize = 256;
/// Entries of a [`DecodeTable`].
const TABLE_ENTRIES: usize = 1 << CODE_BITS_MAX;

/// The length of each symbol's code for these frequencies: 0 for symbols that do not occur, 1 for
/// a symbol that occurs alone.
pub(crate) fn code_lengths(frequencies: &[u32]) -> Vec<u8> {
    let mut lengths = vec![0; frequencies.len()];
    let mut leaves: Vec<(u64, usize)> = frequencies
        .iter()
        .enumerate()
        .filter(|(_, frequency)| **frequency > 0)
        .map(|(symbol, frequency)| (u64::from(*frequency), symbol))
        .collect();
    leaves.sort_unstable();
    if leaves.len() < 2 {
        leaves.iter().for_each(|(_, symbol)| lengths[*symbol] = 1);
        return lengths;
    }
    // Items are selected from the last list to the first. Each selected leaf adds a bit to its
    // code; each selected package selects two items of the list before.
    let lists = merged_lists(&leaves);
    let mut items = 2 * leaves.len() - 2;
    for level in (0..LISTS).rev() {
        let is_leaf = &lists[level.min(lists.len() - 1)][..items];
        let taken = is_leaf.iter().filter(|is_leaf| **is_leaf).count();
        leaves[..taken].iter().for_each(|(_, symbol)| lengths[*symbol] += 1);
        items = 2 * (items - taken);
    }
    lengths
}

/// Returns for each item of each list true if it is a leaf, false if it is a package. Items are in
/// order of weight, a leaf before a package of equal weight. If there are fewer than `LISTS`, the
/// missing ones equal the last.
fn merged_lists(leaves: &[(u64, usize)]) -> Vec<Vec<bool>> {
    let items = 2 * leaves.len();
    let (mut weights, mut merged) = (Vec::with_capacity(items), Vec::with_capacity(items));
    let mut lists = Vec::with_capacity(LISTS);
    while lists.len() < LISTS {
        let packages: &[[u64; 2]] = weights.as_chunks().0;
        let mut packages = packages.iter().map(|[first, second]| first + second).peekable();
        let mut is_leaf = Vec::with_capacity(items);
        merged.clear();
        for &(leaf, _) in leaves {
            while let Some(package) = packages.next_if(|package| *package < leaf) {
                merged.push(package);
                is_leaf.push(false);
            }
            merged.push(leaf);
            is_leaf.push(true);
        }
        merged.extend(packages);
        is_leaf.resize(merged.len(), false);
        if merged == weights {
            break;
        }
        lists.push(is_leaf);
        std::mem::swap(&mut weights, &mut merged);
    }
    lists
}

/// The code of a symbol, its first bit lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) bits: u16,
    pub(crate) length: u8,
}

/// The codes of valid lengths. A symbol that occurs alone has the empty code.
pub(crate) fn codes(lengths: &[u8]) -> Vec<Code> {
    let used = lengths.iter().filter(|length| **length > 0).count();
    if used < 2 {
        return vec![Code::default(); lengths.len()];
    }
    let mut next = first_codes(lengths);
    lengths
        .iter()
        .map(|&length| {
            if length == 0 {
                return Code::default();
            }
            let code = &mut next[usize::from(length)];
            let bits = code.reverse_bits() >> (u16::BITS - u32::from(length));
            *code += 1;
            Code { bits, length }
        })
        .collect()
}

/// The least code of each length.
fn first_codes(lengths: &[u8]) -> [u16; CODE_BITS_MAX as usize + 1] {
    let mut counts = [0_u16; CODE_BITS_MAX as usize + 1];
    lengths.iter().for_each(|length| counts[usize::from(*length)] += 1);
    let (mut next, mut code) = ([0; CODE_BITS_MAX as usize + 1], 0);
    for (next, count) in next.iter_mut().zip(counts).skip(1) {
        code <<= 1;
        *next = code;
        code += count;
    }
    next
}

/// Maps the next 12 bits to the value that the caller stored for the symbol whose code they begin
/// with.
pub(crate) struct DecodeTable {
    entries: Box<[u32; TABLE_ENTRIES]>,
}

impl DecodeTable {
    /// Builds the table from code lengths; `entry` maps a symbol and its length to the stored
    /// value. `None` unless the codes are complete or exactly one symbol occurs.
    pub(crate) fn of(lengths: &[u8], entry: impl Fn(usize, u32) -> u32) -> Option<Self> {
        let mut entries = Box::new([0; TABLE_ENTRIES]);
        let used = lengths.iter().filter(|length| **length > 0).count();
        let is_valid = |length: &u8| u32::from(*length) <= CODE_BITS_MAX;
        if !lengths.iter().all(is_valid) {
            return None;
        }
        if used < 2 {
            let symbol = lengths.iter().position(|length| *length == 1)?;
            entries.fill(entry(symbol, 0));
            return Some(Self { entries });
        }
        let shares = lengths.iter().filter(|length| **length > 0);
        let filled: usize = shares.map(|length| TABLE_ENTRIES >> length).sum();
        if filled != TABLE_ENTRIES {
            return None;
        }
        for (symbol, code) in codes(lengths).into_iter().enumerate() {
            if code.length > 0 {
                let stored = entry(symbol, code.length.into());
                let same = entries.iter_mut().skip(code.bits.into()).step_by(1 << code.length);
                same.for_each(|entry| *entry = stored);
            }
        }
        Some(Self { entries })
    }

    /// The stored value for the symbol whose code is at the low end of `bits`.
    #[inline(always)]
    pub(crate) fn entry(&self, bits: u64) -> u32 {
        self.entries[bits as usize % TABLE_ENTRIES]
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    fn cost(frequencies: &[u32], lengths: &[u8]) -> u64 {
        let both = frequencies.iter().zip(lengths);
        both.map(|(&frequency, &length)| u64::from(frequency) * u64::from(length)).sum()
    }

    /// The cost of a Huffman code without a length limit, which is the sum of all merged weights.
    fn huffman_cost(frequencies: &[u32]) -> u64 {
        let mut weights: Vec<u64> =
            frequencies.iter().filter(|weight| **weight > 0).map(|&weight| weight.into()).collect();
        let mut cost = 0;
        while weights.len() > 1 {
            weights.sort_unstable_by(|a, b| b.cmp(a));
            let (a, b) = (weights.pop().unwrap(), weights.pop().unwrap());
            cost += a + b;
            weights.push(a + b);
        }
        cost
    }

    #[test]
    fn lengths_are_optimal_where_the_limit_does_not_bind() {
        let mut random = Random::new(7);
        for symbols in [2, 3, 4, 17, 100, 256] {
            for spread in [1, 3, 5] {
                let frequencies: Vec<u32> =
                    (0..symbols).map(|_| 1 << random.below(spread)).collect();
                let lengths = code_lengths(&frequencies);
                assert_eq!(cost(&frequencies, &lengths), huffman_cost(&frequencies));
                assert!(DecodeTable::of(&lengths, |_, _| 0).is_some());
            }
        }
    }

    #[test]
    fn fibonacci_frequencies_reach_the_limit_and_stay_complete() {
        let (mut frequencies, mut last) = (vec![1, 1], 1);
        while frequencies.len() < 40 {
            frequencies.push(last + frequencies[frequencies.len() - 2]);
            last = frequencies[frequencies.len() - 1];
        }
        let lengths = code_lengths(&frequencies);
        assert_eq!(lengths.iter().max(), Some(&12));
        assert!(DecodeTable::of(&lengths, |_, _| 0).is_some());
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
    }

    #[test]
    fn every_code_decodes_to_its_symbol() {
        let lengths = code_lengths(&[0, 50, 3, 0, 1, 20, 20, 1]);
        let table = DecodeTable::of(&lengths, |symbol, length| (symbol as u32) << 8 | length);
        let table = table.unwrap();
        for (symbol, code) in codes(&lengths).into_iter().enumerate() {
            if code.length > 0 {
                let entry = table.entry(u64::from(code.bits) | u64::MAX << code.length);
                assert_eq!(entry, (symbol as u32) << 8 | u32::from(code.length));
            }
        }
        let alone = DecodeTable::of(&[0, 0, 1], |symbol, length| (symbol as u32) << 8 | length);
        assert_eq!(alone.unwrap().entry(77), 2 << 8);
    }

    #[test]
    fn incomplete_and_overfull_codes_have_no_table() {
        for lengths in [&[][..], &[0, 0], &[2], &[1, 2], &[1, 1, 1], &[1, 2, 13], &[2, 2, 2]] {
            assert!(DecodeTable::of(lengths, |_, _| 0).is_none(), "{lengths:?}");
        }
    }
}
