//! Memory of the device, counted against the budgets of its fleet and of all fleets, and pinned
//! memory of the host.
//!
//! Plain allocations; freeing waits for the device, so nothing that runs loses its memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use shoal_engine::EngineError;

use super::account::Accounts;
use super::plain::Plain;

/// For tests: see [`Memory::is_exact`].
const EXACT_MEMORY: &str = "SHOAL_TEST_EXACT_MEMORY";

/// The device's memory as one fleet sees it.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    context: Arc<CudaContext>,
    accounts: Accounts,
    copied: Arc<Copied>,
    /// Nothing is allocated that nobody asks for, so that compute-sanitizer sees who goes beyond.
    pub(super) is_exact: bool,
}

/// Bytes that went over the bus since somebody began to count.
#[derive(Debug, Default)]
struct Copied {
    in_bytes: AtomicU64,
    out_bytes: AtomicU64,
}

impl Memory {
    pub(crate) fn new(context: Arc<CudaContext>, accounts: Accounts) -> Self {
        let is_exact = std::env::var_os(EXACT_MEMORY).is_some();
        Self { context, accounts, copied: Arc::default(), is_exact }
    }

    /// What to allocate where `needed` must have room, and `wanted` might save doing so again.
    pub(super) fn roomy(&self, needed: usize, wanted: usize) -> usize {
        if self.is_exact { needed } else { wanted.max(needed) }
    }

    /// Bytes of the device in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.accounts.used_bytes()
    }

    /// Bytes copied to the device and from it since the last call.
    pub(crate) fn take_copied(&self) -> (u64, u64) {
        let take = |bytes: &AtomicU64| bytes.swap(0, Ordering::Relaxed);
        (take(&self.copied.in_bytes), take(&self.copied.out_bytes))
    }

    /// Makes the device current on this thread.
    pub(crate) fn bind(&self) -> Result<(), EngineError> {
        self.context.bind_to_thread().map_err(fault)
    }

    /// Whether so many bytes more may be taken now.
    pub(crate) fn has(&self, bytes: u64) -> Result<(), EngineError> {
        self.accounts.exchange(0, bytes)?;
        self.accounts.give_back(bytes);
        Ok(())
    }

    /// Memory of the device, zero; it must be accounted for already.
    fn allocate(&self, bytes: usize) -> Result<u64, EngineError> {
        self.bind()?;
        // SAFETY: the context is current; the memory is set right after.
        let made = unsafe {
            result::malloc_sync(bytes).and_then(|address| {
                // On the default stream, for which ours do not wait: so it is waited for here.
                result::memset_d8_sync(address, 0, bytes)?;
                result::stream::synchronize(result::stream::null())?;
                Ok(address)
            })
        };
        made.map_err(|error| match error.0 {
            sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => full(bytes),
            _ => fault(error),
        })
    }

    /// Frees what `allocate` gave.
    fn release(&self, address: u64) {
        // A context that cannot be made current is gone with all its memory.
        let _ = self.bind();
        // SAFETY: callers forget the address. An error here is one of earlier work, which the
        // pipeline reports where it waits.
        let _ = unsafe { result::free_sync(address) };
    }
}

/// That the device has no such memory though nobody was promised it: others use it too.
fn full(bytes: usize) -> EngineError {
    let (left, all) = result::mem_get_info().unwrap_or_default();
    EngineError::OutOfMemory {
        budget: "the device's memory, which others use as well",
        budget_bytes: all as u64,
        needed_bytes: bytes as u64,
        left_bytes: left as u64,
    }
}

/// A failed call of the driver as the engine's error.
pub(crate) fn fault(error: DriverError) -> EngineError {
    EngineError::Device(error.to_string())
}

/// Values on the device, zero when made.
#[derive(Debug)]
pub(crate) struct DeviceBuffer<T> {
    memory: Memory,
    address: u64,
    length: usize,
    values: PhantomData<T>,
}

impl<T: Plain> DeviceBuffer<T> {
    /// Room for `length` values; at least one, so that every buffer has an address.
    pub(crate) fn new(memory: &Memory, length: usize) -> Result<Self, EngineError> {
        let mut buffer =
            Self { memory: memory.clone(), address: 0, length: 0, values: PhantomData };
        buffer.replace(length.max(1))?;
        Ok(buffer)
    }

    /// Makes room for `length` values if there is less; what was in it is lost then. True when it
    /// was replaced. Grows by a quarter more than was asked for, if there is so much. A budget
    /// that does not allow it leaves everything as it was.
    pub(crate) fn fit(&mut self, length: usize) -> Result<bool, EngineError> {
        let length = length.max(1);
        if length <= self.length {
            return Ok(false);
        }
        match self.replace(self.memory.roomy(length, length + length / 4)) {
            Err(EngineError::OutOfMemory { .. }) => self.replace(length)?,
            other => other?,
        }
        Ok(true)
    }

    /// Gives nearly all of its memory back; what was in it is lost.
    pub(crate) fn shrink(&mut self) -> Result<(), EngineError> {
        if self.length > 1 { self.replace(1) } else { Ok(()) }
    }

