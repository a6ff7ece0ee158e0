//! The texts of names by number, in blocks of consecutive numbers and groups of blocks. Groups
//! without names do not exist, since numbers are skipped in large steps.
//!
//! A block stores its names as one text and the offset at which each name ends: four bytes per name
//! in addition to the text. A number without a name has an empty range of the text; a name is never
//! empty.

use std::ops::RangeInclusive;

/// Consecutive numbers whose texts are in one block.
const BLOCK_NUMBERS: usize = 4096;
/// Blocks of a group.
const GROUP_BLOCKS: usize = 256;
/// Consecutive numbers of a group.
pub(super) const GROUP_NUMBERS: u64 = (BLOCK_NUMBERS * GROUP_BLOCKS) as u64;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct NameTexts {
    /// The groups that have a number, ascending.
    groups: Vec<Group>,
    /// The greatest number that was ever given, 0 before the first.
    last_number: u64,
    /// Bytes of all texts.
    bytes: u64,
    /// Bytes of the longest name that was ever added.
    longest: usize,
}

/// A group of blocks.
#[derive(Debug)]
struct Group {
    /// The place of the group: its first number, less 1, in groups.
    at: u64,
    /// The blocks up to the last that has a number.
    blocks: Vec<TextBlock>,
}

impl Group {
    /// The numbers that can have a name.
    fn numbers(&self) -> RangeInclusive<u64> {
        let before = self.at * GROUP_NUMBERS;
        before + 1..=before + (self.blocks.len() * BLOCK_NUMBERS) as u64
    }
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

/// Where the name of a number is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    group: u64,
    block: usize,
    index: usize,
}

/// The place of a number; `None` for number 0, which has no name.
fn place(number: u64) -> Option<Place> {
    let at = number.checked_sub(1)?;
    let within = (at % GROUP_NUMBERS) as usize;
    let (block, index) = (within / BLOCK_NUMBERS, within % BLOCK_NUMBERS);
    Some(Place { group: at / GROUP_NUMBERS, block, index })
}

impl NameTexts {
    /// The name of a number, if it has one.
    pub(super) fn name(&self, number: u64) -> Option<&str> {
        let Place { group, block, index } = place(number)?;
        self.groups[self.group_index(group)?].blocks.get(block)?.name(index)
    }

    /// The index of the group at a place, if it exists.
    fn group_index(&self, at: u64) -> Option<usize> {
        // Groups before the first gap are at their places.
        let is_there = self.groups.get(at as usize).is_some_and(|group| group.at == at);
        if is_there {
            return Some(at as usize);
        }
        self.groups.binary_search_by_key(&at, |group| group.at).ok()
    }

    /// The numbers that can have a name, up to `last`, in ascending ranges.
    pub(super) fn ranges(&self, last: u64) -> impl Iterator<Item = RangeInclusive<u64>> {
        let numbers = self.groups.iter().map(Group::numbers);
        let up_to = move |numbers: RangeInclusive<u64>| *numbers.start()..=last.min(*numbers.end());
        numbers.map(up_to).filter(|numbers| !numbers.is_empty())
    }

    /// The first number from `number` on that can have a name; `number` if there is none.
    pub(super) fn next(&self, number: u64) -> u64 {
        let found = self.groups.partition_point(|group| *group.numbers().end() < number);
        let group = self.groups.get(found);
        group.map_or(number, |group| number.max(*group.numbers().start()))
    }

    /// The greatest number that was ever given, 0 before the first.
    pub(super) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Adds a name with a number greater than all others; an empty name means that the number has
    /// none.
    pub(super) fn push_at(&mut self, number: u64, name: &str) {
        assert!(number > self.last_number, "numbers ascend");
        let Place { group, block, index } = place(number).expect("numbers are at least 1");
        if self.groups.last().is_none_or(|last| last.at < group) {
            self.groups.push(Group { at: group, blocks: Vec::new() });
        }
        // Numbers ascend, so that of a name is in the last group.
        let blocks = &mut self.groups.last_mut().expect("it was added").blocks;
        if blocks.len() <= block {
            blocks.resize_with(block + 1, TextBlock::default);
        }
        blocks[block].push(index, name);
        self.bytes += name.len() as u64;
        self.longest = self.longest.max(name.len());
        self.last_number = number;
    }

