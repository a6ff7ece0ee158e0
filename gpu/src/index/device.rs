//! Keys and places in the device's memory, and the stream on which trees work.
//!
//! Operations of trees wait for the device. Searches return their time on the device in
//! milliseconds, measured with events.

use std::sync::Arc;

use cudarc::driver::{CudaStream, sys};
use shoal_engine::EngineError;
use shoal_engine::layout::INDEX_NO_PLACE;
use shoal_history::{ObjectTime, TreeKey};

use crate::device::Gpu;
use crate::launch::{DeviceBuffer, Memory, Plain, Scratch, TreeKernels, fault};

/// A key that the kernels know.
#[allow(private_bounds, reason = "other keys cannot be added outside of the crate")]
pub trait DeviceKey: TreeKey + Plain {}

impl DeviceKey for u64 {}
impl DeviceKey for ObjectTime {}

/// A device on which trees of one type of key work.
#[derive(Debug)]
pub struct DeviceIndex<K: DeviceKey> {
    pub(super) gpu: Gpu,
    pub(super) memory: Memory,
    pub(super) stream: Arc<CudaStream>,
    pub(super) kernels: TreeKernels,
    pub(super) scratch: Scratch,
    keys: std::marker::PhantomData<K>,
}

/// Keys in the device's memory: those of a tree, ascending, or requests.
#[derive(Debug)]
pub struct DeviceKeys<K: DeviceKey> {
    pub(crate) buffer: DeviceBuffer<K>,
    pub(super) length: usize,
}

/// Places in the device's memory, one per request.
#[derive(Debug)]
pub struct DevicePlaces(pub(crate) DeviceBuffer<u32>);

impl DevicePlaces {
    /// Stored instead of a place if there is no such key.
    pub const NONE: u32 = INDEX_NO_PLACE;
}

impl<K: DeviceKey> DeviceIndex<K> {
    /// Loads the kernels; trees, keys and places take at most `budget_bytes`.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    pub fn new(gpu: &Gpu, budget_bytes: u64) -> Result<Self, EngineError> {
        Self::within(gpu, &gpu.memory(budget_bytes))
    }

    /// As [`Self::new`], within the budget of `memory`, which others share.
    pub(crate) fn within(gpu: &Gpu, memory: &Memory) -> Result<Self, EngineError> {
        memory.bind()?;
        Ok(Self {
            stream: gpu.context.new_stream().map_err(fault)?,
            kernels: TreeKernels::load::<K>(&gpu.context).map_err(fault)?,
            scratch: Scratch::new(memory)?,
            gpu: gpu.clone(),
            memory: memory.clone(),
            keys: std::marker::PhantomData,
        })
    }

    /// Copies keys to the device.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    pub fn keys(&self, keys: &[K]) -> Result<DeviceKeys<K>, EngineError> {
        Ok(DeviceKeys { buffer: self.upload(keys)?, length: keys.len() })
    }

    /// Copies keys to the device in place of others.
    pub(crate) fn replace(&self, keys: &mut DeviceKeys<K>, by: &[K]) -> Result<(), EngineError> {
        keys.buffer.fit(by.len())?;
        keys.buffer.upload(&self.stream, 0, by)?;
        keys.length = by.len();
        self.stream.synchronize().map_err(fault)
    }

    /// Allocates memory for the places of `requests` requests.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    pub fn places(&self, requests: usize) -> Result<DevicePlaces, EngineError> {
        DeviceBuffer::new(&self.memory, requests).map(DevicePlaces)
    }

    /// Sets all places to 0, so that a search that writes none is noticed.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails.
    pub fn clear(&self, places: &DevicePlaces) -> Result<(), EngineError> {
        places.0.fill(&self.stream, 0, places.0.len())
    }

    /// Copies the first `length` places from the device.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails.
    pub fn download(&self, places: &DevicePlaces, length: usize) -> Result<Vec<u32>, EngineError> {
        self.read(&places.0, length)
    }

    /// Bytes of the device's memory in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// A buffer with these values.
    pub(super) fn upload<T: Plain>(&self, values: &[T]) -> Result<DeviceBuffer<T>, EngineError> {
        let buffer = DeviceBuffer::new(&self.memory, values.len())?;
        buffer.upload(&self.stream, 0, values)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(buffer)
    }

    /// The first values of a buffer.
    pub(super) fn read<T: Plain + Default>(
        &self,
        buffer: &DeviceBuffer<T>,
        length: usize,
    ) -> Result<Vec<T>, EngineError> {
        let mut values = vec![T::default(); length];
        buffer.download(&self.stream, 0, &mut values[..])?;
        self.stream.synchronize().map_err(fault)?;
        Ok(values)
    }

    /// Runs work on the device; returns its milliseconds there.
    pub(super) fn timed(
        &self,
        work: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<f64, EngineError> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = || self.gpu.context.new_event(flags).map_err(fault);
        let (start, end) = (event()?, event()?);
        start.record(&self.stream).map_err(fault)?;
        work()?;
        end.record(&self.stream).map_err(fault)?;
        self.stream.synchronize().map_err(fault)?;
        start.elapsed_ms(&end).map(f64::from).map_err(fault)
    }
}
