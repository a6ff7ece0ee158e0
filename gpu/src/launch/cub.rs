//! CUB's sorts and scans, with their scratch memory.
//!
//! Each stream has one scratch buffer, because a call on the stream ends before the next one uses
//! the buffer.

use std::ffi::{c_int, c_void};

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;

use super::codec_encode_memory::OnDevice;
use super::memory::{DeviceBuffer, Memory};
use super::plain::Plain;

/// `cudaStream_t`: the same pointer as the driver's stream.
type Stream = *mut c_void;

// SAFETY: the declarations match kernels/device/cub.cu.
unsafe extern "C" {
    fn shoal_sort_pairs(
        scratch: *mut c_void,
        scratch_bytes: *mut usize,
        keys: u64,
        sorted_keys: u64,
        values: u64,
        sorted_values: u64,
        length: u32,
        bits: c_int,
        stream: Stream,
    ) -> c_int;
    fn shoal_sort_pairs_wide(
        scratch: *mut c_void,
        scratch_bytes: *mut usize,
        keys: u64,
        sorted_keys: u64,
        values: u64,
        sorted_values: u64,
        length: u32,
        bits: c_int,
        stream: Stream,
    ) -> c_int;
    fn shoal_sum_before(
        scratch: *mut c_void,
        scratch_bytes: *mut usize,
        values: u64,
        sums: u64,
        length: u32,
        stream: Stream,
    ) -> c_int;
    fn shoal_sum_before_wide(
        scratch: *mut c_void,
        scratch_bytes: *mut usize,
        values: u64,
        sums: u64,
        length: u32,
        stream: Stream,
    ) -> c_int;
}

/// A sort: scratch, its bytes, keys, sorted keys, values, sorted values, length, bits, stream.
pub(crate) type Sort =
    unsafe extern "C" fn(*mut c_void, *mut usize, u64, u64, u64, u64, u32, c_int, Stream) -> c_int;

/// A scan: scratch, its bytes, values, sums, length, stream.
pub(crate) type Sum = unsafe extern "C" fn(*mut c_void, *mut usize, u64, u64, u32, Stream) -> c_int;

/// Scratch memory of one stream's sorts and scans.
#[derive(Debug)]
pub(crate) struct Scratch {
    memory: DeviceBuffer<u8>,
}

impl Scratch {
    pub(crate) fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self { memory: DeviceBuffer::new(memory, 1 << 20)? })
    }

    /// Queries the size of the scratch memory, allocates it and runs the function.
    fn run(
        &mut self,
        what: &str,
        call: impl Fn(*mut c_void, *mut usize) -> c_int,
    ) -> Result<(), EngineError> {
        let check = |status: c_int| match status {
            0 => Ok(()),
            number => Err(EngineError::Device(format!("{what}: CUDA error {number}"))),
        };
        let mut bytes = 0_usize;
        check(call(std::ptr::null_mut(), &raw mut bytes))?;
        // Freeing waits for the device, so running work retains its scratch memory.
        self.memory.fit(bytes)?;
        let mut bytes = self.memory.len();
        check(call(self.memory.address() as *mut c_void, &raw mut bytes))
    }

    /// Reserves scratch memory for sorting `length` pairs by `bits` bits, so that the sort
    /// allocates nothing.
    pub(crate) fn fit_pairs(&mut self, length: u32, bits: u32) -> Result<(), EngineError> {
        let mut bytes = 0_usize;
        // SAFETY: without scratch memory only the size is written; nothing is queued.
        let status = unsafe {
            let (nothing, stream) = (std::ptr::null_mut(), std::ptr::null_mut());
            let bits = bits.min(32) as c_int;
            shoal_sort_pairs(nothing, &raw mut bytes, 0, 0, 0, 0, length, bits, stream)
        };
        match status {
            0 => self.memory.fit(bytes).map(drop),
            number => Err(EngineError::Device(format!("sort: CUDA error {number}"))),
        }
    }

    /// Sorts `length` pairs by the lower `bits` of their keys, stably.
    pub(crate) fn sort_pairs<K: Number>(
        &mut self,
        stream: &CudaStream,
        (keys, values): (impl OnDevice<Value = K>, impl OnDevice<Value = u32>),
        (sorted_keys, sorted_values): (impl OnDevice<Value = K>, impl OnDevice<Value = u32>),
        length: u32,
        bits: u32,
    ) -> Result<(), EngineError> {
        let (keys, sorted_keys) = (keys.slice(), sorted_keys.slice());
        let (values, sorted_values) = (values.slice(), sorted_values.slice());
        let shortest = keys.len().min(values.len()).min(sorted_keys.len()).min(sorted_values.len());
        assert!(shortest >= length as usize, "{length} pairs in lists of {shortest}");
        if length == 0 {
            return Ok(());
        }
        let bits = bits.min(8 * size_of::<K>() as u32) as c_int;
        let (keys, sorted_keys) = (keys.address(), sorted_keys.address());
        let (values, sorted_values) = (values.address(), sorted_values.address());
        let stream = stream.cu_stream().cast();
        self.run("sort", |scratch, bytes| {
            // SAFETY: lists are as long as asserted; the stream orders the work; the function is
            // that of the keys' type.
            unsafe {
                let (from, to) = ((keys, values), (sorted_keys, sorted_values));
                K::SORT(scratch, bytes, from.0, to.0, from.1, to.1, length, bits, stream)
            }
        })
    }

    /// Exclusive prefix sums, in the type of `sums`.
    pub(crate) fn sum_before<S: Number>(
        &mut self,
        stream: &CudaStream,
        values: impl OnDevice<Value = u32>,
        sums: impl OnDevice<Value = S>,
        length: u32,
    ) -> Result<(), EngineError> {
        let (values, sums) = (values.slice(), sums.slice());
        assert!(values.len().min(sums.len()) >= length as usize, "a sum a value");
        let (values, sums) = (values.address(), sums.address());
        self.run("scan", |scratch, bytes| {
            // SAFETY: as above; the function is that of the sums' type.
            unsafe { S::SUM(scratch, bytes, values, sums, length, stream.cu_stream().cast()) }
        })
    }
}

/// A type of keys and of sums, with CUB's functions for it.
///
/// # Safety
/// The functions read and write values of this type.
pub(crate) unsafe trait Number: Plain {
    const SORT: Sort;
    const SUM: Sum;
}

// SAFETY: the functions are those of 32 bits in cub.cu.
unsafe impl Number for u32 {
    const SORT: Sort = shoal_sort_pairs;
    const SUM: Sum = shoal_sum_before;
}

// SAFETY: the functions are those of 64 bits in cub.cu.
unsafe impl Number for u64 {
    const SORT: Sort = shoal_sort_pairs_wide;
    const SUM: Sum = shoal_sum_before_wide;
}
