//! Reserves memory for a cycle's changes before any of them takes effect.
//!
//! Lists grow with the cycle's rows. Records grow if the cycle may create more objects than there
//! are slots, and only if memory for the grids of that many objects remains. A cycle that lacks
//! memory is refused as a whole and the engine continues. Memory for answers is reserved later,
//! when matches are counted.

use shoal_engine::EngineError;
use shoal_engine::layout::{Cell, Entry};

use crate::launch::fault;
use crate::stages::dispatch::staging::Staged;
use crate::stages::driver::Driver;
use crate::stages::update::grid_choice::CELL_OBJECTS;

/// Entries of one grid per object if objects are evenly distributed. With 8 objects per cell, the
/// capacities of all cells add up to 2.3 n for n objects, and n / 4 spare entries follow the cells.
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
    pub(crate) fn reserve(&mut self, staged: &Staged) -> Result<(), EngineError> {
        match self.fit(staged) {
            Err(EngineError::OutOfMemory { .. }) => {
                self.query.shrink()?;
                self.fit(staged)
            }
            fitted => fitted,
        }
    }

    fn fit(&mut self, staged: &Staged) -> Result<(), EngineError> {
        self.dispatch.fit_lists(&mut self.state, staged)?;
        match self.fit_records(staged.rows as usize, staged.has_optional) {
            Err(EngineError::OutOfMemory { .. } | EngineError::Limit { .. }) => {
                // Most objects may have slots already.
                let newcomers = self.dispatch.newcomers(&self.state, staged)?;
                self.fit_records(newcomers, staged.has_optional)?;
            }
            fitted => fitted?,
        }
        self.subscription.reserve(&mut self.state, staged)
    }

    /// Reserves memory for `more` slots, and for attributes if `has_optional`.
    fn fit_records(&mut self, more: usize, has_optional: bool) -> Result<(), EngineError> {
        let needs_optional = has_optional && !self.state.records.has_optional();
        if self.state.records.fits(more) && !needs_optional {
            return Ok(());
        }
        let with_optional = needs_optional || self.state.records.has_optional();
        let capacity = self.state.records.capacity_for(
            more,
            self.state.objects,
            with_optional,
            grids_bytes,
        )?;
        self.update.conclude(&mut self.state)?;
        self.settle()?;
        let stream = self.dispatch.stream.clone();
        if !self.state.records.fits(more) && self.state.records.packs(self.state.objects) {
            self.state.records.pack(&stream, self.state.epoch)?;
            self.subscription.forget_slots();
            // Slots may have new numbers, so each grid is rebuilt at its next update.
            self.state.grids.iter_mut().for_each(|grid| grid.epoch = None);
            self.state.moved_mut(self.state.epoch).length = 0;
        }
        if !self.state.records.fits(more) {
            self.state.records.grow(&stream, capacity)?;
        }
        if needs_optional { self.state.records.fit_optional(&stream) } else { Ok(()) }
    }

    /// Refuses a cycle for lack of memory and frees what was reserved for it, except records.
    pub(crate) fn refuse(&mut self, staged: Staged) -> Result<(), EngineError> {
        let Staged { mut arena, copied, .. } = staged;
        copied.synchronize().map_err(fault)?;
        arena.device.shrink()?;
        // Fails only if the backend was dropped.
        let _ = self.arenas.send(arena);
        self.dispatch.shrink()?;
        // The list that the next cycle writes.
        self.state.moved_mut(self.state.epoch + 1).slots.shrink()?;
        self.context.status.set(|now| {
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
        // By slot 48 bytes of entries, 2 of cells and 4 of places, a quarter more, for two grids.
        assert_eq!(grids_bytes(1 << 20) >> 20, 135);
    }
}
