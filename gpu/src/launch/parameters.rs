//! What kernels are given by value: the structures of the `.cuh` files, made from buffers.
//!
//! Each is laid out as its namesake there; fields are 8 bytes, or pairs of 4. The constructors
//! assert what the kernels rely on: that buffers which are read by one number are equally long.

use shoal_engine::layout::{
    Cell, DictionarySlot, Edge, Entry, Grid, Item, Optional, Part, Place, Report,
    RequestDescriptor, RowOutcomeCounts, Shape, Version,
};

use super::memory::DeviceBuffer;
use super::plain::Plain;

/// A stretch of a cycle's input on the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByteRange {
    /// Bytes from the start of the input.
    pub(crate) at: usize,
    /// Values.
    pub(crate) length: usize,
}

impl ByteRange {
    /// The address of its values; panics when they do not lie in `input`.
    pub(crate) fn address<T: Plain>(self, input: &DeviceBuffer<u8>) -> u64 {
        assert!(self.at.is_multiple_of(align_of::<T>()), "a stretch is aligned for its values");
        assert!(
            self.at + self.length * size_of::<T>() <= input.len(),
            "a stretch lies in its input"
        );
        input.address() + self.at as u64
    }
}

/// `Input` of dispatch.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct InputArgument {
    bytes: u64,
    requests: u64,
    first_arrivals: u64,
    outcomes: u64,
}

impl InputArgument {
    pub(crate) fn new(
        input: &DeviceBuffer<u8>,
        requests: ByteRange,
        first_arrivals: ByteRange,
        outcomes: &DeviceBuffer<RowOutcomeCounts>,
    ) -> Self {
        assert_eq!(requests.length, first_arrivals.length, "every request begins somewhere");
        assert!(requests.length <= outcomes.len(), "every request has outcomes");
        Self {
            bytes: input.address(),
            requests: requests.address::<RequestDescriptor>(input),
            first_arrivals: first_arrivals.address::<u32>(input),
            outcomes: outcomes.address(),
        }
    }
}

/// `Rows` of dispatch.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RowsArgument {
    slots: u64,
    refusals: u64,
    known: u64,
    best: u64,
    moved: u64,
    stamps: u64,
    report: u64,
}

impl RowsArgument {
    /// `slots` and `refusals` by arrival, `known` by entry, `best` and `stamps` by slot.
    pub(crate) fn new(
        (slots, refusals): (&DeviceBuffer<u32>, &DeviceBuffer<u8>),
        known: &DeviceBuffer<DictionarySlot>,
        best: &DeviceBuffer<u64>,
        moved: &DeviceBuffer<u32>,
        stamps: &DeviceBuffer<u32>,
        report: &DeviceBuffer<Report>,
    ) -> Self {
        assert!(stamps.len() >= best.len(), "every slot has a stamp");
        Self {
            slots: slots.address(),
            refusals: refusals.address(),
            known: known.address(),
            best: best.address(),
            moved: moved.address(),
            stamps: stamps.address(),
            report: report.address(),
        }
    }
}

/// `Records` of record.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RecordsArgument {
    objects: u64,
    versions: u64,
    optional: u64,
}

impl RecordsArgument {
    pub(crate) fn new(
        objects: &DeviceBuffer<u64>,
        versions: &DeviceBuffer<Version>,
        optional: Option<&DeviceBuffer<Optional>>,
    ) -> Self {
        let slots = objects.len();
        assert!(versions.len() >= 2 * slots, "every slot has a record");
        assert!(optional.is_none_or(|optional| optional.len() >= 2 * slots), "and its attributes");
        Self {
            objects: objects.address(),
            versions: versions.address(),
            optional: optional.map_or(0, DeviceBuffer::address),
        }
    }
}

/// `Index` of index.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct IndexArgument {
    places: u64,
    mask: u32,
    reserved: u32,
}

impl IndexArgument {
    pub(crate) fn new(places: &DeviceBuffer<Place>) -> Self {
        assert!(places.len().is_power_of_two(), "places are found by masking");
        Self { places: places.address(), mask: (places.len() - 1) as u32, reserved: 0 }
    }
}

/// `Cells` of update.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CellsArgument {
    grid: Grid,
    cells: u64,
    entries: u64,
    places: u64,
}

impl CellsArgument {
    /// `places` by slot.
    pub(crate) fn new(
        grid: &Grid,
        cells: &DeviceBuffer<Cell>,
        entries: &DeviceBuffer<Entry>,
        places: &DeviceBuffer<u32>,
    ) -> Self {
        assert!(grid.columns as usize * grid.rows as usize <= cells.len(), "every cell is there");
        let (cells, entries, places) = (cells.address(), entries.address(), places.address());
        Self { grid: *grid, cells, entries, places }
    }

    /// Number of cells.
    pub(super) fn length(&self) -> usize {
        self.grid.columns as usize * self.grid.rows as usize
    }
}

/// `Spare` of update.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SpareArgument {
    first: u64,
    end: u64,
    mean: f32,
    reserved: u32,
}

