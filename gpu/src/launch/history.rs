//! Launches over runs of past fixes in the device's memory: packing of decoded columns, selection
//! of tiles, states of objects.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError};
use shoal_engine::EngineError;
use shoal_engine::layout::{ObjectTime as KeyRecord, RunColumn, RunInput, RunZone};
use shoal_history::ObjectTime;

use super::argument_layout::{Pointer, RunArgument, RunHeadsArgument, StatesArgument};
use super::index::{image, kernel_set};
use super::memory::DeviceBuffer;
use super::module::{WARP, arguments, launch};
use crate::tuning::Width;

kernel_set! {
    /// One warp per column of a tile.
    PackKernels: run_pack_bounds, run_pack,
}

kernel_set! {
    /// One warp per tile.
    SelectKernels: run_select,
}

kernel_set! {
    /// One thread per head or request.
    StateKernels: run_times, run_newest_heads, run_newest, run_find,
}

/// All kernels of the history.
#[derive(Debug)]
pub(crate) struct HistoryKernels {
    pack: PackKernels,
    select: SelectKernels,
    states: StateKernels,
}

/// The rows of a run.
#[derive(Debug)]
pub(crate) struct RunOnDevice {
    /// By tile: its `kinds` columns.
    pub(crate) columns: DeviceBuffer<RunColumn>,
    pub(crate) kinds: usize,
    /// The packed values that the columns refer to.
    pub(crate) packed: Vec<DeviceBuffer<u32>>,
    /// By tile.
    pub(crate) zones: DeviceBuffer<RunZone>,
    pub(crate) tiles: usize,
    pub(crate) rows: usize,
    /// First time of the partition.
    pub(crate) start_ms: i64,
}

/// The heads of a run without their keys; see `RunHeadsArgument`.
#[derive(Debug)]
pub(crate) struct HeadsOnDevice {
    pub(crate) rows: DeviceBuffer<u32>,
    pub(crate) ends: DeviceBuffer<u32>,
    pub(crate) length: usize,
}

