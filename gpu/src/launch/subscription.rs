//! Launches of stage subscription.
//!
//! One safe function per kernel, or per sequence of kernels that always run together.

use cudarc::driver::CudaStream;
use shoal_engine::layout::{
    AnswerRecord, Bin, DeviceQuery, DispatchReport, Edge, EventCounts, RegionHead, Shape,
    WrittenObjects,
};
use shoal_engine::{EngineError, HashKey};

use super::argument_layout::{
    BinsArgument, IndexArgument, NewBinsArgument, PolygonsArgument, RecordsArgument,
    RegionsArgument, SceneArgument, TrajectoriesArgument,
};
use super::memory::DeviceBuffer;
use super::module::{Kernels, enqueue};

/// Threads that share the bins of one object if these are long; `OBJECT_THREADS` of the kernels.
const MANY: u64 = 8;
/// Threads that scan the slots that moved.
const ENDED_THREADS: u64 = 1 << 18;

impl BinsArgument {
    /// The first `capacity` bins; the lists of all of them have `length` references.
    pub(crate) fn new(
        (bins, capacity): (&DeviceBuffer<Bin>, usize),
        (references, length): (&DeviceBuffer<u32>, usize),
        (levels, key): (u32, HashKey),
    ) -> Self {
        assert!(capacity.is_power_of_two(), "bins are found by masking");
        assert!(capacity <= bins.len() && length <= references.len(), "lists are long enough");
        let (mask, key) = ((capacity - 1) as u32, key.words());
        Self { bins: bins.pointer(), references: references.pointer(), mask, levels, key }
    }
}

impl NewBinsArgument {
    /// The first `capacity` bins, to be filled with at most `length` references.
    pub(crate) fn new(
        (bins, capacity): (&DeviceBuffer<Bin>, usize),
        (references, length): (&DeviceBuffer<u32>, usize),
        key: HashKey,
    ) -> Self {
        assert!(capacity.is_power_of_two(), "bins are found by masking");
        assert!(capacity <= bins.len() && length <= references.len(), "everything fits");
        let (bins, references, key) = (bins.pointer(), references.pointer(), key.words());
        Self { bins, references, mask: (capacity - 1) as u32, most: Self::most(capacity), key }
    }

    /// Number of bins in use beyond which a table is too full, because probing takes long.
    pub(crate) fn most(capacity: usize) -> u32 {
        (capacity / 8 * 5) as u32
    }

    fn capacity(&self) -> u64 {
        u64::from(self.mask) + 1
    }
}

impl RegionsArgument {
    pub(crate) fn new(
        queries: &DeviceBuffer<DeviceQuery>,
        shapes: &DeviceBuffer<Shape>,
        slabs: &DeviceBuffer<u32>,
        edges: &DeviceBuffer<Edge>,
    ) -> Self {
        let polygons = PolygonsArgument::new(slabs, edges);
        Self { queries: queries.pointer(), shapes: shapes.pointer(), polygons }
    }
}

/// References that are added to a table, with their cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added<'a> {
    pub(crate) cells: &'a DeviceBuffer<u64>,
    pub(crate) references: &'a DeviceBuffer<u32>,
    pub(crate) length: usize,
    /// New numbers of all regions, if they change.
    pub(crate) numbers: Option<&'a DeviceBuffer<u32>>,
}

impl Added<'_> {
    fn arguments(&self) -> (u64, u64, u32, u64) {
        let capacity = self.cells.len().min(self.references.len());
        assert!(self.length <= capacity, "every reference has a cell");
        let numbers = self.numbers.map_or(0, DeviceBuffer::address);
        (self.cells.address(), self.references.address(), self.length as u32, numbers)
    }
}

impl SceneArgument {
    /// `length` written objects, sorted, and their slots; two tables of `regions`.
    pub(crate) fn new(
        base: BinsArgument,
        recent: BinsArgument,
        regions: RegionsArgument,
        records: RecordsArgument,
        epoch: u64,
        objects: &DeviceBuffer<u64>,
        slots: &DeviceBuffer<u32>,
        length: u32,
    ) -> Self {
        assert!(objects.len().min(slots.len()) >= length as usize, "a slot an object");
        let (objects, slots) = (objects.pointer(), slots.pointer());
        Self { base, recent, regions, records, epoch, objects, slots, length, reserved: 0 }
    }

