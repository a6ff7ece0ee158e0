//! Decodes whole blocks, tables and columns on the device. The number of launches does not depend
//! on the number of blocks, tables or columns.
//!
//! The device reports only which requests failed; the CPU codec then finds the invalid byte and the
//! rule that it breaks. Cycles do not use this decoder, because they decode their blocks in place.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, sys};
use shoal_codec::limits::SECTION_ALIGN_BYTES;
use shoal_codec::{
    Block, BlockError, Budget, Chunk, Column, EncodedTree, FixColumns, Grouping, Plan, Table,
    Values, check_column, decode_column,
};
use shoal_engine::EngineError;
use thiserror::Error;

use super::decoding::{ChunkSource, Decoding, Form, List, OutputRequest, Place};
use crate::device::Gpu;
use crate::launch::{ByteRange, CodecRanges, DeviceBuffer, Failed, Memory, Plain, bytes_of, fault};

/// Alignment of lists, bytes.
const ALIGN: usize = 256;

/// Failure of a decoder.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// A block breaks a rule of the format.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The device failed, or its memory is full.
    #[error(transparent)]
    Device(#[from] EngineError),
}

/// Decodes blocks and tables in memory of its own.
#[derive(Debug)]
pub struct Decoder {
    gpu: Gpu,
    stream: Arc<CudaStream>,
    /// Decoded columns, then the input.
    buffer: DeviceBuffer<u8>,
    failed: DeviceBuffer<u32>,
    loaded: Loaded,
}

/// Content of the device's buffer.
#[derive(Debug, Default)]
struct Loaded {
    lists: CodecRanges,
    /// By request, the place of each column of its block.
    places: Vec<Vec<Place>>,
}

/// Input of a decoder.
#[derive(Debug, Default)]
struct Input(Vec<u8>);

impl Input {
    fn push<T: Plain>(&mut self, values: &[T]) -> ByteRange {
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        let at = self.0.len();
        self.0.extend_from_slice(bytes_of(values));
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        ByteRange { at, length: values.len() }
    }

    /// Appends a section with the alignment of a block.
    fn push_section(&mut self, bytes: &[u8]) -> Range<usize> {
        let at = self.0.len();
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
        at..at + bytes.len()
    }
}

/// Decoded blocks on the device.
#[derive(Debug)]
pub(crate) struct DecodedBlocks<'a> {
    pub(crate) bytes: &'a DeviceBuffer<u8>,
    /// The first byte of each chunk, by block.
    pub(crate) first_bytes: Vec<Vec<usize>>,
}

/// An encoded column outside a block.
#[derive(Clone, Copy, Debug)]
pub struct EncodedColumn<'a> {
    /// Its plan and sections.
    pub encoded: &'a EncodedTree,
    /// The column that orders it, if its tree is keyed.
    pub key: Option<&'a EncodedTree>,
}

impl EncodedColumn<'_> {
    /// Checks everything except the tiles.
    fn check(&self) -> Result<(), BlockError> {
        if let Some(key) = self.key {
            let root = key.plan.root();
            assert!(key.plan.key_column().is_none(), "a key column is not keyed");
            assert!(!root.value_type.is_float(), "a key column has integers");
            check_column(key, None)?;
        }
        let rows = self.key.map(|key| key.plan.root().values as usize);
        check_column(self.encoded, rows)
    }

    /// Decodes the column on the host.
    fn decode(&self) -> Result<Values, BlockError> {
        let budget =
            Budget { rows_max: u32::MAX, scratch_bytes_max: usize::MAX, ..Budget::default() };
        let keys = self.key.map(|key| decode_column(key, None, &budget)).transpose()?;
        let grouping = keys.map(|keys| Grouping::new(&keys.keys()));
        decode_column(self.encoded, grouping.as_ref(), &budget)
    }
}

impl Decoder {
    /// A decoder that may take `budget_bytes` of the device's memory.
    ///
    /// # Errors
    /// [`EngineError::Device`] and [`EngineError::OutOfMemory`].
    pub fn new(gpu: &Gpu, budget_bytes: u64) -> Result<Self, EngineError> {
        Self::within(gpu, &gpu.memory(budget_bytes))
    }

