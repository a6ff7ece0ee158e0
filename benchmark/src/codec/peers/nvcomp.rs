//! Bindings to NVIDIA's nvCOMP (version 6, batched C interface), loaded at run time from the user's
//! installation; never linked or shipped.
//!
//! All codecs share one call signature and 64 bytes of options. A column is cut into chunks of one
//! size. Chunks lie in device memory before and after a call, so that the time excludes copies.

#![allow(unsafe_code, reason = "the library's interface is unsafe; it ends here")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DriverError, sys};
use libloading::Library;
use shoal_engine::EngineError;

/// Names of the library for the loader.
const LIBRARIES: [&str; 2] = ["libnvcomp.so.6", "libnvcomp.so"];
/// Alignment in bytes of temporary memory and chunks; no codec requires more.
const ALIGN_BYTES: usize = 256;
/// Bytes of a chunk's length field.
const LENGTH_BYTES: usize = 4;

/// Options of any codec, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Options([u64; 8]);

type Stream = *mut c_void;
type TempSize = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, Stream) -> c_int;
type OutputSize = unsafe extern "C" fn(usize, Options, *mut usize) -> c_int;
/// Parameters: chunks, chunk lengths, maximum chunk length, number of chunks, scratch memory and
/// its size, outputs, output lengths, options, statuses, stream.
type Compress = unsafe extern "C" fn(
    u64,
    u64,
    usize,
    usize,
    u64,
    usize,
    u64,
    u64,
    Options,
    u64,
    Stream,
) -> c_int;
/// Parameters: chunks, chunk lengths, output capacities, output lengths, number of chunks, scratch
/// memory and its size, outputs, options, statuses, stream.
type Decompress =
    unsafe extern "C" fn(u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, Stream) -> c_int;

/// A codec of nvCOMP with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NvCompChoice {
    name: &'static str,
    /// The selected options as text.
    pub(super) text: &'static str,
    compress: Options,
    decompress: Options,
    chunk_bytes: usize,
}

/// An encoded column: every chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NvCompColumn {
    chunks: Vec<Vec<u8>>,
    bytes: usize,
}

impl NvCompColumn {
    /// Bytes of all chunks and of their lengths.
    pub(super) fn encoded_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len() + LENGTH_BYTES).sum()
    }
}

/// The library and its device.
#[derive(Debug)]
pub(super) struct NvComp {
    library: Library,
    stream: Arc<CudaStream>,
}

/// The code of an unsigned integer type of `width` bytes (`nvcompType_t`).
fn type_code(width: usize) -> u64 {
    match width {
        1 => 1,
        2 => 3,
        4 => 5,
        _ => 7,
    }
}

impl NvCompChoice {
    /// The trials of the codec `name` on values of `width` bytes: its options with small and large
    /// chunks.
    pub(super) fn all(name: &'static str, width: usize) -> Vec<Self> {
        let code = type_code(width);
        let none = Options([0; 8]);
        let any_type = Options([0, 0xff, 0, 0, 0, 0, 0, 0]);
        let cascaded =
            |mode: u64, level: u64| Options([code | mode << 32, 1, 0, 7, level, 0, 0, 0]);
        let kinds: Vec<(&'static str, Options, Options)> = match name {
            "Cascaded" => {
                let mut kinds = vec![
                    ("asymmetric, level 3", cascaded(1, 3), any_type),
                    ("asymmetric, level 7", cascaded(1, 7), any_type),
                ];
                if width >= 4 {
                    kinds.push(("symmetric", cascaded(2, 3), any_type));
                }
                kinds
            }
            "Bitcomp" => vec![
                ("algorithm 0", Options([code << 32, 0, 0, 0, 0, 0, 0, 0]), none),
                ("algorithm 1", Options([1 | code << 32, 0, 0, 0, 0, 0, 0, 0]), none),
            ],
            "ANS" => vec![("bytes", none, Options([0xff << 32, 0, 0, 0, 0, 0, 0, 0]))],
            "Gdeflate" => vec![("algorithm 1", Options([1, 0, 0, 0, 0, 0, 0, 0]), none)],
            _ => vec![("defaults", none, none)],
        };
        let chunk =
            |chunk_bytes| {
                let of = move |&(text, compress, decompress): &(&'static str, Options, Options)| {
                    Self { name, text, compress, decompress, chunk_bytes }
                };
                kinds.iter().map(of).collect::<Vec<_>>()
            };
        [chunk(1 << 16), chunk(1 << 20)].concat()
    }

    /// Bytes of a chunk.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// The name of a function of the codec.
    fn symbol(&self, function: &str) -> String {
        format!("nvcompBatched{}{function}\0", self.name)
    }
}