    /// Removes the names of these numbers, which must ascend.
    pub(super) fn clear(&mut self, numbers: &[u64]) {
        let of_block = |number: &u64| place(*number).map(|place| Place { index: 0, ..place });
        for gone in numbers.chunk_by(|one, next| of_block(one) == of_block(next)) {
            let Some(place) = of_block(&gone[0]) else { continue };
            let group = self.group_index(place.group);
            let group = group.and_then(|group| self.groups.get_mut(group));
            let Some(block) = group.and_then(|group| group.blocks.get_mut(place.block)) else {
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
        let of_group = |Group { blocks, .. }: &Group| {
            let spare = (blocks.capacity() - blocks.len()) * size_of::<TextBlock>();
            spare + blocks.iter().map(TextBlock::bytes).sum::<usize>()
        };
        let groups = self.groups.capacity() * size_of::<Group>();
        (groups + self.groups.iter().map(of_group).sum::<usize>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a name with the next number, which it returns.
    fn push(texts: &mut NameTexts, name: &str) -> u64 {
        let number = texts.last_number() + 1;
        texts.push_at(number, name);
        number
    }

    #[test]
    fn numbers_without_names_lie_between_others() {
        let mut texts = NameTexts::default();
        assert_eq!((texts.last_number(), texts.name(0), texts.name(1)), (0, None, None));
        assert_eq!((push(&mut texts, "a"), push(&mut texts, "bc")), (1, 2));
        texts.push_at(5, "d");
        texts.push_at(3 * BLOCK_NUMBERS as u64 + 7, "e");
        assert_eq!(push(&mut texts, "f"), 3 * BLOCK_NUMBERS as u64 + 8);
        let named: Vec<_> = (0..=texts.last_number() + 9)
            .filter_map(|number| Some((number, texts.name(number)?)))
            .collect();
        let far = 3 * BLOCK_NUMBERS as u64;
        assert_eq!(named, [(1, "a"), (2, "bc"), (5, "d"), (far + 7, "e"), (far + 8, "f")]);
        assert_eq!((texts.text_bytes(), texts.longest()), (6, 2));
    }

    #[test]
    fn skipped_numbers_take_no_memory_and_are_passed_over() {
        let mut texts = NameTexts::default();
        push(&mut texts, "a");
        let bytes = texts.memory_bytes();
        let far = (1 << 42) * GROUP_NUMBERS + 1;
        texts.push_at(far, "b");
        assert!(texts.memory_bytes() < bytes + 80_000, "{}", texts.memory_bytes());
        assert_eq!(
            (texts.name(1), texts.name(far), texts.name(far - 1)),
            (Some("a"), Some("b"), None)
        );
        let block = BLOCK_NUMBERS as u64;
        let ranges: Vec<_> = texts.ranges(far).collect();
        assert_eq!(ranges, [1..=block, far..=far]);
        assert_eq!(texts.ranges(far - 1).count(), 1);
        for (number, next) in [
            (0, 1),
            (1, 1),
            (block, block),
            (block + 1, far),
            (far, far),
            (far + block, far + block),
        ] {
            assert_eq!(texts.next(number), next, "{number}");
        }
        texts.clear(&[1, block * 3, far - 1, far]);
        assert_eq!((texts.name(1), texts.name(far), texts.last_number()), (None, None, far));
    }

    #[test]
    fn names_are_cleared_and_their_numbers_stay_given() {
        let mut texts = NameTexts::default();
        let names: Vec<String> = (1..=10_000).map(|number| format!("n{number}")).collect();
        names.iter().for_each(|name| _ = push(&mut texts, name));
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
        assert_eq!(push(&mut texts, "next"), 10_001);
        assert_eq!((texts.name(10_001), texts.name(10_000)), (Some("next"), None));
    }
}
