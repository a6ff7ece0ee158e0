//! Launches over runs of past fixes whose blocks stay encoded on the device.
//!
//! A kernel decodes a tile with a warp. Trees with one slot at most have kernels of their own,
//! which keep more tiles in flight.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError};
use shoal_engine::EngineError;
use shoal_engine::layout::{CodecColumn, CodecStep, ObjectTime as KeyRecord, RunZone};
use shoal_index::ObjectTime;

use super::argument_layout::{
    CodecArgument, Pointer, RunArgument, RunHeadsArgument, StatesArgument,
};
use super::codec_decode::SLOT_THREADS;
use super::index::{image, kernel_set};
use super::memory::DeviceBuffer;
use super::module::{Kernel, WARP, arguments, launch};
use crate::tuning::Width;

kernel_set! {
    /// The kernels that select tiles.
    SelectKernels: run_select_slot, run_select_slots,
}

kernel_set! {
    /// The kernels of states, a warp a block.
    StateKernels: run_times_slot, run_times_slots, run_newest_slot, run_newest_slots,
        run_find_slot, run_find_slots,
}

kernel_set! {
    /// Those with a thread a head.
    HeadKernels: run_newest_heads,
}

/// All kernels of the history.
#[derive(Debug)]
pub(crate) struct HistoryKernels {
    select: SelectKernels,
    states: StateKernels,
    heads: HeadKernels,
}

/// The encoded blocks of a run.
#[derive(Debug)]
pub(crate) struct RunOnDevice {
    /// Tables that the steps read, then blocks and steps.
    pub(crate) buffer: DeviceBuffer<u8>,
    /// Where the blocks begin, and the steps.
    pub(crate) front: usize,
    pub(crate) steps: usize,
    /// By block, `kinds` of each.
    pub(crate) columns: DeviceBuffer<CodecColumn>,
    pub(crate) kinds: usize,
    /// By block.
    pub(crate) bases: DeviceBuffer<u32>,
    /// By tile.
    pub(crate) zones: DeviceBuffer<RunZone>,
    pub(crate) tiles: usize,
    /// Whether a tree needs several slots.
    pub(crate) has_slots: bool,
    /// Not 0 after a block was refused.
    pub(crate) failed: DeviceBuffer<u32>,
    /// First time of the partition.
    pub(crate) start_ms: i64,
}

/// The heads of a run but for their keys; see `RunHeadsArgument`.
#[derive(Debug)]
pub(crate) struct HeadsOnDevice {
    pub(crate) rows: DeviceBuffer<u32>,
    pub(crate) ends: DeviceBuffer<u32>,
    pub(crate) order: DeviceBuffer<u32>,
    pub(crate) firsts: DeviceBuffer<u32>,
    pub(crate) length: usize,
}

