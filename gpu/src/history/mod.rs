//! Runs of past fixes in the device's memory, packed, and queries of them.
//!
//! A query reads packed values and writes only what it selects; it returns with the answer. The
//! caller chooses which runs are resident, and accounts for whatever else limits an answer: newer
//! runs, removals and erasures.

mod copy_out;
mod device_run;
mod device_runs;

use std::sync::Arc;

use cudarc::driver::{CudaStream, sys};
use rayon::prelude::*;
use shoal_codec::{Column, FixColumns, FixRow, ValueType, Values};
use shoal_engine::EngineError;
use shoal_engine::layout::RunZone;
use shoal_history::ObjectTime;

use crate::device::Gpu;
use crate::index::{DeviceIndex, DeviceKeys, DevicePlaces};
use crate::launch::{
    DeviceBuffer, HistoryKernels, Memory, Plain, RunAndHeads, Scratch, StatesOnDevice, fault,
};

use copy_out::CopyOut;
pub use device_run::{DeviceRun, RunSource};
pub use device_runs::{DeviceRuns, OffloadThresholds};

/// Threads that search for one key; see [`DeviceIndex::find`].
const SEARCH_THREADS: u32 = 8;

/// A device that keeps runs.
#[derive(Debug)]
pub struct DeviceHistory {
    gpu: Gpu,
    memory: Memory,
    stream: Arc<CudaStream>,
    kernels: HistoryKernels,
    index: DeviceIndex<ObjectTime>,
    scratch: Scratch,
    /// Tiles with matches, and the numbers of tiles and rows.
    found: DeviceBuffer<u64>,
    counts: DeviceBuffer<u64>,
    /// By head or request: 1 if it has a state, and the number of states before it.
    flags: DeviceBuffer<u32>,
    places: DeviceBuffer<u32>,
    states: StatesOnDevice,
    /// Requests, and for each the head with its state.
    requests: DeviceKeys<ObjectTime>,
    heads: DevicePlaces,
    words_out: CopyOut<u32>,
    objects_out: CopyOut<u64>,
}

/// A tile with matches and their number.
type TileMatches = (u32, u32);

