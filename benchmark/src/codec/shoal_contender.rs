//! Shoal's own codec as a contender.
//!
//! A single column is a plan and its sections; its bytes are counted as in a block, including
//! directory entry and padding. The time of a keyed column includes the grouping of rows. Whole
//! blocks are measured as the product writes and reads them, with checksums; their columns share
//! one grouping.

use std::time::{Duration, Instant};

use shoal_codec::{
    Aim, Block as CodecBlock, BlockCodec, BlockPlan, Budget, Column, ColumnPlanner, CpuCodec,
    EncodedTree, FixColumns, Grouping, Keys, Tree, Values, compact, decode_column, encode_column,
};

use super::block::Block;
use super::contender::{Contender, Part, WholeBlocks};
use super::trees::candidates;
use super::values::bytes;
use crate::error::BenchmarkError;

/// The source of trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Planning {
    /// The planner, block by block, with this aim.
    Stream(Aim),
    /// The same, but no tree is keyed.
    Unkeyed,
    /// The planner's tree for the first block, used for all blocks.
    First,
    /// The smallest result of a list of trees for each block, found by encoding with each.
    Tried,
    /// This tree for every block of every column.
    Always(Tree),
}

/// The codec on one core.
pub(super) struct ShoalContender {
    planning: Planning,
    seed: u64,
    /// Trees of each column, one for each block.
    trees: Vec<Vec<Tree>>,
    column: usize,
    /// The last encoded column, by block.
    encoded: Vec<Option<EncodedTree>>,
    decoded: FixColumns,
}

impl ShoalContender {
    pub(super) fn new(planning: Planning, seed: u64) -> Self {
        Self {
            planning,
            seed,
            trees: Vec::new(),
            column: 0,
            encoded: Vec::new(),
            decoded: FixColumns::new(),
        }
    }

    /// The tree of a block of the prepared column.
    #[cfg(feature = "cuda")]
    pub(super) fn tree(&self, part: Part<'_>) -> &Tree {
        &self.trees[part.column][part.index]
    }

    /// Encodes a column with its tree, or raw if the tree does not apply or is not smaller.
    fn encode_with(part: Part<'_>, tree: &Tree) -> Result<(EncodedTree, Duration), BenchmarkError> {
        let begin = Instant::now();
        let grouping = tree.is_keyed().then(|| grouping(part)).flatten();
        let keys = grouping.as_ref().map(|grouping| Keys { grouping, column: Column::Object.id() });
        let planned = encode_column(part.values(), tree, keys).ok();
        let encoded = match planned.filter(|encoded| chunk_bytes(encoded) < part.bytes().len()) {
            Some(encoded) => encoded,
            None => encode_column(part.values(), &Tree::Raw, None)
                .map_err(|why| BenchmarkError::Codec(why.reason))?,
        };
        Ok((encoded, begin.elapsed()))
    }
}

/// The smallest of a list of trees.
fn tried(part: Part<'_>) -> Tree {
    let is_keyed = part.block().fixes.is_some() && part.column > 0;
    let size = |tree: &Tree| {
        ShoalContender::encode_with(part, tree).map_or(usize::MAX, |(e, _)| chunk_bytes(&e))
    };
    candidates(part.values(), is_keyed).into_iter().min_by_key(size).unwrap_or(Tree::Raw)
}

/// The block's rows grouped by object; `None` if the block has no fixes.
fn grouping(part: Part<'_>) -> Option<Grouping> {
    let (fixes, _) = part.block().fixes.as_ref()?;
    Some(Grouping::new(&fixes.object))
}

/// Bytes of a column in a block: its directory entry and its padded sections.
pub(super) fn chunk_bytes(encoded: &EncodedTree) -> usize {
    use shoal_codec::limits::{
        CHUNK_ENTRY_BYTES, NODE_BYTES, SECTION_ALIGN_BYTES, SECTION_ENTRY_BYTES,
    };
    let padded = |section: &Vec<u8>| section.len().next_multiple_of(SECTION_ALIGN_BYTES);
    CHUNK_ENTRY_BYTES
        + encoded.plan.nodes().len() * NODE_BYTES
        + encoded.sections.len() * SECTION_ENTRY_BYTES
        + encoded.sections.iter().map(padded).sum::<usize>()
}

/// Copies a column's sections, padded with zeros to its size in a block. The bytes are only counted
/// and compared; decoding uses the plan and its sections.
pub(super) fn copy_chunk(encoded: &EncodedTree, out: &mut Vec<u8>) {
    out.clear();
    for section in &encoded.sections {
        out.extend_from_slice(section);
    }
    out.resize(chunk_bytes(encoded), 0);
}

