//! Memory for a cycle's changes, reserved before any of them happens.
//!
//! Lists grow with the cycle's rows; records grow where it may bring more objects than there are
//! slots, and only where the grids of as many objects fit as well. A cycle without memory is
//! refused whole and the engine continues. Memory for answers is not reserved here: their size is
//! known only when matches are counted.

use shoal_engine::EngineError;
use shoal_engine::layout::{Cell, Entry};

use super::driver::Driver;
use super::staging::Staged;
use super::update_grid::CELL_OBJECTS;
use crate::launch::{DeviceBuffer, Failed, fault};

/// Entries of one grid for each object when they are spread evenly: with a cell for 8 objects, the
/// bound of all rooms is 2 n + 2 n + n / 2 for n objects, and half as many lie behind.
const ENTRIES_EACH: usize = 5;

/// Bytes of both grids for so many slots; buffers are made a quarter larger than they must be. A
/// guess: grids that turn out larger are built with less room to spare.
fn grids_bytes(slots: usize) -> u64 {
    let places = slots * size_of::<u32>();
    let cells = slots / CELL_OBJECTS as usize;
    let grid = slots * ENTRIES_EACH * size_of::<Entry>() + cells * size_of::<Cell>();
    (2 * (grid + places)) as u64 / 4 * 5
}

impl Driver {
    /// Makes room for all changes of a cycle; waits for the device only when records must grow.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`] and [`EngineError::Limit`]: nothing of the cycle has happened.
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

    /// Room for so many more slots, and for attributes.
    fn fit_records(&mut self, more: usize, has_optional: bool) -> Result<(), EngineError> {
        let needs_optional = has_optional && !self.records.has_optional();
        if self.records.fits(more) && !needs_optional {
            return Ok(());
        }
        let with_optional = needs_optional || self.records.has_optional();
        let capacity = self.records.room((more, self.objects, with_optional), grids_bytes)?;
        self.conclude_update()?;
        self.settle()?;
        let stream = self.dispatch.clone();
        if !self.records.fits(more) && self.records.packs(self.objects) {
            self.records.pack(&stream, self.epoch)?;
            self.subscriptions.forget_slots();
            // Slots have new numbers: grids are built anew when it is their turn.
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
        // Ids may have to be decoded, which dispatch does once more.
        self.outcomes.fill(&stream, 0, staged.kinds.len())?;
        let failed = Failed::outcomes(&self.outcomes);
        kernels.codec_decode(&stream, &staged.arena.device, &staged.codec, failed)?;
        // The list of slots is not in use before the cycle's rows are looked up.
        let (cycle, counter) = (self.arguments(staged), &self.slots);
        counter.fill(&stream, 0, 1)?;
        kernels.dispatch_newcomers(&stream, &cycle, counter)?;
        let mut newcomers = [0];
        counter.download(&stream, 0, &mut newcomers)?;
        stream.synchronize().map_err(fault)?;
        Ok(newcomers[0] as usize)
    }

    /// Lets go of a cycle that there is no room for, and of what was made for it but records.
    pub(super) fn refuse(&mut self, staged: Staged) -> Result<(), EngineError> {
        let Staged { mut arena, copied, .. } = staged;
        copied.synchronize().map_err(fault)?;
        arena.device.shrink()?;
        // The backend may be gone.
        let _ = self.arenas.send(arena);
        self.slots.shrink()?;
        self.refusals.shrink()?;
        self.entry_slots.shrink()?;
        self.candidates.shrink()?;
        // The list that the next cycle will write.
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
        // 80 bytes of entries, 2 of cells and 4 of places, a quarter more, twice.
        assert_eq!(grids_bytes(1 << 20) >> 20, 215);
    }
}