impl DeviceHistory {
    /// A device that may use `budget_bytes` of its memory for runs and answers.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    pub fn new(gpu: &Gpu, budget_bytes: u64) -> Result<Self, EngineError> {
        let memory = gpu.memory(budget_bytes);
        memory.bind()?;
        let states = StatesOnDevice {
            objects: DeviceBuffer::new(&memory, 0)?,
            values: DeviceBuffer::new(&memory, 0)?,
            capacity: 0,
        };
        let index = DeviceIndex::within(gpu, &memory)?;
        Ok(Self {
            stream: gpu.context.new_stream().map_err(fault)?,
            kernels: HistoryKernels::load(&gpu.context).map_err(fault)?,
            requests: index.keys(&[])?,
            heads: index.places(0)?,
            index,
            scratch: Scratch::new(&memory)?,
            found: DeviceBuffer::new(&memory, 0)?,
            counts: DeviceBuffer::new(&memory, 2)?,
            flags: DeviceBuffer::new(&memory, 0)?,
            places: DeviceBuffer::new(&memory, 0)?,
            states,
            words_out: CopyOut::new(&memory)?,
            objects_out: CopyOut::new(&memory)?,
            gpu: gpu.clone(),
            memory,
        })
    }

    /// Bytes of the device's memory in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// The tiles of a run that have rows in a zone, ascending, with the number of those rows.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    pub fn select(
        &mut self,
        run: &DeviceRun,
        zone: RunZone,
    ) -> Result<Vec<TileMatches>, EngineError> {
        self.bind()?;
        self.found.fit(run.resident.tiles)?;
        self.counts.fill(&self.stream, 0, 2)?;
        let found = (&self.found, &self.counts);
        self.kernels.select(&self.stream, &run.resident, zone, found)?;
        let tiles = self.read(&self.counts, 2)?[0];
        let mut found = self.read(&self.found, tiles as usize)?;
        found.sort_unstable();
        Ok(found.into_iter().map(|tile| ((tile >> 32) as u32, tile as u32)).collect())
    }

    /// The newest row at or before `time_ms` of each object of a run, ascending by object, from
    /// object `from` on. Returns at most `most` rows.
    ///
    /// # Errors
    /// As [`Self::select`].
    pub fn newest(
        &mut self,
        run: &DeviceRun,
        time_ms: i64,
        from: u64,
        most: usize,
    ) -> Result<FixColumns, EngineError> {
        let count = self.newest_on_device(run, time_ms, from, most)?;
        self.states(run, count)
    }

    /// As [`Self::newest`], without a copy to the host; returns the number of rows.
    ///
    /// # Errors
    /// As [`Self::select`].
    pub fn newest_on_device(
        &mut self,
        run: &DeviceRun,
        time_ms: i64,
        from: u64,
        most: usize,
    ) -> Result<usize, EngineError> {
        self.bind()?;
        let length = run.heads.length;
        self.flags.fit(length + 1)?;
        self.places.fit(length + 1)?;
        let of_run = run.parts();
        self.kernels.newest_heads(&self.stream, of_run, time_ms, &self.flags)?;
        let (flags, places) = (&self.flags, &self.places);
        self.scratch.sum_before(&self.stream, flags, places, length as u32 + 1)?;
        let first_place = match from {
            0 => 0,
            _ => self.place(&self.places, self.first_head(run, from)?)?,
        };
        let count = self.place(&self.places, length)? - first_place;
        let count = most.min(count as usize);
        self.fit_states(run, count)?;
        self.kernels.newest(
            &self.stream,
            of_run,
            time_ms,
            &self.places,
            first_place,
            &self.states,
        )?;
        self.stream.synchronize().map_err(fault)?;
        Ok(count)
    }

    /// The index of the first head of object `object` or a later one.
    fn first_head(&self, run: &DeviceRun, object: u64) -> Result<usize, EngineError> {
        let key = self.index.keys(&[ObjectTime { object, time: i64::MIN }])?;
        let mut found = self.index.places(1)?;
        self.index.find(&run.tree, &key, SEARCH_THREADS, &mut found)?;
        Ok(self.index.download(&found, 1)?[0] as usize)
    }

    /// Downloads the place at index `at`; waits.
    fn place(&self, places: &DeviceBuffer<u32>, at: usize) -> Result<u32, EngineError> {
        let mut place = [0_u32];
        places.download(&self.stream, at, &mut place)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(place[0])
    }

    /// For each request, the newest row of its object at or before its time; `None` if the run has
    /// none.
    ///
    /// # Errors
    /// As [`Self::select`].
    pub fn find(
        &mut self,
        run: &DeviceRun,
        requests: &[ObjectTime],
    ) -> Result<Vec<Option<FixRow>>, EngineError> {
        self.bind()?;
        let count = requests.len();
        self.index.replace(&mut self.requests, requests)?;
        self.heads.0.fit(count)?;
        self.index.find_last(&run.tree, &self.requests, &mut self.heads)?;
        self.flags.fit(count)?;
        self.flags.fill(&self.stream, 0, count)?;
        self.fit_states(run, count)?;
        self.kernels.find(
            &self.stream,
            run.parts(),
            &self.requests.buffer,
            &self.heads.0,
            count,
            &self.flags,
            &self.states,
        )?;
        let states = self.states(run, count)?;
        let flags = self.words_out.read(&self.stream, &self.flags, 0, count)?;
        let state = |at: usize| (flags[at] != 0).then(|| states.row(at));
        Ok((0..count).into_par_iter().map(state).collect())
    }

    /// Runs `work` and returns its milliseconds by the device's clock; for benchmarks.
    ///
    /// # Errors
    /// Errors of `work`.
    pub fn timed<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<(T, f64), EngineError> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = || self.gpu.context.new_event(flags).map_err(fault);
        let (start, end) = (event()?, event()?);
        start.record(&self.stream).map_err(fault)?;
        let done = work(self)?;
        end.record(&self.stream).map_err(fault)?;
        self.stream.synchronize().map_err(fault)?;
        Ok((done, start.elapsed_ms(&end).map(f64::from).map_err(fault)?))
    }

    fn bind(&self) -> Result<(), EngineError> {
        self.gpu.context.bind_to_thread().map_err(fault)
    }

    /// Reserves memory for `count` states of a run.
    fn fit_states(&mut self, run: &DeviceRun, count: usize) -> Result<(), EngineError> {
        let states = &mut self.states;
        states.objects.fit(count)?;
        states.values.fit(count * run.resident.kinds)?;
        states.capacity = count;
        Ok(())
    }

    /// Copies states from the device.
    fn states(&mut self, run: &DeviceRun, count: usize) -> Result<FixColumns, EngineError> {
        let (stream, lists) = (&self.stream, &self.states);
        let mut columns = FixColumns::new();
        columns.object = self.objects_out.read(stream, &lists.objects, 0, count)?;
        for (kind, column) in run.columns.iter().enumerate() {
            let words =
                self.words_out.read(stream, &lists.values, kind * count, count)?.into_par_iter();
            if *column == Column::Time {
                let start_ms = run.resident.start_ms;
                columns.time_ms = words.map(|offset| start_ms + i64::from(offset)).collect();
                continue;
            }
            let values = match column.value_type() {
                ValueType::U16 => Values::U16(words.map(|word| word as u16).collect()),
                ValueType::I32 => Values::I32(words.map(|word| word as i32).collect()),
                _ => Values::U32(words.collect()),
            };
            columns.set_column(*column, values, run.resident.start_ms);
        }
        Ok(columns)
    }

    fn read<T: Plain + Default>(
        &self,
        buffer: &DeviceBuffer<T>,
        length: usize,
    ) -> Result<Vec<T>, EngineError> {
        let mut values = vec![T::default(); length];
        buffer.download(&self.stream, 0, &mut values[..])?;
        self.stream.synchronize().map_err(fault)?;
        Ok(values)
    }
}

impl DeviceRun {
    /// The arguments that kernels of states share.
    fn parts(&self) -> RunAndHeads<'_> {
        (&self.resident, &self.heads, self.tree.leaves())
    }
}
