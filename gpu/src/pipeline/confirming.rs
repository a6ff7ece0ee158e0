//! Stage query by the paper's confirmation table: who asks is listed by cell, and an object in a
//! queried cell is read once for all of its queries. Only where it is asked for
//! ([`crate::Tuning::confirmation_table`]).
//!
//! Which way is taken never changes an answer. The table has an entry for each cell of each part;
//! where that would be too many, the cycle goes the usual way.

use cudarc::driver::CudaEvent;
use shoal_engine::EngineError;

use super::asking::{Asking, Questions};
use crate::launch::{
    CellsOfParts, ConfirmationArgument, DeviceBuffer, Memory, PinnedBuffer, ViewArgument, fault,
};

/// Entries of a table at most: 40 bytes each on the device, while there are cells of 4.
const ENTRIES_MAX: u64 = 1 << 26;

/// The lists of the table; they grow, never shrink.
#[derive(Debug)]
pub(super) struct Confirming {
    /// By part: the cells before it.
    firsts: DeviceBuffer<u64>,
    entries_here: PinnedBuffer<u64>,
    cells: DeviceBuffer<u32>,
    entries: DeviceBuffer<u32>,
    sorted_cells: DeviceBuffer<u32>,
    sorted_entries: DeviceBuffer<u32>,
    /// Marks of new cells, and sums of them; then the objects of candidate cells, and their sums.
    heads: DeviceBuffer<u32>,
    numbers: DeviceBuffer<u32>,
    starts: DeviceBuffer<u32>,
    rows: DeviceBuffer<u32>,
    objects: DeviceBuffer<u32>,
    bounds: DeviceBuffer<u32>,
    /// The table that was counted by last; none when another way was taken.
    counted: Option<u32>,
}

impl Confirming {
    pub(super) fn new(memory: &Memory) -> Result<Self, EngineError> {
        let list = || DeviceBuffer::new(memory, 1);
        Ok(Self {
            firsts: DeviceBuffer::new(memory, 1)?,
            entries_here: PinnedBuffer::new(memory, 1)?,
            cells: list()?,
            entries: list()?,
            sorted_cells: list()?,
            sorted_entries: list()?,
            heads: list()?,
            numbers: list()?,
            starts: list()?,
            rows: list()?,
            objects: list()?,
            bounds: list()?,
            counted: None,
        })
    }

    fn fit(&mut self, entries: usize) -> Result<(), EngineError> {
        let lists = [
            &mut self.cells,
            &mut self.entries,
            &mut self.sorted_cells,
            &mut self.sorted_entries,
            &mut self.heads,
            &mut self.numbers,
            &mut self.starts,
            &mut self.rows,
            &mut self.objects,
            &mut self.bounds,
        ];
        lists.into_iter().try_for_each(|list| list.fit(entries + 1).map(drop))
    }

    fn unsorted(&self, length: u32) -> CellsOfParts<'_> {
        CellsOfParts { cells: &self.cells, entries: &self.entries, length }
    }

    fn sorted(&self, length: u32) -> CellsOfParts<'_> {
        CellsOfParts { cells: &self.sorted_cells, entries: &self.sorted_entries, length }
    }

    fn argument(&self, length: u32) -> ConfirmationArgument {
        let lists = (&self.starts, &self.rows, &self.bounds);
        ConfirmationArgument::new(lists, &self.numbers, self.sorted(length))
    }
}

impl Asking {
    /// Counts the cells of every part. The event tells when [`Asking::confirm`] may go on.
    pub(super) fn cut_by_cell(
        &mut self,
        view: &ViewArgument,
        at: Questions<'_>,
        confirming: &mut Confirming,
    ) -> Result<CudaEvent, EngineError> {
        let parts = at.1.parts.length;
        self.rows.fit(parts + 1)?;
        confirming.firsts.fit(parts + 1)?;
        self.kernels.confirm_cells(&self.stream, view, at, &self.rows)?;
        let length = parts as u32 + 1;
        self.scratch.sum_before_wide(&self.stream, &self.rows, &confirming.firsts, length)?;
        let here = &mut confirming.entries_here.as_mut_slice()[..1];
        confirming.firsts.download(&self.stream, parts, here)?;
        self.stream.record_event(None).map_err(fault)
    }

