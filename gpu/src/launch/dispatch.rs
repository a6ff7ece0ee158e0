//! Launches of stage dispatch.
//!
//! One safe function per kernel, or per sequence of kernels that always run together.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::Rules;

use super::argument_layout::{IndexArgument, InputArgument, RecordsArgument, RowsArgument};
use super::memory::DeviceBuffer;
use super::module::{Kernels, enqueue};

/// The common arguments of the stage's kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CycleRows {
    pub(crate) input: InputArgument,
    pub(crate) rules: Rules,
    pub(crate) rows: RowsArgument,
    pub(crate) index: IndexArgument,
    pub(crate) records: RecordsArgument,
    /// Slots that may be in use after the cycle.
    pub(crate) slots: u32,
}

/// Lists of a cycle with removals: rows sorted by (slot, arrival), and its clears.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered<'a> {
    pub(crate) keys: &'a DeviceBuffer<u32>,
    pub(crate) arrivals: &'a DeviceBuffer<u32>,
    /// By clear: the arrival that it precedes.
    pub(crate) clear_arrivals: &'a DeviceBuffer<u32>,
    /// By clear: its request.
    pub(crate) clear_requests: &'a DeviceBuffer<u32>,
}

impl Kernels {
    /// Checks the rows of blocks against their headers.
    pub(crate) fn dispatch_verify(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        enqueue!(self.dispatch_verify, stream, cycle.rules.rows; cycle.input, cycle.rules)
    }

    /// Counts the rows and entries whose ids have no slot.
    pub(crate) fn dispatch_newcomers(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        newcomers: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(newcomers.len() >= 1, "a counter");
        enqueue!(self.dispatch_newcomers, stream, cycle.rules.rows; cycle.input, cycle.rules,
            cycle.index, newcomers)
    }

    /// Finds the slots of `entries` of dictionaries, validates their rows and, in cycles that have
    /// only fixes, lets the rows of an object compete.
    pub(crate) fn dispatch_dictionaries(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        objects: &DeviceBuffer<u64>,
        entries: u32,
    ) -> Result<(), EngineError> {
        assert!(objects.len() >= cycle.slots as usize, "every new slot fits");
        assert!(entries <= cycle.rules.rows, "an entry has a row");
        let CycleRows { input, rules, rows, index, records, .. } = *cycle;
        enqueue!(self.dispatch_entries, stream, entries; input, rules, rows, index, records,
            objects, entries)?;
        enqueue!(self.dispatch_match, stream, rules.rows; input, rules, rows, index)
    }

    /// Finds the slots of rows without a dictionary of ids, and validates these rows.
    pub(crate) fn dispatch_find(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        objects: &DeviceBuffer<u64>,
    ) -> Result<(), EngineError> {
        assert!(objects.len() >= cycle.slots as usize, "every new slot fits");
        enqueue!(self.dispatch_find, stream, cycle.rules.rows; cycle.input, cycle.rules, cycle.rows,
            cycle.index, objects)
    }

    /// Lets the rows of [`Kernels::dispatch_find`] compete for the record of their object.
    pub(crate) fn dispatch_order(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        enqueue!(self.dispatch_order, stream, cycle.rules.rows; cycle.input, cycle.rules,
            cycle.rows, cycle.index, cycle.records)
    }

    /// Writes the winners among rows of `entries` of dictionaries.
    pub(crate) fn dispatch_settle_entries(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        entries: u32,
    ) -> Result<(), EngineError> {
        let CycleRows { input, rules, rows, index, records, .. } = *cycle;
        enqueue!(self.dispatch_settle_entries, stream, entries; input, rules, rows, index, records,
            entries)
    }

    /// Writes the winners among other rows.
    pub(crate) fn dispatch_settle(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        enqueue!(self.dispatch_settle, stream, cycle.rules.rows; cycle.input, cycle.rules,
            cycle.rows, cycle.records)
    }

    /// Ends objects whose record is too old.
    pub(crate) fn dispatch_expire(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        enqueue!(self.dispatch_expire, stream, cycle.slots; cycle.input, cycle.rules, cycle.rows,
            cycle.records, cycle.slots)
    }

    /// Keys for sorting rows by object.
    pub(crate) fn ordered_keys(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        keys: &DeviceBuffer<u32>,
        arrivals: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(keys.len().min(arrivals.len()) >= cycle.rules.rows as usize, "a key a row");
        enqueue!(self.ordered_keys, stream, cycle.rules.rows; cycle.rules, cycle.rows, cycle.index,
            keys, arrivals)
    }

    /// Applies every object's rows, removals and clears.
    pub(crate) fn ordered_settle(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        lists: &Ordered<'_>,
    ) -> Result<(), EngineError> {
        let rows = cycle.rules.rows as usize;
        assert!(lists.keys.len().min(lists.arrivals.len()) >= rows, "a key a row");
        let clears = cycle.rules.clears as usize;
        assert!(lists.clear_arrivals.len().min(lists.clear_requests.len()) >= clears, "clears");
        enqueue!(self.ordered_settle, stream, rows as u64; cycle.input, cycle.rules, cycle.rows,
            cycle.records, lists.keys, lists.arrivals, lists.clear_arrivals, lists.clear_requests)
    }

    /// Counts removals of the reserved id.
    pub(crate) fn ordered_missing(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        enqueue!(self.ordered_missing, stream, cycle.rules.rows; cycle.input, cycle.rules,
            cycle.rows)
    }

    /// Ends objects without rows that a clear removed.
    pub(crate) fn ordered_clear(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        lists: &Ordered<'_>,
    ) -> Result<(), EngineError> {
        enqueue!(self.ordered_clear, stream, cycle.slots; cycle.input, cycle.rules, cycle.rows,
            cycle.records, lists.clear_requests, cycle.slots)
    }
}
