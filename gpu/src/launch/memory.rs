//! Device memory, counted against the budgets of its fleet and of all fleets.
//!
//! Plain allocations. Freeing first waits for the device, so no running kernel loses its memory.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use shoal_engine::EngineError;

use super::account::Accounts;
use super::argument_layout::Pointer;
use super::host::{CopySource, CopyTarget, HeldBlocks, PinnedBuffer, Staging, lock};
use super::plain::Plain;

/// For tests: see [`Memory::is_exact`].
const EXACT_MEMORY: &str = "SHOAL_TEST_EXACT_MEMORY";

/// The device's memory for one fleet.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    context: Arc<CudaContext>,
    accounts: Accounts,
    copied: Arc<Copied>,
    /// Owns lists of ordinary memory during their copy.
    staging: Arc<Mutex<Staging>>,
    /// Owns blocks during their copy.
    held: Arc<Mutex<Vec<HeldBlocks>>>,
    /// Allocates exactly the required bytes, so that compute-sanitizer detects accesses beyond the
    /// end.
    pub(super) is_exact: bool,
}

/// Bytes copied over the bus since counting began.
#[derive(Debug, Default)]
struct Copied {
    in_bytes: AtomicU64,
    out_bytes: AtomicU64,
}

impl Memory {
    pub(crate) fn new(context: Arc<CudaContext>, accounts: Accounts) -> Self {
        let is_exact = std::env::var_os(EXACT_MEMORY).is_some();
        let staging = Arc::new(Mutex::new(Staging::new(&context)));
        Self { context, accounts, copied: Arc::default(), staging, held: Arc::default(), is_exact }
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The length to allocate: `needed` if allocations are exact, otherwise the greater of the two.
    pub(super) fn preferred(&self, needed: usize, wanted: usize) -> usize {
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

    /// Makes the device's context current on this thread.
    pub(crate) fn bind(&self) -> Result<(), EngineError> {
        self.context.bind_to_thread().map_err(fault)
    }

    /// Fails if the budgets do not allow `bytes` more.
    pub(crate) fn has(&self, bytes: u64) -> Result<(), EngineError> {
        self.accounts.exchange(0, bytes)?;
        self.accounts.give_back(bytes);
        Ok(())
    }

    /// Allocates zeroed memory, which is accounted for.
    fn allocate(&self, bytes: usize) -> Result<u64, EngineError> {
        self.bind()?;
        // SAFETY: the context is current; the memory is set right after.
        let made = unsafe {
            result::malloc_sync(bytes).and_then(|address| {
                // The engine's streams do not wait for the default stream, so this call does.
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

    /// Frees an allocation.
    fn release(&self, address: u64) {
        // If the context cannot be made current, its memory is already freed. An error of earlier
        // work is reported by the stage that waits.
        let _ = self.context.synchronize();
        // SAFETY: callers forget the address; no queued work still runs.
        let _ = unsafe { result::free_sync(address) };
    }
}

/// The error when the device lacks memory that the budgets grant, because other processes use it.
fn full(bytes: usize) -> EngineError {
    let (left, all) = result::mem_get_info().unwrap_or_default();
    EngineError::OutOfMemory {
        budget: "the device's memory, which others use as well",
        budget_bytes: all as u64,
        needed_bytes: bytes as u64,
        left_bytes: left as u64,
    }
}

/// Converts a failed call of the driver to the engine's error.
pub(crate) fn fault(error: DriverError) -> EngineError {
    EngineError::Device(error.to_string())
}

/// Serial numbers of the allocations that are not freed.
static ALLOCATED: RwLock<BTreeSet<u64>> = RwLock::new(BTreeSet::new());

/// Whether the allocation of this number is not freed.
pub(super) fn is_allocated(number: u64) -> bool {
    ALLOCATED.read().unwrap_or_else(PoisonError::into_inner).contains(&number)
}

/// Values on the device, initially zero.
#[derive(Debug)]
pub(crate) struct DeviceBuffer<T> {
    memory: Memory,
    address: u64,
    length: usize,
    /// The unique number of its allocation.
    number: u64,
    values: PhantomData<T>,
}

impl<T: Plain> DeviceBuffer<T> {
    /// A buffer of `length` values; at least one, so that every buffer has an address.
    pub(crate) fn new(memory: &Memory, length: usize) -> Result<Self, EngineError> {
        let mut buffer =
            Self { memory: memory.clone(), address: 0, length: 0, number: 0, values: PhantomData };
        buffer.replace(length.max(1))?;
        Ok(buffer)
    }

    /// Grows to `length` values and a quarter more; see [`Self::fit_with`].
    pub(crate) fn fit(&mut self, length: usize) -> Result<bool, EngineError> {
        self.fit_with(length, length / 4)
    }

    /// Grows to `length` values; loses its values if it does, and returns true. Grows by `spare`
    /// more values if the budget allows. If the budget does not allow `length`, nothing changes.
    pub(crate) fn fit_with(&mut self, length: usize, spare: usize) -> Result<bool, EngineError> {
        let length = length.max(1);
        if length <= self.length {
            return Ok(false);
        }
        match self.replace(self.memory.preferred(length, length + spare)) {
            Err(EngineError::OutOfMemory { .. }) => self.replace(length)?,
            other => other?,
        }
        Ok(true)
    }

    /// Shrinks to one value; loses its values.
    pub(crate) fn shrink(&mut self) -> Result<(), EngineError> {
        if self.length > 1 { self.replace(1) } else { Ok(()) }
    }

    /// Replaces its memory by memory for `length` values.
    fn replace(&mut self, length: usize) -> Result<(), EngineError> {
        let bytes = length * size_of::<T>();
        self.memory.accounts.exchange(self.bytes(), bytes as u64)?;
        self.release();
        match self.memory.allocate(bytes) {
            Ok(address) => {
                static NEXT: AtomicU64 = AtomicU64::new(1);
                self.number = NEXT.fetch_add(1, Ordering::Relaxed);
                let mut allocated = ALLOCATED.write().unwrap_or_else(PoisonError::into_inner);
                allocated.insert(self.number);
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

    pub(super) fn pointer(&self) -> Pointer<T> {
        Pointer::new(self.address)
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

    /// The number of its allocation.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The address of `length` values from place `at` on.
    fn address_of(&self, at: usize, length: usize) -> u64 {
        assert!(
            at <= self.length && length <= self.length - at,
            "{at} and {length} of {}",
            self.length
        );
        self.address + (at * size_of::<T>()) as u64
    }

    /// Copies values to place `at`. A copy from pinned memory runs concurrently with other work; a
    /// copy from ordinary memory takes a staging buffer.
    pub(crate) fn upload<'a>(
        &self,
        stream: &CudaStream,
        at: usize,
        values: impl Into<CopySource<'a, T>>,
    ) -> Result<(), EngineError> {
        let values = values.into();
        let address = self.address_of(at, values.len());
        if values.len() == 0 {
            return Ok(());
        }
        let bytes = (values.len() * size_of::<T>()) as u64;
        self.memory.copied.in_bytes.fetch_add(bytes, Ordering::Relaxed);
        // SAFETY: the values lie within the allocation.
        unsafe { values.copy_to(stream, address, &mut lock(&self.memory.staging)) }
    }

    /// Copies values from place `at` on. A copy to pinned memory runs concurrently with other work;
    /// for a copy to ordinary memory, the call waits for the stream.
    pub(crate) fn download<'a>(
        &self,
        stream: &CudaStream,
        at: usize,
        values: impl Into<CopyTarget<'a, T>>,
    ) -> Result<(), EngineError> {
        let values = values.into();
        let address = self.address_of(at, values.len());
        if values.len() == 0 {
            return Ok(());
        }
        let bytes = (values.len() * size_of::<T>()) as u64;
        self.memory.copied.out_bytes.fetch_add(bytes, Ordering::Relaxed);
        // SAFETY: the values lie within the allocation.
        unsafe { values.copy_from(stream, address) }
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

impl DeviceBuffer<u8> {
    /// Copies each block to its place without staging; fastest if the blocks are in pinned memory.
    pub(crate) fn upload_blocks(
        &self,
        stream: &CudaStream,
        blocks: &[(usize, &Bytes)],
    ) -> Result<(), EngineError> {
        if blocks.is_empty() {
            return Ok(());
        }
        let mut bytes = 0;
        let place = |(at, block): &(usize, &'_ Bytes)| {
            bytes += block.len() as u64;
            self.address_of(*at, block.len())
        };
        let addresses: Vec<u64> = blocks.iter().map(place).collect();
        let blocks: Vec<_> =
            addresses.into_iter().zip(blocks.iter().map(|(_, block)| *block)).collect();
        self.memory.copied.in_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut held = lock(&self.memory.held);
        held.retain(|blocks| !blocks.is_done());
        // SAFETY: every block lies within the allocation.
        held.push(unsafe { HeldBlocks::copy_to(stream, &blocks)? });
        Ok(())
    }

    /// Copies the first `length` values of a pinned list, of any type, to byte `at`.
    pub(crate) fn upload_list<U: Plain>(
        &self,
        stream: &CudaStream,
        at: usize,
        (values, length): (&PinnedBuffer<U>, usize),
    ) -> Result<(), EngineError> {
        let bytes = length * size_of::<U>();
        let address = self.address_of(at, bytes);
        if length == 0 {
            return Ok(());
        }
        self.memory.copied.in_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        // SAFETY: the bytes of the values lie within the allocation.
        unsafe { values.part(0..length).copy_to(stream, address, &mut lock(&self.memory.staging)) }
    }
}

impl<T> DeviceBuffer<T> {
    fn bytes(&self) -> u64 {
        (self.length * size_of::<T>()) as u64
    }

    /// Frees the memory, if any; the caller settles the accounts.
    fn release(&mut self) {
        if self.address != 0 {
            let mut allocated = ALLOCATED.write().unwrap_or_else(PoisonError::into_inner);
            allocated.remove(&self.number);
            drop(allocated);
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
