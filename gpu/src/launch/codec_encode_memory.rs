//! Slices of device memory, and an arena for one encoding at a time, which allocates slices from
//! large pieces and frees them together.
//!
//! A slice has its length, which launches assert, and its owner, so that the use of a slice whose
//! memory was released panics.

use std::marker::PhantomData;
use std::sync::Mutex;

use cudarc::driver::{CudaStream, result};
use shoal_engine::EngineError;

use super::argument_layout::Pointer;
use super::host::{CopySource, CopyTarget, Staging, lock};
use super::memory::{DeviceBuffer, Memory, fault, is_allocated};
use super::plain::Plain;

/// Alignment of slices of an arena, bytes; sections of blocks need 64.
const ALIGN_BYTES: usize = 256;
/// Least size of a piece.
const PIECE_BYTES: usize = 1 << 22;

/// The owner of a slice's memory.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// None: there are no values.
    Nothing,
    /// An allocation, by its number.
    Buffer(u64),
    /// An arena, and the number of the allocation.
    Arena(&'static Allocations, u64),
}

/// Values on the device, of an arena or a buffer.
#[derive(Debug)]
pub(crate) struct DeviceSlice<T> {
    address: u64,
    length: usize,
    owner: Owner,
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
        let owner = Owner::Buffer(buffer.number());
        Self { address: buffer.address(), length: buffer.len(), owner, values: PhantomData }
    }

    /// No values, at no address.
    pub(crate) fn none() -> Self {
        Self { address: 0, length: 0, owner: Owner::Nothing, values: PhantomData }
    }

    /// The address of the values.
    ///
    /// # Panics
    /// If the memory was released.
    pub(crate) fn address(self) -> u64 {
        let is_live = match self.owner {
            Owner::Nothing => true,
            Owner::Buffer(number) => is_allocated(number),
            Owner::Arena(allocations, number) => allocations.has(number),
        };
        assert!(is_live, "the memory of a slice was released");
        self.address
    }

    /// As [`DeviceSlice::address`].
    pub(super) fn pointer(self) -> Pointer<T> {
        Pointer::new(self.address())
    }

    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// `length` values from place `at` on.
    pub(crate) fn part(self, at: usize, length: usize) -> Self {
        let fits = at <= self.length && length <= self.length - at;
        assert!(fits, "{at} and {length} of {}", self.length);
        Self { address: self.address + (at * size_of::<T>()) as u64, length, ..self }
    }

    /// The same memory as bytes.
    pub(crate) fn bytes(self) -> DeviceSlice<u8> {
        let Self { address, length, owner, .. } = self;
        DeviceSlice { address, length: length * size_of::<T>(), owner, values: PhantomData }
    }

    /// Sets every byte.
    pub(crate) fn fill(self, stream: &CudaStream, byte: u8) -> Result<(), EngineError> {
        if self.length == 0 {
            return Ok(());
        }
        let bytes = self.length * size_of::<T>();
        // SAFETY: the slice lies within live memory, as `address` asserts; ordered by the stream.
        unsafe { result::memset_d8_async(self.address(), byte, bytes, stream.cu_stream()) }
            .map_err(fault)
    }

    /// Copies values to the start of the slice; ordinary memory through a staging buffer of its
    /// arena, or through a new one if the slice is not in an arena.
    pub(crate) fn upload<'a>(
        self,
        stream: &CudaStream,
        values: impl Into<CopySource<'a, T>>,
    ) -> Result<(), EngineError> {
        let values = values.into();
        assert!(values.len() <= self.length, "{} values to {}", values.len(), self.length);
        if values.len() == 0 {
            return Ok(());
        }
        let alone;
        let staging = match self.owner {
            Owner::Arena(allocations, _) => &allocations.staging,
            Owner::Nothing | Owner::Buffer(_) => {
                alone = Mutex::new(None);
                &alone
            }
        };
        let mut staging = lock(staging);
        let staging = staging.get_or_insert_with(|| Staging::new(stream.context()));
        // SAFETY: the values lie within live memory, as `address` asserts.
        unsafe { values.copy_to(stream, self.address(), staging) }
    }

    /// Copies its first values. A copy to pinned memory runs concurrently with other work; for a
    /// copy to ordinary memory, the call waits for the stream.
    pub(crate) fn download<'a>(
        self,
        stream: &CudaStream,
        values: impl Into<CopyTarget<'a, T>>,
    ) -> Result<(), EngineError> {
        let values = values.into();
        assert!(values.len() <= self.length, "{} values of {}", values.len(), self.length);
        if values.len() == 0 {
            return Ok(());
        }
        // SAFETY: the values lie within live memory, as `address` asserts.
        unsafe { values.copy_from(stream, self.address()) }
    }
}

/// A list on the device: a slice, or a whole buffer.
pub(crate) trait OnDevice {
    type Value: Plain;

    fn slice(self) -> DeviceSlice<Self::Value>;
}

impl<T: Plain> OnDevice for DeviceSlice<T> {
    type Value = T;

    fn slice(self) -> Self {
        self
    }
}

