//! The device's encoder of blocks and columns. Its bytes equal those of the CPU encoder.
//!
//! Columns are encoded in parallel, each on a stream with its own memory. A column stays raw if its
//! tree does not apply or does not make it smaller.

use std::sync::{Arc, Mutex, PoisonError};

use shoal_codec::assemble::{BlockFrame, ChunkShape};
use shoal_codec::{
    BlockCodec, BlockPlan, Column, ColumnOutcome, ColumnValues, CpuCodec, EncodedTree, FixColumns,
    Planner, SpaceTag, Statistics, Tree, Values, encode_column,
};
use shoal_engine::EngineError;

use super::column::{self, Sections};
use super::device_batch::DeviceBatch;
use super::error::EncodeError;
use super::order::Order;
use super::resident::{DeviceColumn, Encoded};
use super::source::Source;
use super::worker::Worker;
use crate::device::Gpu;
use crate::launch::{DeviceSlice, EncodeKernels, Memory, bytes_of, fault};

/// Encodes on the device.
#[derive(Debug)]
pub struct Encoder {
    gpu: Gpu,
    memory: Memory,
    /// One for each column of fixes.
    pub(super) workers: Vec<Worker>,
}

/// A column of a block during encoding.
struct Chunk {
    source: Source,
    /// `None` if it stays raw.
    sections: Option<Sections>,
    shape: ChunkShape,
}

impl Encoder {
    /// An encoder that may use `memory_bytes` of device memory. It needs a few times the bytes that
    /// are encoded at once.
    ///
    /// # Errors
    /// [`EngineError::Device`] and [`EngineError::OutOfMemory`].
    pub fn new(gpu: &Gpu, memory_bytes: u64) -> Result<Self, EngineError> {
        Self::with(gpu, memory_bytes, EncodeKernels::load(&gpu.context).map_err(fault)?)
    }

    /// An encoder as on a device without enough shared memory for segments.
    #[cfg(test)]
    pub(super) fn without_segments(gpu: &Gpu, memory_bytes: u64) -> Result<Self, EngineError> {
        let kernels = EncodeKernels::load(&gpu.context).map_err(fault)?;
        Self::with(gpu, memory_bytes, kernels.without_segments())
    }

    fn with(gpu: &Gpu, memory_bytes: u64, kernels: EncodeKernels) -> Result<Self, EngineError> {
        let memory = gpu.memory(memory_bytes);
        memory.bind()?;
        let kernels = Arc::new(kernels);
        let worker = |_: &Column| Worker::new(gpu, &memory, &kernels);
        let workers = Column::ALL.iter().map(worker).collect::<Result<_, _>>()?;
        Ok(Self { gpu: gpu.clone(), memory, workers })
    }

