//! Pcodec as a contender: level 8 with default options, and level 12 with its best options.
//!
//! Its automatic choice excludes slow options; `tuned` tries two of them on the first block and
//! uses the smallest for all. The third, convolution, panics on short columns (1.1.0).

use std::time::{Duration, Instant};

use pco::standalone::{simple_compress_into, simple_decompress_into};
use pco::{ChunkConfig, DeltaSpec, ModeSpec};
use shoal_codec::Values;

use crate::codec::block::Block;
use crate::codec::contender::{Contender, Part};
use crate::codec::values::{bytes, width, with_values};
use crate::error::BenchmarkError;

/// Options beyond the automatic ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tuning {
    Automatic,
    Dictionary,
    Lookback,
}

impl Tuning {
    const ALL: [Self; 3] = [Self::Automatic, Self::Dictionary, Self::Lookback];
}

/// Pcodec at one level.
pub(super) struct PcoContender {
    level: usize,
    tuned: bool,
    tuning: Tuning,
}

impl PcoContender {
    pub(super) fn new(level: usize, tuned: bool) -> Self {
        Self { level, tuned, tuning: Tuning::Automatic }
    }

    fn config(&self) -> ChunkConfig {
        let config =
            ChunkConfig::default().with_compression_level(self.level).with_enable_8_bit(true);
        match self.tuning {
            Tuning::Automatic => config,
            Tuning::Dictionary => config.with_mode_spec(ModeSpec::TryDict),
            Tuning::Lookback => config.with_delta_spec(DeltaSpec::TryLookback),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> BenchmarkError {
    BenchmarkError::Codec(error.to_string())
}

impl Contender for PcoContender {
    fn repeats(&self) -> bool {
        // Its dictionaries are numbered in the order of a hash map.
        self.tuning != Tuning::Dictionary
    }

    fn prepare(&mut self, blocks: &[Block], column: usize) -> Result<(), BenchmarkError> {
        self.tuning = Tuning::Automatic;
        if !self.tuned || blocks.is_empty() {
            return Ok(());
        }
        let (mut least, mut best) = (usize::MAX, Tuning::Automatic);
        let mut out = Vec::new();
        for tuning in Tuning::ALL {
            self.tuning = tuning;
            // An option that does not apply to a type is refused and cannot be the best.
            let part = Part { blocks, index: 0, column };
            if self.encode(part, &mut out).is_ok() && out.len() < least {
                (least, best) = (out.len(), tuning);
            }
        }
        self.tuning = best;
        Ok(())
    }

    fn encode(&mut self, part: Part<'_>, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError> {
        let config = self.config();
        out.clear();
        let begin = Instant::now();
        with_values!(part.values(), values => {
            simple_compress_into(values.as_slice(), &config, &mut *out).map_err(failed)?;
        });
        Ok(begin.elapsed())
    }

    fn decode(
        &mut self,
        part: Part<'_>,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Duration, BenchmarkError> {
        // The copy provides initialized memory of the right type; decoding overwrites it.
        let mut decoded = part.values().clone();
        with_values!(&mut decoded, values => values.fill(Default::default()));
        let begin = Instant::now();
        let progress = with_values!(&mut decoded, values => {
            simple_decompress_into(encoded, values.as_mut_slice()).map_err(failed)?
        });
        let took = begin.elapsed();
        let decoded = decoded_values(&decoded, progress.n_processed);
        out.clear();
        out.extend_from_slice(&decoded);
        Ok(took)
    }

    fn choice(&self) -> String {
        format!("{:?}", self.tuning).to_lowercase()
    }
}

/// Bytes of the decoded values.
fn decoded_values(values: &Values, count: usize) -> Vec<u8> {
    let mut bytes = bytes(values);
    bytes.truncate(count * width(values));
    bytes
}