impl Contender for ShoalContender {
    fn prepare(&mut self, blocks: &[Block], column: usize) -> Result<(), BenchmarkError> {
        self.column = column;
        self.encoded = vec![None; blocks.len()];
        let trees = match &self.planning {
            Planning::Stream(_) | Planning::Unkeyed => self.planned(blocks, column)?,
            Planning::First => {
                let first = self.planned(&blocks[..1], column)?;
                vec![first.first().cloned().unwrap_or(Tree::Raw); blocks.len()]
            }
            Planning::Tried => {
                (0..blocks.len()).map(|index| tried(Part { blocks, index, column })).collect()
            }
            Planning::Always(tree) => vec![tree.clone(); blocks.len()],
        };
        self.trees.resize(self.trees.len().max(column + 1), Vec::new());
        self.trees[column] = trees;
        Ok(())
    }

    fn encode(&mut self, part: Part<'_>, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError> {
        let tree = &self.trees[part.column][part.index];
        let (encoded, took) = Self::encode_with(part, tree)?;
        copy_chunk(&encoded, out);
        self.encoded[part.index] = Some(encoded);
        Ok(took)
    }

    fn decode(
        &mut self,
        part: Part<'_>,
        _encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Duration, BenchmarkError> {
        let encoded = self.encoded[part.index].as_ref();
        let encoded = encoded.ok_or_else(|| BenchmarkError::Codec("nothing is encoded".into()))?;
        let begin = Instant::now();
        let is_keyed = encoded.plan.key_column().is_some();
        let grouping = is_keyed.then(|| grouping(part)).flatten();
        let values: Values = decode_column(encoded, grouping.as_ref(), &Budget::default())?;
        let took = begin.elapsed();
        *out = bytes(&values);
        Ok(took)
    }

    fn choice(&self) -> String {
        let Some(trees) = self.trees.get(self.column) else {
            return String::new();
        };
        let mut different: Vec<String> = Vec::new();
        for tree in trees {
            let text = tree.to_string();
            if !different.contains(&text) {
                different.push(text);
            }
        }
        different.join(" | ")
    }

    fn whole(&mut self, blocks: &[Block]) -> Option<&mut dyn WholeBlocks> {
        blocks.iter().all(|block| block.fixes.is_some()).then_some(self as &mut dyn WholeBlocks)
    }
}

impl ShoalContender {
    /// The planner's trees for a column, block after block.
    fn planned(&self, blocks: &[Block], column: usize) -> Result<Vec<Tree>, BenchmarkError> {
        let aim = if let Planning::Stream(aim) = self.planning { aim } else { Aim::Fast };
        let mut planner = ColumnPlanner::new(self.seed, aim);
        let has_keys = column > 0 && self.planning != Planning::Unkeyed;
        let mut trees = Vec::with_capacity(blocks.len());
        for index in 0..blocks.len() {
            let part = Part { blocks, index, column };
            let fixes = part.block().fixes.as_ref().filter(|_| has_keys);
            let keys = fixes.map(|(fixes, _)| fixes.object.as_slice());
            let tree = planner.plan(part.values(), keys);
            let (encoded, _) = Self::encode_with(part, &tree)?;
            planner.observe(part.bytes().len(), chunk_bytes(&encoded));
            trees.push(tree);
        }
        Ok(trees)
    }

    /// The plan of a block from the trees of its columns.
    fn plan(&self, block: &Block, index: usize) -> BlockPlan {
        let mut plan = BlockPlan::raw();
        for (column, trees) in block.columns.iter().zip(&self.trees) {
            if let Some(known) = Column::ALL.iter().find(|known| known.name() == column.name) {
                plan = plan.with(*known, trees[index].clone());
            }
        }
        plan
    }
}

impl WholeBlocks for ShoalContender {
    fn encode(
        &mut self,
        blocks: &[Block],
        index: usize,
        out: &mut Vec<u8>,
    ) -> Result<Duration, BenchmarkError> {
        let plan = self.plan(&blocks[index], index);
        let Some((fixes, space)) = &blocks[index].fixes else {
            return Err(BenchmarkError::Codec("only fixes make whole blocks".into()));
        };
        let begin = Instant::now();
        CpuCodec.encode_planned(fixes, &plan, space, index as u64, out)?;
        if matches!(self.planning, Planning::Stream(aim) if aim.is_compact()) {
            compact(out)?;
        }
        Ok(begin.elapsed())
    }

    fn decode(
        &mut self,
        blocks: &[Block],
        index: usize,
        encoded: &[u8],
    ) -> Result<(Duration, bool), BenchmarkError> {
        let bytes = bytes::Bytes::copy_from_slice(encoded);
        let begin = Instant::now();
        let block = CodecBlock::parse(bytes, &Budget::default())?;
        block.decode_rows(0..block.rows(), &mut self.decoded)?;
        let took = begin.elapsed();
        let fixes = blocks[index].fixes.as_ref().map(|(fixes, _)| fixes);
        Ok((took, fixes == Some(&self.decoded)))
    }
}
