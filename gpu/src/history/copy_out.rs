//! Copies of long lists to ordinary memory: the device fills one page-locked buffer while the cores
//! empty the other.

use cudarc::driver::CudaStream;
use rayon::prelude::*;
use shoal_engine::EngineError;

use crate::launch::{DeviceBuffer, Memory, PinnedBuffer, Plain};

/// Most values of a buffer.
const CHUNK: usize = 1 << 21;
/// Values that a core copies at a time.
const PIECE: usize = 1 << 15;

/// Buffers that grow to at most [`CHUNK`] values.
#[derive(Debug)]
pub(super) struct CopyOut<T> {
    memory: Memory,
    buffers: [PinnedBuffer<T>; 2],
}

impl<T: Plain + Default + Send + Sync> CopyOut<T> {
    pub(super) fn new(memory: &Memory) -> Result<Self, EngineError> {
        let buffers = [PinnedBuffer::new(memory, 0)?, PinnedBuffer::new(memory, 0)?];
        Ok(Self { memory: memory.clone(), buffers })
    }

    /// Copies `length` values from place `from` on, after the work that is queued on `stream`.
    pub(super) fn read(
        &mut self,
        stream: &CudaStream,
        list: &DeviceBuffer<T>,
        from: usize,
        length: usize,
    ) -> Result<Vec<T>, EngineError> {
        let mut values = vec![T::default(); length];
        for buffer in &mut self.buffers {
            buffer.fit(&self.memory, length.min(CHUNK))?;
        }
        let [mut filled, mut emptied] = self.buffers.each_mut();
        let mut chunks = values.chunks_mut(CHUNK).enumerate().peekable();
        if let Some((_, chunk)) = chunks.peek() {
            list.download(stream, from, filled.first(chunk.len()))?;
        }
        while let Some((_, chunk)) = chunks.next() {
            if let Some((next, chunk)) = chunks.peek() {
                list.download(stream, from + next * CHUNK, emptied.first(chunk.len()))?;
            }
            let source = &filled.as_slice()[..chunk.len()];
            let pieces = chunk.par_chunks_mut(PIECE).zip(source.par_chunks(PIECE));
            pieces.for_each(|(target, source)| target.copy_from_slice(source));
            std::mem::swap(&mut filled, &mut emptied);
        }
        Ok(values)
    }
}
