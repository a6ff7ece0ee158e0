//! Shoal's own codec on an NVIDIA GPU as a contender.
//!
//! Trees and bytes equal those of the CPU; only speed differs. Device events measure the time from
//! columns in device memory to columns in device memory. The time of a keyed column includes the
//! grouping of rows and the decoding of their keys.

use std::time::Duration;

use shoal_codec::{Block as CodecBlock, Budget, Column, EncodedTree, Tree, Values};
use shoal_gpu::{Decoder, EncodeError, EncodedColumn, Encoder, Gpu};

use super::block::Block;
use super::contender::{Contender, Part, TOGETHER_RUNS};
use super::shoal_contender::{Planning, ShoalContender, chunk_bytes, copy_chunk};
use super::values::bytes;
use crate::error::BenchmarkError;
use crate::harness::median;

/// Device memory limit of encoding and of decoding.
const MEMORY_BYTES: u64 = 8 << 30;

/// The codec on the first device.
pub(super) struct CudaContender {
    /// Chooses the trees, on the CPU.
    host: ShoalContender,
    encoder: Encoder,
    decoder: Decoder,
    /// The last encoded column, by block.
    encoded: Vec<Option<EncodedTree>>,
}

impl CudaContender {
    /// The reason for its absence.
    pub(super) fn new(planning: Planning, seed: u64) -> Result<Self, String> {
        let gpu = Gpu::open(Gpu::FIRST).map_err(|error| error.to_string())?;
        let failed = |error: shoal_engine::EngineError| error.to_string();
        Ok(Self {
            host: ShoalContender::new(planning, seed),
            encoder: Encoder::new(&gpu, MEMORY_BYTES).map_err(failed)?,
            decoder: Decoder::new(&gpu, MEMORY_BYTES).map_err(failed)?,
            encoded: Vec::new(),
        })
    }

    /// Encodes a column with exactly this tree.
    fn encode_with(
        &mut self,
        part: Part<'_>,
        tree: &Tree,
    ) -> Result<(EncodedTree, Duration), EncodeError> {
        let objects = objects(part).filter(|_| tree.is_keyed());
        let keys = objects.as_ref().map(|objects| (objects, Column::Object.id()));
        let encoded = self.encoder.encode_column(part.values(), tree, keys)?;
        let key = objects.as_ref().map(|keys| self.encoder.upload(keys)).transpose()?;
        let column = self.encoder.upload(part.values())?;
        if column.rows() == 0 {
            return Ok((encoded, Duration::ZERO));
        }
        let timed = self.encoder.encode_resident(&[(&column, tree)], key.as_ref())?;
        Ok((encoded, milliseconds(timed.device_ms)))
    }
}

impl CudaContender {
    /// Decodes the data on the device repeatedly; returns the median time.
    fn decode_again(&mut self) -> Result<Duration, BenchmarkError> {
        let runs = (0..TOGETHER_RUNS).map(|_| self.decoder.decode().map(f64::from));
        Ok(milliseconds(median(runs.collect::<Result<_, _>>()?)))
    }
}

/// The objects of fixes; `None` for other columns.
fn objects(part: Part<'_>) -> Option<Values> {
    let (fixes, _) = part.block().fixes.as_ref()?;
    Some(Values::U64(fixes.object.clone()))
}

fn milliseconds(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1e3)
}

/// Converts a failure to the benchmark's error.
fn failed(error: &EncodeError) -> BenchmarkError {
    BenchmarkError::Codec(error.to_string())
}

impl Contender for CudaContender {
    fn device(&self) -> &'static str {
        "cuda"
    }

    fn prepare(&mut self, blocks: &[Block], column: usize) -> Result<(), BenchmarkError> {
        self.encoded = vec![None; blocks.len()];
        self.host.prepare(blocks, column)
    }

    fn encode(&mut self, part: Part<'_>, out: &mut Vec<u8>) -> Result<Duration, BenchmarkError> {
        let tree = self.host.tree(part).clone();
        let (encoded, took) = match self.encode_with(part, &tree) {
            Ok((encoded, took)) if chunk_bytes(&encoded) < part.bytes().len() => (encoded, took),
            Ok(_) | Err(EncodeError::NotApplicable(_)) => {
                self.encode_with(part, &Tree::Raw).map_err(|error| failed(&error))?
            }
            Err(error) => return Err(failed(&error)),
        };
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
        let is_keyed = encoded.plan.key_column().is_some();
        let objects = objects(part).filter(|_| is_keyed);
        let raw = |keys: Values| self.encoder.encode_column(&keys, &Tree::Raw, None);
        let key = objects.map(raw).transpose().map_err(|error| failed(&error))?;
        let column = EncodedColumn { encoded, key: key.as_ref() };
        let values = self.decoder.columns(&[column])?.remove(0)?;
        *out = bytes(&values);
        // A second decoding, of the data on the device, is timed.
        Ok(milliseconds(self.decoder.decode()?.into()))
    }

    fn choice(&self) -> String {
        self.host.choice()
    }

    fn decode_together(
        &mut self,
        blocks: &[Block],
        column: usize,
        copies: usize,
    ) -> Result<Option<Duration>, BenchmarkError> {
        let mut keys = Vec::with_capacity(blocks.len());
        for (index, encoded) in self.encoded.iter().enumerate() {
            let is_keyed = encoded.as_ref().is_some_and(|it| it.plan.key_column().is_some());
            let objects = objects(Part { blocks, index, column }).filter(|_| is_keyed);
            let raw = |keys: Values| self.encoder.encode_column(&keys, &Tree::Raw, None);
            keys.push(objects.map(raw).transpose().map_err(|error| failed(&error))?);
        }
        let trees = self.encoded.iter().zip(&keys);
        let once = trees.filter_map(|(encoded, key)| {
            encoded.as_ref().map(|encoded| EncodedColumn { encoded, key: key.as_ref() })
        });
        let columns: Vec<_> = once.collect();
        let many = columns.repeat(copies);
        for (index, values) in self.decoder.columns(&many)?.into_iter().enumerate() {
            if values? != blocks[index % blocks.len()].columns[column].values {
                return Err(BenchmarkError::Codec("decoded together, values differ".into()));
            }
        }
        self.decode_again().map(Some)
    }

    fn decode_whole_together(
        &mut self,
        blocks: &[Block],
        copies: usize,
    ) -> Result<Option<Duration>, BenchmarkError> {
        let Some(whole) = self.host.whole(blocks) else {
            return Ok(None);
        };
        let mut encoded = Vec::with_capacity(blocks.len());
        for index in 0..blocks.len() {
            let mut bytes = Vec::new();
            whole.encode(blocks, index, &mut bytes)?;
            encoded.push(CodecBlock::parse(bytes.into(), &Budget::default())?);
        }
        let many = vec![encoded; copies].concat();
        for (index, fixes) in self.decoder.blocks(&many)?.into_iter().enumerate() {
            let expected = blocks[index % blocks.len()].fixes.as_ref().map(|(fixes, _)| fixes);
            if Some(&fixes?) != expected {
                return Err(BenchmarkError::Codec("decoded together, blocks differ".into()));
            }
        }
        self.decode_again().map(Some)
    }
}
