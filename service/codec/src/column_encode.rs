//! Encoding and decoding of single typed columns outside blocks: plan and sections as in a chunk,
//! without directory or checksums.

use std::ops::Range;

use crate::block::within;
use crate::column_decode::ColumnReader;
use crate::error::BlockError;
use crate::grouping::Grouping;
use crate::limits::Budget;
use crate::plan::Plan;
use crate::section::{Fault, Section};
use crate::tree::Tree;
use crate::tree_encode::{EncodedTree, Keys, NotApplicable, encode_tree};
use crate::values::{Values, with_patterns};
use crate::word::Word;

/// Encodes a column with exactly this tree.
///
/// # Errors
/// The reason why the tree does not apply to the values; [`Tree::Raw`] always applies.
pub fn encode_column(
    values: &Values,
    tree: &Tree,
    keys: Option<Keys<'_>>,
) -> Result<EncodedTree, NotApplicable> {
    let value_type = values.value_type();
    with_patterns!(values.patterns(), |patterns| encode_tree(value_type, patterns, tree, keys))
}

/// Decodes a column of [`encode_column`].
///
/// # Errors
/// If FORMAT.md, section 6, refuses the column, or if it needs more rows or scratch memory than the
/// budget. Errors name chunk 0; offsets count bytes as if the sections followed each other.
pub fn decode_column(
    encoded: &EncodedTree,
    grouping: Option<&Grouping>,
    budget: &Budget,
) -> Result<Values, BlockError> {
    let mut values = Values::empty(encoded.plan.root().value_type);
    decode_column_into(encoded, grouping, budget, &mut values)?;
    Ok(values)
}

/// [`decode_column`] into `out`. Its allocation is reused if it has the type of the column.
///
/// # Errors
/// As [`decode_column`]; `out` is undefined then.
pub fn decode_column_into(
    encoded: &EncodedTree,
    grouping: Option<&Grouping>,
    budget: &Budget,
    out: &mut Values,
) -> Result<(), BlockError> {
    let plan = &encoded.plan;
    within("rows", plan.root().values.into(), budget.rows_max.into())?;
    within("scratch bytes", plan.scratch_bytes(), budget.scratch_bytes_max as u64)?;
    let sections = sections(encoded);
    check(plan, &sections, grouping.map(Grouping::rows)).map_err(|fault| refused(0, fault))?;
    let rows = 0..plan.root().values as usize;
    let source = Source { plan, sections: &sections, grouping, rows };
    if out.value_type() != plan.root().value_type {
        *out = Values::empty(plan.root().value_type);
    }
    out.fill(&source).map_err(|fault| refused(0, fault))
}

/// Checks that the plan of an untrusted column fits its sections and the number of keys, as
/// [`crate::Block::parse`] does for chunks. Only the contents of tiles can be invalid after that.
///
/// # Errors
/// What [`decode_column`] refuses before it decodes a tile, except the budget.
pub fn check_column(encoded: &EncodedTree, keys: Option<usize>) -> Result<(), BlockError> {
    check(&encoded.plan, &sections(encoded), keys).map_err(|fault| refused(0, fault))
}

/// The sections, with offsets as if the sections followed each other.
fn sections(encoded: &EncodedTree) -> Vec<Section<'_>> {
    let mut sections = Vec::with_capacity(encoded.sections.len());
    let mut offset = 0;
    for bytes in &encoded.sections {
        sections.push(Section { bytes, offset });
        offset += bytes.len();
    }
    sections
}

/// The fault as an error of chunk `chunk`.
pub(crate) fn refused(chunk: usize, fault: Fault) -> BlockError {
    BlockError::Chunk { chunk, offset: fault.offset, problem: fault.problem }
}

/// Checks that an untrusted plan fits its sections and its keys.
fn check(plan: &Plan, sections: &[Section<'_>], keys: Option<usize>) -> Result<(), Fault> {
    let section_bytes: Vec<u64> =
        sections.iter().map(|section| section.bytes.len() as u64).collect();
    let owned: usize = plan.nodes().iter().map(|node| usize::from(node.sections)).sum();
    if owned != sections.len() {
        let problem = format!("nodes own {owned} sections, there are {}", sections.len());
        return Err(Fault { offset: 0, problem });
    }
    plan.check(&section_bytes)
        .map_err(|fault| Fault { offset: fault.offset, problem: fault.problem })?;
    let rows = plan.root().values as usize;
    match (plan.key_column(), keys) {
        (None, _) => Ok(()),
        (Some(_), Some(keys)) if keys == rows => Ok(()),
        (Some(_), other) => {
            let keys = other.unwrap_or(0);
            let problem = format!("keyed plan of {rows} rows comes with {keys} keys");
            Err(Fault { offset: 0, problem })
        }
    }
}

/// Rows of a column.
pub(crate) struct Source<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sections: &'a [Section<'a>],
    pub(crate) grouping: Option<&'a Grouping>,
    pub(crate) rows: Range<usize>,
}

impl Source<'_> {
    /// Replaces `out` by the rows, converted.
    pub(crate) fn decode<T: Word, V: Copy + Default>(
        &self,
        convert: impl Fn(T) -> V,
        out: &mut Vec<V>,
    ) -> Result<(), Fault> {
        let Source { plan, sections, grouping, ref rows } = *self;
        let reader = ColumnReader { plan, sections, grouping };
        reader.rows(rows.clone(), convert, |_, _| Ok(()), out)
    }
}