    /// A decoder that takes its memory from the budget of `memory`.
    pub(crate) fn within(gpu: &Gpu, memory: &Memory) -> Result<Self, EngineError> {
        memory.bind()?;
        let stream = gpu.context.new_stream().map_err(fault)?;
        let (buffer, failed) = (DeviceBuffer::new(memory, 1)?, DeviceBuffer::new(memory, 1)?);
        Ok(Self { gpu: gpu.clone(), stream, buffer, failed, loaded: Loaded::default() })
    }

    /// Decodes blocks of fixes independently of each other.
    ///
    /// # Errors
    /// [`EngineError::Device`] and [`EngineError::OutOfMemory`]; a block
    /// that is refused has the error of [`Block::decode`].
    pub fn blocks(
        &mut self,
        blocks: &[Block],
    ) -> Result<Vec<Result<FixColumns, BlockError>>, EngineError> {
        self.load_blocks(blocks)?;
        self.decode()?;
        let failed = self.failed(blocks.len())?;
        let columns = |(number, block): (usize, &Block)| match failed[number] {
            0 => self.fixes(number, block).map(Ok),
            _ => refused(block.decode()).map(Err),
        };
        blocks.iter().enumerate().map(columns).collect()
    }

    /// Decodes blocks of fixes and leaves their columns on the device. `None` if a block is
    /// refused.
    pub(crate) fn on_device(
        &mut self,
        blocks: &[Block],
    ) -> Result<Option<DecodedBlocks<'_>>, EngineError> {
        self.load_blocks(blocks)?;
        self.decode()?;
        if self.failed(blocks.len())?.into_iter().any(|failed| failed != 0) {
            return Ok(None);
        }
        let first = |place: &Place| self.first_byte(*place);
        let places = self.loaded.places.iter().map(|chunks| chunks.iter().map(first).collect());
        Ok(Some(DecodedBlocks { bytes: &self.buffer, first_bytes: places.collect() }))
    }

    /// Decodes all chunks of a table independently of each other: columns, and the parts of columns
    /// of strings.
    ///
    /// # Errors
    /// As [`Decoder::blocks`], chunk by chunk.
    pub fn table(&mut self, table: &Table) -> Result<Vec<Result<Values, BlockError>>, EngineError> {
        self.load_tables(std::slice::from_ref(table))?;
        self.decode()?;
        let chunks = table.chunks();
        let mut failed = self.failed(chunks.len())?;
        for (number, chunk) in chunks.iter().enumerate() {
            let key = chunk.plan.key_column().map(|(id, _)| id);
            let key = key.and_then(|id| chunks.iter().position(|chunk| chunk.id == id));
            failed[number] |= key.map_or(0, |key| failed[key]);
        }
        let mut columns = Vec::with_capacity(chunks.len());
        for (number, chunk) in chunks.iter().enumerate() {
            columns.push(if failed[number] != 0 {
                Err(refused(table.decode_chunk(number, 0..chunk.values()))?)
            } else {
                let bytes = chunk.values() * chunk.value_type.width_bytes();
                Ok(Values::from_le_bytes(chunk.value_type, &self.column(0, number, bytes)?))
            });
        }
        Ok(columns)
    }

    /// Copies blocks to the device in place of the previous input.
    ///
    /// # Errors
    /// [`EngineError::Device`] and [`EngineError::OutOfMemory`].
    pub fn load_blocks(&mut self, blocks: &[Block]) -> Result<(), EngineError> {
        let (mut input, mut decoding) = (Input::default(), Decoding::default());
        let mut places = Vec::with_capacity(blocks.len());
        for (request, block) in (0_u32..).zip(blocks) {
            let start = input.push(block.bytes()).at as u64;
            let output = OutputRequest { request, ..OutputRequest::default() };
            let (sources, outputs) = of_block(block, output);
            places.push(decoding.add_block(start, &sources, &outputs));
        }
        self.load(input, &decoding, places, blocks.len())
    }

    /// Copies tables to the device in place of the previous input; columns fail independently of
    /// each other.
    ///
    /// # Errors
    /// [`EngineError::Device`] and [`EngineError::OutOfMemory`].
    pub fn load_tables(&mut self, tables: &[Table]) -> Result<(), EngineError> {
        let (mut input, mut decoding) = (Input::default(), Decoding::default());
        let (mut places, mut requests) = (Vec::with_capacity(tables.len()), 0);
        for table in tables {
            let start = input.push(table.bytes()).at as u64;
            let chunks = table.chunks().iter();
            let sources: Vec<ChunkSource<'_>> = chunks
                .map(|chunk| ChunkSource {
                    id: chunk.id,
                    plan: &chunk.plan,
                    sections: &chunk.sections,
                })
                .collect();
            let output = |request| OutputRequest { request, ..OutputRequest::default() };
            let outputs: Vec<_> = (requests..).take(sources.len()).map(output).collect();
            requests += sources.len() as u32;
            places.push(decoding.add_block(start, &sources, &outputs));
        }
        self.load(input, &decoding, places, requests as usize)
    }

    /// Decodes columns outside blocks independently of each other.
    ///
    /// # Errors
    /// As [`Decoder::blocks`], column by column, with the errors of [`decode_column`].
    ///
    /// # Panics
    /// If a key column is itself keyed or has floats.
    pub fn columns(
        &mut self,
        columns: &[EncodedColumn<'_>],
    ) -> Result<Vec<Result<Values, BlockError>>, EngineError> {
        let checked: Vec<_> = columns.iter().map(EncodedColumn::check).collect();
        self.load_columns(columns, &checked)?;
        self.decode()?;
        let failed = self.failed(columns.len())?;
        let decoded = checked.into_iter().zip(columns).enumerate();
        let decoded = decoded.map(|(number, (checked, column))| {
            let root = column.encoded.plan.root();
            match checked {
                Err(error) => Ok(Err(error)),
                Ok(()) if failed[number] != 0 => refused(column.decode()).map(Err),
                Ok(()) => {
                    let bytes = root.values as usize * root.value_type.width_bytes();
                    // A key precedes the column that it orders.
                    let chunk = usize::from(column.key.is_some());
                    Ok(Ok(Values::from_le_bytes(
                        root.value_type,
                        &self.column(number, chunk, bytes)?,
                    )))
                }
            }
        });
        decoded.collect()
    }

    /// Copies columns that passed their checks to the device in place of the previous input.
    fn load_columns(
        &mut self,
        columns: &[EncodedColumn<'_>],
        checked: &[Result<(), BlockError>],
    ) -> Result<(), EngineError> {
        let (mut input, mut decoding) = (Input::default(), Decoding::default());
        let mut places = Vec::with_capacity(columns.len());
        for ((request, column), checked) in (0_u32..).zip(columns).zip(checked) {
            if checked.is_err() {
                places.push(Vec::new());
                continue;
            }
            let id = column.encoded.plan.key_column().map_or(1, |(id, _)| id);
            let trees = [column.key.map(|key| (id, key)), Some((id + 1, column.encoded))];
            let mut placed: Vec<(u16, &Plan, Vec<Range<usize>>)> = Vec::new();
            for (id, tree) in trees.into_iter().flatten() {
                let sections = tree.sections.iter().map(|bytes| input.push_section(bytes));
                placed.push((id, &tree.plan, sections.collect()));
            }
            let sources: Vec<ChunkSource<'_>> = placed
                .iter()
                .map(|(id, plan, sections)| ChunkSource { id: *id, plan, sections })
                .collect();
            // Keys are not read back, so raw ones may remain in the input.
            let output = |form| OutputRequest { form, request, limits: None };
            let mut outputs = vec![output(Form::Rows); sources.len()];
            outputs[sources.len() - 1] = output(Form::Decoded);
            places.push(decoding.add_block(0, &sources, &outputs));
        }
        self.load(input, &decoding, places, columns.len())
    }

    /// Copies input and lists to the device.
    fn load(
        &mut self,
        mut input: Input,
        decoding: &Decoding,
        places: Vec<Vec<Place>>,
        requests: usize,
    ) -> Result<(), EngineError> {
        let front = decoding.bytes as usize;
        let lists = decoding.place(&mut |list| {
            let range = match list {
                List::Steps(list) => input.push(list),
                List::Opens(list) => input.push(list),
                List::Keys(list) => input.push(list),
                List::Scatters(list) => input.push(list),
                List::Strings(list) => input.push(list),
                List::Columns(list) => input.push(list),
            };
            ByteRange { at: front + range.at, ..range }
        });
        self.gpu.context.bind_to_thread().map_err(fault)?;
        self.buffer.fit(front + input.0.len())?;
        self.failed.fit(requests)?;
        self.buffer.upload(&self.stream, front, &input.0)?;
        self.stream.synchronize().map_err(fault)?;
        self.loaded = Loaded { lists, places };
        Ok(())
    }

    /// Decodes the input on the device; returns the milliseconds by the device's clock. The results
    /// remain on the device.
    ///
    /// # Errors
    /// [`EngineError::Device`].
    pub fn decode(&mut self) -> Result<f32, EngineError> {
        let stream = &self.stream;
        let event = || stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT));
        self.failed.fill(stream, 0, self.failed.len())?;
        let begin = event().map_err(fault)?;
        let failed = Failed::words(&self.failed);
        self.gpu.kernels.codec_decode(stream, &self.buffer, &self.loaded.lists, failed)?;
        let end = event().map_err(fault)?;
        stream.synchronize().map_err(fault)?;
        begin.elapsed_ms(&end).map_err(fault)
    }

    /// The flag of each request: 0 unless it failed.
    fn failed(&self, requests: usize) -> Result<Vec<u32>, EngineError> {
        let mut failed = vec![0; requests];
        self.failed.download(&self.stream, 0, &mut failed)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(failed)
    }

    /// The bytes of a decoded column.
    fn column(&self, block: usize, chunk: usize, bytes: usize) -> Result<Vec<u8>, EngineError> {
        let mut column = vec![0; bytes];
        if bytes == 0 {
            return Ok(column);
        }
        let at = self.first_byte(self.loaded.places[block][chunk]);
        self.buffer.download(&self.stream, at, &mut column)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(column)
    }

    /// The first byte in the buffer of a column that was requested in row order.
    fn first_byte(&self, place: Place) -> usize {
        match place {
            Place::Output(at) => at as usize,
            Place::Input(at) => self.loaded.lists.front + at as usize,
            _ => unreachable!("all are requested by row"),
        }
    }

    /// The columns of a decoded block.
    fn fixes(&self, number: usize, block: &Block) -> Result<FixColumns, EngineError> {
        let mut columns = FixColumns::new();
        let base_ms = block.header().base_time_ms;
        for (index, (column, chunk)) in block.columns().enumerate() {
            let value_type = chunk.value_type;
            let bytes = self.column(number, index, block.rows() * value_type.width_bytes())?;
            columns.set_column(column, Values::from_le_bytes(value_type, &bytes), base_ms);
        }
        Ok(columns)
    }
}

