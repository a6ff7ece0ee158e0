//! A finished cycle whose answers may still be copied to the host.
//!
//! Answers lie in pooled pinned memory, which returns to its pool when it is dropped.

use std::sync::{Arc, Mutex};

use cudarc::driver::CudaEvent;
use shoal_engine::{AnswerSet, CycleOutput, EngineError, RowLimit};

use crate::launch::{CopyTarget, Memory, PinnedBuffer, Plain, fault};
use crate::stages::subscription::Events;

/// Pinned buffers that a pool retains.
const POOL_BUFFERS_MAX: usize = 8;

/// A pool of pinned memory for answers.
#[derive(Clone, Debug)]
pub(crate) struct Pool<T: Plain = u64> {
    memory: Memory,
    free: Arc<Mutex<Vec<PinnedBuffer<T>>>>,
}

impl<T: Plain> Pool<T> {
    pub(crate) fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone(), free: Arc::default() }
    }

    /// A buffer for `length` values.
    pub(crate) fn take(&self, length: usize) -> Result<PooledBuffer<T>, EngineError> {
        let mut free = self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The smallest that fits, so that large buffers serve large answers.
        let sizes = free.iter().map(PinnedBuffer::len).enumerate();
        let fitting = sizes.filter(|(_, size)| *size >= length);
        let at = fitting.min_by_key(|(_, size)| *size).map(|(at, _)| at);
        let buffer = match at.map(|at| free.swap_remove(at)) {
            Some(buffer) => buffer,
            None => {
                if free.len() == POOL_BUFFERS_MAX {
                    free.remove(0);
                }
                PinnedBuffer::new(&self.memory, length + length / 4)?
            }
        };
        Ok(PooledBuffer { buffer: Some(buffer), length, pool: self.clone() })
    }
}

/// Values in a pooled buffer, which returns to its pool on drop.
#[derive(Debug)]
pub(crate) struct PooledBuffer<T: Plain = u64> {
    buffer: Option<PinnedBuffer<T>>,
    length: usize,
    pool: Pool<T>,
}

impl<T: Plain> PooledBuffer<T> {
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        let length = self.length;
        self.buffer.as_mut().map_or(&mut [], |buffer| &mut buffer.as_mut_slice()[..length])
    }

    /// All values as the target of a copy.
    pub(crate) fn target(&mut self) -> CopyTarget<'_, T> {
        self.first(self.length)
    }

    /// The first `length` values as the target of a copy.
    pub(crate) fn first(&mut self, length: usize) -> CopyTarget<'_, T> {
        assert!(length <= self.length, "{length} values of {}", self.length);
        self.buffer.as_mut().map_or(CopyTarget::empty(), |it| it.first(length))
    }
}

impl<T: Plain> AsRef<[T]> for PooledBuffer<T> {
    fn as_ref(&self) -> &[T] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.as_slice()[..self.length])
    }
}

impl<T: Plain> Drop for PooledBuffer<T> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if free.len() < POOL_BUFFERS_MAX {
            free.extend(self.buffer.take());
        }
    }
}

/// Answers, perhaps still being copied.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one per cycle, moved a few times")]
pub(crate) enum Answers {
    /// Complete.
    Ready(AnswerSet),
    /// Ids of range queries.
    Coming {
        /// The event after the copies.
        copied: Arc<CudaEvent>,
        /// By query: the index of its first id; then the number of all ids.
        bounds: PooledBuffer,
        /// Ids of all queries.
        objects: PooledBuffer,
        /// By query: the limit of its rows; empty if no query has one.
        limits: Vec<Option<RowLimit>>,
    },
}

impl Answers {
    /// Waits for them.
    pub(crate) fn wait(self) -> Result<AnswerSet, EngineError> {
        match self {
            Self::Ready(answers) => Ok(answers),
            Self::Coming { copied, bounds, objects, limits } => {
                copied.synchronize().map_err(fault)?;
                Ok(AnswerSet::of_ids(Arc::new(bounds), Arc::new(objects), limits))
            }
        }
    }
}

/// The result of a cycle, from the driver.
#[derive(Debug)]
pub(crate) struct CycleResult {
    /// Everything except the answers and the events.
    pub(crate) output: CycleOutput,
    pub(crate) answers: Answers,
    pub(crate) events: Events,
}

impl CycleResult {
    /// The whole output.
    pub(crate) fn wait(self) -> Result<CycleOutput, EngineError> {
        let (answers, events) = (self.answers.wait()?, self.events.wait()?);
        Ok(CycleOutput { answers, events, ..self.output })
    }
}
