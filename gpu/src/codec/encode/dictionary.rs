//! Dictionaries on the device (FORMAT.md, section 6.10): all distinct values or the most frequent
//! ones in ascending order, and the code of each row.

use shoal_codec::{Encoding, PlanNode, ValueType};
use shoal_engine::EngineError;

use super::error::EncodeError;
use super::program::node;
use super::source::Source;
use super::worker::Worker;
use crate::launch::{DeviceSlice, HashTable, Runs, TILE_VALUES};

/// Most codes of a dictionary.
const CODES_MAX: u32 = 65_536;
/// Slots of a hash table per value.
const SLOTS_PER_VALUE: usize = 4;
const TOO_MANY: &str = "more different values than the dictionary may have";

/// A dictionary on the device.
#[derive(Debug)]
pub(super) struct Dictionary {
    /// The node with its parameters.
    pub(super) node: PlanNode,
    /// Packed entries.
    pub(super) entries: DeviceSlice<u8>,
    /// A code for each value, at its position in the source.
    pub(super) codes: DeviceSlice<u16>,
    pub(super) codes_type: ValueType,
    /// The code of exceptions.
    pub(super) none: u32,
}

/// Entries of a dictionary in ascending order, a code for each value of the source, and the first
/// and the last entry.
struct Numbered {
    entries: DeviceSlice<u64>,
    codes: DeviceSlice<u16>,
    ends: [u64; 2],
}

impl Worker {
    /// The dictionary over a source, of at most `limit` entries.
    pub(super) fn dictionary(
        &mut self,
        source: &Source,
        limit: u32,
        has_exceptions: bool,
    ) -> Result<Dictionary, EncodeError> {
        let limit = limit.min(CODES_MAX - u32::from(has_exceptions));
        if source.length() == 0 || limit == 0 {
            return EncodeError::because("a dictionary has an entry");
        }
        let numbered = match self.hashed(source)? {
            Some(numbered) if numbered.entries.len() <= limit as usize => numbered,
            Some(_) if !has_exceptions => return EncodeError::because(TOO_MANY),
            _ => self.numbered(source, limit, has_exceptions)?,
        };
        let Numbered { entries, codes, ends: [base, greatest] } = numbered;
        let length = entries.len();
        let bits = u64::BITS - (greatest - base).leading_zeros();
        let words = self.arena.allocate::<u32>((length * bits as usize).div_ceil(32))?;
        self.kernels.encode_dictionary(&self.stream, entries, bits, words)?;
        let none = length as u32;
        let codes_type = match none + u32::from(has_exceptions) {
            0..=256 => ValueType::U8,
            _ => ValueType::U16,
        };
        let node = node(Encoding::Dict, source.value_type, none | bits << 24, base);
        Ok(Dictionary { node, entries: words.bytes(), codes, codes_type, none })
    }

    /// Finds entries and codes by sorting all values. If more than `limit` values are distinct,
    /// only the most frequent ones become entries.
    fn numbered(
        &mut self,
        source: &Source,
        limit: u32,
        has_exceptions: bool,
    ) -> Result<Numbered, EncodeError> {
        let (runs, numbers) = self.distinct(source)?;
        if numbers > limit && !has_exceptions {
            return EncodeError::because(TOO_MANY);
        }
        let (entries, code_of) = self.entries(&runs, numbers, limit)?;
        let slots = source.tiles() as usize * TILE_VALUES;
        let codes = self.arena.allocate::<u16>(slots)?;
        self.kernels.encode_codes(&self.stream, &runs, code_of, codes)?;
        let length = entries.len();
        let mut ends = [[0_u64; 1]; 2];
        entries.part(0, 1).download(&self.stream, &mut ends[0])?;
        entries.part(length - 1, 1).download(&self.stream, &mut ends[1])?;
        self.wait()?;
        Ok(Numbered { entries, codes, ends: ends.map(|[end]| end) })
    }

    /// Finds entries and codes with a hash table. `None` if the source is sparse or has too many
    /// distinct values.
    fn hashed(&mut self, source: &Source) -> Result<Option<Numbered>, EncodeError> {
        if source.counts.is_some() {
            return Ok(None);
        }
        let limit = CODES_MAX.min(source.rows);
        let slots = (SLOTS_PER_VALUE * limit as usize).next_power_of_two();
        let table = HashTable {
            keys: self.arena.allocate(slots + 1)?,
            codes: self.arena.allocate(slots + 1)?,
            found: self.upload(&[0, 0, 0])?,
            limit,
        };
        table.keys.fill(&self.stream, 0xff)?;
        let task = source.task();
        self.kernels.hash_values(&self.stream, &task, &table)?;
        let (keys, places) =
            (self.arena.allocate(limit as usize)?, self.arena.allocate::<u32>(limit as usize)?);
        let length = self.upload(&[0_u32])?;
        let ends = self.upload(&[u64::MAX, 0])?;
        self.kernels.hash_list(&self.stream, &table, keys, places, length, ends)?;
        let (mut counted, mut found) = ([0_u32], [0_u32; 3]);
        length.download(&self.stream, &mut counted)?;
        table.found.download(&self.stream, &mut found)?;
        let ends = self.read(ends)?;
        let numbers = counted[0] as usize;
        if found[1] != 0 || counted[0] > limit {
            return Ok(None);
        }
        let mut listed = (keys.part(0, numbers), places.part(0, numbers));
        let bits = u64::BITS - (ends[0] ^ ends[1]).leading_zeros();
        if bits > 0 {
            let sorted = (self.arena.allocate(numbers)?, self.arena.allocate(numbers)?);
            self.scratch.sort_pairs(&self.stream, listed, sorted, counted[0], bits)?;
            listed = sorted;
        }
        self.kernels.hash_number(&self.stream, &table, listed.1)?;
        let codes = self.arena.allocate::<u16>(source.tiles() as usize * TILE_VALUES)?;
        self.kernels.hash_codes(&self.stream, &task, &table, codes)?;
        Ok(Some(Numbered { entries: listed.0, codes, ends: [ends[0], ends[1]] }))
    }

    /// The entries, and the code of each distinct value.
    fn entries(
        &mut self,
        runs: &Runs,
        numbers: u32,
        limit: u32,
    ) -> Result<(DeviceSlice<u64>, DeviceSlice<u32>), EngineError> {
        let length = numbers as usize;
        let entries = self.arena.allocate(length.min(limit as usize))?;
        let code_of = self.arena.allocate(length)?;
        let mut marks = (DeviceSlice::none(), DeviceSlice::none());
        if numbers > limit {
            let [keys, listed] = [self.arena.allocate(length)?, self.arena.allocate(length)?];
            let [sorted, most] = [self.arena.allocate(length)?, self.arena.allocate(length)?];
            marks = (self.arena.allocate(length)?, self.arena.allocate(length)?);
            self.kernels.encode_frequencies(&self.stream, runs, numbers, keys, listed)?;
            // The sort is stable, so the lesser of equally frequent values is first.
            let pairs = ((keys, listed), (sorted, most));
            self.scratch.sort_pairs(&self.stream, pairs.0, pairs.1, numbers, 32)?;
            marks.0.fill(&self.stream, 0)?;
            self.kernels.encode_enter(&self.stream, most, limit, marks.0)?;
            self.scratch.sum_before(&self.stream, marks.0, marks.1, numbers)?;
        }
        let counts = (numbers, entries.len() as u32);
        let made = (entries, code_of);
        self.kernels.encode_entries(&self.stream, runs, marks, counts, made)?;
        Ok((entries, code_of))
    }
}
