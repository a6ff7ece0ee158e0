//! Which values enter the dictionary, and which code has each row?
//!
//! All of them, or the most frequent ones; entries ascend, so that codes keep the order of values
//! (FORMAT.md, section 6.10).

use std::cmp::Reverse;

use crate::column::ValueType;
use crate::dict::spec::{ENTRIES_MAX, code_type};
use crate::distinct::Distinct;
use crate::encoding::Encoding;
use crate::packed::pack;
use crate::tile::TileCounts;
use crate::tree::Tree;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Writes the node and its children.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    limit: u32,
    codes: &Tree,
    exceptions: Option<&Tree>,
) -> Result<(), NotApplicable> {
    let has_exceptions = exceptions.is_some();
    let limit = limit.min(ENTRIES_MAX - u32::from(has_exceptions)) as usize;
    let distinct_limit = if has_exceptions { usize::MAX } else { limit };
    let Some(distinct) = Distinct::of(node.values, distinct_limit) else {
        return NotApplicable::because("more different values than the dictionary may have");
    };
    let dictionary = Dictionary::of(&distinct, limit);
    if dictionary.entries.is_empty() {
        return NotApplicable::because("a dictionary has an entry");
    }
    let (packed, parameters) = dictionary.pack();
    let mut sections = vec![packed];
    let mut others = Vec::new();
    let mut counts = Vec::new();
    if has_exceptions {
        let none = dictionary.entries.len() as u32;
        for range in node.counts.ranges() {
            let start = others.len();
            let rows = distinct.rows[range.clone()].iter().zip(&node.values[range]);
            others.extend(
                rows.filter(|(number, _)| dictionary.codes[**number as usize] == none)
                    .map(|(_, value)| *value),
            );
            counts.push((others.len() - start) as u16);
        }
        sections.push(counts.iter().flat_map(|count| count.to_le_bytes()).collect());
    }
    writer.node(Encoding::Dict, &node, sections, parameters);
    let code_of = |number: &u32| dictionary.codes[*number as usize];
    let value_type = code_type(dictionary.entries.len() + usize::from(has_exceptions));
    if value_type == ValueType::U8 {
        let values: Vec<u8> = distinct.rows.iter().map(|number| code_of(number) as u8).collect();
        writer.subtree(codes, NodeValues { value_type, values: &values, counts: node.counts })?;
    } else {
        let values: Vec<u16> = distinct.rows.iter().map(|number| code_of(number) as u16).collect();
        writer.subtree(codes, NodeValues { value_type, values: &values, counts: node.counts })?;
    }
    match exceptions {
        None => Ok(()),
        Some(tree) => {
            let counts = TileCounts::Sparse(counts);
            let value_type = node.value_type;
            writer.subtree(tree, NodeValues { value_type, values: &others, counts: &counts })
        }
    }
}

/// Entries in ascending order and the code of every distinct value.
struct Dictionary<T> {
    entries: Vec<T>,
    /// By number of the distinct value; the number of entries for those that did not enter.
    codes: Vec<u32>,
}

impl<T: Word> Dictionary<T> {
    /// The `limit` most frequent values, of equally frequent ones the lesser.
    fn of(distinct: &Distinct<T>, limit: usize) -> Self {
        let mut numbers: Vec<u32> = (0..distinct.values.len() as u32).collect();
        let value_of = |number: &u32| distinct.values[*number as usize];
        if numbers.len() > limit {
            let count_of = |number: &u32| distinct.counts[*number as usize];
            numbers.sort_unstable_by_key(|number| (Reverse(count_of(number)), value_of(number)));
            numbers.truncate(limit);
        }
        numbers.sort_unstable_by_key(value_of);
        let mut codes = vec![numbers.len() as u32; distinct.values.len()];
        for (code, number) in numbers.iter().enumerate() {
            codes[*number as usize] = code as u32;
        }
        Self { entries: numbers.iter().map(value_of).collect(), codes }
    }

    /// The packed entries and the node's parameters.
    fn pack(&self) -> (Vec<u8>, (u32, u64)) {
        let base = self.entries[0];
        let above: Vec<T> = self.entries.iter().map(|entry| entry.minus(base)).collect();
        let bits = above.last().map_or(0, |greatest| greatest.bits());
        let mut packed = Vec::new();
        pack(&above, bits, &mut packed);
        (packed, (self.entries.len() as u32 | bits << 24, base.into()))
    }
}
