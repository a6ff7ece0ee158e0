//! Launches of stage dispatch.
//!
//! One safe function a kernel, or a run of kernels that always follow each other.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{Optional, Rules};

use super::argument_layout::{IndexArgument, InputArgument, RecordsArgument, RowsArgument};
use super::memory::DeviceBuffer;
use super::module::{Kernels, arguments, launch};

/// The arguments that every kernel of the stage takes.
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
    /// By clear: the arrival that it stands before.
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
        let arguments = arguments![cycle.input, cycle.rules];
        launch(&self.dispatch_verify, stream, cycle.rules.rows.into(), arguments)
    }

    /// Counts the rows and entries whose ids have no slot.
    pub(crate) fn dispatch_newcomers(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        newcomers: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let newcomers = newcomers.address();
        let arguments = arguments![cycle.input, cycle.rules, cycle.index, newcomers];
        launch(&self.dispatch_newcomers, stream, cycle.rules.rows.into(), arguments)
    }

    /// Finds the slots of `entries` of dictionaries, judges their rows and, in cycles of fixes
    /// alone, lets those of one object compete.
    pub(crate) fn dispatch_dictionaries(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        objects: &DeviceBuffer<u64>,
        entries: u32,
    ) -> Result<(), EngineError> {
        assert!(objects.len() >= cycle.slots as usize, "every new slot has room");
        assert!(entries <= cycle.rules.rows, "an entry has a row");
        let CycleRows { input, rules, rows, index, records, .. } = *cycle;
        let objects = objects.address();
        let arguments = arguments![input, rules, rows, index, records, objects, entries];
        launch(&self.dispatch_entries, stream, entries.into(), arguments)?;
        let arguments = arguments![input, rules, rows, index];
        launch(&self.dispatch_match, stream, rules.rows.into(), arguments)
    }

    /// Judges other rows and finds their slots.
    pub(crate) fn dispatch_find(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        objects: &DeviceBuffer<u64>,
    ) -> Result<(), EngineError> {
        assert!(objects.len() >= cycle.slots as usize, "every new slot has room");
        let objects = objects.address();
        let arguments = arguments![cycle.input, cycle.rules, cycle.rows, cycle.index, objects];
        launch(&self.dispatch_find, stream, cycle.rules.rows.into(), arguments)
    }

    /// Lets such rows of one object compete.
    pub(crate) fn dispatch_order(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        let arguments =
            arguments![cycle.input, cycle.rules, cycle.rows, cycle.index, cycle.records];
        launch(&self.dispatch_order, stream, cycle.rules.rows.into(), arguments)
    }

    /// Writes the winners among rows of `entries` of dictionaries.
    pub(crate) fn dispatch_settle_entries(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        entries: u32,
    ) -> Result<(), EngineError> {
        let CycleRows { input, rules, rows, index, records, .. } = *cycle;
        let arguments = arguments![input, rules, rows, index, records, entries];
        launch(&self.dispatch_settle_entries, stream, entries.into(), arguments)
    }

    /// Writes the winners among other rows.
    pub(crate) fn dispatch_settle(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        let arguments = arguments![cycle.input, cycle.rules, cycle.rows, cycle.records];
        launch(&self.dispatch_settle, stream, cycle.rules.rows.into(), arguments)
    }

    /// Ends what is too old.
    pub(crate) fn dispatch_expire(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        let arguments =
            arguments![cycle.input, cycle.rules, cycle.rows, cycle.records, cycle.slots];
        launch(&self.dispatch_expire, stream, cycle.slots.into(), arguments)
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
        let (keys, arrivals) = (keys.address(), arrivals.address());
        let arguments = arguments![cycle.rules, cycle.rows, cycle.index, keys, arrivals];
        launch(&self.ordered_keys, stream, cycle.rules.rows.into(), arguments)
    }

    /// Takes every object through its rows, removals and clears.
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
        let (keys, arrivals) = (lists.keys.address(), lists.arrivals.address());
        let (at, requests) = (lists.clear_arrivals.address(), lists.clear_requests.address());
        let arguments = arguments![
            cycle.input,
            cycle.rules,
            cycle.rows,
            cycle.records,
            keys,
            arrivals,
            at,
            requests,
        ];
        launch(&self.ordered_settle, stream, rows as u64, arguments)
    }

    /// Counts removals of what cannot exist.
    pub(crate) fn ordered_missing(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        let arguments = arguments![cycle.input, cycle.rules, cycle.rows];
        launch(&self.ordered_missing, stream, cycle.rules.rows.into(), arguments)
    }

    /// Ends untouched objects that a clear removed.
    pub(crate) fn ordered_clear(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        lists: &Ordered<'_>,
    ) -> Result<(), EngineError> {
        let requests = lists.clear_requests.address();
        let arguments =
            arguments![cycle.input, cycle.rules, cycle.rows, cycle.records, requests, cycle.slots,];
        launch(&self.ordered_clear, stream, cycle.slots.into(), arguments)
    }

    /// Makes the optional values of versions from `first` on unknown.
    pub(crate) fn dispatch_unknown(
        &self,
        stream: &CudaStream,
        optional: &DeviceBuffer<Optional>,
        first: usize,
    ) -> Result<(), EngineError> {
        let (address, first, end) = (optional.address(), first as u64, optional.len() as u64);
        let arguments = arguments![address, first, end];
        launch(&self.dispatch_unknown, stream, end.saturating_sub(first), arguments)
    }
}