impl<T: Plain> OnDevice for &DeviceBuffer<T> {
    type Value = T;

    fn slice(self) -> DeviceSlice<T> {
        DeviceSlice::of(self)
    }
}

/// The live allocations of an arena. Outlives the arena, so that slices can always check their
/// allocation, and then serves another arena.
#[derive(Debug, Default)]
struct Allocations {
    numbers: Mutex<Numbers>,
    /// Allocated on first use.
    staging: Mutex<Option<Staging>>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// Numbers of live allocations, ascending.
    live: Vec<u64>,
    /// Number of the last allocation; numbers are unique.
    last: u64,
}

/// Unused [`Allocations`], which new arenas take.
static SPARE: Mutex<Vec<&'static Allocations>> = Mutex::new(Vec::new());

impl Allocations {
    fn new() -> &'static Self {
        lock(&SPARE).pop().unwrap_or_else(|| Box::leak(Box::default()))
    }

    fn has(&self, number: u64) -> bool {
        lock(&self.numbers).live.binary_search(&number).is_ok()
    }

    fn begin(&self) -> u64 {
        let mut numbers = lock(&self.numbers);
        numbers.last += 1;
        let number = numbers.last;
        numbers.live.push(number);
        number
    }

    /// Ends all allocations except the first `length`.
    fn truncate(&self, length: usize) {
        lock(&self.numbers).live.truncate(length);
    }
}

/// A state of an arena to return to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    allocations: usize,
    pieces: usize,
    used_bytes: usize,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Memory,
    pieces: Vec<DeviceBuffer<u8>>,
    /// Allocated bytes of the last piece.
    used_bytes: usize,
    /// Bytes of the earlier pieces.
    before_bytes: usize,
    allocations: &'static Allocations,
}

impl Arena {
    pub(crate) fn new(memory: &Memory) -> Self {
        Self {
            memory: memory.clone(),
            pieces: Vec::new(),
            used_bytes: 0,
            before_bytes: 0,
            allocations: Allocations::new(),
        }
    }

    /// Allocates `length` values with undefined content; the slice has an address even if it is
    /// empty.
    pub(crate) fn allocate<T: Plain>(
        &mut self,
        length: usize,
    ) -> Result<DeviceSlice<T>, EngineError> {
        let bytes = length.max(1) * size_of::<T>();
        let bytes = self.memory.preferred(bytes, bytes.next_multiple_of(ALIGN_BYTES));
        let left = self.pieces.last().map_or(0, |piece| piece.len() - self.used_bytes);
        if left < bytes || self.memory.is_exact {
            let piece = DeviceBuffer::new(&self.memory, self.memory.preferred(bytes, PIECE_BYTES))?;
            self.before_bytes += self.pieces.last().map_or(0, DeviceBuffer::len);
            self.pieces.push(piece);
            self.used_bytes = 0;
        }
        let piece = self.pieces.last().expect("a piece exists");
        let address = piece.address() + self.used_bytes as u64;
        self.used_bytes += bytes;
        let owner = Owner::Arena(self.allocations, self.allocations.begin());
        Ok(DeviceSlice { address, length, owner, values: PhantomData })
    }

    /// The present state.
    pub(crate) fn mark(&self) -> Mark {
        let allocations = lock(&self.allocations.numbers).live.len();
        Mark { allocations, pieces: self.pieces.len(), used_bytes: self.used_bytes }
    }

    /// Releases all allocations after the mark. Queued work may still use the memory, because the
    /// stream runs it before later work.
    pub(crate) fn release(&mut self, mark: Mark) {
        self.allocations.truncate(mark.allocations);
        while self.pieces.len() > mark.pieces.max(1) {
            self.pieces.pop();
            self.before_bytes -= self.pieces.last().map_or(0, DeviceBuffer::len);
        }
        self.used_bytes = if mark.pieces == 0 { 0 } else { mark.used_bytes };
    }

    /// Releases all allocations. Replaces several pieces by one.
    pub(crate) fn clear(&mut self) -> Result<(), EngineError> {
        self.allocations.truncate(0);
        if self.pieces.len() > 1 {
            let bytes = self.before_bytes + self.pieces.last().map_or(0, DeviceBuffer::len);
            self.pieces.clear();
            self.pieces.push(DeviceBuffer::new(&self.memory, bytes)?);
        }
        (self.used_bytes, self.before_bytes) = (0, 0);
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.allocations.truncate(0);
        // Waits for staged copies.
        *lock(&self.allocations.staging) = None;
        lock(&SPARE).push(self.allocations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loans_end_with_their_mark_and_numbers_never_return() {
        let allocations = Allocations::default();
        let (first, second) = (allocations.begin(), allocations.begin());
        allocations.truncate(1);
        let third = allocations.begin();
        assert_eq!([first, second, third].map(|it| allocations.has(it)), [true, false, true]);
        allocations.truncate(0);
        let fourth = allocations.begin();
        assert!(
            fourth > third
                && allocations.has(fourth)
                && !allocations.has(first)
                && !allocations.has(third)
        );
    }
}
