//! Huffman codes on the device (FORMAT.md, section 6.17): the device counts, the host chooses.

use shoal_codec::encoding::huffman::{HuffmanCode, SYMBOLS_MAX};
use shoal_codec::{Encoding, PlanNode};
use shoal_engine::EngineError;

use super::program::node;
use super::source::{Source, width_bits};
use super::worker::Worker;
use crate::launch::DeviceSlice;

/// A code on the device.
#[derive(Debug)]
pub(super) struct Coded {
    /// The node with its parameters.
    pub(super) node: PlanNode,
    pub(super) split: u32,
    pub(super) symbols: u32,
    /// Packed lengths.
    pub(super) lengths: DeviceSlice<u8>,
    /// By symbol: the code, and its length from bit 16 on.
    pub(super) codes: DeviceSlice<u32>,
}

impl Worker {
    /// The code of the values of a source, for a leaf with this encoding.
    pub(super) fn code(
        &mut self,
        source: &Source,
        encoding: Encoding,
    ) -> Result<Coded, EngineError> {
        let bits = width_bits(source.value_type);
        let found = self.upload(&[0_u32; SYMBOLS_MAX])?;
        let split = HuffmanCode::finest_split(bits);
        self.kernels.statistics_buckets(&self.stream, &source.task(), split, found)?;
        let mut frequencies = [0; SYMBOLS_MAX];
        found.download(&self.stream, &mut frequencies)?;
        self.wait()?;
        let code = HuffmanCode::of(&frequencies, bits);
        let node = node(encoding, source.value_type, code.parameter(), 0);
        let (lengths, codes) = (code.packed_lengths(), code.packed_codes());
        let (split, symbols) = (code.split(), codes.len() as u32);
        // Nothing reads the codes of a source without values.
        let codes = if codes.is_empty() { DeviceSlice::none() } else { self.upload(&codes)? };
        let lengths = if lengths.is_empty() { DeviceSlice::none() } else { self.upload(&lengths)? };
        Ok(Coded { node, split, symbols, lengths, codes })
    }
}