/// A status as an error.
fn check(what: &str, status: c_int) -> Result<(), EngineError> {
    match status {
        0 => Ok(()),
        number => Err(EngineError::Device(format!("nvCOMP, {what}: status {number}"))),
    }
}

/// A failed call of the driver as an error.
fn fault(error: DriverError) -> EngineError {
    EngineError::Device(error.to_string())
}

/// The address of a list on the device.
fn address<T>(list: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    list.device_ptr(stream).0
}

impl NvComp {
    /// Loads the library for the first device.
    ///
    /// # Errors
    /// The loader's or the driver's message.
    pub(super) fn open() -> Result<Self, String> {
        let context = CudaContext::new(shoal_gpu::Gpu::FIRST).map_err(|error| error.to_string())?;
        let stream = context.new_stream().map_err(|error| error.to_string())?;
        let mut problem = String::new();
        for name in LIBRARIES {
            // SAFETY: loading runs only the library's own initialisers.
            match unsafe { Library::new(name) } {
                Ok(library) => return Ok(Self { library, stream }),
                Err(error) => problem = error.to_string(),
            }
        }
        Err(format!("nvCOMP was not found: {problem}"))
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` is the type that version 6 declares for the name.
    unsafe fn function<F: Copy>(
        &self,
        choice: &NvCompChoice,
        name: &str,
    ) -> Result<F, EngineError> {
        let symbol = choice.symbol(name);
        // SAFETY: guaranteed by the caller.
        let found = unsafe { self.library.get::<F>(symbol.as_bytes()) };
        found.map(|function| *function).map_err(|error| EngineError::Device(error.to_string()))
    }

    /// Scratch memory of `function` for a number of chunks.
    fn scratch(
        &self,
        choice: &NvCompChoice,
        function: &str,
        options: Options,
        chunks: usize,
        bytes: usize,
    ) -> Result<CudaSlice<u8>, EngineError> {
        let (stream, mut scratch_bytes) = (self.stream.cu_stream().cast(), 0);
        let to = &raw mut scratch_bytes;
        // SAFETY: the type is that of both functions for scratch sizes; `to` is valid for a write.
        let status = unsafe {
            let size: TempSize = self.function(choice, function)?;
            size(chunks, choice.chunk_bytes, options, to, bytes, stream)
        };
        check(function, status)?;
        self.room(scratch_bytes)
    }

    /// Zeros on the device; at least one byte, so that there is an address.
    fn room(&self, bytes: usize) -> Result<CudaSlice<u8>, EngineError> {
        self.stream.alloc_zeros(bytes.max(1)).map_err(fault)
    }

    /// A list on the device.
    fn list(&self, values: &[u64]) -> Result<CudaSlice<u64>, EngineError> {
        self.stream.clone_htod(values).map_err(fault)
    }

    /// The addresses of `count` pieces at intervals of `each` bytes, as a list on the device.
    fn pieces(
        &self,
        of: &CudaSlice<u8>,
        each: usize,
        count: usize,
    ) -> Result<CudaSlice<u64>, EngineError> {
        assert!(count * each <= of.len(), "{count} pieces of {each} bytes in {}", of.len());
        let first = address(of, &self.stream);
        let addresses: Vec<u64> = (0..count).map(|index| first + (index * each) as u64).collect();
        self.list(&addresses)
    }

    /// Copies a list from the device; waits for the stream.
    fn back<T: cudarc::driver::DeviceRepr>(
        &self,
        list: &CudaSlice<T>,
    ) -> Result<Vec<T>, EngineError> {
        let values = self.stream.clone_dtoh(list).map_err(fault)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(values)
    }

    /// Encodes bytes; also returns milliseconds on the device.
    ///
    /// # Errors
    /// [`EngineError::Device`].
    pub(super) fn encode(
        &self,
        choice: &NvCompChoice,
        bytes: &[u8],
    ) -> Result<(NvCompColumn, f64), EngineError> {
        let each = choice.chunk_bytes;
        let lengths: Vec<u64> = bytes.chunks(each).map(|chunk| chunk.len() as u64).collect();
        let count = lengths.len();
        if count == 0 {
            return Ok((NvCompColumn { chunks: Vec::new(), bytes: 0 }, 0.0));
        }
        let mut input = self.room(count * each)?;
        self.stream.memcpy_htod(bytes, &mut input).map_err(fault)?;
        let (inputs, input_lengths) = (self.pieces(&input, each, count)?, self.list(&lengths)?);
        let mut most = 0_usize;
        // SAFETY: the type is that of the function; `most` is valid for a write.
        let status = unsafe {
            let output_size: OutputSize = self.function(choice, "CompressGetMaxOutputChunkSize")?;
            output_size(each, choice.compress, &raw mut most)
        };
        check("output size", status)?;
        let most = most.next_multiple_of(ALIGN_BYTES);
        let output = self.room(count * most)?;
        let outputs = self.pieces(&output, most, count)?;
        let output_lengths = self.list(&vec![0; count])?;
        let statuses = self.room(count * size_of::<u32>())?;
        let scratch =
            self.scratch(choice, "CompressGetTempSize", choice.compress, count, bytes.len())?;
        let stream = &self.stream;
        let took_ms = timed(stream, || {
            // SAFETY: the type is that of the function. Every list has `count` entries, chunks have
            // the stated lengths, outputs the size required by the library; `timed` waits for the
            // stream while all are borrowed.
            let status = unsafe {
                let compress: Compress = self.function(choice, "CompressAsync")?;
                compress(
                    address(&inputs, stream),
                    address(&input_lengths, stream),
                    each,
                    count,
                    address(&scratch, stream),
                    scratch.len(),
                    address(&outputs, stream),
                    address(&output_lengths, stream),
                    choice.compress,
                    address(&statuses, stream),
                    stream.cu_stream().cast(),
                )
            };
            check("compress", status)
        })?;
        self.confirm(&statuses, "compress")?;
        let (output, lengths) = (self.back(&output)?, self.back(&output_lengths)?);
        let chunk = |(chunk, length): (&[u8], &u64)| chunk[..*length as usize].to_vec();
        let chunks = output.chunks(most).zip(&lengths).map(chunk).collect();
        Ok((NvCompColumn { chunks, bytes: bytes.len() }, took_ms))
    }

    /// Decodes what [`NvComp::encode`] returned; also returns milliseconds on the device.
    ///
    /// # Errors
    /// [`EngineError::Device`].
    pub(super) fn decode(
        &self,
        choice: &NvCompChoice,
        column: &NvCompColumn,
    ) -> Result<(Vec<u8>, f64), EngineError> {
        let (each, count) = (choice.chunk_bytes, column.chunks.len());
        if count == 0 {
            return Ok((Vec::new(), 0.0));
        }
        let longest = column.chunks.iter().map(Vec::len).max().unwrap_or(0);
        let most = longest.next_multiple_of(ALIGN_BYTES);
        let mut packed = vec![0; count * most];
        for (place, chunk) in packed.chunks_mut(most).zip(&column.chunks) {
            place[..chunk.len()].copy_from_slice(chunk);
        }
        let input = self.stream.clone_htod(&packed).map_err(fault)?;
        let inputs = self.pieces(&input, most, count)?;
        let lengths: Vec<u64> = column.chunks.iter().map(|chunk| chunk.len() as u64).collect();
        let rooms: Vec<u64> =
            (0..count).map(|index| (column.bytes - index * each).min(each) as u64).collect();
        let (input_lengths, room_lengths) = (self.list(&lengths)?, self.list(&rooms)?);
        let output_lengths = self.list(&vec![0; count])?;
        let output = self.room(count * each)?;
        let outputs = self.pieces(&output, each, count)?;
        let statuses = self.room(count * size_of::<u32>())?;
        let scratch =
            self.scratch(choice, "DecompressGetTempSize", choice.decompress, count, column.bytes)?;
        let stream = &self.stream;
        let took_ms = timed(stream, || {
            // SAFETY: as in `encode`; outputs have the stated capacity.
            let status = unsafe {
                let decompress: Decompress = self.function(choice, "DecompressAsync")?;
                decompress(
                    address(&inputs, stream),
                    address(&input_lengths, stream),
                    address(&room_lengths, stream),
                    address(&output_lengths, stream),
                    count,
                    address(&scratch, stream),
                    scratch.len(),
                    address(&outputs, stream),
                    choice.decompress,
                    address(&statuses, stream),
                    stream.cu_stream().cast(),
                )
            };
            check("decompress", status)
        })?;
        self.confirm(&statuses, "decompress")?;
        let mut bytes = self.back(&output)?;
        bytes.truncate(column.bytes);
        Ok((bytes, took_ms))
    }

    /// Fails unless every status is 0. A status is one word.
    fn confirm(&self, statuses: &CudaSlice<u8>, what: &str) -> Result<(), EngineError> {
        let statuses = self.back(statuses)?;
        let bad = statuses
            .chunks_exact(4)
            .map(|word| c_int::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .find(|status| *status != 0);
        check(what, bad.unwrap_or(0))
    }
}

/// Device time of the operations queued by `work`, milliseconds; waits for them.
fn timed(
    stream: &Arc<CudaStream>,
    work: impl FnOnce() -> Result<(), EngineError>,
) -> Result<f64, EngineError> {
    let event = || stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT));
    stream.synchronize().map_err(fault)?;
    let begin = event().map_err(fault)?;
    work()?;
    let end = event().map_err(fault)?;
    stream.synchronize().map_err(fault)?;
    Ok(begin.elapsed_ms(&end).map_err(fault)?.into())
}
