//! Reserves memory for a cycle's changes before any of them takes effect.
//!
//! Lists grow with the cycle's rows. Records grow if the cycle may create more objects than there
//! are slots, and only if the grids of as many objects fit as well. A cycle without memory is
//! refused as a whole and the engine continues. Memory for answers is reserved later, when matches
//! are counted.

use shoal_engine::EngineError;
use shoal_engine::layout::{Cell, Entry};

use super::dispatch_staging::Staged;
use super::driver::Driver;
use super::update_grid::CELL_OBJECTS;
use crate::launch::{DeviceBuffer, Failed, fault};

/// Entries of one grid per object when objects are evenly distributed: with a cell for 8 objects,
/// all capacities are 2.3 n for n objects, plus a quarter of n behind the cells.
const ENTRIES_EACH: usize = 3;

/// Bytes of both grids for a number of slots; buffers are a quarter larger than required. A guess:
/// grids that turn out larger are built with less spare capacity.
fn grids_bytes(slots: usize) -> u64 {
    let places = slots * size_of::<u32>();
    let cells = slots / CELL_OBJECTS as usize;
    let grid = slots * ENTRIES_EACH * size_of::<Entry>() + cells * size_of::<Cell>();
    (2 * (grid + places)) as u64 / 4 * 5
}

impl Driver {
    /// Reserves memory for all changes of a cycle; waits for the device only if records must grow.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`] and [`EngineError::Limit`]: the cycle has no effect.
    pub(super) fn reserve(&mut self, staged: &Staged) -> Result<(), EngineError> {
        match self.fit(staged) {
            Err(EngineError::OutOfMemory { .. }) => {
                self.release_answers()?;
                self.fit(staged)
            }
            fitted => fitted,
        }
    }

    fn fit(&mut self, staged: &Staged) -> Result<(), EngineError> {
        self.fit_lists(staged)?;
        match self.fit_records(staged.rows as usize, staged.has_optional) {
            Err(EngineError::OutOfMemory { .. } | EngineError::Limit { .. }) => {
                // Most objects may have slots already.
                let newcomers = self.newcomers(staged)?;
                self.fit_records(newcomers, staged.has_optional)?;
            }
            fitted => fitted?,
        }
        self.fit_subscriptions(staged)
    }

    /// Reserves memory for `more` slots, and for attributes.
    fn fit_records(&mut self, more: usize, has_optional: bool) -> Result<(), EngineError> {
        let needs_optional = has_optional && !self.records.has_optional();
        if self.records.fits(more) && !needs_optional {
            return Ok(());
        }
        let with_optional = needs_optional || self.records.has_optional();
        let capacity =
            self.records.capacity_for((more, self.objects, with_optional), grids_bytes)?;
        self.conclude_update()?;
        self.settle()?;
        let stream = self.dispatch.clone();
        if !self.records.fits(more) && self.records.packs(self.objects) {
            self.records.pack(&stream, self.epoch)?;
            self.subscriptions.forget_slots();
            // Slots have new numbers: each grid is rebuilt at its next update.
            self.cells.iter_mut().for_each(|cells| cells.epoch = None);
            self.moved_in(self.epoch).1 = 0;
        }
        if !self.records.fits(more) {
            self.records.grow(&stream, capacity)?;
        }
        if needs_optional { self.records.fit_optional(&stream) } else { Ok(()) }
    }

    /// Rows, entries of dictionaries and removals of a cycle whose ids have no slot; waits for the
    /// number.
    pub(super) fn newcomers(&mut self, staged: &Staged) -> Result<usize, EngineError> {
        let (stream, kernels) = (self.dispatch.clone(), self.gpu.kernels.clone());
        stream.wait(&staged.copied).map_err(fault)?;
        // Decodes ids if necessary; dispatch decodes them again.
        self.outcomes.fill(&stream, 0, staged.kinds.len())?;
        let failed = Failed::outcomes(&self.outcomes);
        kernels.codec_decode(&stream, &staged.arena.device, &staged.codec, failed)?;
        // The list of slots is unused until the cycle's rows are looked up.
        let (cycle, counter) = (self.arguments(staged), &self.slots);
        counter.fill(&stream, 0, 1)?;
        kernels.dispatch_newcomers(&stream, &cycle, counter)?;
        let mut newcomers = [0];
        counter.download(&stream, 0, &mut newcomers)?;
        stream.synchronize().map_err(fault)?;
        Ok(newcomers[0] as usize)
    }

    /// Refuses a cycle for lack of memory and frees what was reserved for it, except records.
    pub(super) fn refuse(&mut self, staged: Staged) -> Result<(), EngineError> {
        let Staged { mut arena, copied, .. } = staged;
        copied.synchronize().map_err(fault)?;
        arena.device.shrink()?;
        // The backend may be dropped.
        let _ = self.arenas.send(arena);
        self.slots.shrink()?;
        self.refusals.shrink()?;
        self.entry_slots.shrink()?;
        self.admission_requests.shrink()?;
        // The list that the next cycle writes.
        self.moved_in(self.epoch + 1).0.shrink()?;
        self.ordered.iter_mut().try_for_each(DeviceBuffer::shrink)?;
        self.status.set(|now| {
            now.dispatched += 1;
            now.reported += 1;
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_of_more_slots_take_more() {
        assert_eq!(grids_bytes(0), 0);
        let bytes = [1_000, 1_001, 2_000, 1 << 20, 1 << 30].map(grids_bytes);
        assert!(bytes.is_sorted());
        // 48 bytes of entries, 2 of cells and 4 of places, a quarter more, twice.
        assert_eq!(grids_bytes(1 << 20) >> 20, 135);
    }
}
