//! The kernels of probe.cu: the device's view of shared records and grids.

use cudarc::nvrtc::Ptx;
use shoal_engine::layout::{Cell, Entry};

use super::bench::Bench;
use crate::launch::module::{Kernel, arguments, launch};
use crate::launch::{CellsArgument, DeviceBuffer};
use crate::tuning::Width;

/// Capacity for numbers of a probe.
const CAPACITY: usize = 1 << 12;

/// See the file's head.
pub(crate) struct Probe {
    layout: Kernel,
    cells: Kernel,
    entries: Kernel,
    places: Kernel,
    fail: Kernel,
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
        let image = include_bytes!(concat!(env!("OUT_DIR"), "/device/probe.fatbin"));
        let module = bench.gpu.context.load_module(Ptx::from_binary(image.to_vec()));
        let module = module.expect("the probe was built for this device");
        let function = |name: &str| {
            let function = module.load_function(name).expect("the kernel is there");
            Kernel::new(function, Width::of_blocks(128)).expect("the kernel is loaded")
        };
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
        launch(&self.cells, &bench.stream, threads, arguments).expect("it can be launched");
        let cells = bench.download(&seen, length as usize);
        let end = cells.iter().map(|cell| cell.start + cell.capacity).max().unwrap_or(0);
        let seen: DeviceBuffer<Entry> = bench.zeros(end as usize);
        let address = seen.address();
        let arguments = arguments![*argument, end, address];
        launch(&self.entries, &bench.stream, end.into(), arguments).expect("it can be launched");
        SeenCells { cells, entries: bench.download(&seen, end as usize) }
    }

    /// The places of the first `slots` slots of a located grid.
    pub(crate) fn places(&self, bench: &Bench, argument: &CellsArgument, slots: u32) -> Vec<u32> {
        let seen: DeviceBuffer<u32> = bench.zeros(slots as usize);
        let address = seen.address();
        let arguments = arguments![*argument, slots, address];
        launch(&self.places, &bench.stream, slots.into(), arguments).expect("it can be launched");
        bench.download(&seen, slots as usize)
    }

    /// Fails the device for this process.
    pub(crate) fn fail(&self, bench: &Bench) {
        launch(&self.fail, &bench.stream, 1, &[]).expect("it can be launched");
        assert!(bench.stream.synchronize().is_err(), "the kernel failed");
    }
}

fn numbers(bench: &Bench, kernel: &Kernel) -> Vec<u32> {
    let (seen, length) = (bench.zeros::<u32>(CAPACITY), bench.zeros::<u32>(1));
    let (address, capacity, length_address) = (seen.address(), CAPACITY as u32, length.address());
    let arguments = arguments![address, capacity, length_address];
    // All threads of a block write the same.
    launch(kernel, &bench.stream, 1, arguments).expect("it can be launched");
    let length = bench.download(&length, 1)[0] as usize;
    assert!(length <= CAPACITY, "{length} numbers, capacity for {CAPACITY}");
    bench.download(&seen, length)
}
