//! Measures one contender on one column of a data set, or on its whole blocks: bytes, and times of
//! several runs.
//!
//! Every run, including the warm-up, is compared with the values, and for deterministic contenders
//! with the bytes of the first run. All blocks are encoded, then all are decoded.

use std::time::{Duration, Instant};

use super::block::Block;
use super::contender::{Contender, Part, WholeBlocks};
use crate::error::BenchmarkError;
use crate::harness::median;

/// The limits of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Maximum number of runs, without the warm-up.
    pub(super) runs: usize,
    /// Time after which no run except the first starts.
    pub(super) time_max: Duration,
    /// Bytes that a device also decodes at once; 0: none.
    pub(super) together_bytes: u64,
}

/// The measured values; times cover all blocks together.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) raw_bytes: u64,
    /// Encoded bytes of each block.
    pub(super) encoded_bytes: Vec<u64>,
    pub(super) encode: Times,
    pub(super) decode: Times,
    pub(super) runs: usize,
    pub(super) choice: String,
    /// Decoded bytes per second for many blocks at once, if supported.
    pub(super) together_bytes_s: Option<f64>,
}

/// Times of repetitions of the same work, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) best_s: f64,
    pub(super) median_s: f64,
}

impl Times {
    /// The best and median of at least one run.
    fn of(seconds: Vec<f64>) -> Self {
        let best_s = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        Self { best_s, median_s: median(seconds) }
    }

    /// The sum, for work that runs in sequence.
    pub(super) fn and(self, other: Self) -> Self {
        Self { best_s: self.best_s + other.best_s, median_s: self.median_s + other.median_s }
    }
}

/// Measures a contender on a column of all blocks.
pub(super) fn measure(
    contender: &mut dyn Contender,
    blocks: &[Block],
    column: usize,
    effort: Effort,
) -> Result<Measured, BenchmarkError> {
    contender.prepare(blocks, column)?;
    let repeats = contender.repeats();
    let mut work = ColumnWork { contender, blocks, column, decoded: Vec::new() };
    let measured = repeated(&mut work, blocks.len(), repeats, effort);
    let (name, choice) = (&blocks[0].columns[column].name, contender.choice());
    let named = |error| BenchmarkError::Codec(format!("column {name}, `{choice}`: {error}"));
    let (encoded_bytes, encode, decode, runs) = measured.map_err(named)?;
    let raw_bytes = blocks.iter().map(|block| block.columns[column].bytes.len() as u64).sum();
    let together_bytes_s =
        together(raw_bytes, effort, |copies| contender.decode_together(blocks, column, copies))?;
    Ok(Measured { raw_bytes, encoded_bytes, encode, decode, runs, choice, together_bytes_s })
}

/// Maximum number of copies that are decoded at once, because each needs a descriptor.
const COPIES_MAX: u64 = 4096;

/// Returns the decoded bytes per second of `decode` on as many copies as make `together_bytes`, at
/// most [`COPIES_MAX`]. `None` if none are requested or the contender cannot.
pub(super) fn together(
    raw_bytes: u64,
    effort: Effort,
    decode: impl FnOnce(usize) -> Result<Option<Duration>, BenchmarkError>,
) -> Result<Option<f64>, BenchmarkError> {
    if effort.together_bytes == 0 || raw_bytes == 0 {
        return Ok(None);
    }
    let copies = effort.together_bytes.div_ceil(raw_bytes).min(COPIES_MAX);
    let took = decode(copies as usize)?;
    Ok(took.map(|took| (copies * raw_bytes) as f64 / took.as_secs_f64()))
}

/// Measures whole blocks after all columns are prepared.
pub(super) fn measure_whole(
    whole: &mut dyn WholeBlocks,
    blocks: &[Block],
    effort: Effort,
) -> Result<Measured, BenchmarkError> {
    let mut work = WholeWork { whole, blocks };
    let (encoded_bytes, encode, decode, runs) = repeated(&mut work, blocks.len(), true, effort)?;
    let columns = blocks.iter().flat_map(|block| &block.columns);
    let raw_bytes = columns.map(|column| column.bytes.len() as u64).sum();
    let choice = String::new();
    Ok(Measured { raw_bytes, encoded_bytes, encode, decode, runs, choice, together_bytes_s: None })
}

/// The operations on each block.
trait Work {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError>;
    /// Returns the time, and whether the values are equal.
    fn decode(&mut self, index: usize, bytes: &[u8]) -> Result<(Duration, bool), BenchmarkError>;
}

struct ColumnWork<'a> {
    contender: &'a mut dyn Contender,
    blocks: &'a [Block],
    column: usize,
    decoded: Vec<u8>,
}

impl ColumnWork<'_> {
    fn part(&self, index: usize) -> Part<'_> {
        Part { blocks: self.blocks, index, column: self.column }
    }
}

impl Work for ColumnWork<'_> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError> {
        let part = Part { blocks: self.blocks, index, column: self.column };
        self.contender.encode(part, out)
    }

    fn decode(&mut self, index: usize, bytes: &[u8]) -> Result<(Duration, bool), BenchmarkError> {
        let part = Part { blocks: self.blocks, index, column: self.column };
        let took = self.contender.decode(part, bytes, &mut self.decoded)?;
        Ok((took, self.decoded == self.part(index).bytes()))
    }
}

struct WholeWork<'a> {
    whole: &'a mut dyn WholeBlocks,
    blocks: &'a [Block],
}

impl Work for WholeWork<'_> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError> {
        self.whole.encode(self.blocks, index, out)
    }

    fn decode(&mut self, index: usize, bytes: &[u8]) -> Result<(Duration, bool), BenchmarkError> {
        self.whole.decode(self.blocks, index, bytes)
    }
}

/// Bytes of each block, times of both directions, and number of runs.
type Repeated = (Vec<u64>, Times, Times, usize);

fn repeated(
    work: &mut dyn Work,
    blocks: usize,
    repeats: bool,
    effort: Effort,
) -> Result<Repeated, BenchmarkError> {
    let mut encoded = vec![Vec::new(); blocks];
    run_once(work, &mut encoded)?;
    let first = encoded.clone();
    let (mut encode, mut decode) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    while encode.len() < effort.runs && (encode.is_empty() || begin.elapsed() < effort.time_max) {
        let (encode_s, decode_s) = run_once(work, &mut encoded)?;
        let differs = first.iter().zip(&encoded).position(|(first, now)| first != now);
        if let (true, Some(index)) = (repeats, differs) {
            let text = format!("block {index} has different bytes in two runs");
            return Err(BenchmarkError::Codec(text));
        }
        encode.push(encode_s);
        decode.push(decode_s);
    }
    let sizes = encoded.iter().map(|bytes| bytes.len() as u64).collect();
    let runs = encode.len();
    Ok((sizes, Times::of(encode), Times::of(decode), runs))
}

/// Encodes all blocks, decodes and compares all; returns both times in seconds.
fn run_once(work: &mut dyn Work, encoded: &mut [Vec<u8>]) -> Result<(f64, f64), BenchmarkError> {
    let mut encode = Duration::ZERO;
    for (index, out) in encoded.iter_mut().enumerate() {
        encode += work.encode(index, out)?;
    }
    let mut decode = Duration::ZERO;
    for (index, bytes) in encoded.iter().enumerate() {
        let (took, came_back) = work.decode(index, bytes)?;
        decode += took;
        if !came_back {
            let text = format!("block {index} decodes to different values");
            return Err(BenchmarkError::Codec(text));
        }
    }
    Ok((encode.as_secs_f64(), decode.as_secs_f64()))
}
