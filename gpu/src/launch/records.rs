//! Launches of the kernels that work on a whole array of records, not on the rows of a cycle.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{AnswerRecord, Optional};

use super::argument_layout::{IndexArgument, RecordsArgument};
use super::memory::DeviceBuffer;
use super::module::{Kernels, enqueue};

impl Kernels {
    /// Sets the optional values of versions from `first` on to unknown.
    pub(crate) fn records_unknown(
        &self,
        stream: &CudaStream,
        optional: &DeviceBuffer<Optional>,
        first: usize,
    ) -> Result<(), EngineError> {
        let (first, end) = (first as u64, optional.len() as u64);
        enqueue!(self.records_unknown, stream, end.saturating_sub(first); optional, first, end)
    }

    /// Enters slots 0 to `slots` into an empty index.
    pub(crate) fn records_index(
        &self,
        stream: &CudaStream,
        index: &IndexArgument,
        objects: &DeviceBuffer<u64>,
        slots: u32,
    ) -> Result<(), EngineError> {
        assert!(objects.len() >= slots as usize, "an id a slot");
        enqueue!(self.records_index, stream, slots; index, objects, slots)
    }

    /// Writes the records of slots 0 to `slots` after cycle `epoch`.
    pub(crate) fn records_export(
        &self,
        stream: &CudaStream,
        records: &RecordsArgument,
        slots: u32,
        epoch: u64,
        exported: &DeviceBuffer<AnswerRecord>,
    ) -> Result<(), EngineError> {
        assert!(exported.len() >= slots as usize, "a record a slot");
        enqueue!(self.records_export, stream, slots; records, slots, epoch, exported)
    }
}