    /// Other memory for `length` values in place of what there is.
    fn replace(&mut self, length: usize) -> Result<(), EngineError> {
        let bytes = length * size_of::<T>();
        self.memory.accounts.exchange(self.bytes(), bytes as u64)?;
        self.release();
        match self.memory.allocate(bytes) {
            Ok(address) => {
                (self.address, self.length) = (address, length);
                Ok(())
            }
            Err(error) => {
                self.memory.accounts.give_back(bytes as u64);
                Err(error)
            }
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Sets every byte of the first `length` values.
    pub(crate) fn fill(
        &self,
        stream: &CudaStream,
        byte: u8,
        length: usize,
    ) -> Result<(), EngineError> {
        assert!(length <= self.length, "{length} values of {}", self.length);
        // SAFETY: within the allocation; ordered by the stream.
        unsafe {
            result::memset_d8_async(self.address, byte, length * size_of::<T>(), stream.cu_stream())
        }
        .map_err(fault)
    }

    /// Where these many values are from place `at` on.
    fn address_of(&self, at: usize, values: &[T]) -> u64 {
        assert!(at + values.len() <= self.length, "{at} and {} of {}", values.len(), self.length);
        self.address + (at * size_of::<T>()) as u64
    }

    /// Copies `values` to place `at`; they must be pinned to be copied beside other work.
    pub(crate) fn upload(
        &self,
        stream: &CudaStream,
        at: usize,
        values: &[T],
    ) -> Result<(), EngineError> {
        let address = self.address_of(at, values);
        if values.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(values) as u64;
        self.memory.copied.in_bytes.fetch_add(bytes, Ordering::Relaxed);
        // SAFETY: within the allocation; the caller keeps `values` until the stream is past this.
        unsafe { result::memcpy_htod_async(address, values, stream.cu_stream()) }.map_err(fault)
    }

    /// Copies values from place `at` on.
    pub(crate) fn download(
        &self,
        stream: &CudaStream,
        at: usize,
        values: &mut [T],
    ) -> Result<(), EngineError> {
        let address = self.address_of(at, values);
        if values.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(values) as u64;
        self.memory.copied.out_bytes.fetch_add(bytes, Ordering::Relaxed);
        // SAFETY: within the allocation; the caller keeps `values` until the stream is past this.
        unsafe { result::memcpy_dtoh_async(values, address, stream.cu_stream()) }.map_err(fault)
    }

    /// Copies the first `length` values of another buffer.
    pub(crate) fn copy_from(
        &self,
        stream: &CudaStream,
        other: &Self,
        length: usize,
    ) -> Result<(), EngineError> {
        assert!(length <= self.length && length <= other.length, "both have {length} values");
        // SAFETY: within both allocations; ordered by the stream.
        unsafe {
            let bytes = length * size_of::<T>();
            result::memcpy_dtod_async(self.address, other.address, bytes, stream.cu_stream())
        }
        .map_err(fault)
    }
}

impl<T> DeviceBuffer<T> {
    fn bytes(&self) -> u64 {
        (self.length * size_of::<T>()) as u64
    }

    /// Frees the memory, if any; the accounts are the caller's.
    fn release(&mut self) {
        if self.address != 0 {
            self.memory.release(self.address);
        }
        (self.address, self.length) = (0, 0);
    }
}

impl<T> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        self.memory.accounts.give_back(self.bytes());
        self.release();
    }
}

/// Where page-locked memory begins, and how many bytes it has.
static PINNED: RwLock<BTreeMap<usize, usize>> = RwLock::new(BTreeMap::new());

/// Whether bytes lie in page-locked memory, which the device copies from without packing.
pub(crate) fn is_pinned(bytes: &[u8]) -> bool {
    let pinned = PINNED.read().unwrap_or_else(PoisonError::into_inner);
    let start = bytes.as_ptr() as usize;
    let below = pinned.range(..=start).next_back();
    below.is_some_and(|(from, length)| start + bytes.len() <= from + length)
}

/// Values in page-locked memory of the host, which the device copies beside other work.
#[derive(Debug)]
pub(crate) struct PinnedBuffer<T> {
    context: Arc<CudaContext>,
    pointer: *mut T,
    length: usize,
}

// SAFETY: it owns its memory like a boxed slice; the context may be used from any thread.
unsafe impl<T: Plain> Send for PinnedBuffer<T> {}
// SAFETY: as above; shared references only read.
unsafe impl<T: Plain> Sync for PinnedBuffer<T> {}

impl<T: Plain> PinnedBuffer<T> {
    pub(crate) fn new(memory: &Memory, length: usize) -> Result<Self, EngineError> {
        let length = length.max(1);
        let bytes = length * size_of::<T>();
        memory.context.bind_to_thread().map_err(fault)?;
        // SAFETY: the context is current; plain values may be all zeros, which are written here.
        let pointer = unsafe {
            let pointer = result::malloc_host(bytes, 0).map_err(fault)?;
            pointer.cast::<u8>().write_bytes(0, bytes);
            pointer.cast::<T>()
        };
        let mut pinned = PINNED.write().unwrap_or_else(PoisonError::into_inner);
        pinned.insert(pointer as usize, bytes);
        Ok(Self { context: memory.context.clone(), pointer, length })
    }

    /// As [`DeviceBuffer::fit`].
    pub(crate) fn fit(&mut self, memory: &Memory, length: usize) -> Result<(), EngineError> {
        if length > self.length {
            *self = Self::new(memory, length + length / 4)?;
        }
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: allocated with this length, initialised, plain.
        unsafe { std::slice::from_raw_parts(self.pointer, self.length) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: allocated with this length, initialised, plain, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.length) }
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        let mut pinned = PINNED.write().unwrap_or_else(PoisonError::into_inner);
        pinned.remove(&(self.pointer as usize));
        let _ = self.context.bind_to_thread();
        // SAFETY: allocated by `new`, freed once.
        let _ = unsafe { result::free_host(self.pointer.cast::<c_void>()) };
    }
}
