//! The kernels of probe.cu: the device's view of shared records and grids.

use std::ffi::c_void;

use cudarc::driver::{CudaFunction, CudaStream, result};
use cudarc::nvrtc::Ptx;
use shoal_engine::layout::{Cell, Entry};

use super::bench::Bench;
use crate::launch::module::arguments;
use crate::launch::{CellsArgument, DeviceBuffer};

/// Capacity for numbers of a probe.
const CAPACITY: usize = 1 << 12;

/// See the file's head.
pub(crate) struct Probe {
    layout: CudaFunction,
    cells: CudaFunction,
    entries: CudaFunction,
    places: CudaFunction,
    fail: CudaFunction,
}

/// A grid on the device.
#[derive(Debug)]
pub(crate) struct SeenCells {
    pub(crate) cells: Vec<Cell>,
    /// Up to the end of the last cell's capacity.
    pub(crate) entries: Vec<Entry>,
}

impl Probe {
    pub(crate) fn load(bench: &Bench) -> Self {
        let image = include_bytes!(concat!(env!("OUT_DIR"), "/primitives/probe.fatbin"));
        let module = bench.gpu.context.load_module(Ptx::from_binary(image.to_vec()));
        let module = module.expect("the probe was built for this device");
        let function = |name: &str| module.load_function(name).expect("the kernel is there");
        Self {
            layout: function("probe_layout"),
            cells: function("probe_cells"),
            entries: function("probe_entries"),
            places: function("probe_places"),
            fail: function("probe_fail"),
        }
    }

    /// The size, alignment and offsets of every record.
    pub(crate) fn layout(&self, bench: &Bench) -> Vec<u32> {
        numbers(bench, &self.layout)
    }

    /// The first `length` cells of a grid, and the entries of all cells with their spare capacity.
    pub(crate) fn cells(&self, bench: &Bench, argument: &CellsArgument, length: u32) -> SeenCells {
        let seen: DeviceBuffer<Cell> = bench.zeros(length as usize);
        let address = seen.address();
        let threads = length.into();
        let arguments = arguments![*argument, length, address];
        launch(&self.cells, &bench.stream, threads, arguments);
        let cells = bench.download(&seen, length as usize);
        let end = cells.iter().map(|cell| cell.start + cell.capacity).max().unwrap_or(0);
        let seen: DeviceBuffer<Entry> = bench.zeros(end as usize);
        let address = seen.address();
        let arguments = arguments![*argument, end, address];
        launch(&self.entries, &bench.stream, end.into(), arguments);
        SeenCells { cells, entries: bench.download(&seen, end as usize) }
    }

    /// The places of the first `slots` slots of a located grid.
    pub(crate) fn places(&self, bench: &Bench, argument: &CellsArgument, slots: u32) -> Vec<u32> {
        let seen: DeviceBuffer<u32> = bench.zeros(slots as usize);
        let address = seen.address();
        let arguments = arguments![*argument, slots, address];
        launch(&self.places, &bench.stream, slots.into(), arguments);
        bench.download(&seen, slots as usize)
    }

    /// Fails the device for this process.
    pub(crate) fn fail(&self, bench: &Bench) {
        launch(&self.fail, &bench.stream, 1, &mut []);
        assert!(bench.stream.synchronize().is_err(), "the kernel failed");
    }
}

/// Threads of a block.
const BLOCK_THREADS: u32 = 128;

fn launch(function: &CudaFunction, stream: &CudaStream, threads: u64, to: &mut [*mut c_void]) {
    let blocks = threads.div_ceil(BLOCK_THREADS.into()) as u32;
    if blocks == 0 {
        return;
    }
    let (grid, block) = ((blocks, 1, 1), (BLOCK_THREADS, 1, 1));
    // SAFETY: each caller passes the parameters of its kernel, and buffers as long as it writes.
    let launched = unsafe {
        result::launch_kernel(function.cu_function(), grid, block, 0, stream.cu_stream(), to)
    };
    launched.expect("it can be launched");
}

fn numbers(bench: &Bench, kernel: &CudaFunction) -> Vec<u32> {
    let (seen, length) = (bench.zeros::<u32>(CAPACITY), bench.zeros::<u32>(1));
    let (address, capacity, length_address) = (seen.address(), CAPACITY as u32, length.address());
    let arguments = arguments![address, capacity, length_address];
    // All threads of a block write the same.
    launch(kernel, &bench.stream, 1, arguments);
    let length = bench.download(&length, 1)[0] as usize;
    assert!(length <= CAPACITY, "{length} numbers, capacity for {CAPACITY}");
    bench.download(&seen, length)
}
