//! Host memory of copies: page-locked buffers that track their copies, and staging for lists of
//! ordinary memory.
//!
//! Invariant: no copy in flight reads or writes memory that is freed, and none writes memory that a
//! reference points to. A buffer waits for its copies before it returns references that would
//! conflict, and before it is freed.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result};
use shoal_engine::EngineError;

use super::memory::{Memory, fault};
use super::plain::{Plain, bytes_of};

/// Start and bytes of each page-locked buffer.
static PINNED: RwLock<BTreeMap<usize, usize>> = RwLock::new(BTreeMap::new());

/// Whether bytes lie in page-locked memory, which the device copies without staging.
pub(crate) fn is_pinned(bytes: &[u8]) -> bool {
    let pinned = PINNED.read().unwrap_or_else(PoisonError::into_inner);
    let start = bytes.as_ptr() as usize;
    let below = pinned.range(..=start).next_back();
    below.is_some_and(|(from, length)| start + bytes.len() <= from + length)
}

/// Locks data that a panic cannot leave inconsistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No copy is in flight.
const IDLE: u8 = 0;
/// The device reads.
const READ: u8 = 1;
/// The device writes, and may read as well.
const WRITTEN: u8 = 2;

/// Values in page-locked memory of the host, which the device copies concurrently with other work.
#[derive(Debug)]
pub(crate) struct PinnedBuffer<T> {
    context: Arc<CudaContext>,
    pointer: *mut T,
    length: usize,
    /// [`IDLE`], [`READ`] or [`WRITTEN`]; `WRITTEN` only if the buffer was borrowed mutably for the
    /// copy.
    pending: AtomicU8,
    /// Recorded after the last copy.
    passed: Mutex<Option<CudaEvent>>,
}

// SAFETY: it owns its memory like a boxed slice; the context may be used from any thread.
unsafe impl<T: Plain> Send for PinnedBuffer<T> {}
// SAFETY: shared references read the values, and queue copies under the lock of `passed`.
unsafe impl<T: Plain> Sync for PinnedBuffer<T> {}

impl<T: Plain> PinnedBuffer<T> {
    pub(crate) fn new(memory: &Memory, length: usize) -> Result<Self, EngineError> {
        Self::of_context(memory.context(), length)
    }

    fn of_context(context: &Arc<CudaContext>, length: usize) -> Result<Self, EngineError> {
        let length = length.max(1);
        let bytes = length * size_of::<T>();
        context.bind_to_thread().map_err(fault)?;
        // SAFETY: the context is current; plain values may be all zeros, which are written here.
        let pointer = unsafe {
            let pointer = result::malloc_host(bytes, 0).map_err(fault)?;
            pointer.cast::<u8>().write_bytes(0, bytes);
            pointer.cast::<T>()
        };
        let mut pinned = PINNED.write().unwrap_or_else(PoisonError::into_inner);
        pinned.insert(pointer as usize, bytes);
        let (pending, passed) = (AtomicU8::new(IDLE), Mutex::new(None));
        Ok(Self { context: context.clone(), pointer, length, pending, passed })
    }

    /// Grows to `length` values; loses its values if it does.
    pub(crate) fn fit(&mut self, memory: &Memory, length: usize) -> Result<(), EngineError> {
        if length > self.length {
            *self = Self::new(memory, length + length / 4)?;
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Waits for the copies that write the values; returns the values.
    pub(crate) fn as_slice(&self) -> &[T] {
        if self.pending.load(Ordering::Acquire) == WRITTEN {
            self.wait();
        }
        // SAFETY: allocated with this length, initialised, plain; no copy writes, because a copy
        // that writes needs a mutable borrow to begin.
        unsafe { std::slice::from_raw_parts(self.pointer, self.length) }
    }

    /// Waits for all copies; returns the values.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        self.wait();
        // SAFETY: allocated with this length, initialised, plain, borrowed mutably; no copy is
        // in flight, and one needs a borrow to begin.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.length) }
    }

    /// As [`PinnedBuffer::as_mut_slice`] without waiting: `None` while a copy is in flight.
    pub(crate) fn ready_mut_slice(&mut self) -> Option<&mut [T]> {
        self.is_idle().then(|| self.as_mut_slice())
    }

    /// The first `length` values as the target of a copy.
    pub(crate) fn first(&mut self, length: usize) -> CopyTarget<'_, T> {
        assert!(length <= self.length, "{length} values of {}", self.length);
        CopyTarget(Target::Pinned(self, length))
    }

    /// The values in `range` as the source of a copy.
    pub(crate) fn part(&self, range: Range<usize>) -> CopySource<'_, T> {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?}");
        CopySource(Source::Pinned(self, range))
    }
}

impl<T> PinnedBuffer<T> {
    fn is_idle(&self) -> bool {
        self.pending.load(Ordering::Acquire) == IDLE
            || lock(&self.passed).as_ref().is_none_or(CudaEvent::is_complete)
    }

