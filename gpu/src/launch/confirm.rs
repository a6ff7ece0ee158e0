//! Launches of the confirmation table; part of stage query.
//!
//! One safe function a kernel.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{Lengths, Part};

use super::memory::DeviceBuffer;
use super::module::{Kernels, arguments, launch};
use super::parameters::{QuestionStretches, QuestionsArgument, ViewArgument};

/// Threads that take the objects of candidate cells in turns: as many as an H200 holds.
const THREADS: u64 = 132 * 2_048;

/// The questions of a cycle: the input and the stretches of it.
type Asked<'a> = (&'a DeviceBuffer<u8>, &'a QuestionStretches);

/// A list of cells and, for each, what stands in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellsOfParts<'a> {
    pub(crate) cells: &'a DeviceBuffer<u32>,
    pub(crate) entries: &'a DeviceBuffer<u32>,
    pub(crate) length: u32,
}

/// `Confirmation` of confirm.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ConfirmationArgument {
    starts: u64,
    rows: u64,
    bounds: u64,
    entries: u64,
    length: u64,
}

impl ConfirmationArgument {
    /// Tables for so many pairs of cell and part: by candidate cell `starts`, `rows` and `bounds`;
    /// `numbers` ends with how many there are.
    pub(crate) fn new(
        (starts, rows, bounds): (&DeviceBuffer<u32>, &DeviceBuffer<u32>, &DeviceBuffer<u32>),
        numbers: &DeviceBuffer<u32>,
        table: CellsOfParts<'_>,
    ) -> Self {
        let pairs = table.length as usize;
        assert!(table.entries.len() >= pairs, "an entry a pair");
        let shortest = starts.len().min(rows.len()).min(bounds.len()).min(numbers.len());
        assert!(shortest > pairs, "room for a candidate cell a pair and the end");
        let length = numbers.address() + (pairs * size_of::<u32>()) as u64;
        let (starts, rows, bounds) = (starts.address(), rows.address(), bounds.address());
        Self { starts, rows, bounds, entries: table.entries.address(), length }
    }
}

impl Kernels {
    /// Cells of each part, and 0 behind the last.
    pub(crate) fn confirm_cells(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        (input, at): Asked<'_>,
        cells: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(cells.len() > at.parts.length, "a number a part and one more");
        let (grid, parts) = (view.grid(), at.parts.address::<Part>(input));
        let (length, cells) = (at.parts.length as u32, cells.address());
        launch(
            &self.confirm_cells,
            stream,
            u64::from(length) + 1,
            arguments![grid, parts, length, cells],
        )
    }

    /// Lists the cells of every part; `firsts` are the cells of all parts before each.
    pub(crate) fn confirm_list(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        (input, at): Asked<'_>,
        firsts: &DeviceBuffer<u64>,
        listed: CellsOfParts<'_>,
    ) -> Result<(), EngineError> {
        assert!(firsts.len() > at.parts.length, "a sum a part and one more");
        let pairs = listed.length;
        assert!(listed.cells.len().min(listed.entries.len()) >= pairs as usize, "room for all");
        let (grid, parts) = (view.grid(), at.parts.address::<Part>(input));
        let (length, firsts) = (at.parts.length as u32, firsts.address());
        let (cells, entries) = (listed.cells.address(), listed.entries.address());
        let arguments = arguments![grid, parts, length, firsts, pairs, cells, entries];
        launch(&self.confirm_list, stream, u64::from(pairs), arguments)
    }

    /// Marks where another cell begins.
    pub(crate) fn confirm_heads(
        &self,
        stream: &CudaStream,
        sorted: CellsOfParts<'_>,
        heads: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let pairs = sorted.length;
        assert!(sorted.cells.len() >= pairs as usize, "a cell a pair");
        assert!(heads.len() > pairs as usize, "a mark a pair and one more");
        let (cells, heads) = (sorted.cells.address(), heads.address());
        let arguments = arguments![cells, pairs, heads];
        launch(&self.confirm_heads, stream, u64::from(pairs) + 1, arguments)
    }

    /// The list of candidate cells; `numbers` are the marks before each pair, and all.
    pub(crate) fn confirm_candidates(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        sorted: CellsOfParts<'_>,
        numbers: &DeviceBuffer<u32>,
        (starts, rows, counts): (&DeviceBuffer<u32>, &DeviceBuffer<u32>, &DeviceBuffer<u32>),
    ) -> Result<(), EngineError> {
        let pairs = sorted.length;
        assert!(sorted.cells.len() >= pairs as usize, "a cell a pair");
        let shortest = numbers.len().min(starts.len()).min(rows.len()).min(counts.len());
        assert!(shortest > pairs as usize, "room for a candidate cell a pair and the end");
        let (grid_cells, cells) = (view.cells(), sorted.cells.address());
        let (numbers, starts) = (numbers.address(), starts.address());
        let (rows, counts) = (rows.address(), counts.address());
        let arguments = arguments![grid_cells, cells, pairs, numbers, starts, rows, counts];
        launch(&self.confirm_candidates, stream, u64::from(pairs) + 1, arguments)
    }

    /// Counts the matches of every query.
    pub(crate) fn confirm_count(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        (input, at): Asked<'_>,
        table: &ConfirmationArgument,
        (counts, totals): (&DeviceBuffer<u32>, &DeviceBuffer<u64>),
    ) -> Result<(), EngineError> {
        assert!(counts.len().min(totals.len()) >= at.queries, "two numbers a query");
        let questions = QuestionsArgument::whole(input, at);
        let (counts, totals) = (counts.address(), totals.address());
        let arguments = arguments![*view, questions, *table, counts, totals];
        launch(&self.confirm_count, stream, THREADS, arguments)
    }

    /// Lists the queries with long answers.
    pub(crate) fn confirm_lengths(
        &self,
        stream: &CudaStream,
        (counts, queries): (&DeviceBuffer<u32>, usize),
        (lengths, long_queries): (&DeviceBuffer<Lengths>, &DeviceBuffer<u32>),
    ) -> Result<(), EngineError> {
        assert!(counts.len().min(long_queries.len()) >= queries, "all queries may be long");
        let (counts, queries) = (counts.address(), queries as u32);
        let (lengths, long) = (lengths.address(), long_queries.address());
        let arguments = arguments![counts, queries, lengths, long];
        launch(&self.confirm_lengths, stream, queries.into(), arguments)
    }

    /// Writes all `matches`, those of each query in no particular order; its count goes down to 0.
    pub(crate) fn confirm_write(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        (input, at): Asked<'_>,
        table: &ConfirmationArgument,
        (bounds, counts): (&DeviceBuffer<u64>, &DeviceBuffer<u32>),
        (objects, slots, matches): (&DeviceBuffer<u64>, &DeviceBuffer<u32>, usize),
    ) -> Result<(), EngineError> {
        assert!(bounds.len() > at.queries && counts.len() >= at.queries, "numbers of every query");
        assert!(objects.len().min(slots.len()) >= matches, "room for every match");
        let questions = QuestionsArgument::whole(input, at);
        let (bounds, counts) = (bounds.address(), counts.address());
        let (objects, slots) = (objects.address(), slots.address());
        let arguments = arguments![*view, questions, *table, bounds, counts, objects, slots];
        launch(&self.confirm_write, stream, THREADS, arguments)
    }
}