    fn threads(&self, is_long: bool) -> u64 {
        u64::from(self.length) * if is_long { MANY } else { 1 }
    }

    /// Number of objects.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }
}

/// Lists of sorted events: by event its key and its object's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) keys: &'a DeviceBuffer<u32>,
    pub(crate) entries: &'a DeviceBuffer<u32>,
    pub(crate) length: usize,
}

impl Kernels {
    /// Claims the bins of added references; `claimed` counts the bins.
    pub(crate) fn subscription_claim(
        &self,
        stream: &CudaStream,
        added: &Added<'_>,
        table: &NewBinsArgument,
        claimed: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let (cells, references, length, numbers) = added.arguments();
        enqueue!(self.subscription_claim, stream, length; cells, references, length, numbers, table,
            claimed)
    }

    /// Claims the bins of an older table, whose regions get new numbers.
    pub(crate) fn subscription_claim_bins(
        &self,
        stream: &CudaStream,
        old: &BinsArgument,
        numbers: &DeviceBuffer<u32>,
        table: &NewBinsArgument,
        claimed: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let threads = u64::from(old.mask) + 1;
        enqueue!(self.subscription_claim_bins, stream, threads; old, numbers, table, claimed)
    }

    /// Writes the number of references of each bin, and 0 after the last.
    pub(crate) fn subscription_counts(
        &self,
        stream: &CudaStream,
        table: &NewBinsArgument,
        counts: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(counts.len() as u64 > table.capacity(), "a count a bin and one more");
        let threads = table.capacity() + 1;
        enqueue!(self.subscription_counts, stream, threads; table, counts)
    }

    /// Files added references and those of an older table, with the start of each bin.
    pub(crate) fn subscription_file(
        &self,
        stream: &CudaStream,
        old: Option<(&BinsArgument, &DeviceBuffer<u32>)>,
        added: &Added<'_>,
        table: &NewBinsArgument,
        starts: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(starts.len() as u64 > table.capacity(), "a start a bin and one more");
        let threads = table.capacity();
        enqueue!(self.subscription_starts, stream, threads; table, starts)?;
        if let Some((old, numbers)) = old {
            let (numbers, threads) = (numbers.address(), u64::from(old.mask) + 1);
            enqueue!(self.subscription_file_bins, stream, threads; old, numbers, table)?;
        }
        let (cells, references, length, numbers) = added.arguments();
        enqueue!(self.subscription_file, stream, length; cells, references, length, numbers,
            table)
    }

    /// Ends queries or suppresses their events in this cycle; the kernel defines marks.
    pub(crate) fn subscription_mark(
        &self,
        stream: &CudaStream,
        queries: &DeviceBuffer<DeviceQuery>,
        (marks, length): (&DeviceBuffer<u32>, usize),
        epoch: u64,
    ) -> Result<(), EngineError> {
        assert!(length <= marks.len(), "every mark is in range");
        let (length, epoch) = (length as u32, epoch as u32);
        enqueue!(self.subscription_mark, stream, length; queries, marks, length, epoch)
    }

    /// Lists the objects of rows and removals, whose slots are in `arrived`. With `ended`, also
    /// lists the objects that ended, which are among the slots that moved; the report has the
    /// number of these slots.
    pub(crate) fn subscription_gather(
        &self,
        stream: &CudaStream,
        (arrived, rows): (&DeviceBuffer<u32>, u32),
        ended: Option<(&DeviceBuffer<u32>, &DeviceBuffer<DispatchReport>)>,
        (index, records): (&IndexArgument, &RecordsArgument),
        written_objects: &DeviceBuffer<WrittenObjects>,
        (objects, slots): (&DeviceBuffer<u64>, &DeviceBuffer<u32>),
    ) -> Result<(), EngineError> {
        let others = ended.map_or(0, |(moved, _)| moved.len().min(u32::MAX as usize));
        let capacity = objects.len().min(slots.len());
        assert!(
            arrived.len() >= rows as usize && capacity >= rows as usize,
            "capacity for every row"
        );
        assert!(ended.is_none() || capacity >= others, "and for everything that moved");
        enqueue!(self.subscription_gather, stream, rows; arrived, rows, index, records,
            written_objects, objects, slots)?;
        if let Some((moved, report)) = ended {
            enqueue!(self.subscription_gather_ended, stream, ENDED_THREADS; moved, report, records,
                written_objects, objects, slots)?;
        }
        Ok(())
    }

