//! What does one column at a time take on the device? A stream, memory, and scratch of sorts.
//!
//! What looks at whole columns is here: bounds, keys, different values. Rooms hold until the arena
//! is cleared; trees are not known here.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_codec::ValueType;
use shoal_engine::EngineError;

use super::source::{Source, width_bits};
use crate::device::Gpu;
use crate::launch::{
    Arena, DeviceSlice, EncodeKernels, Memory, PinnedBuffer, Plain, Runs, Scratch, fault,
};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) memory: Memory,
    pub(crate) kernels: Arc<EncodeKernels>,
    pub(crate) stream: Arc<CudaStream>,
    /// Copies a little to the device and back beside what the stream runs.
    aside: Arc<CudaStream>,
    /// What one of the two waits for, done by the other.
    reached: CudaEvent,
    pub(crate) arena: Arena,
    pub(crate) scratch: Scratch,
    /// For numbers that are asked for, how many, and when they are there.
    pinned: PinnedBuffer<u64>,
    asked: usize,
    answered: CudaEvent,
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
            aside: gpu.context.new_stream().map_err(fault)?,
            reached: gpu.context.new_event(None).map_err(fault)?,
            arena: Arena::new(memory),
            scratch: Scratch::new(memory)?,
            pinned: PinnedBuffer::new(memory, 64)?,
            asked: 0,
            answered: gpu.context.new_event(None).map_err(fault)?,
        })
    }

    /// Waits for what was queued.
    pub(crate) fn wait(&self) -> Result<(), EngineError> {
        self.stream.synchronize().map_err(fault)
    }

    /// A few numbers from the device, once the stream has come so far.
    pub(crate) fn numbers(&mut self, from: DeviceSlice<u64>) -> Result<Vec<u64>, EngineError> {
        self.ask(from)?;
        self.answers()
    }

    /// Asks for numbers, for which [`Worker::answers`] waits but for nothing that is queued behind
    /// them, nor does that wait. Nothing else may be asked for until then.
    pub(crate) fn ask(&mut self, from: DeviceSlice<u64>) -> Result<(), EngineError> {
        self.asked = from.len();
        self.pinned.fit(&self.memory, self.asked)?;
        self.reached.record(&self.stream).map_err(fault)?;
        self.aside.wait(&self.reached).map_err(fault)?;
        from.download(&self.aside, self.pinned.first(self.asked))?;
        self.answered.record(&self.aside).map_err(fault)
    }

    /// The numbers that were asked for.
    pub(crate) fn answers(&self) -> Result<Vec<u64>, EngineError> {
        self.answered.synchronize().map_err(fault)?;
        Ok(self.pinned.as_slice()[..self.asked].to_vec())
    }

    /// A room with these values, for what is queued from now on; they come while the stream runs.
    pub(crate) fn there<T: Plain>(&mut self, values: &[T]) -> Result<DeviceSlice<T>, EngineError> {
        let room = self.arena.room(values.len())?;
        room.upload(&self.aside, values)?;
        self.reached.record(&self.aside).map_err(fault)?;
        self.stream.wait(&self.reached).map_err(fault)?;
        Ok(room)
    }

    /// Least and greatest value as patterns in the order of the type, then how many equal the one
    /// before and how many are less. There are values.
    pub(crate) fn bounds(&mut self, source: &Source) -> Result<[u64; 4], EngineError> {
        let sign = sign_of(source.value_type);
        let found = self.there(&[u64::MAX, 0, 0, 0])?;
        self.kernels.statistics_bounds(&self.stream, &source.task(), sign, found)?;
        let numbers = self.numbers(found)?;
        Ok([numbers[0] ^ sign, numbers[1] ^ sign, numbers[2], numbers[3]])
    }

    /// The values of a source one after another, as keys of 64 bits with their rows.
    pub(crate) fn keys(
        &mut self,
        source: &Source,
    ) -> Result<(DeviceSlice<u64>, DeviceSlice<u32>), EngineError> {
        let length = source.length() as usize;
        let (keys, rows) = (self.arena.room(length)?, self.arena.room(length)?);
        let mut before = DeviceSlice::none();
        if let Some((counts, _)) = source.counts {
            let wide = self.arena.room(counts.len())?;
            before = self.arena.room(counts.len())?;
            self.kernels.encode_widen(&self.stream, counts, wide)?;
            self.scratch.sum_before(&self.stream, wide, before, counts.len() as u32)?;
        }
        self.kernels.encode_keys(&self.stream, &source.task(), before, (keys, rows))?;
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
        let sorted = (self.arena.room(length)?, self.arena.room(length)?);
        self.scratch.sort_pairs(&self.stream, (keys, rows), sorted, length as u32, bits)?;
        Ok(sorted)
    }

    /// The different values of a source, which is not empty, and how many there are.
    pub(crate) fn distinct(&mut self, source: &Source) -> Result<(Runs, u32), EngineError> {
        let (keys, rows) = self.sorted(source)?;
        let length = keys.len();
        let runs = Runs {
            keys,
            rows,
            begins: self.arena.room(length)?,
            before: self.arena.room(length)?,
            distinct: self.arena.room(length)?,
            starts: self.arena.room(length + 1)?,
            length: length as u32,
        };
        let numbers = self.arena.room(1)?;
        self.kernels.encode_begins(&self.stream, &runs)?;
        self.scratch.sum_before(&self.stream, runs.begins, runs.before, runs.length)?;
        self.kernels.encode_distinct(&self.stream, &runs, numbers)?;
        Ok((runs, self.numbers(numbers)?[0] as u32))
    }
}

/// The sign bit of a type's patterns, 0 where there is none.
pub(crate) fn sign_of(value_type: ValueType) -> u64 {
    if value_type.is_signed() { 1 << (width_bits(value_type) - 1) } else { 0 }
}