    /// Waits for the copies in flight.
    fn wait(&self) {
        if self.pending.load(Ordering::Acquire) == IDLE {
            return;
        }
        let passed = lock(&self.passed);
        if let Some(event) = &*passed {
            // A failed device copies nothing more. A stage reports the error when it waits for the
            // device.
            let _ = event.synchronize();
        }
        self.pending.store(IDLE, Ordering::Release);
    }

    /// Queues a copy after those in flight, and records its end.
    fn queue(
        &self,
        stream: &CudaStream,
        pending: u8,
        copy: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let mut passed = lock(&self.passed);
        let event = match &mut *passed {
            Some(event) => {
                if self.pending.load(Ordering::Acquire) != IDLE {
                    // One event covers all copies, on any stream.
                    stream.wait(event)?;
                }
                event
            }
            none => none.insert(self.context.new_event(None)?),
        };
        self.pending.fetch_max(pending, Ordering::AcqRel);
        let copied = copy().and_then(|()| event.record(stream));
        if copied.is_err() {
            // Without a recorded event, waits for the copy.
            let _ = stream.synchronize();
        }
        copied
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        self.wait();
        let mut pinned = PINNED.write().unwrap_or_else(PoisonError::into_inner);
        pinned.remove(&(self.pointer as usize));
        let _ = self.context.bind_to_thread();
        // SAFETY: allocated by `of_context`, freed once; no copy is in flight.
        let _ = unsafe { result::free_host(self.pointer.cast::<c_void>()) };
    }
}

/// Host memory that a copy to the device reads. Private, so that only [`PinnedBuffer::part`] makes
/// one of page-locked memory, after it has checked the range.
pub(crate) struct CopySource<'a, T>(Source<'a, T>);

enum Source<'a, T> {
    /// Copied to a staging buffer before the call returns.
    Ordinary(&'a [T]),
    /// Read in place, concurrently.
    Pinned(&'a PinnedBuffer<T>, Range<usize>),
}

/// Host memory that a copy from the device writes. Private, so that only [`PinnedBuffer::first`]
/// makes one of page-locked memory, after it has checked the length.
pub(crate) struct CopyTarget<'a, T>(Target<'a, T>);

enum Target<'a, T> {
    /// The call waits for the copy.
    Ordinary(&'a mut [T]),
    /// The buffer waits for the copy when its values are read.
    Pinned(&'a mut PinnedBuffer<T>, usize),
}

impl<'a, T> From<&'a [T]> for CopySource<'a, T> {
    fn from(values: &'a [T]) -> Self {
        Self(Source::Ordinary(values))
    }
}

impl<'a, T> From<&'a Vec<T>> for CopySource<'a, T> {
    fn from(values: &'a Vec<T>) -> Self {
        Self(Source::Ordinary(values))
    }
}

impl<'a, T> From<&'a mut [T]> for CopyTarget<'a, T> {
    fn from(values: &'a mut [T]) -> Self {
        Self(Target::Ordinary(values))
    }
}

impl<'a, T> From<&'a mut Vec<T>> for CopyTarget<'a, T> {
    fn from(values: &'a mut Vec<T>) -> Self {
        Self(Target::Ordinary(values))
    }
}

impl<'a, T, const LENGTH: usize> From<&'a mut [T; LENGTH]> for CopyTarget<'a, T> {
    fn from(values: &'a mut [T; LENGTH]) -> Self {
        Self(Target::Ordinary(values))
    }
}

impl<T: Plain> CopySource<'_, T> {
    pub(super) fn len(&self) -> usize {
        match &self.0 {
            Source::Ordinary(values) => values.len(),
            Source::Pinned(_, range) => range.len(),
        }
    }

    /// Queues the copy to `address`.
    ///
    /// # Safety
    /// As many values lie at `address` on the device.
    pub(super) unsafe fn copy_to(
        &self,
        stream: &CudaStream,
        address: u64,
        staging: &mut Staging,
    ) -> Result<(), EngineError> {
        match &self.0 {
            Source::Ordinary(values) => {
                let bytes = bytes_of(values);
                // SAFETY: the caller's promise.
                unsafe { staging.copy_to(stream, address, bytes) }
            }
            Source::Pinned(buffer, range) => {
                let copy = || {
                    // SAFETY: the range lies in the buffer, which waits for the copy before it is
                    // written or freed; the caller promises the device's side.
                    unsafe {
                        let from = buffer.pointer.add(range.start);
                        let values = std::slice::from_raw_parts(from, range.len());
                        result::memcpy_htod_async(address, values, stream.cu_stream())
                    }
                };
                buffer.queue(stream, READ, copy).map_err(fault)
            }
        }
    }
}