/// A run, its heads, and their keys in the leaves of a full tree.
pub(crate) type RunAndHeads<'a> =
    (&'a RunOnDevice, &'a HeadsOnDevice, &'a DeviceBuffer<ObjectTime>);

/// Decoded columns of tiles: their bytes, the place of each column in these, and the number of
/// columns.
pub(crate) type Unpacked<'a> = (&'a DeviceBuffer<u8>, &'a DeviceBuffer<RunInput>, usize);

/// Lists of states, with capacity for `capacity` values of each column.
#[derive(Debug)]
pub(crate) struct StatesOnDevice {
    pub(crate) objects: DeviceBuffer<u64>,
    pub(crate) values: DeviceBuffer<u32>,
    pub(crate) capacity: usize,
}

impl RunOnDevice {
    fn argument(&self) -> RunArgument {
        assert!(self.columns.len() >= self.tiles * self.kinds, "a column a kind and tile");
        assert!(self.zones.len() >= self.tiles, "a zone a tile");
        assert!(!self.packed.is_empty(), "what the columns name is kept");
        RunArgument {
            columns: self.columns.pointer(),
            zones: self.zones.pointer(),
            rows: self.rows as u32,
            tiles: self.tiles as u32,
            kinds: self.kinds as u32,
            reserved: 0,
        }
    }
}

impl HeadsOnDevice {
    fn argument(&self, keys: &DeviceBuffer<ObjectTime>) -> RunHeadsArgument {
        let lists = [self.rows.len(), self.ends.len(), keys.len()];
        assert!(lists.into_iter().all(|length| length >= self.length), "each of every head");
        RunHeadsArgument {
            keys: Pointer::<KeyRecord>::new(keys.address()),
            rows: self.rows.pointer(),
            ends: self.ends.pointer(),
            length: self.length as u32,
            reserved: 0,
        }
    }
}

impl StatesOnDevice {
    fn argument(&self, run: &RunOnDevice) -> StatesArgument {
        assert!(self.objects.len() >= self.capacity, "an object a state");
        assert!(self.values.len() >= self.capacity * run.kinds, "a value a column and state");
        StatesArgument {
            objects: self.objects.pointer(),
            values: self.values.pointer(),
            capacity: self.capacity as u32,
            reserved: 0,
        }
    }
}

impl HistoryKernels {
    /// Loads the kernels.
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let (pack, select) = (image!("history/pack"), image!("history/select"));
        Ok(Self {
            pack: PackKernels::from_image(context, pack, Width::FULL)?,
            select: SelectKernels::from_image(context, select, Width::FULL)?,
            states: StateKernels::from_image(context, image!("history/states"), Width::FULL)?,
        })
    }

    /// Writes the bounds of decoded columns to `columns` from place `at` on, and the number of
    /// words of each, with a 0 after the last.
    pub(crate) fn pack_bounds(
        &self,
        stream: &CudaStream,
        (decoded, inputs, length): Unpacked<'_>,
        (columns, at): (&DeviceBuffer<RunColumn>, usize),
        words: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(inputs.len() >= length && columns.len() >= at + length, "a column an input");
        assert!(words.len() > length, "a number a column and one more");
        let columns = columns.address() + (at * size_of::<RunColumn>()) as u64;
        let (decoded, inputs, words) = (decoded.address(), inputs.address(), words.address());
        let (threads, length) = ((length as u64 + 1) * WARP, length as u32);
        let arguments = arguments![decoded, inputs, length, columns, words];
        launch(&self.pack.run_pack_bounds, stream, threads, arguments)
    }

    /// Packs decoded columns whose bounds are in `columns` from place `at` on, each to its place of
    /// `packed`.
    pub(crate) fn pack(
        &self,
        stream: &CudaStream,
        (decoded, inputs, length): Unpacked<'_>,
        (columns, at): (&DeviceBuffer<RunColumn>, usize),
        places: &DeviceBuffer<u32>,
        packed: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(inputs.len() >= length && columns.len() >= at + length, "a column an input");
        assert!(places.len() > length, "a place a column and the end");
        let columns = columns.address() + (at * size_of::<RunColumn>()) as u64;
        let (decoded, inputs) = (decoded.address(), inputs.address());
        let (places, packed) = (places.address(), packed.address());
        let (threads, length) = (length as u64 * WARP, length as u32);
        let arguments = arguments![decoded, inputs, length, columns, places, packed];
        launch(&self.pack.run_pack, stream, threads, arguments)
    }

    /// Appends the tiles with rows in a zone and the numbers of those rows to `found`. Adds the
    /// numbers of tiles and rows to `counts`, which are 0 before the launch.
    pub(crate) fn select(
        &self,
        stream: &CudaStream,
        run: &RunOnDevice,
        zone: RunZone,
        (found, counts): (&DeviceBuffer<u64>, &DeviceBuffer<u64>),
    ) -> Result<(), EngineError> {
        assert!(found.len() >= run.tiles && counts.len() >= 2, "room for every tile");
        let (argument, found, counts) = (run.argument(), found.address(), counts.address());
        let threads = run.tiles as u64 * WARP;
        launch(&self.select.run_select, stream, threads, arguments![argument, zone, found, counts])
    }

    /// Writes the times of all heads to their keys, whose objects are already set.
    pub(crate) fn times(
        &self,
        stream: &CudaStream,
        (run, heads, keys): RunAndHeads<'_>,
    ) -> Result<(), EngineError> {
        let (threads, argument, start_ms) = (heads.length as u64, run.argument(), run.start_ms);
        let (heads, keys) = (heads.argument(keys), keys.address());
        launch(&self.states.run_times, stream, threads, arguments![argument, heads, start_ms, keys])
    }

    /// Writes 1 for each head that has the newest row of its object at a time, else 0; one more 0
    /// follows the last.
    pub(crate) fn newest_heads(
        &self,
        stream: &CudaStream,
        (_, heads, keys): RunAndHeads<'_>,
        time_ms: i64,
        are_newest: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(are_newest.len() > heads.length, "a flag a head and one more");
        let (threads, heads) = (heads.length as u64 + 1, heads.argument(keys));
        let are_newest = are_newest.address();
        let kernel = &self.states.run_newest_heads;
        launch(kernel, stream, threads, arguments![heads, time_ms, are_newest])
    }

    /// Writes the states of objects at a time to the places of their heads: from `first_place` on,
    /// up to the capacity of the lists.
    pub(crate) fn newest(
        &self,
        stream: &CudaStream,
        (run, heads, keys): RunAndHeads<'_>,
        time_ms: i64,
        places: &DeviceBuffer<u32>,
        first_place: u32,
        states: &StatesOnDevice,
    ) -> Result<(), EngineError> {
        assert!(places.len() > heads.length, "a place a head and the end");
        let (threads, argument, start_ms) = (heads.length as u64, run.argument(), run.start_ms);
        let (heads, places, states) =
            (heads.argument(keys), places.address(), states.argument(run));
        let arguments = arguments![argument, heads, start_ms, time_ms, places, first_place, states];
        launch(&self.states.run_newest, stream, threads, arguments)
    }

    /// For each of `length` requests, writes the state of its object at its time and sets
    /// `has_state` if there is one. `found` has the last head that is not after the request.
    pub(crate) fn find(
        &self,
        stream: &CudaStream,
        (run, heads, keys): RunAndHeads<'_>,
        requests: &DeviceBuffer<ObjectTime>,
        found: &DeviceBuffer<u32>,
        length: usize,
        has_state: &DeviceBuffer<u32>,
        states: &StatesOnDevice,
    ) -> Result<(), EngineError> {
        let shortest = requests.len().min(found.len()).min(has_state.len()).min(states.capacity);
        assert!(shortest >= length, "a head, a flag and a state a request");
        let (threads, argument, start_ms) = (length as u64, run.argument(), run.start_ms);
        let (heads, requests, found) = (heads.argument(keys), requests.address(), found.address());
        let (length, has_state) = (length as u32, has_state.address());
        let states = states.argument(run);
        let arguments =
            arguments![argument, heads, start_ms, requests, found, length, has_state, states];
        launch(&self.states.run_find, stream, threads, arguments)
    }
}