    /// Counts the events of every object, writes 0 after the last count, and lists the objects with
    /// events. `is_long`: several threads share the bins of an object.
    pub(crate) fn subscription_count(
        &self,
        stream: &CudaStream,
        scene: &SceneArgument,
        is_long: bool,
        counts: &DeviceBuffer<u32>,
        busy: &DeviceBuffer<u32>,
        event_counts: &DeviceBuffer<EventCounts>,
    ) -> Result<(), EngineError> {
        assert!(counts.len() > scene.length as usize, "a count an object and one more");
        assert!(busy.len() >= scene.length as usize, "all may have events");
        let kernel = if is_long { &self.subscription_count_many } else { &self.subscription_count };
        enqueue!(kernel, stream, scene.threads(is_long) + MANY; scene, counts, busy, event_counts)
    }

    /// Counts the events of every region.
    pub(crate) fn subscription_tally(
        &self,
        stream: &CudaStream,
        scene: &SceneArgument,
        tallies: &DeviceBuffer<u32>,
        regions: usize,
    ) -> Result<(), EngineError> {
        assert!(tallies.len() >= regions, "a tally a region");
        enqueue!(self.subscription_tally, stream, scene.threads(true); scene, tallies)
    }

    /// Writes the events that were counted, of the first `length` objects with events.
    pub(crate) fn subscription_write(
        &self,
        stream: &CudaStream,
        scene: &SceneArgument,
        is_long: bool,
        busy: &DeviceBuffer<u32>,
        length: u32,
        offsets: &DeviceBuffer<u64>,
        events: &Listed<'_>,
    ) -> Result<(), EngineError> {
        assert!(offsets.len() > scene.length as usize, "an offset an object and one more");
        assert!(events.keys.len().min(events.entries.len()) >= events.length, "capacity for all");
        assert!(busy.len() >= length as usize, "every object is listed");
        let (kernel, each) = if is_long {
            (&self.subscription_write_many, MANY)
        } else {
            (&self.subscription_write, 1)
        };
        enqueue!(kernel, stream, u64::from(length) * each; scene, busy, length, offsets,
            events.keys, events.entries)
    }

    /// Marks the first event of each region and, with `fixes`, the events with a record.
    pub(crate) fn subscription_heads(
        &self,
        stream: &CudaStream,
        events: &Listed<'_>,
        queries: &DeviceBuffer<DeviceQuery>,
        heads: &DeviceBuffer<u32>,
        fixes: Option<&DeviceBuffer<u32>>,
    ) -> Result<(), EngineError> {
        let capacity = fixes.map_or(heads.len(), |fixes| fixes.len().min(heads.len()));
        assert!(capacity > events.length && events.keys.len() >= events.length, "a mark an event");
        let length = events.length as u32;
        let fixes = fixes.map_or(0, DeviceBuffer::address);
        enqueue!(self.subscription_heads, stream, u64::from(length) + 1; events.keys, length,
            queries, heads, fixes)
    }