    /// Encodes `columns` as a block and replaces `out` with it. The bytes equal those of
    /// [`BlockCodec::encode_planned`] on the CPU.
    ///
    /// # Errors
    /// As [`BlockCodec::encode_planned`], and errors of the device.
    pub fn encode_planned(
        &mut self,
        columns: &FixColumns,
        plan: &BlockPlan,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<ColumnOutcome>, EncodeError> {
        out.clear();
        let frame = BlockFrame::new(columns, space)?;
        if columns.is_empty() {
            return Ok(CpuCodec.encode_planned(columns, plan, space, sequence, out)?);
        }
        let (sources, order) = self.load(columns, &frame, plan_is_keyed(plan, &frame))?;
        self.block(&frame, &sources, order, plan, (space, sequence), out)
    }

    /// Plans a batch of a stream on the device, encodes it and reports the outcome to the planner.
    /// The bytes equal those of [`Planner::encode`] on the CPU.
    ///
    /// # Errors
    /// As [`Encoder::encode_planned`].
    pub fn encode_next(
        &mut self,
        planner: &mut Planner,
        columns: &FixColumns,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        out.clear();
        let frame = BlockFrame::new(columns, space)?;
        if columns.is_empty() {
            return Ok(planner.encode(&CpuCodec, columns, space, sequence, out)?);
        }
        let (sources, order) = self.load(columns, &frame, true)?;
        let set: Vec<Column> = frame.set().iter().collect();
        let planners: Vec<_> = planner
            .columns_mut()
            .filter(|(column, _)| set.contains(column))
            .map(|(_, planner)| Mutex::new(planner))
            .collect();
        let trees = on_threads(&mut self.workers[..set.len()], |index, worker| {
            let keys = (set[index] != Column::Object).then_some(sources[0]);
            let mut planner = planners[index].lock().unwrap_or_else(PoisonError::into_inner);
            planner.plan_by(&mut DeviceBatch::new(worker, sources[index], keys))
        })?;
        let mut plan = BlockPlan::raw();
        for (column, tree) in set.iter().zip(trees) {
            plan = plan.with(*column, tree);
        }
        let outcomes = self.block(&frame, &sources, order, &plan, (space, sequence), out)?;
        Ok(planner.finish(&outcomes, out)?)
    }

    /// Encodes a column with exactly this tree, as [`encode_column`] does. `keys` has the values
    /// and the number of the key column, whose values are integers.
    ///
    /// # Errors
    /// [`EncodeError::NotApplicable`] as [`encode_column`], and errors of the device.
    pub fn encode_column(
        &mut self,
        values: &Values,
        tree: &Tree,
        keys: Option<(&Values, u16)>,
    ) -> Result<EncodedTree, EncodeError> {
        if values.is_empty() {
            let grouping = shoal_codec::Grouping::new(&[]);
            let keys = keys.map(|(_, column)| shoal_codec::Keys { grouping: &grouping, column });
            return Ok(encode_column(values, tree, keys)?);
        }
        self.clear()?;
        let worker = &mut self.workers[0];
        let column = uploaded(worker, values)?;
        let source = match keys {
            Some((keys, _)) if tree.is_keyed() => {
                assert_eq!(keys.len(), values.len(), "a key a row");
                let keys = uploaded(worker, keys)?;
                Order::with(worker, &keys, &column)?.1
            }
            None if tree.is_keyed() => return EncodeError::because("a keyed tree takes keys"),
            _ => column,
        };
        let key_column = keys.map_or(0, |(_, column)| column);
        let (sections, shape) = column::encode(worker, &source, tree, key_column)?;
        downloaded(worker, &sections, shape)
    }

    /// The planner's statistics of a column.
    ///
    /// # Errors
    /// [`EncodeError::Engine`] if the device fails or lacks memory.
    pub fn statistics(&mut self, values: &Values) -> Result<Statistics, EncodeError> {
        self.clear()?;
        let worker = &mut self.workers[0];
        let source = uploaded(worker, values)?;
        worker.statistics(&source)
    }

    /// A copy of a column in the device's memory.
    ///
    /// # Errors
    /// [`EncodeError::Engine`] if the device fails or lacks memory.
    pub fn upload(&mut self, values: &Values) -> Result<DeviceColumn, EncodeError> {
        let worker = &self.workers[0];
        let column = DeviceColumn::new(&self.memory, values.value_type(), values.len() as u32)?;
        let bytes = values.to_le_bytes();
        column.slice().upload(&worker.stream, &bytes)?;
        worker.wait()?;
        Ok(column)
    }

    /// Encodes columns in device memory one after another and measures the time, which includes
    /// grouping by `key`. No column is empty.
    ///
    /// # Errors
    /// As [`Encoder::encode_column`].
    pub fn encode_resident(
        &mut self,
        columns: &[(&DeviceColumn, &Tree)],
        key: Option<&DeviceColumn>,
    ) -> Result<Encoded, EncodeError> {
        self.clear()?;
        let worker = &mut self.workers[0];
        let flags = Some(cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = || self.gpu.context.new_event(flags).map_err(fault);
        let (start, end) = (event()?, event()?);
        start.record(&worker.stream).map_err(fault)?;
        let mut order: Option<Order> = None;
        let mut encoded_bytes = Vec::with_capacity(columns.len());
        for (column, tree) in columns {
            let source = match (order, key) {
                _ if !tree.is_keyed() => column.source(),
                (Some(order), _) => order.of(worker, &column.source())?,
                (None, Some(key)) => {
                    let found = Order::with(worker, &key.source(), &column.source())?;
                    order = Some(found.0);
                    found.1
                }
                (None, None) => return EncodeError::because("a keyed tree takes keys"),
            };
            let (sections, shape) = column::encode(worker, &source, tree, Column::Object.id())?;
            sections.payload(worker, &shape)?;
            encoded_bytes.push(shape.bytes());
        }
        end.record(&worker.stream).map_err(fault)?;
        worker.wait()?;
        let device_ms = start.elapsed_ms(&end).map_err(fault)?.into();
        Ok(Encoded { encoded_bytes, device_ms })
    }

    /// Uploads the columns of a batch. If `is_keyed`, also finds the order of its objects.
    fn load(
        &mut self,
        columns: &FixColumns,
        frame: &BlockFrame<'_>,
        is_keyed: bool,
    ) -> Result<(Vec<Source>, Option<Order>), EncodeError> {
        self.clear()?;
        let set: Vec<Column> = frame.set().iter().collect();
        let (rows, base_time_ms) = (columns.len() as u32, frame.base_time_ms());
        let sources = on_threads(&mut self.workers[..set.len()], |index, worker| {
            let values = upload(worker, columns, set[index], base_time_ms)?;
            Ok(Source::column(values, set[index].value_type(), rows))
        })?;
        let first = &mut self.workers[0];
        let order = is_keyed.then(|| Order::new(first, &sources[0])).transpose()?;
        first.wait()?;
        Ok((sources, order))
    }

    /// Encodes the block of uploaded columns.
    fn block(
        &mut self,
        frame: &BlockFrame<'_>,
        sources: &[Source],
        order: Option<Order>,
        plan: &BlockPlan,
        (space, sequence): (&SpaceTag, u64),
        out: &mut Vec<u8>,
    ) -> Result<Vec<ColumnOutcome>, EncodeError> {
        let set: Vec<Column> = frame.set().iter().collect();
        let chunks = on_threads(&mut self.workers[..set.len()], |index, worker| {
            smallest(worker, sources[index], plan.tree(set[index]), order)
        })?;
        let shapes: Vec<ChunkShape> = chunks.iter().map(|chunk| chunk.shape.clone()).collect();
        let payload = frame.open(&shapes, out);
        self.deliver(&chunks, &mut out[payload..])?;
        Ok(frame.seal(&shapes, space, sequence, out))
    }

    /// Releases all memory.
    pub(super) fn clear(&mut self) -> Result<(), EngineError> {
        self.memory.bind()?;
        for worker in &mut self.workers {
            worker.wait()?;
            worker.arena.clear()?;
        }
        Ok(())
    }

    /// Downloads the sections of all chunks to `out`, one chunk after the other.
    fn deliver(&mut self, chunks: &[Chunk], out: &mut [u8]) -> Result<(), EngineError> {
        let mut start = 0;
        for (worker, chunk) in self.workers.iter_mut().zip(chunks) {
            let to = &mut out[start..start + chunk.shape.payload_bytes()];
            start += to.len();
            let payload = match &chunk.sections {
                Some(sections) => sections.payload(worker, &chunk.shape)?,
                None => chunk.source.values,
            };
            let (to, zeros) = to.split_at_mut(payload.len());
            zeros.fill(0);
            payload.download(&worker.stream, to)?;
        }
        for worker in &self.workers {
            worker.wait()?;
        }
        Ok(())
    }
}

/// True if a tree of the plan is keyed.
fn plan_is_keyed(plan: &BlockPlan, frame: &BlockFrame<'_>) -> bool {
    frame.set().iter().any(|column| plan.tree(column).is_keyed())
}

/// Runs `work` for every worker on a separate thread, which mostly waits for the device; returns
/// the results in order.
pub(super) fn on_threads<T: Send>(
    workers: &mut [Worker],
    work: impl Fn(usize, &mut Worker) -> Result<T, EncodeError> + Sync,
) -> Result<Vec<T>, EncodeError> {
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, worker) in workers.iter_mut().enumerate() {
            let work = &work;
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                worker.memory.bind()?;
                work(index, worker)
            });
            threads.push(thread.map_err(|error| EngineError::Device(error.to_string()))?);
        }
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

