//! Admission: refuses the rows of a cycle that exceed the object limit.
//!
//! Runs only in cycles that may exceed the object limit. The device lists the rows and removals
//! that may change the number of objects, the host applies the rules of
//! [`shoal_engine::stage::admission`] to the list in order of arrival, as the CPU backend does, and
//! the device marks the refused rows before it validates any.

use rayon::prelude::*;
use shoal_engine::EngineError;
use shoal_engine::layout::AdmissionRequest;
use shoal_engine::stage::admission;

use super::stage::DispatchStage;
use crate::launch::{CycleRows, fault};
use crate::stages::dispatch::staging::Staged;
use crate::state::fleet::FleetState;

impl DispatchStage {
    /// Whether a cycle may exceed the object limit.
    pub(crate) fn may_exceed(&self, state: &FleetState, staged: &Staged) -> bool {
        let fixes = staged.rows - staged.removals;
        admission::may_exceed(state.objects, fixes.into(), self.context.options.objects_max)
    }

    /// Refuses the rows of a cycle that exceed the object limit; returns whether there are any.
    /// Requires that the blocks are decoded and that the cycle has claimed no slot. Waits for the
    /// device.
    pub(crate) fn admit(
        &mut self,
        state: &FleetState,
        staged: &Staged,
        cycle: &CycleRows,
    ) -> Result<bool, EngineError> {
        let (stream, kernels) = (self.stream.clone(), self.context.gpu.kernels.clone());
        let admission_requests = self.admission_requests(staged, cycle)?;
        let clears: Vec<u32> = staged.clears.iter().map(|(arrival, _)| *arrival).collect();
        let (objects, objects_max) = (state.objects, self.context.options.objects_max);
        let refused = admission::refused(objects, objects_max, &clears, &admission_requests);
        if refused.is_empty() {
            return Ok(false);
        }
        self.refusals.fill(&stream, 0, staged.rows as usize)?;
        self.entry_slots.fill(&stream, 0, staged.entries as usize)?;
        // The list of slots is unused until the cycle's rows are looked up.
        self.slots.upload(&stream, 0, &refused)?;
        kernels.admission_refuse(&stream, cycle, &self.slots, refused.len() as u32)?;
        stream.synchronize().map_err(fault)?;
        Ok(true)
    }

    /// The rows and removals that admission decides, ascending by arrival.
    fn admission_requests(
        &self,
        staged: &Staged,
        cycle: &CycleRows,
    ) -> Result<Vec<AdmissionRequest>, EngineError> {
        let (stream, kernels) = (&self.stream, &self.context.gpu.kernels);
        if staged.removals > 0 {
            kernels.admission_mark(stream, cycle)?;
        }
        let cleared_from = staged.clears.first().map_or(u32::MAX, |(arrival, _)| *arrival);
        // Unused until the cycle's rows are looked up.
        let counter = &self.slots;
        counter.fill(stream, 0, 1)?;
        kernels.admission_list(stream, cycle, cleared_from, &self.admission_requests, counter)?;
        let mut length = [0];
        counter.download(stream, 0, &mut length)?;
        stream.synchronize().map_err(fault)?;
        let mut admission_requests = vec![AdmissionRequest::default(); length[0] as usize];
        self.admission_requests.download(stream, 0, &mut admission_requests)?;
        stream.synchronize().map_err(fault)?;
        admission_requests.par_sort_unstable_by_key(|it| it.arrival);
        Ok(admission_requests)
    }
}