    /// Writes sorted events as columns. `heads` has the sums of the marks.
    pub(crate) fn subscription_columns(
        &self,
        stream: &CudaStream,
        (scene, events): (&SceneArgument, &Listed<'_>),
        heads: &DeviceBuffer<u32>,
        (queries, regions): (&DeviceBuffer<DeviceQuery>, &DeviceBuffer<u64>),
        (objects, kinds): (&DeviceBuffer<u64>, &DeviceBuffer<u8>),
        (region_heads, numbers): (&DeviceBuffer<RegionHead>, usize),
    ) -> Result<(), EngineError> {
        let capacity = objects.len().min(kinds.len()).min(heads.len().saturating_sub(1));
        assert!(capacity >= events.length, "capacity for every event");
        assert!(region_heads.len() >= events.length.min(numbers), "capacity for every region");
        assert!(queries.len().min(regions.len()) >= numbers, "every region is in range");
        let (length, written) = (events.length as u32, scene.objects);
        enqueue!(self.subscription_columns, stream, length; events.keys, events.entries, length,
            written, heads, queries, regions, objects, kinds, region_heads)
    }

    /// Writes the records of events with a record; `places` has the sums of their marks.
    pub(crate) fn subscription_fixes(
        &self,
        stream: &CudaStream,
        (scene, events): (&SceneArgument, &Listed<'_>),
        places: &DeviceBuffer<u32>,
        (fixes, wanted): (&DeviceBuffer<AnswerRecord>, usize),
    ) -> Result<(), EngineError> {
        assert!(places.len() > events.length && fixes.len() >= wanted, "capacity for every record");
        let length = events.length as u32;
        let slots = scene.slots;
        let (records, epoch) = (scene.records, scene.epoch);
        enqueue!(self.subscription_fixes, stream, length; events.entries, length, places, slots,
            records, epoch, fixes)
    }

    /// The outcomes of the objects of the first `length` slots in cycle `epoch`.
    pub(crate) fn subscription_outcomes(
        &self,
        stream: &CudaStream,
        records: &RecordsArgument,
        epoch: u64,
        slots: &DeviceBuffer<u32>,
        outcomes: &DeviceBuffer<AnswerRecord>,
        length: usize,
    ) -> Result<(), EngineError> {
        assert!(slots.len().min(outcomes.len()) >= length, "a record a slot");
        let length = length as u32;
        enqueue!(self.subscription_outcomes, stream, length; records, epoch, slots, length,
            outcomes)
    }

    /// Marks the objects that the host evaluates; writes 0 after the last mark. `watched` has a bit
    /// per slot, and so has `passing` if there are trajectories.
    pub(crate) fn subscription_mark_observed(
        &self,
        stream: &CudaStream,
        scene: &SceneArgument,
        (watched, slots): (&DeviceBuffer<u32>, usize),
        trajectories: Option<(TrajectoriesArgument, &DeviceBuffer<u32>)>,
        marks: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(marks.len() > scene.length as usize, "a mark an object and one more");
        assert!(32 * watched.len() >= slots, "a bit a slot");
        let passing = trajectories.map_or(0, |(_, passing)| {
            assert!(32 * passing.len() >= slots, "a bit a slot");
            passing.address()
        });
        let trajectories =
            trajectories.map_or(TrajectoriesArgument::NONE, |(trajectories, _)| trajectories);
        enqueue!(self.subscription_mark_observed, stream, scene.threads(true) + MANY; scene,
            watched, trajectories, passing, marks)
    }

    /// Writes two records for each of `length` marked objects from the `first` on.
    pub(crate) fn subscription_observe(
        &self,
        stream: &CudaStream,
        scene: &SceneArgument,
        places: &DeviceBuffer<u32>,
        observed: &DeviceBuffer<AnswerRecord>,
        first: u32,
        length: u32,
    ) -> Result<(), EngineError> {
        assert!(places.len() > scene.length as usize, "a place an object and one more");
        assert!(observed.len() >= 2 * length as usize, "two records an object");
        enqueue!(self.subscription_observe, stream, scene.length; scene, places, first, length,
            observed)
    }

    /// Starts (1) or stops (0) watching the first `length` objects.
    pub(crate) fn subscription_watch(
        &self,
        stream: &CudaStream,
        index: &IndexArgument,
        objects: &DeviceBuffer<u64>,
        begins: &DeviceBuffer<u32>,
        length: usize,
        watched: &DeviceBuffer<u32>,
        slots: usize,
    ) -> Result<(), EngineError> {
        assert!(objects.len().min(begins.len()) >= length, "every change is in range");
        assert!(32 * watched.len() >= slots, "a bit a slot");
        let length = length as u32;
        enqueue!(self.subscription_watch, stream, length; index, objects, begins, length, watched)
    }
}