    /// Counts by the table, into `bounds` and `totals` as [`Asking::count`] does; false when the
    /// table would be too long, and nothing is counted.
    pub(super) fn confirm(
        &mut self,
        view: &ViewArgument,
        at: Questions<'_>,
        confirming: &mut Confirming,
        (bounds, totals): (&mut [u64], Option<&mut [u64]>),
    ) -> Result<bool, EngineError> {
        confirming.counted = None;
        let entries = confirming.entries_here.as_slice()[0];
        if entries > ENTRIES_MAX {
            return Ok(false);
        }
        let (entries, queries) = (entries as u32, at.1.queries);
        self.tabulate(view, at, confirming, entries)?;
        self.queries_counted = queries;
        self.counts.fit(queries + 1)?;
        self.totals.fit(queries)?;
        self.bounds.fit(queries + 1)?;
        self.long_queries.fit(queries)?;
        let (stream, table) = (&self.stream, confirming.argument(entries));
        self.counts.fill(stream, 0, queries + 1)?;
        self.totals.fill(stream, 0, queries)?;
        self.lengths.fill(stream, 0, 1)?;
        let numbers = (&self.counts, &self.totals);
        self.kernels.confirm_count(stream, view, at, &table, numbers)?;
        let length = queries as u32 + 1;
        self.scratch.sum_before_wide(stream, &self.counts, &self.bounds, length)?;
        let long = (&self.lengths, &self.long_queries);
        self.kernels.confirm_lengths(stream, (&self.counts, queries), long)?;
        self.lengths.download(stream, 0, &mut self.lengths_here.as_mut_slice()[..1])?;
        self.bounds.download(stream, 0, bounds)?;
        if let Some(totals) = totals {
            self.totals.download(stream, 0, totals)?;
        }
        confirming.counted = Some(entries);
        Ok(true)
    }

    /// Makes the list of candidate cells, their bounds and the rows of the table.
    fn tabulate(
        &mut self,
        view: &ViewArgument,
        at: Questions<'_>,
        confirming: &mut Confirming,
        entries: u32,
    ) -> Result<(), EngineError> {
        confirming.fit(entries as usize)?;
        let (stream, kernels) = (&self.stream, &self.kernels);
        let unsorted = confirming.unsorted(entries);
        kernels.confirm_list(stream, view, at, &confirming.firsts, unsorted)?;
        let from = (&confirming.cells, &confirming.entries);
        let to = (&confirming.sorted_cells, &confirming.sorted_entries);
        self.scratch.sort_pairs(stream, from, to, entries, view.cell_bits())?;
        let (sorted, numbers) = (confirming.sorted(entries), &confirming.numbers);
        kernels.confirm_heads(stream, sorted, &confirming.heads)?;
        self.scratch.sum_before(stream, &confirming.heads, numbers, entries + 1)?;
        confirming.objects.fill(stream, 0, entries as usize + 1)?;
        let lists = (&confirming.starts, &confirming.rows, &confirming.objects);
        kernels.confirm_candidates(stream, view, sorted, numbers, lists)?;
        self.scratch.sum_before(stream, &confirming.objects, &confirming.bounds, entries + 1)
    }

    /// Writes all `matches` of what was counted by the table, not sorted; false when another way
    /// was taken.
    pub(super) fn write_confirmed(
        &self,
        view: &ViewArgument,
        at: Questions<'_>,
        confirming: &Confirming,
        matches: usize,
    ) -> Result<bool, EngineError> {
        let Some(entries) = confirming.counted else {
            return Ok(false);
        };
        let table = confirming.argument(entries);
        let counted = (&self.bounds, &self.counts);
        let lists = (&self.objects, &self.slots, matches);
        self.kernels.confirm_write(&self.stream, view, at, &table, counted, lists)?;
        Ok(true)
    }
}
