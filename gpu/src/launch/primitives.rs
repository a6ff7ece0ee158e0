//! CUB's sorts and scans, with their scratch memory.
//!
//! One scratch a stream: what one call has queued is done before the next uses it.

use std::ffi::{c_int, c_void};

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;

use super::codec_encode_memory::DeviceSlice;
use super::memory::{DeviceBuffer, Memory};
use super::plain::Plain;

/// `cudaStream_t`: the same pointer as the driver's stream.
type Stream = *mut c_void;

// SAFETY: the declarations match kernels/primitives.cu.
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
type Sort =
    unsafe extern "C" fn(*mut c_void, *mut usize, u64, u64, u64, u64, u32, c_int, Stream) -> c_int;

/// A scan: scratch, its bytes, values, sums, length, stream.
type Sum = unsafe extern "C" fn(*mut c_void, *mut usize, u64, u64, u32, Stream) -> c_int;

/// Scratch memory of one stream's sorts and scans.
#[derive(Debug)]
pub(crate) struct Scratch {
    memory: DeviceBuffer<u8>,
}

impl Scratch {
    pub(crate) fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self { memory: DeviceBuffer::new(memory, 1 << 20)? })
    }

    /// Asks how much is needed, makes room, runs.
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
        // Freeing waits for the device, so work under way keeps its scratch.
        self.memory.fit(bytes)?;
        let mut bytes = self.memory.len();
        check(call(self.memory.address() as *mut c_void, &raw mut bytes))
    }

    /// Sorts `length` pairs by the lower `bits` of their keys, stably.
    pub(crate) fn sort_pairs(
        &mut self,
        stream: &CudaStream,
        (keys, values): (&DeviceBuffer<u32>, &DeviceBuffer<u32>),
        (sorted_keys, sorted_values): (&DeviceBuffer<u32>, &DeviceBuffer<u32>),
        length: u32,
        bits: u32,
    ) -> Result<(), EngineError> {
        let from = (DeviceSlice::of(keys), DeviceSlice::of(values));
        let to = (DeviceSlice::of(sorted_keys), DeviceSlice::of(sorted_values));
        self.sort_rooms(stream, from, to, length, bits)
    }

    /// Makes room for sorting `length` pairs by so many bits, which then needs no more.
    pub(crate) fn fit_pairs(&mut self, length: u32, bits: u32) -> Result<(), EngineError> {
        let mut bytes = 0_usize;
        // SAFETY: without scratch only the bytes are written; nothing is queued.
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

    /// As [`Scratch::sort_pairs`].
    pub(crate) fn sort_rooms(
        &mut self,
        stream: &CudaStream,
        from: (DeviceSlice<u32>, DeviceSlice<u32>),
        to: (DeviceSlice<u32>, DeviceSlice<u32>),
        length: u32,
        bits: u32,
    ) -> Result<(), EngineError> {
        self.sort(stream, from, to, (length, bits.min(32)), shoal_sort_pairs)
    }

    /// As [`Scratch::sort_pairs`], by keys of 64 bits.
    pub(crate) fn sort_wide(
        &mut self,
        stream: &CudaStream,
        from: (DeviceSlice<u64>, DeviceSlice<u32>),
        to: (DeviceSlice<u64>, DeviceSlice<u32>),
        length: u32,
        bits: u32,
    ) -> Result<(), EngineError> {
        self.sort(stream, from, to, (length, bits.min(64)), shoal_sort_pairs_wide)
    }

    /// Runs `sort`, whose keys are of type `T`.
    fn sort<T: Plain>(
        &mut self,
        stream: &CudaStream,
        (keys, values): (DeviceSlice<T>, DeviceSlice<u32>),
        (sorted_keys, sorted_values): (DeviceSlice<T>, DeviceSlice<u32>),
        (length, bits): (u32, u32),
        sort: Sort,
    ) -> Result<(), EngineError> {
        let shortest = keys.len().min(values.len()).min(sorted_keys.len()).min(sorted_values.len());
        assert!(shortest >= length as usize, "{length} pairs in buffers of {shortest}");
        if length == 0 {
            return Ok(());
        }
        self.run("sort", |scratch, bytes| {
            // SAFETY: buffers are as long as asserted; the stream orders the work; the two callers
            // name the function of their keys' type.
            unsafe {
                sort(
                    scratch,
                    bytes,
                    keys.address(),
                    sorted_keys.address(),
                    values.address(),
                    sorted_values.address(),
                    length,
                    bits as c_int,
                    stream.cu_stream().cast(),
                )
            }
        })
    }

    /// Sums of all values before each.
    pub(crate) fn sum_before(
        &mut self,
        stream: &CudaStream,
        values: &DeviceBuffer<u32>,
        sums: &DeviceBuffer<u32>,
        length: u32,
    ) -> Result<(), EngineError> {
        self.sum_rooms(stream, DeviceSlice::of(values), DeviceSlice::of(sums), length)
    }

    /// As [`Scratch::sum_before`].
    pub(crate) fn sum_rooms(
        &mut self,
        stream: &CudaStream,
        values: DeviceSlice<u32>,
        sums: DeviceSlice<u32>,
        length: u32,
    ) -> Result<(), EngineError> {
        self.scan(stream, values, sums, length, shoal_sum_before)
    }

    /// Sums of all values before each, in 64 bits.
    pub(crate) fn sum_before_wide(
        &mut self,
        stream: &CudaStream,
        values: &DeviceBuffer<u32>,
        sums: &DeviceBuffer<u64>,
        length: u32,
    ) -> Result<(), EngineError> {
        self.scan(
            stream,
            DeviceSlice::of(values),
            DeviceSlice::of(sums),
            length,
            shoal_sum_before_wide,
        )
    }

    /// Runs `sum`, which writes `length` values of type `T`.
    fn scan<T: Plain>(
        &mut self,
        stream: &CudaStream,
        values: DeviceSlice<u32>,
        sums: DeviceSlice<T>,
        length: u32,
        sum: Sum,
    ) -> Result<(), EngineError> {
        assert!(values.len().min(sums.len()) >= length as usize, "a sum a value");
        let (values, sums) = (values.address(), sums.address());
        self.run("scan", |scratch, bytes| {
            // SAFETY: as above; the two callers name the function of their sums' type.
            unsafe { sum(scratch, bytes, values, sums, length, stream.cu_stream().cast()) }
        })
    }
}
