//! Launches of admission, part of stage dispatch.
//!
//! One safe function per kernel.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::AdmissionRequest;

use super::dispatch::CycleRows;
use super::memory::DeviceBuffer;
use super::module::{Kernels, enqueue};

impl Kernels {
    /// Marks the objects that a cycle removes.
    pub(crate) fn admission_mark(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        enqueue!(self.admission_mark, stream, cycle.rules.rows; cycle.input, cycle.rules,
            cycle.rows, cycle.index)
    }

    /// Lists the admission requests of a cycle whose first clear precedes arrival `cleared_from`,
    /// in no particular order, and adds their number to the first value of `length`.
    pub(crate) fn admission_list(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        cleared_from: u32,
        admission_requests: &DeviceBuffer<AdmissionRequest>,
        length: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(
            admission_requests.len() >= cycle.rules.rows as usize,
            "every row may be an admission request"
        );
        let CycleRows { input, rules, rows, index, records, .. } = *cycle;
        enqueue!(self.admission_list, stream, rules.rows; input, rules, rows, index, records,
            cleared_from, admission_requests, length)
    }

    /// Refuses the rows of the first `length` arrivals of a list.
    pub(crate) fn admission_refuse(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        refused: &DeviceBuffer<u32>,
        length: u32,
    ) -> Result<(), EngineError> {
        assert!(
            length <= cycle.rules.rows && length as usize <= refused.len(),
            "rows of the cycle"
        );
        enqueue!(self.admission_refuse, stream, length; cycle.input, cycle.rules, cycle.rows,
            refused, length)
    }
}
