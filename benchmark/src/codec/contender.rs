//! The contenders: codecs that encode a column of a block and decode it.
//!
//! A contender measures its own time, because fair timing differs: a codec on a device is timed by
//! the device, and conversions that only this benchmark needs are excluded. Before any clock
//! starts, it may inspect all blocks of a column once to select its options.

use std::time::Duration;

use shoal_codec::{Aim, Values};

use super::block::Block;
use super::options::CodecName;
use super::shoal_contender::{Planning, ShoalContender};
use crate::error::BenchmarkError;

/// A column of one block, and the block's place in its data set.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) blocks: &'a [Block],
    pub(super) index: usize,
    pub(super) column: usize,
}

impl<'a> Part<'a> {
    pub(super) fn block(&self) -> &'a Block {
        &self.blocks[self.index]
    }

    pub(super) fn values(&self) -> &'a Values {
        &self.block().columns[self.column].values
    }

    /// The values, little-endian.
    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.block().columns[self.column].bytes
    }
}

/// Number of runs that decode all blocks in one call on a device; their median is reported.
#[cfg(feature = "cuda")]
pub(super) const TOGETHER_RUNS: usize = 9;

/// A codec with its options.
pub(super) trait Contender {
    /// Where it runs.
    fn device(&self) -> &'static str {
        "cpu"
    }

    /// Whether its output is deterministic.
    fn repeats(&self) -> bool {
        true
    }

    /// Whether it supports these values.
    fn takes(&self, _values: &Values) -> bool {
        true
    }

    /// Selects options for a column from all its blocks. Not timed.
    fn prepare(&mut self, blocks: &[Block], column: usize) -> Result<(), BenchmarkError>;

    /// Replaces `out` with the encoded column, decodable with its block alone; returns the time.
    fn encode(&mut self, part: Part<'_>, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError>;

    /// Decodes the output of [`Contender::encode`] for the same part, as bytes in row order,
    /// little-endian; returns the time. A contender may read only the number of rows and the
    /// earlier columns from `part`.
    fn decode(
        &mut self,
        part: Part<'_>,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Duration, BenchmarkError>;

    /// The options of the last prepared column.
    fn choice(&self) -> String;

    /// Decodes the last encoded column of all blocks `copies` times in one call; returns the time.
    /// `None` if blocks are decoded one by one.
    fn decode_together(
        &mut self,
        _blocks: &[Block],
        _column: usize,
        _copies: usize,
    ) -> Result<Option<Duration>, BenchmarkError> {
        Ok(None)
    }

    /// [`Contender::decode_together`] for whole blocks, after every column is encoded. `None` if
    /// the time of a block is the sum of the times of its columns.
    fn decode_whole_together(
        &mut self,
        _blocks: &[Block],
        _copies: usize,
    ) -> Result<Option<Duration>, BenchmarkError> {
        Ok(None)
    }

    /// Returns the codec of whole blocks with their container, after every column is prepared.
    /// `None` if the contender has no such codec; the result of a block is then the sum over its
    /// columns.
    fn whole(&mut self, _blocks: &[Block]) -> Option<&mut dyn WholeBlocks> {
        None
    }
}

/// A codec that writes complete, self-contained blocks.
pub(super) trait WholeBlocks {
    /// Replaces `out` with the block; returns the time.
    fn encode(
        &mut self,
        blocks: &[Block],
        index: usize,
        out: &mut Vec<u8>,
    ) -> Result<Duration, BenchmarkError>;

    /// Decodes all columns of a block; returns the time, and whether they equal those of the block.
    fn decode(
        &mut self,
        blocks: &[Block],
        index: usize,
        encoded: &[u8],
    ) -> Result<(Duration, bool), BenchmarkError>;
}

/// The contender of a name, or the reason for its absence.
pub(super) fn contender(name: CodecName, seed: u64) -> Result<Box<dyn Contender>, String> {
    match name {
        CodecName::Shoal => Ok(Box::new(ShoalContender::new(Planning::Stream(Aim::Fast), seed))),
        CodecName::ShoalBalanced => {
            Ok(Box::new(ShoalContender::new(Planning::Stream(Aim::Balanced), seed)))
        }
        CodecName::ShoalSmall => {
            Ok(Box::new(ShoalContender::new(Planning::Stream(Aim::Small), seed)))
        }
        CodecName::ShoalFixed => Ok(Box::new(ShoalContender::new(Planning::First, seed))),
        CodecName::ShoalTried => Ok(Box::new(ShoalContender::new(Planning::Tried, seed))),
        CodecName::ShoalUnkeyed => Ok(Box::new(ShoalContender::new(Planning::Unkeyed, seed))),
        CodecName::ShoalHuffman => on_the_cpu("huffman", seed),
        CodecName::ShoalStateless => on_the_cpu("stateless.16.16", seed),
        CodecName::ShoalLzw => on_the_cpu("lzw.64(afl)", seed),
        CodecName::ShoalLzwHuffman => on_the_cpu("lzw.256(huffman)", seed),
        CodecName::ShoalCuda => on_the_device(Planning::Stream(Aim::Fast), seed),
        CodecName::ShoalSmallCuda => on_the_device(Planning::Stream(Aim::Small), seed),
        CodecName::ShoalHuffmanCuda => on_the_device(always("huffman"), seed),
        CodecName::ShoalStatelessCuda => on_the_device(always("stateless.16.16"), seed),
        CodecName::ShoalLzwCuda => on_the_device(always("lzw.64(afl)"), seed),
        CodecName::ShoalLzwHuffmanCuda => on_the_device(always("lzw.256(huffman)"), seed),
        CodecName::ShoalUnkeyedCuda => on_the_device(Planning::Unkeyed, seed),
        other => peer(other),
    }
}

/// Plans `tree` for every column.
fn always(tree: &str) -> Planning {
    Planning::Always(tree.parse().expect("a tree of the format"))
}

fn on_the_cpu(tree: &str, seed: u64) -> Result<Box<dyn Contender>, String> {
    Ok(Box::new(ShoalContender::new(always(tree), seed)))
}

#[cfg(feature = "cuda")]
fn on_the_device(planning: Planning, seed: u64) -> Result<Box<dyn Contender>, String> {
    Ok(Box::new(super::cuda_contender::CudaContender::new(planning, seed)?))
}

#[cfg(not(feature = "cuda"))]
fn on_the_device(_planning: Planning, _seed: u64) -> Result<Box<dyn Contender>, String> {
    Err("this program was built without the feature `cuda`".into())
}

#[cfg(feature = "peers")]
fn peer(name: CodecName) -> Result<Box<dyn Contender>, String> {
    super::peers::contender(name)
}

#[cfg(not(feature = "peers"))]
fn peer(_name: CodecName) -> Result<Box<dyn Contender>, String> {
    Err("this program was built without the feature `peers`".into())
}
