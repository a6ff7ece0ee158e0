//! NVIDIA's nvCOMP (version 6, its batched C interface), for comparison alone: loaded at run time
//! from the library that the user has, never linked or shipped.
//!
//! All its codecs share one form of call and 64 bytes of options. A column is cut into chunks of
//! one size; chunks lie in device memory before and after, so that its clock counts its own work.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::driver::{CudaStream, sys};
use libloading::Library;
use shoal_engine::EngineError;

use super::codec_encode_memory::{Arena, DeviceSlice};
use super::memory::fault;
use crate::device::Gpu;

/// Where the library is looked for, by the loader's rules.
const LIBRARIES: [&str; 2] = ["libnvcomp.so.6", "libnvcomp.so"];
/// Temporary memory and chunks begin at multiples of so many bytes; no codec asks for more.
const ALIGN_BYTES: usize = 256;
/// Bytes that tell the length of a chunk.
const LENGTH_BYTES: usize = 4;

/// Options of any codec, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Options([u64; 8]);

type Stream = *mut c_void;
type TempSize = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, Stream) -> c_int;
type OutputSize = unsafe extern "C" fn(usize, Options, *mut usize) -> c_int;
/// Chunks, their bytes, chunk bytes at most, number, scratch, its bytes, outputs, their bytes,
/// options, statuses, stream.
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
/// Chunks, their bytes, room of outputs, their bytes, number, scratch, its bytes, outputs,
/// options, statuses, stream.
type Decompress =
    unsafe extern "C" fn(u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, Stream) -> c_int;

/// A codec of nvCOMP with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvCompChoice {
    name: &'static str,
    /// What was chosen, for people.
    pub text: &'static str,
    compress: Options,
    decompress: Options,
    chunk_bytes: usize,
}

/// An encoded column: every chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvCompColumn {
    chunks: Vec<Vec<u8>>,
    bytes: usize,
}

impl NvCompColumn {
    /// Bytes of all chunks and of their lengths.
    pub fn encoded_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len() + LENGTH_BYTES).sum()
    }
}

/// The library and what it works with.
#[derive(Debug)]
pub struct NvComp {
    gpu: Gpu,
    library: Library,
    stream: Arc<CudaStream>,
    arena: Arena,
}

/// The code of an unsigned integer type of so many bytes (`nvcompType_t`).
fn type_code(width: usize) -> u64 {
    match width {
        1 => 1,
        2 => 3,
        4 => 5,
        _ => 7,
    }
}