/// The chunks of a block, and for each a copy of `output` with the limits that the header sets: the
/// range of times or the box of positions.
pub(crate) fn of_block(
    block: &Block,
    output: OutputRequest,
) -> (Vec<ChunkSource<'_>>, Vec<OutputRequest>) {
    let header = block.header();
    let limits = |column: Column| match column {
        Column::Time => Some((header.time_min_offset_ms, header.time_max_offset_ms)),
        Column::X => Some((header.x_min as u32, header.x_max as u32)),
        Column::Y => Some((header.y_min as u32, header.y_max as u32)),
        _ => None,
    };
    // The decoder compares the distance from the least value, which takes one comparison for signed
    // and unsigned types.
    let span = |(least, most): (u32, u32)| (least, most.wrapping_sub(least));
    block
        .columns()
        .map(|(column, chunk)| {
            let Chunk { id, plan, sections, .. } = chunk;
            let limits = limits(column).map(span);
            (ChunkSource { id: *id, plan, sections }, OutputRequest { limits, ..output })
        })
        .unzip()
}

/// The error of the CPU's codec for a block that the device refused.
fn refused<T>(decoded: Result<T, BlockError>) -> Result<BlockError, EngineError> {
    match decoded {
        Err(error) => Ok(error),
        Ok(_) => Err(EngineError::Device("it refused a block that the CPU accepts".to_owned())),
    }
}
