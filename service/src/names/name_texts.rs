//! The texts of names by number, in blocks of consecutive numbers.
//!
//! A block stores its names as one text and the offset at which each name ends: four bytes per name
//! in addition to the text. A number without a name has an empty range of the text; a name is never
//! empty.

/// Consecutive numbers whose texts are in one block.
const BLOCK_NUMBERS: usize = 4096;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct NameTexts {
    blocks: Vec<TextBlock>,
    /// The greatest number that was ever given, 0 before the first.
    last_number: u64,
    /// Bytes of all texts.
    bytes: u64,
    /// Bytes of the longest name that was ever added.
    longest: usize,
}

#[derive(Debug, Default)]
struct TextBlock {
    text: String,
    /// Offset in `text` at which the name of each number ends.
    ends: Vec<u32>,
}

impl TextBlock {
    fn name(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        self.text.get(start..end).filter(|name| !name.is_empty())
    }

    /// Appends entries without a name up to `index`, then the name of `index`.
    fn push(&mut self, index: usize, name: &str) {
        self.ends.resize(index, self.text.len() as u32);
        self.text.push_str(name);
        self.ends.push(self.text.len() as u32);
        if self.ends.len() == BLOCK_NUMBERS {
            self.text.shrink_to_fit();
        }
    }

    /// Removes the names of the indices for which `is_gone` returns true, and their texts.
    fn clear(&mut self, is_gone: impl Fn(usize) -> bool) {
        let mut kept = Self::default();
        for index in (0..self.ends.len()).filter(|index| !is_gone(*index)) {
            if let Some(name) = self.name(index) {
                kept.push(index, name);
            }
        }
        kept.text.shrink_to_fit();
        kept.ends.shrink_to_fit();
        *self = kept;
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity() + self.ends.capacity() * size_of::<u32>()
    }
}

/// The block of a number, and its index in the block; `None` for number 0, which has no name.
fn place(number: u64) -> Option<(usize, usize)> {
    let index = number.checked_sub(1)? as usize;
    Some((index / BLOCK_NUMBERS, index % BLOCK_NUMBERS))
}

impl NameTexts {
    /// The name of a number, if it has one.
    pub(super) fn name(&self, number: u64) -> Option<&str> {
        let (block, index) = place(number)?;
        self.blocks.get(block)?.name(index)
    }

    /// The greatest number that was ever given, 0 before the first.
    pub(super) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Adds a name; returns its number, which is the next one.
    pub(super) fn push(&mut self, name: &str) -> u64 {
        let number = self.last_number() + 1;
        self.push_at(number, name);
        number
    }

    /// Adds a name with a number greater than all others; an empty name means that the number has
    /// none.
    pub(super) fn push_at(&mut self, number: u64, name: &str) {
        assert!(number > self.last_number, "numbers ascend");
        let (block, index) = place(number).expect("numbers are at least 1");
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, TextBlock::default);
        }
        self.blocks[block].push(index, name);
        self.bytes += name.len() as u64;
        self.longest = self.longest.max(name.len());
        self.last_number = number;
    }

    /// Removes the names of these numbers, which must ascend.
    pub(super) fn clear(&mut self, numbers: &[u64]) {
        let of_block = |number: &u64| place(*number).map(|(block, _)| block);
        for gone in numbers.chunk_by(|one, next| of_block(one) == of_block(next)) {
            let Some(block) = of_block(&gone[0]).and_then(|at| self.blocks.get_mut(at)) else {
                continue;
            };
            let first = gone[0] - (gone[0] - 1) % BLOCK_NUMBERS as u64;
            self.bytes -= block.text.len() as u64;
            block.clear(|index| gone.binary_search(&(first + index as u64)).is_ok());
            self.bytes += block.text.len() as u64;
        }
    }

    /// Bytes of the longest name that was ever added.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes of all texts.
    pub(super) fn text_bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory of all blocks.
    pub(super) fn memory_bytes(&self) -> u64 {
        let spare = self.blocks.capacity() - self.blocks.len();
        let blocks = self.blocks.iter().map(|block| block.bytes() as u64).sum::<u64>();
        blocks + (spare * size_of::<TextBlock>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_names_lie_between_others() {
        let mut texts = NameTexts::default();
        assert_eq!((texts.last_number(), texts.name(0), texts.name(1)), (0, None, None));
        assert_eq!((texts.push("a"), texts.push("bc")), (1, 2));
        texts.push_at(5, "d");
        texts.push_at(3 * BLOCK_NUMBERS as u64 + 7, "e");
        assert_eq!(texts.push("f"), 3 * BLOCK_NUMBERS as u64 + 8);
        let named: Vec<_> = (0..=texts.last_number() + 9)
            .filter_map(|number| Some((number, texts.name(number)?)))
            .collect();
        let far = 3 * BLOCK_NUMBERS as u64;
        assert_eq!(named, [(1, "a"), (2, "bc"), (5, "d"), (far + 7, "e"), (far + 8, "f")]);
        assert_eq!((texts.text_bytes(), texts.longest()), (6, 2));
    }

    #[test]
    fn names_are_cleared_and_their_numbers_stay_given() {
        let mut texts = NameTexts::default();
        let names: Vec<String> = (1..=10_000).map(|number| format!("n{number}")).collect();
        names.iter().for_each(|name| _ = texts.push(name));
        let is_gone = |number: u64| number.is_multiple_of(3) || number > 8_192;
        let gone: Vec<u64> = (1..=10_000).filter(|number| is_gone(*number)).collect();
        texts.clear(&gone);
        texts.clear(&[2, 20_000]);
        for number in 1..=10_000 {
            let name = Some(names[number as usize - 1].as_str());
            let expected = name.filter(|_| !is_gone(number) && number != 2);
            assert_eq!(texts.name(number), expected, "{number}");
        }
        let bytes: u64 = (0..=10_000).filter_map(|it| Some(texts.name(it)?.len() as u64)).sum();
        assert_eq!(texts.text_bytes(), bytes);
        assert_eq!(texts.push("next"), 10_001);
        assert_eq!((texts.name(10_001), texts.name(10_000)), (Some("next"), None));
    }
}
