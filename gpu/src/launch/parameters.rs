//! Builds the arguments that kernels take by value from buffers.
//!
//! The constructors assert the kernels' preconditions: lists with a common index are equally long.

use shoal_engine::HashKey;
use shoal_engine::layout::{
    CandidateRow, Cell, DictionarySlot, DispatchReport, Edge, Entry, Grid, Lengths, Optional,
    Place, RowOutcomeCounts, Version,
};

use super::argument_layout::{
    AnswerListsArgument, CellsArgument, IndexArgument, InputArgument, MatchesArgument,
    MovedArgument, Outgrown, Pointer, PolygonsArgument, QueriesArgument, RecordsArgument,
    RowsArgument, SpareArgument, ViewArgument,
};
use super::memory::DeviceBuffer;
use super::plain::Plain;

/// A range of a cycle's input on the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByteRange {
    /// Bytes from the start of the input.
    pub(crate) at: usize,
    /// Number of values.
    pub(crate) length: usize,
}

impl ByteRange {
    /// The address of its values.
    ///
    /// # Panics
    /// When they do not lie in `input`.
    pub(super) fn address<T: Plain>(self, input: &DeviceBuffer<u8>) -> u64 {
        self.pointer::<T>(input).address
    }

    /// As [`ByteRange::address`].
    pub(super) fn pointer<T: Plain>(self, input: &DeviceBuffer<u8>) -> Pointer<T> {
        assert!(self.at.is_multiple_of(align_of::<T>()), "a range is aligned for its values");
        let values = input.len().checked_sub(self.at).map_or(0, |bytes| bytes / size_of::<T>());
        assert!(self.length <= values, "a range lies in its input");
        Pointer::new(input.address() + self.at as u64)
    }
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
            bytes: input.pointer(),
            requests: requests.pointer(input),
            first_arrivals: first_arrivals.pointer(input),
            outcomes: outcomes.pointer(),
        }
    }
}

impl RowsArgument {
    /// For `rows` rows: `slots` and `refusals` by arrival, `entry_slots` by entry, `best` and
    /// `stamps` by slot.
    pub(crate) fn new(
        rows: u32,
        slots: &DeviceBuffer<u32>,
        refusals: &DeviceBuffer<u8>,
        entry_slots: &DeviceBuffer<DictionarySlot>,
        best: &DeviceBuffer<u64>,
        moved: &DeviceBuffer<u32>,
        stamps: &DeviceBuffer<u32>,
        report: &DeviceBuffer<DispatchReport>,
    ) -> Self {
        assert!(slots.len().min(refusals.len()) >= rows as usize, "every row has a slot");
        assert!(stamps.len() >= best.len(), "every slot has a stamp");
        Self {
            slots: slots.pointer(),
            refusals: refusals.pointer(),
            entry_slots: entry_slots.pointer(),
            best: best.pointer(),
            moved: moved.pointer(),
            stamps: stamps.pointer(),
            report: report.pointer(),
        }
    }
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
            objects: objects.pointer(),
            versions: versions.pointer(),
            optional: optional.map_or(Pointer::NULL, DeviceBuffer::pointer),
        }
    }
}

impl IndexArgument {
    pub(crate) fn new(places: &DeviceBuffer<Place>, key: HashKey) -> Self {
        assert!(places.len() < 1 << 31, "one bit of a place marks a slot as pending");
        let (length, key) = (places.len() as u32, key.words());
        Self { places: places.pointer(), length, reserved: 0, key }
    }
}

impl CellsArgument {
    /// `places` by slot.
    pub(crate) fn new(
        grid: &Grid,
        cells: &DeviceBuffer<Cell>,
        entries: &DeviceBuffer<Entry>,
        places: &DeviceBuffer<u32>,
    ) -> Self {
        assert!(
            grid.columns as usize * grid.rows as usize <= cells.len(),
            "every cell is in range"
        );
        let (cells, entries, places) = (cells.pointer(), entries.pointer(), places.pointer());
        Self { grid: *grid, cells, entries, places }
    }

    /// Number of cells.
    pub(super) fn length(&self) -> usize {
        self.grid.columns as usize * self.grid.rows as usize
    }
}