/// A run, its heads, and their keys in the leaves of a full tree.
pub(crate) type RunAndHeads<'a> =
    (&'a RunOnDevice, &'a HeadsOnDevice, &'a DeviceBuffer<ObjectTime>);

/// Lists of states with `capacity` of each column.
#[derive(Debug)]
pub(crate) struct StatesOnDevice {
    pub(crate) objects: DeviceBuffer<u64>,
    pub(crate) values: DeviceBuffer<u32>,
    pub(crate) capacity: usize,
}

impl RunOnDevice {
    fn argument(&self) -> RunArgument {
        let codec = CodecArgument {
            input: Pointer::new(self.buffer.address() + self.front as u64),
            output: self.buffer.pointer(),
            steps: Pointer::<CodecStep>::new(self.buffer.address() + self.steps as u64),
            failed: self.failed.pointer(),
            stride: 1,
            reserved: 0,
        };
        let blocks = self.bases.len();
        assert!(self.front <= self.buffer.len() && self.steps <= self.buffer.len(), "inside");
        assert!(self.columns.len() >= blocks * self.kinds, "a column a kind and block");
        assert!(self.zones.len() >= self.tiles, "a zone a tile");
        RunArgument {
            codec,
            columns: self.columns.pointer(),
            bases: self.bases.pointer(),
            zones: self.zones.pointer(),
            tiles: self.tiles as u32,
            kinds: self.kinds as u32,
        }
    }
}

impl HeadsOnDevice {
    fn argument(&self, run: &RunOnDevice, keys: &DeviceBuffer<ObjectTime>) -> RunHeadsArgument {
        let lists = [self.rows.len(), self.ends.len(), self.order.len(), keys.len()];
        assert!(lists.into_iter().all(|length| length >= self.length), "each of every head");
        assert!(self.firsts.len() > run.tiles, "a first head a tile and an end");
        RunHeadsArgument {
            keys: Pointer::<KeyRecord>::new(keys.address()),
            rows: self.rows.pointer(),
            ends: self.ends.pointer(),
            order: self.order.pointer(),
            firsts: self.firsts.pointer(),
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
        let (select, states) = (image!("history/select"), image!("history/states"));
        let of_warps = Width::of_blocks(SLOT_THREADS);
        Ok(Self {
            select: SelectKernels::from_image(context, select, of_warps)?,
            states: StateKernels::from_image(context, states, of_warps)?,
            heads: HeadKernels::from_image(context, states, Width::FULL)?,
        })
    }

    fn of_run<'a>(run: &RunOnDevice, slot: &'a Kernel, slots: &'a Kernel) -> &'a Kernel {
        if run.has_slots { slots } else { slot }
    }

    /// Appends the tiles with rows in a zone and the numbers of those rows to `found`; `counts`,
    /// zeros before, has the numbers of tiles and rows.
    pub(crate) fn select(
        &self,
        stream: &CudaStream,
        run: &RunOnDevice,
        zone: RunZone,
        (found, counts): (&DeviceBuffer<u64>, &DeviceBuffer<u64>),
    ) -> Result<(), EngineError> {
        assert!(found.len() >= run.tiles && counts.len() >= 2, "room for every tile");
        let kernel = Self::of_run(run, &self.select.run_select_slot, &self.select.run_select_slots);
        let (argument, found, counts) = (run.argument(), found.address(), counts.address());
        let threads = run.tiles as u64 * WARP;
        launch(kernel, stream, threads, arguments![argument, zone, found, counts])
    }

    /// Writes the times of all heads to their keys, which have the objects.
    pub(crate) fn times(
        &self,
        stream: &CudaStream,
        (run, heads, keys): RunAndHeads<'_>,
    ) -> Result<(), EngineError> {
        let kernel = Self::of_run(run, &self.states.run_times_slot, &self.states.run_times_slots);
        let (argument, heads) = (run.argument(), heads.argument(run, keys));
        let (start_ms, keys) = (run.start_ms, keys.address());
        let threads = run.tiles as u64 * WARP;
        launch(kernel, stream, threads, arguments![argument, heads, start_ms, keys])
    }

    /// 1 for each head that has the newest row of its object at a time, and a 0 behind them.
    pub(crate) fn newest_heads(
        &self,
        stream: &CudaStream,
        (run, heads, keys): RunAndHeads<'_>,
        time_ms: i64,
        are_newest: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(are_newest.len() > heads.length, "a flag a head and one more");
        let (threads, heads) = (heads.length as u64 + 1, heads.argument(run, keys));
        let are_newest = are_newest.address();
        let kernel = &self.heads.run_newest_heads;
        launch(kernel, stream, threads, arguments![heads, time_ms, are_newest])
    }

    /// Writes states of objects at a time to the places of their heads: those from `first_place`
    /// on, as many as the lists take.
    pub(crate) fn newest(
        &self,
        stream: &CudaStream,
        (run, heads, keys): RunAndHeads<'_>,
        time_ms: i64,
        (places, first_place): (&DeviceBuffer<u32>, u32),
        states: &StatesOnDevice,
    ) -> Result<(), EngineError> {
        assert!(places.len() >= heads.length, "a place a head");
        let kernel = Self::of_run(run, &self.states.run_newest_slot, &self.states.run_newest_slots);
        let (argument, heads, start_ms) = (run.argument(), heads.argument(run, keys), run.start_ms);
        let (places, states) = (places.address(), states.argument(run));
        let threads = run.tiles as u64 * WARP;
        let arguments = arguments![argument, heads, start_ms, time_ms, places, first_place, states];
        launch(kernel, stream, threads, arguments)
    }

    /// Writes the states of `length` requests' objects at their times, of which `found` has the
    /// last head at or before each; sets `has_state` of those that exist.
    pub(crate) fn find(
        &self,
        stream: &CudaStream,
        (run, heads, keys): RunAndHeads<'_>,
        (requests, found, length): (&DeviceBuffer<ObjectTime>, &DeviceBuffer<u32>, usize),
        has_state: &DeviceBuffer<u32>,
        states: &StatesOnDevice,
    ) -> Result<(), EngineError> {
        let shortest = requests.len().min(found.len()).min(has_state.len()).min(states.capacity);
        assert!(shortest >= length, "a head, a flag and a state a request");
        let kernel = Self::of_run(run, &self.states.run_find_slot, &self.states.run_find_slots);
        let (argument, heads, start_ms) = (run.argument(), heads.argument(run, keys), run.start_ms);
        let (requests, found) = (requests.address(), found.address());
        let (has_state, states) = (has_state.address(), states.argument(run));
        let arguments = arguments![argument, heads, start_ms, requests, found, has_state, states];
        launch(kernel, stream, length as u64 * WARP, arguments)
    }
}