impl NvCompChoice {
    /// What is worth a trial of the codec `name` on values of `width` bytes: its options, and
    /// small chunks and large ones.
    pub fn all(name: &'static str, width: usize) -> Vec<Self> {
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
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// The name of one of its functions.
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

impl NvComp {
    /// The library, if there is one.
    ///
    /// # Errors
    /// What the loader says.
    pub fn open(gpu: &Gpu, memory_bytes: u64) -> Result<Self, String> {
        let mut problem = String::new();
        for name in LIBRARIES {
            // SAFETY: the library's initialisers are NVIDIA's; nothing else runs on loading.
            match unsafe { Library::new(name) } {
                Ok(library) => {
                    let memory = gpu.memory(memory_bytes);
                    memory.bind().map_err(|error| error.to_string())?;
                    let stream = gpu.context.new_stream().map_err(|error| error.to_string())?;
                    let arena = Arena::new(&memory);
                    return Ok(Self { gpu: gpu.clone(), library, stream, arena });
                }
                Err(error) => problem = error.to_string(),
            }
        }
        Err(format!("nvCOMP is not there: {problem}"))
    }

    /// A function of the library.
    fn function<F: Copy>(&self, choice: &NvCompChoice, name: &str) -> Result<F, EngineError> {
        let symbol = choice.symbol(name);
        // SAFETY: the callers give the type that version 6 declares for the name.
        let found = unsafe { self.library.get::<F>(symbol.as_bytes()) };
        found.map(|function| *function).map_err(|error| EngineError::Device(error.to_string()))
    }

    /// Scratch memory of `function` for so many chunks.
    fn scratch(
        &mut self,
        choice: &NvCompChoice,
        (function, options): (&str, Options),
        (chunks, bytes): (usize, usize),
    ) -> Result<DeviceSlice<u8>, EngineError> {
        let size: TempSize = self.function(choice, function)?;
        let (stream, mut scratch_bytes) = (self.stream.cu_stream().cast(), 0);
        let to = &raw mut scratch_bytes;
        // SAFETY: a number is written to a place that is there.
        check(function, unsafe { size(chunks, choice.chunk_bytes, options, to, bytes, stream) })?;
        self.arena.room(scratch_bytes)
    }

    /// Addresses of pieces of a room, `each` bytes apart, on the device.
    fn pieces(
        &mut self,
        of: DeviceSlice<u8>,
        each: usize,
        count: usize,
    ) -> Result<DeviceSlice<u64>, EngineError> {
        let addresses: Vec<u64> =
            (0..count).map(|index| of.part(index * each, 0).address()).collect();
        let room = self.arena.room(count)?;
        room.upload(&self.stream, &addresses)?;
        Ok(room)
    }

    /// Encodes bytes; gives milliseconds of the device too.
    ///
    /// # Errors
    /// [`EngineError::Device`], or no memory.
    pub fn encode(
        &mut self,
        choice: &NvCompChoice,
        bytes: &[u8],
    ) -> Result<(NvCompColumn, f64), EngineError> {
        self.gpu.context.bind_to_thread().map_err(fault)?;
        self.arena.clear()?;
        let each = choice.chunk_bytes;
        let lengths: Vec<u64> = bytes.chunks(each).map(|chunk| chunk.len() as u64).collect();
        let count = lengths.len();
        if count == 0 {
            return Ok((NvCompColumn { chunks: Vec::new(), bytes: 0 }, 0.0));
        }
        let input = self.arena.room::<u8>(count * each)?;
        input.upload(&self.stream, bytes)?;
        let inputs = self.pieces(input, each, count)?;
        let input_lengths = self.arena.room(count)?;
        input_lengths.upload(&self.stream, &lengths)?;
        let output_size: OutputSize = self.function(choice, "CompressGetMaxOutputChunkSize")?;
        let mut most = 0_usize;
        // SAFETY: a number is written to a place that is there.
        let status = unsafe { output_size(each, choice.compress, &raw mut most) };
        check("output size", status)?;
        let most = most.next_multiple_of(ALIGN_BYTES);
        let output = self.arena.room::<u8>(count * most)?;
        let outputs = self.pieces(output, most, count)?;
        let output_lengths = self.arena.room::<u64>(count)?;
        let statuses = self.arena.room::<u32>(count)?;
        statuses.fill(&self.stream, 0)?;
        let extent = (count, bytes.len());
        let scratch = self.scratch(choice, ("CompressGetTempSize", choice.compress), extent)?;
        let compress: Compress = self.function(choice, "CompressAsync")?;
        let stream = self.stream.clone();
        let took_ms = timed(&stream, || {
            // SAFETY: every list has `count` entries; chunks are as long as stated, outputs as the
            // library asked; all stay until the stream is waited for.
            let status = unsafe {
                compress(
                    inputs.address(),
                    input_lengths.address(),
                    each,
                    count,
                    scratch.address(),
                    scratch.len(),
                    outputs.address(),
                    output_lengths.address(),
                    choice.compress,
                    statuses.address(),
                    stream.cu_stream().cast(),
                )
            };
            check("compress", status)
        })?;
        self.confirm(statuses, "compress")?;
        let chunks = self.chunks(output, most, output_lengths)?;
        Ok((NvCompColumn { chunks, bytes: bytes.len() }, took_ms))
    }

    /// Chunks of these lengths that lie `each` bytes apart.
    fn chunks(
        &self,
        output: DeviceSlice<u8>,
        each: usize,
        lengths_there: DeviceSlice<u64>,
    ) -> Result<Vec<Vec<u8>>, EngineError> {
        let mut lengths = vec![0_u64; lengths_there.len()];
        lengths_there.download(&self.stream, &mut lengths)?;
        self.stream.synchronize().map_err(fault)?;
        let mut chunks = Vec::with_capacity(lengths.len());
        for (index, length) in lengths.iter().enumerate() {
            let mut chunk = vec![0; *length as usize];
            output.part(index * each, chunk.len()).download(&self.stream, &mut chunk)?;
            chunks.push(chunk);
        }
        self.stream.synchronize().map_err(fault)?;
        Ok(chunks)
    }

    /// Decodes what [`NvComp::encode`] gave; gives milliseconds of the device too.
    ///
    /// # Errors
    /// [`EngineError::Device`], or no memory.
    pub fn decode(
        &mut self,
        choice: &NvCompChoice,
        column: &NvCompColumn,
    ) -> Result<(Vec<u8>, f64), EngineError> {
        self.gpu.context.bind_to_thread().map_err(fault)?;
        self.arena.clear()?;
        let (each, count) = (choice.chunk_bytes, column.chunks.len());
        if count == 0 {
            return Ok((Vec::new(), 0.0));
        }
        let longest = column.chunks.iter().map(Vec::len).max().unwrap_or(0);
        let most = longest.next_multiple_of(ALIGN_BYTES);
        let input = self.arena.room::<u8>(count * most)?;
        for (index, chunk) in column.chunks.iter().enumerate() {
            input.part(index * most, chunk.len()).upload(&self.stream, chunk)?;
        }
        let inputs = self.pieces(input, most, count)?;
        let lengths: Vec<u64> = column.chunks.iter().map(|chunk| chunk.len() as u64).collect();
        let rooms: Vec<u64> =
            (0..count).map(|index| (column.bytes - index * each).min(each) as u64).collect();
        let [input_lengths, room_lengths, output_lengths] =
            [self.arena.room(count)?, self.arena.room(count)?, self.arena.room::<u64>(count)?];
        input_lengths.upload(&self.stream, &lengths)?;
        room_lengths.upload(&self.stream, &rooms)?;
        let output = self.arena.room::<u8>(count * each)?;
        let outputs = self.pieces(output, each, count)?;
        let statuses = self.arena.room::<u32>(count)?;
        statuses.fill(&self.stream, 0)?;
        let extent = (count, column.bytes);
        let scratch = self.scratch(choice, ("DecompressGetTempSize", choice.decompress), extent)?;
        let decompress: Decompress = self.function(choice, "DecompressAsync")?;
        let stream = self.stream.clone();
        let took_ms = timed(&stream, || {
            // SAFETY: as above; outputs have the room that is stated.
            let status = unsafe {
                decompress(
                    inputs.address(),
                    input_lengths.address(),
                    room_lengths.address(),
                    output_lengths.address(),
                    count,
                    scratch.address(),
                    scratch.len(),
                    outputs.address(),
                    choice.decompress,
                    statuses.address(),
                    stream.cu_stream().cast(),
                )
            };
            check("decompress", status)
        })?;
        self.confirm(statuses, "decompress")?;
        let mut bytes = vec![0; column.bytes];
        output.download(&self.stream, &mut bytes)?;
        self.stream.synchronize().map_err(fault)?;
        Ok((bytes, took_ms))
    }

    /// Every chunk went well.
    fn confirm(&self, statuses: DeviceSlice<u32>, what: &str) -> Result<(), EngineError> {
        let mut found = vec![0; statuses.len()];
        statuses.download(&self.stream, &mut found)?;
        self.stream.synchronize().map_err(fault)?;
        let bad = found.into_iter().find(|status| *status != 0);
        check(what, bad.unwrap_or(0) as c_int)
    }
}

/// Milliseconds of the device for what `work` queues, which is waited for.
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