impl SpareArgument {
    /// Free entries after those of all cells, for cells of `mean` objects on average.
    pub(crate) fn new(first: &DeviceBuffer<u64>, entries: &DeviceBuffer<Entry>, mean: f32) -> Self {
        // Places are 32-bit numbers; the last one means none.
        let end = (entries.len() as u64).min(u64::from(u32::MAX));
        Self { first: first.pointer(), end, mean, reserved: 0 }
    }
}

impl Outgrown {
    /// Cells that outgrew their entries.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the grid must be rebuilt.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed != 0
    }
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
            before: before.0.pointer(),
            now: now.0.pointer(),
            stamps: stamps.pointer(),
            epoch,
            before_length: before.1,
            length: before.1 + now.1,
        }
    }

    /// Slots of both lists.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Number of slots that moved in this cycle.
    pub(crate) fn now_length(&self) -> u32 {
        self.length - self.before_length
    }
}

impl PolygonsArgument {
    pub(super) fn new(slabs: &DeviceBuffer<u32>, edges: &DeviceBuffer<Edge>) -> Self {
        Self { slabs: slabs.pointer(), edges: edges.pointer() }
    }
}

impl ViewArgument {
    /// `is_tight`: no cell has spare capacity.
    pub(crate) fn new(
        cells: &CellsArgument,
        is_tight: bool,
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

impl AnswerListsArgument {
    /// For up to `queries` queries.
    pub(crate) fn new(
        queries: usize,
        lengths: &DeviceBuffer<Lengths>,
        medium_queries: &DeviceBuffer<u32>,
        long_queries: &DeviceBuffer<u32>,
    ) -> Self {
        assert!(medium_queries.len() >= queries, "all queries may have medium answers");
        assert!(long_queries.len() >= queries, "all queries may have long answers");
        Self {
            lengths: lengths.pointer(),
            medium_queries: medium_queries.pointer(),
            long_queries: long_queries.pointer(),
        }
    }

    /// The address of the list of long answers.
    pub(super) fn long_queries(&self) -> u64 {
        self.long_queries.address
    }
}

impl MatchesArgument {
    /// `length` ids and their slots.
    pub(crate) fn new(
        objects: &DeviceBuffer<u64>,
        slots: &DeviceBuffer<u32>,
        length: usize,
    ) -> Self {
        assert!(objects.len().min(slots.len()) >= length, "capacity for {length} matches");
        Self { objects: objects.pointer(), slots: slots.pointer() }
    }
}

/// The queries of a cycle on the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryRanges {
    /// Number of queries.
    pub(crate) queries: usize,
    /// Rectangles, ordered by query.
    pub(crate) parts: ByteRange,
    pub(crate) shapes: ByteRange,
    pub(crate) slabs: ByteRange,
    pub(crate) edges: ByteRange,
}

/// The buffer with the queries of a cycle, and their places in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryInput<'a> {
    pub(crate) bytes: &'a DeviceBuffer<u8>,
    pub(crate) ranges: &'a QueryRanges,
}

impl QueriesArgument {
    /// The queries as parts, not cut into candidate rows.
    pub(crate) fn whole(input: QueryInput<'_>) -> Self {
        let QueryInput { bytes, ranges } = input;
        Self {
            parts: ranges.parts.pointer(bytes),
            shapes: ranges.shapes.pointer(bytes),
            polygons: PolygonsArgument {
                slabs: ranges.slabs.pointer(bytes),
                edges: ranges.edges.pointer(bytes),
            },
            candidate_rows: Pointer::NULL,
            length: 0,
            reserved: 0,
        }
    }

    /// The queries with the first `length` of `candidate_rows`.
    pub(crate) fn in_rows(
        input: QueryInput<'_>,
        candidate_rows: &DeviceBuffer<CandidateRow>,
        length: u32,
    ) -> Self {
        assert!(candidate_rows.len() >= length as usize, "every candidate row is in range");
        Self { candidate_rows: candidate_rows.pointer(), length, ..Self::whole(input) }
    }

    pub(super) fn length(&self) -> u32 {
        self.length
    }
}
