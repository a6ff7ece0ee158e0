//! Device state for one column at a time: a stream, memory, and scratch of sorts.
//!
//! Implements operations on whole columns: bounds, keys, distinct values. Slices are valid until
//! the arena is cleared. This file does not depend on trees.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_codec::ValueType;
use shoal_engine::EngineError;

use super::source::{Source, width_bits};
use crate::device::Gpu;
use crate::launch::{
    Arena, DeviceSlice, EncodeKernels, Memory, PinnedBuffer, Plain, Runs, Scratch, fault,
};

/// Encodes one column at a time.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) memory: Memory,
    pub(crate) kernels: Arc<EncodeKernels>,
    pub(crate) stream: Arc<CudaStream>,
    /// Copies small data in both directions, concurrently with the work of `stream`.
    copies: Arc<CudaStream>,
    /// Makes one of the two streams wait for the other.
    reached: CudaEvent,
    pub(crate) arena: Arena,
    pub(crate) scratch: Scratch,
    /// The read in progress: its target, its length, and the event at its end.
    pinned: PinnedBuffer<u64>,
    read_length: usize,
    read_done: CudaEvent,
}

impl Worker {
    pub(crate) fn new(
        gpu: &Gpu,
        memory: &Memory,
        kernels: &Arc<EncodeKernels>,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            memory: memory.clone(),
            kernels: kernels.clone(),
            stream: gpu.context.new_stream().map_err(fault)?,
            copies: gpu.context.new_stream().map_err(fault)?,
            reached: gpu.context.new_event(None).map_err(fault)?,
            arena: Arena::new(memory),
            scratch: Scratch::new(memory)?,
            pinned: PinnedBuffer::new(memory, 64)?,
            read_length: 0,
            read_done: gpu.context.new_event(None).map_err(fault)?,
        })
    }

    /// Waits for all queued work.
    pub(crate) fn wait(&self) -> Result<(), EngineError> {
        self.stream.synchronize().map_err(fault)
    }

    /// Reads numbers from the device after all work queued so far.
    pub(crate) fn read(&mut self, from: DeviceSlice<u64>) -> Result<Vec<u64>, EngineError> {
        self.begin_read(from)?;
        self.finish_read()
    }

    /// Queues a read of numbers. Work queued later neither delays [`Worker::finish_read`] nor
    /// waits for the read. One read at a time is in progress.
    pub(crate) fn begin_read(&mut self, from: DeviceSlice<u64>) -> Result<(), EngineError> {
        self.read_length = from.len();
        self.pinned.fit(&self.memory, self.read_length)?;
        self.reached.record(&self.stream).map_err(fault)?;
        self.copies.wait(&self.reached).map_err(fault)?;
        from.download(&self.copies, self.pinned.first(self.read_length))?;
        self.read_done.record(&self.copies).map_err(fault)
    }

    /// Waits for the read in progress and returns its numbers.
    pub(crate) fn finish_read(&self) -> Result<Vec<u64>, EngineError> {
        self.read_done.synchronize().map_err(fault)?;
        Ok(self.pinned.as_slice()[..self.read_length].to_vec())
    }

    /// Uploads values for work that is queued from now on; the copy overlaps earlier work.
    pub(crate) fn upload<T: Plain>(&mut self, values: &[T]) -> Result<DeviceSlice<T>, EngineError> {
        let slice = self.arena.allocate(values.len())?;
        slice.upload(&self.copies, values)?;
        self.reached.record(&self.copies).map_err(fault)?;
        self.stream.wait(&self.reached).map_err(fault)?;
        Ok(slice)
    }

    /// Returns the bit patterns of the least and the greatest value, then the number of values
    /// equal to their predecessor and the number of values less than it. The source is not empty.
    pub(crate) fn bounds(&mut self, source: &Source) -> Result<[u64; 4], EngineError> {
        let sign = sign_of(source.value_type);
        let found = self.upload(&[u64::MAX, 0, 0, 0])?;
        self.kernels.statistics_bounds(&self.stream, &source.task(), sign, found)?;
        let numbers = self.read(found)?;
        Ok([numbers[0] ^ sign, numbers[1] ^ sign, numbers[2], numbers[3]])
    }

    /// The values of a source as a dense list of 64-bit keys with their rows.
    pub(crate) fn keys(
        &mut self,
        source: &Source,
    ) -> Result<(DeviceSlice<u64>, DeviceSlice<u32>), EngineError> {
        let length = source.length() as usize;
        let (keys, rows) = (self.arena.allocate(length)?, self.arena.allocate(length)?);
        let mut before = DeviceSlice::none();
        if let Some((counts, _)) = source.counts {
            let wide = self.arena.allocate(counts.len())?;
            before = self.arena.allocate(counts.len())?;
            self.kernels.encode_widen(&self.stream, counts, wide)?;
            self.scratch.sum_before(&self.stream, wide, before, counts.len() as u32)?;
        }
        self.kernels.encode_keys(&self.stream, &source.task(), before, keys, rows)?;
        Ok((keys, rows))
    }

    /// The values of a source as a dense column.
    pub(crate) fn dense(&mut self, source: &Source) -> Result<Source, EngineError> {
        if source.counts.is_none() {
            return Ok(*source);
        }
        let (keys, _) = self.keys(source)?;
        Ok(Source {
            values: keys.bytes(),
            bits: 64,
            rows: source.length(),
            counts: None,
            heads: DeviceSlice::none(),
            ..*source
        })
    }

    /// Values and rows of a source, which is not empty, sorted by value, then row.
    pub(crate) fn sorted(
        &mut self,
        source: &Source,
    ) -> Result<(DeviceSlice<u64>, DeviceSlice<u32>), EngineError> {
        let unsigned = Source { value_type: source.value_type.unsigned(), ..*source };
        let dense = self.dense(&unsigned)?;
        let [min, max, ..] = self.bounds(&dense)?;
        let bits = u64::BITS - (min ^ max).leading_zeros();
        let (keys, rows) = self.keys(source)?;
        if bits == 0 {
            return Ok((keys, rows));
        }
        let length = keys.len();
        let sorted = (self.arena.allocate(length)?, self.arena.allocate(length)?);
        self.scratch.sort_pairs(&self.stream, (keys, rows), sorted, length as u32, bits)?;
        Ok(sorted)
    }

    /// The distinct values of a source, which is not empty, and their number.
    pub(crate) fn distinct(&mut self, source: &Source) -> Result<(Runs, u32), EngineError> {
        let (keys, rows) = self.sorted(source)?;
        let length = keys.len();
        let runs = Runs {
            keys,
            rows,
            begins: self.arena.allocate(length)?,
            before: self.arena.allocate(length)?,
            distinct: self.arena.allocate(length)?,
            starts: self.arena.allocate(length + 1)?,
            length: length as u32,
        };
        let numbers = self.arena.allocate(1)?;
        self.kernels.encode_begins(&self.stream, &runs)?;
        self.scratch.sum_before(&self.stream, runs.begins, runs.before, runs.length)?;
        self.kernels.encode_distinct(&self.stream, &runs, numbers)?;
        Ok((runs, self.read(numbers)?[0] as u32))
    }
}

/// The sign bit of a type's patterns, 0 for unsigned types.
pub(crate) fn sign_of(value_type: ValueType) -> u64 {
    if value_type.is_signed() { 1 << (width_bits(value_type) - 1) } else { 0 }
}