/// Encodes a column with its tree; leaves it raw if the tree does not apply or does not make it
/// smaller.
fn smallest(
    worker: &mut Worker,
    source: Source,
    tree: &Tree,
    order: Option<Order>,
) -> Result<Chunk, EncodeError> {
    let raw = ChunkShape::raw(source.value_type, source.rows);
    if *tree != Tree::Raw {
        let grouped = match order {
            Some(order) if tree.is_keyed() => order.of(worker, &source)?,
            _ => source,
        };
        match column::encode(worker, &grouped, tree, Column::Object.id()) {
            Ok((sections, shape)) if shape.bytes() < raw.bytes() => {
                return Ok(Chunk { source, sections: Some(sections), shape });
            }
            Ok(_) | Err(EncodeError::NotApplicable(_)) => {}
            Err(error) => return Err(error),
        }
    }
    worker.wait()?;
    Ok(Chunk { source, sections: None, shape: raw })
}

/// Downloads the plan and sections of an encoded column.
pub(super) fn downloaded(
    worker: &mut Worker,
    sections: &Sections,
    shape: ChunkShape,
) -> Result<EncodedTree, EncodeError> {
    let payload = sections.payload(worker, &shape)?;
    let mut bytes = vec![0; shape.payload_bytes()];
    payload.download(&worker.stream, &mut bytes)?;
    worker.wait()?;
    let section =
        |(start, length): (&usize, &u64)| bytes[*start..*start + *length as usize].to_vec();
    let places = shape.section_places();
    let sections = places.iter().zip(&shape.section_bytes).map(section).collect();
    Ok(EncodedTree { plan: shape.plan, sections })
}

