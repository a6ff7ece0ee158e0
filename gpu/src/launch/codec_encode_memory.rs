//! Memory of one encoding at a time: pieces of large allocations, handed out one after another and
//! taken back all at once.
//!
//! A room knows its length, so launches can assert it. It is of use until its arena is cleared;
//! the encoder waits for its stream before that.

use std::marker::PhantomData;

use cudarc::driver::{CudaStream, result};
use shoal_engine::EngineError;

use super::memory::{DeviceBuffer, Memory, fault};
use super::plain::{Plain, bytes_of};

/// Every room begins at a multiple of so many bytes: sections of blocks do at 64.
const ALIGN_BYTES: usize = 256;
/// The least that is allocated.
const PIECE_BYTES: usize = 1 << 22;

/// Values on the device, of an arena or a buffer.
#[derive(Debug)]
pub(crate) struct DeviceSlice<T> {
    address: u64,
    length: usize,
    values: PhantomData<T>,
}

impl<T> Clone for DeviceSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<T> {}

impl<T: Plain> DeviceSlice<T> {
    /// All of a buffer.
    pub(crate) fn of(buffer: &DeviceBuffer<T>) -> Self {
        Self { address: buffer.address(), length: buffer.len(), values: PhantomData }
    }

    /// No values, at no address.
    pub(crate) fn none() -> Self {
        Self { address: 0, length: 0, values: PhantomData }
    }

    pub(crate) fn address(self) -> u64 {
        self.address
    }

    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// `length` values from place `at` on.
    pub(crate) fn part(self, at: usize, length: usize) -> Self {
        assert!(at + length <= self.length, "{at} and {length} of {}", self.length);
        Self { address: self.address + (at * size_of::<T>()) as u64, length, values: PhantomData }
    }

    /// The same memory as bytes.
    pub(crate) fn bytes(self) -> DeviceSlice<u8> {
        DeviceSlice {
            address: self.address,
            length: self.length * size_of::<T>(),
            values: PhantomData,
        }
    }

    /// Sets every byte.
    pub(crate) fn fill(self, stream: &CudaStream, byte: u8) -> Result<(), EngineError> {
        if self.length == 0 {
            return Ok(());
        }
        let bytes = self.length * size_of::<T>();
        // SAFETY: within the allocation that the room is a piece of; ordered by the stream.
        unsafe { result::memset_d8_async(self.address, byte, bytes, stream.cu_stream()) }
            .map_err(fault)
    }

    /// Copies values to its start; those that are not pinned are taken before it returns.
    pub(crate) fn upload(self, stream: &CudaStream, values: &[T]) -> Result<(), EngineError> {
        assert!(values.len() <= self.length, "{} values to {}", values.len(), self.length);
        if values.is_empty() {
            return Ok(());
        }
        let bytes = bytes_of(values);
        // SAFETY: within the allocation; the caller waits for the stream before `values` go.
        unsafe { result::memcpy_htod_async(self.address, bytes, stream.cu_stream()) }.map_err(fault)
    }

    /// Copies its first values; they are there when the stream has come so far.
    pub(crate) fn download(self, stream: &CudaStream, values: &mut [T]) -> Result<(), EngineError> {
        assert!(values.len() <= self.length, "{} values of {}", values.len(), self.length);
        if values.is_empty() {
            return Ok(());
        }
        // SAFETY: within the allocation; the caller waits for the stream before it reads `values`.
        unsafe { result::memcpy_dtoh_async(values, self.address, stream.cu_stream()) }
            .map_err(fault)
    }
}

/// A state of an arena to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pieces: usize,
    used_bytes: usize,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Memory,
    pieces: Vec<DeviceBuffer<u8>>,
    /// Bytes of the last piece that are handed out.
    used_bytes: usize,
    /// Bytes of the pieces before it.
    before_bytes: usize,
}

impl Arena {
    pub(crate) fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone(), pieces: Vec::new(), used_bytes: 0, before_bytes: 0 }
    }

    /// DeviceSlice for `length` values of any content; at least one, so that it has an address.
    pub(crate) fn room<T: Plain>(&mut self, length: usize) -> Result<DeviceSlice<T>, EngineError> {
        let bytes = length.max(1) * size_of::<T>();
        let bytes = self.memory.roomy(bytes, bytes.next_multiple_of(ALIGN_BYTES));
        let left = self.pieces.last().map_or(0, |piece| piece.len() - self.used_bytes);
        if left < bytes || self.memory.is_exact {
            let piece = DeviceBuffer::new(&self.memory, self.memory.roomy(bytes, PIECE_BYTES))?;
            self.before_bytes += self.pieces.last().map_or(0, DeviceBuffer::len);
            self.pieces.push(piece);
            self.used_bytes = 0;
        }
        let piece = self.pieces.last().expect("there is one now");
        let address = piece.address() + self.used_bytes as u64;
        self.used_bytes += bytes;
        Ok(DeviceSlice { address, length, values: PhantomData })
    }

    /// How much is handed out.
    pub(crate) fn mark(&self) -> Mark {
        Mark { pieces: self.pieces.len(), used_bytes: self.used_bytes }
    }

    /// Takes back what was handed out since; nothing that runs uses it any more.
    pub(crate) fn release(&mut self, mark: Mark) {
        while self.pieces.len() > mark.pieces.max(1) {
            self.pieces.pop();
            self.before_bytes -= self.pieces.last().map_or(0, DeviceBuffer::len);
        }
        self.used_bytes = if mark.pieces == 0 { 0 } else { mark.used_bytes };
    }

    /// Takes everything back. What was in several pieces will be in one.
    pub(crate) fn clear(&mut self) -> Result<(), EngineError> {
        if self.pieces.len() > 1 {
            let bytes = self.before_bytes + self.pieces.last().map_or(0, DeviceBuffer::len);
            self.pieces.clear();
            self.pieces.push(DeviceBuffer::new(&self.memory, bytes)?);
        }
        (self.used_bytes, self.before_bytes) = (0, 0);
        Ok(())
    }
}
