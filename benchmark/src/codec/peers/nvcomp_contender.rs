//! NVIDIA's nvCOMP as a contender, loaded from the user's installation.
//!
//! For each column, the codec mode and chunk size with the fewest bytes over all blocks are
//! selected. Columns are in device memory before and after; device events measure the time.

use std::time::Duration;

use shoal_codec::Values;

use super::nvcomp::{NvComp, NvCompChoice, NvCompColumn};
use crate::codec::block::Block;
use crate::codec::contender::{Contender, Part, TOGETHER_RUNS};
use crate::error::BenchmarkError;
use crate::harness::median;

/// One of its codecs.
pub(super) struct NvCompContender {
    library: NvComp,
    /// The name within function names.
    codec: &'static str,
    choice: Option<NvCompChoice>,
    encoded: Vec<Option<NvCompColumn>>,
}

impl NvCompContender {
    /// The reason for its absence.
    pub(super) fn new(codec: &'static str) -> Result<Self, String> {
        Ok(Self { library: NvComp::open()?, codec, choice: None, encoded: Vec::new() })
    }

    fn chosen(&self) -> Result<NvCompChoice, BenchmarkError> {
        self.choice.ok_or_else(|| BenchmarkError::Codec("no options were chosen".into()))
    }
}

fn milliseconds(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1e3)
}

impl Contender for NvCompContender {
    fn device(&self) -> &'static str {
        "cuda"
    }

    fn repeats(&self) -> bool {
        // Unused bytes may differ.
        false
    }

    fn takes(&self, values: &Values) -> bool {
        !values.is_empty()
    }

    fn prepare(&mut self, blocks: &[Block], column: usize) -> Result<(), BenchmarkError> {
        self.encoded = vec![None; blocks.len()];
        let width = blocks[0].columns[column].values.value_type().width_bytes();
        let mut best: Option<(usize, NvCompChoice)> = None;
        for choice in NvCompChoice::all(self.codec, width) {
            let mut bytes = 0;
            for block in blocks {
                let (encoded, _) = self.library.encode(&choice, &block.columns[column].bytes)?;
                bytes += encoded.encoded_bytes();
            }
            if best.is_none_or(|(least, _)| bytes < least) {
                best = Some((bytes, choice));
            }
        }
        self.choice = best.map(|(_, choice)| choice);
        Ok(())
    }

    fn encode(&mut self, part: Part<'_>, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError> {
        let choice = self.chosen()?;
        let (encoded, took_ms) = self.library.encode(&choice, part.bytes())?;
        // The bytes are only counted; decoding uses the chunks.
        out.clear();
        out.resize(encoded.encoded_bytes(), 0);
        self.encoded[part.index] = Some(encoded);
        Ok(milliseconds(took_ms))
    }

    fn decode(
        &mut self,
        part: Part<'_>,
        _encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Duration, BenchmarkError> {
        let choice = self.chosen()?;
        let encoded = self.encoded[part.index].as_ref();
        let encoded = encoded.ok_or_else(|| BenchmarkError::Codec("nothing is encoded".into()))?;
        let (bytes, took_ms) = self.library.decode(&choice, encoded)?;
        *out = bytes;
        Ok(milliseconds(took_ms))
    }

    fn decode_together(
        &mut self,
        blocks: &[Block],
        column: usize,
        copies: usize,
    ) -> Result<Option<Duration>, BenchmarkError> {
        let choice = self.chosen()?;
        let once: Vec<u8> =
            blocks.iter().flat_map(|block| &block.columns[column].bytes).copied().collect();
        let bytes = once.repeat(copies);
        let (encoded, _) = self.library.encode(&choice, &bytes)?;
        let mut times_ms = Vec::with_capacity(TOGETHER_RUNS);
        for _ in 0..TOGETHER_RUNS {
            let (back, took_ms) = self.library.decode(&choice, &encoded)?;
            if back != bytes {
                return Err(BenchmarkError::Codec("decoded together, bytes differ".into()));
            }
            times_ms.push(took_ms);
        }
        Ok(Some(milliseconds(median(times_ms))))
    }

    fn choice(&self) -> String {
        let text = |choice: NvCompChoice| {
            format!("{}, chunks of {} KiB", choice.text, choice.chunk_bytes() / 1024)
        };
        self.choice.map_or_else(String::new, text)
    }
}