impl SpareArgument {
    /// What is behind all cells, for cells that are as full as `mean` on average.
    pub(crate) fn new(first: &DeviceBuffer<u64>, entries: &DeviceBuffer<Entry>, mean: f32) -> Self {
        // Places are 32-bit numbers, of which the last means none.
        let end = (entries.len() as u64).min(u64::from(u32::MAX));
        Self { first: first.address(), end, mean, reserved: 0 }
    }
}

/// `Outgrown` of update.cuh.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Outgrown {
    pub(crate) count: u32,
    /// Not 0 when the grid must be built anew.
    pub(crate) failed: u32,
}

/// `Moved` of update.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MovedArgument {
    before: u64,
    now: u64,
    stamps: u64,
    epoch: u64,
    before_length: u32,
    length: u32,
}

impl MovedArgument {
    /// The first `before.1` and `now.1` slots of two lists.
    pub(crate) fn new(
        before: (&DeviceBuffer<u32>, u32),
        now: (&DeviceBuffer<u32>, u32),
        stamps: &DeviceBuffer<u32>,
        epoch: u64,
    ) -> Self {
        for (list, length) in [before, now] {
            assert!(length as usize <= list.len(), "a list holds its slots");
        }
        Self {
            before: before.0.address(),
            now: now.0.address(),
            stamps: stamps.address(),
            epoch,
            before_length: before.1,
            length: before.1 + now.1,
        }
    }

    /// Slots of both lists.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Slots that moved in this cycle.
    pub(crate) fn now_length(&self) -> u32 {
        self.length - self.before_length
    }
}

/// `Span` of update.cuh.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Span {
    first: u32,
    first_insertion: u32,
    end: u32,
    reserved: u32,
}

/// `Polygons` of space.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct PolygonsArgument {
    slabs: u64,
    edges: u64,
}

impl PolygonsArgument {
    pub(super) fn new(slabs: &DeviceBuffer<u32>, edges: &DeviceBuffer<Edge>) -> Self {
        Self { slabs: slabs.address(), edges: edges.address() }
    }
}

/// `View` of query.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ViewArgument {
    grid: Grid,
    cells: u64,
    entries: u64,
    records: RecordsArgument,
    epoch: u64,
    clock_ms: i64,
    is_tight: u32,
    reserved: u32,
}

impl ViewArgument {
    /// `is_tight` tells that no cell has room to spare.
    pub(crate) fn new(
        (cells, is_tight): (&CellsArgument, bool),
        records: RecordsArgument,
        epoch: u64,
        clock_ms: i64,
    ) -> Self {
        let (grid, entries, cells) = (cells.grid, cells.entries, cells.cells);
        let is_tight = is_tight.into();
        Self { grid, cells, entries, records, epoch, clock_ms, is_tight, reserved: 0 }
    }

    pub(super) fn grid(&self) -> Grid {
        self.grid
    }

    pub(super) fn records(&self) -> (RecordsArgument, u64) {
        (self.records, self.epoch)
    }
}

/// `Matches` of sort.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MatchesArgument {
    objects: u64,
    slots: u64,
}

impl MatchesArgument {
    /// `length` ids and their slots.
    pub(crate) fn new(
        objects: &DeviceBuffer<u64>,
        slots: &DeviceBuffer<u32>,
        length: usize,
    ) -> Self {
        assert!(objects.len().min(slots.len()) >= length, "room for {length} matches");
        Self { objects: objects.address(), slots: slots.address() }
    }
}

/// The questions of a cycle on the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QuestionStretches {
    /// Number of queries.
    pub(crate) queries: usize,
    /// Rectangles, ordered by query.
    pub(crate) parts: ByteRange,
    pub(crate) shapes: ByteRange,
    pub(crate) slabs: ByteRange,
    pub(crate) edges: ByteRange,
}

/// `Questions` of query.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct QuestionsArgument {
    parts: u64,
    shapes: u64,
    polygons: PolygonsArgument,
    first_items: u64,
    items: u64,
    length: u32,
    reserved: u32,
}

impl QuestionsArgument {
    /// Not cut into items.
    pub(crate) fn whole(input: &DeviceBuffer<u8>, at: &QuestionStretches) -> Self {
        Self {
            parts: at.parts.address::<Part>(input),
            shapes: at.shapes.address::<Shape>(input),
            polygons: PolygonsArgument {
                slabs: at.slabs.address::<u32>(input),
                edges: at.edges.address::<Edge>(input),
            },
            first_items: 0,
            items: 0,
            length: 0,
            reserved: 0,
        }
    }

    /// The first `length` of `items`.
    pub(crate) fn new(
        input: &DeviceBuffer<u8>,
        at: &QuestionStretches,
        first_items: &DeviceBuffer<u32>,
        items: &DeviceBuffer<Item>,
        length: u32,
    ) -> Self {
        assert!(first_items.len() > at.parts.length, "every part has a first item");
        assert!(items.len() >= length as usize, "every item is there");
        let (first_items, items) = (first_items.address(), items.address());
        Self { first_items, items, length, ..Self::whole(input, at) }
    }

    pub(super) fn length(&self) -> u32 {
        self.length
    }
}