/// Uploads a column of values.
pub(super) fn uploaded(worker: &mut Worker, values: &Values) -> Result<Source, EngineError> {
    let bytes = values.to_le_bytes();
    let slice = worker.arena.allocate::<u8>(bytes.len())?;
    slice.upload(&worker.stream, &bytes)?;
    worker.wait()?;
    Ok(Source::column(slice, values.value_type(), values.len() as u32))
}

/// Uploads a column of fixes in its wire form.
fn upload(
    worker: &mut Worker,
    columns: &FixColumns,
    column: Column,
    base_time_ms: i64,
) -> Result<DeviceSlice<u8>, EngineError> {
    let offsets: Vec<u32>;
    let bytes = match columns.column(column).expect("the set has columns that are present") {
        ColumnValues::U16(values) => bytes_of(values),
        ColumnValues::U32(values) => bytes_of(values),
        ColumnValues::U64(values) => bytes_of(values),
        ColumnValues::I32(values) => bytes_of(values),
        ColumnValues::I64(times_ms) => {
            let to_offset = |time_ms: &i64| time_ms.wrapping_sub(base_time_ms) as u32;
            offsets = times_ms.iter().map(to_offset).collect();
            bytes_of(&offsets)
        }
    };
    let slice = worker.arena.allocate::<u8>(bytes.len())?;
    slice.upload(&worker.stream, bytes)?;
    // The copy has to end before `offsets` is dropped.
    worker.wait()?;
    Ok(slice)
}