impl<T: Plain> CopyTarget<'_, T> {
    /// A target of zero values.
    pub(crate) fn empty() -> Self {
        Self(Target::Ordinary(&mut []))
    }

    pub(super) fn len(&self) -> usize {
        match &self.0 {
            Target::Ordinary(values) => values.len(),
            Target::Pinned(_, length) => *length,
        }
    }

    /// Queues the copy from `address`.
    ///
    /// # Safety
    /// As many values lie at `address` on the device.
    pub(super) unsafe fn copy_from(
        self,
        stream: &CudaStream,
        address: u64,
    ) -> Result<(), EngineError> {
        match self.0 {
            Target::Ordinary(values) => {
                // SAFETY: the caller promises the device's side; the stream is waited for while the
                // values are borrowed.
                let queued =
                    unsafe { result::memcpy_dtoh_async(values, address, stream.cu_stream()) };
                let waited = stream.synchronize();
                queued.and(waited).map_err(fault)
            }
            Target::Pinned(buffer, length) => {
                let pointer = buffer.pointer;
                let copy = || {
                    // SAFETY: the buffer has `length` values, is borrowed mutably, and gives no
                    // reference out before the copy has ended; the caller promises the device's
                    // side.
                    unsafe {
                        let values = std::slice::from_raw_parts_mut(pointer, length);
                        result::memcpy_dtoh_async(values, address, stream.cu_stream())
                    }
                };
                buffer.queue(stream, WRITTEN, copy).map_err(fault)
            }
        }
    }
}

/// Most buffers of a ring.
const STAGING_BUFFERS: usize = 8;
/// Least and most bytes of a buffer. Longer lists take several buffers.
const STAGING_BYTES: (usize, usize) = (1 << 16, 1 << 22);

/// A ring of page-locked buffers that own lists during their copy.
#[derive(Debug)]
pub(super) struct Staging {
    context: Arc<CudaContext>,
    /// The least recently used is first.
    buffers: VecDeque<PinnedBuffer<u8>>,
}

impl Staging {
    pub(super) fn new(context: &Arc<CudaContext>) -> Self {
        Self { context: context.clone(), buffers: VecDeque::new() }
    }

    /// Copies `bytes` to a buffer and queues the copy to `address`.
    ///
    /// # Safety
    /// As many bytes lie at `address` on the device.
    unsafe fn copy_to(
        &mut self,
        stream: &CudaStream,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), EngineError> {
        let mut to = address;
        for piece in bytes.chunks(STAGING_BYTES.1) {
            let mut buffer = self.take(piece.len())?;
            buffer.as_mut_slice()[..piece.len()].copy_from_slice(piece);
            // SAFETY: the pieces lie one after another in the range that the caller promises;
            // page-locked buffers need no staging.
            let copied = unsafe {
                let staged = std::slice::from_raw_parts(buffer.pointer, piece.len());
                let copy = || result::memcpy_htod_async(to, staged, stream.cu_stream());
                buffer.queue(stream, READ, copy)
            };
            self.buffers.push_back(buffer);
            copied.map_err(fault)?;
            to += piece.len() as u64;
        }
        Ok(())
    }

    /// A buffer for `bytes` bytes: an idle one, a new one, or the next to become idle.
    fn take(&mut self, bytes: usize) -> Result<PinnedBuffer<u8>, EngineError> {
        let fits = |buffer: &PinnedBuffer<u8>| buffer.len() >= bytes;
        let idle = self.buffers.iter().position(|buffer| fits(buffer) && buffer.is_idle());
        if let Some(buffer) = idle.and_then(|at| self.buffers.remove(at)) {
            return Ok(buffer);
        }
        if self.buffers.len() == STAGING_BUFFERS
            && let Some(oldest) = self.buffers.pop_front()
            && fits(&oldest)
        {
            return Ok(oldest);
        }
        let length = bytes.next_power_of_two().max(STAGING_BYTES.0);
        PinnedBuffer::of_context(&self.context, length)
    }
}

/// Blocks that copies in flight read.
#[derive(Debug)]
pub(super) struct HeldBlocks {
    passed: CudaEvent,
    _blocks: Vec<Bytes>,
}

impl HeldBlocks {
    /// Queues copies of blocks, each in place to an address.
    ///
    /// # Safety
    /// As many bytes as each block has lie at its address on the device.
    pub(super) unsafe fn copy_to(
        stream: &CudaStream,
        blocks: &[(u64, &Bytes)],
    ) -> Result<Self, EngineError> {
        let copy = |(address, block): &(u64, &Bytes)| {
            // SAFETY: the caller promises the device's side. The blocks are held until the event
            // has passed; without one the stream is waited for while they are borrowed.
            unsafe { result::memcpy_htod_async(*address, block, stream.cu_stream()) }
        };
        let queued = blocks.iter().try_for_each(copy);
        match queued.and_then(|()| stream.record_event(None)) {
            Ok(passed) => {
                let held = blocks.iter().map(|(_, block)| (*block).clone()).collect();
                Ok(Self { passed, _blocks: held })
            }
            Err(error) => {
                let _ = stream.synchronize();
                Err(fault(error))
            }
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.passed.is_complete()
    }
}

impl Drop for HeldBlocks {
    fn drop(&mut self) {
        // As in `PinnedBuffer::wait`.
        let _ = self.passed.synchronize();
    }
}
