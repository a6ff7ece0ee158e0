//! Stage update as the driver queues it: one of the two grids is brought up to the cycle, by the
//! cheaper way.

use cudarc::driver::CudaEvent;
use shoal_engine::EngineError;
use shoal_engine::layout::{Entry, Report};

use super::cost::Way;
use super::driver::Driver;
use super::grid::SAMPLE;
use super::timeline::timestamp;
use crate::launch::{DeviceBuffer, MovedArgument, fault};

/// An update that was queued.
#[derive(Debug)]
pub(super) struct Update {
    way: Way,
    units: u32,
    begin: CudaEvent,
    end: CudaEvent,
    /// Whether it may not have been applied.
    checks: bool,
}

impl Driver {
    /// Queues bringing the grid of this cycle's parity up, by the cheaper way.
    pub(super) fn begin_update(&mut self, report: &Report) -> Result<Update, EngineError> {
        let parity = self.epoch as usize % 2;
        self.moved[parity].1 = report.moves;
        if let Some(Update { way, units, begin, end, .. }) = self.last_update.take() {
            // Dispatch waited for it.
            self.cost.learn(way, units, begin.elapsed_ms(&end).map_err(fault)?);
        }
        let stream = self.update.clone();
        let begin = timestamp(&stream)?;
        let cells = &self.cells[parity];
        let is_behind = self.epoch >= 2 && cells.epoch == Some(self.epoch - 2);
        let moved = self.moved[1 - parity].1 + report.moves;
        let slots = self.records.slots;
        let is_located = cells.has_places(self.records.capacity());
        let is_chosen = *cells.grid() == self.chosen.grid;
        let way = if is_behind && is_chosen && !self.chosen.is_outgrown(self.objects) {
            self.cost.cheaper(moved, slots, is_located)
        } else {
            Way::Rebuild
        };
        match way {
            Way::Rebuild => self.rebuild(parity)?,
            Way::Apply if moved == 0 => {}
            Way::Apply => self.apply(parity, is_located)?,
        }
        self.cells[parity].epoch = Some(self.epoch);
        let end = timestamp(&stream)?;
        let units = if way == Way::Apply { moved } else { slots };
        Ok(Update { way, units, begin, end, checks: way == Way::Apply && moved > 0 })
    }

    pub(super) fn apply(&mut self, parity: usize, is_located: bool) -> Result<(), EngineError> {
        let (stream, kernels) = (self.update.clone(), self.gpu.kernels.clone());
        if !is_located {
            self.cells[parity].locate(&kernels, &stream, self.records.capacity())?;
        }
        let list = |which: usize| (&self.moved[which].0, self.moved[which].1);
        let moved =
            MovedArgument::new(list(1 - parity), list(parity), &self.records.stamps, self.epoch);
        let (tables, current) = (&mut self.tables, &self.records.current);
        self.cells[parity].apply(&kernels, &stream, tables, current, &moved)?;
        self.tables.outgrown.download(&stream, 0, &mut self.outgrown_here.as_mut_slice()[..1])
    }

    /// Builds a grid anew from the newest positions, over a new choice of cells if it is time.
    pub(super) fn rebuild(&mut self, parity: usize) -> Result<(), EngineError> {
        let (stream, kernels) = (self.update.clone(), self.gpu.kernels.clone());
        let slots = self.records.slots;
        let is_uneven = {
            let squares = self.squares_here.as_slice()[0];
            squares > 0 && self.chosen.refine(squares)
        };
        if self.chosen.is_outgrown(self.objects) || is_uneven {
            let mut sample = vec![Entry::default(); SAMPLE];
            let on_device = DeviceBuffer::new(&self.memory, SAMPLE)?;
            let step = (slots / SAMPLE as u32).max(1);
            kernels.update_sample(&stream, &self.records.current, slots, step, &on_device)?;
            on_device.download(&stream, 0, &mut sample)?;
            stream.synchronize().map_err(fault)?;
            self.chosen.choose(&self.options.space, &sample, self.objects);
        }
        let (tables, current) = (&mut self.tables, &self.records.current);
        let of = (slots, self.objects);
        self.cells[parity].rebuild(&kernels, &stream, tables, &self.chosen.grid, current, of)?;
        self.cells[parity].epoch = Some(self.epoch);
        self.squares_here.as_mut_slice()[0] = 0;
        self.tables.squares.download(&stream, 0, &mut self.squares_here.as_mut_slice()[..1])
    }

    /// Makes sure that the grid was brought up and learns what it cost.
    pub(super) fn finish_update(&mut self, update: Update) -> Result<(), EngineError> {
        let parity = self.epoch as usize % 2;
        if update.checks {
            update.end.synchronize().map_err(fault)?;
            if self.outgrown_here.as_slice()[0] > 0 {
                self.rebuild(parity)?;
            }
        }
        let updated = self.update.record_event(None).map_err(fault)?;
        self.updated = Some(updated);
        self.last_update = Some(update);
        Ok(())
    }
}
