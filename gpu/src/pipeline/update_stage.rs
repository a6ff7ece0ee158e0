//! Stage update as the driver queues it: updates one of the two grids to the cycle, by the cheaper
//! method.

use cudarc::driver::CudaEvent;
use shoal_engine::EngineError;
use shoal_engine::layout::{DispatchReport, Entry};

use super::driver::Driver;
use super::timeline::timestamp;
use super::update_cost::UpdateMethod;
use super::update_grid::SAMPLE;
use crate::launch::{DeviceBuffer, MovedArgument, fault};

/// A queued update.
#[derive(Debug)]
pub(super) struct Update {
    epoch: u64,
    method: UpdateMethod,
    units: u32,
    begin: CudaEvent,
    end: CudaEvent,
    /// Whether it may not have been applied.
    checks: bool,
    /// Whether its time is representative: nothing was allocated and no grid chosen.
    is_usual: bool,
}

impl Driver {
    /// Queues updating the grid of this cycle's parity, by the cheaper method.
    pub(super) fn begin_update(&mut self, report: &DispatchReport) -> Result<(), EngineError> {
        let parity = self.epoch as usize % 2;
        self.moved_in(self.epoch).1 = report.moves;
        let stream = self.update.clone();
        let begin = timestamp(&stream)?;
        let (bytes, grid) = (self.memory.used_bytes(), self.chosen.grid);
        let cells = &self.cells[parity];
        let is_behind = self.epoch >= 2 && cells.epoch == Some(self.epoch - 2);
        let moved = self.moved_in(self.epoch - 1).1 + report.moves;
        let slots = self.records.slots;
        let cells = &self.cells[parity];
        let is_located = cells.has_places(self.records.capacity());
        let is_chosen = *cells.grid() == self.chosen.grid;
        let cheaper = self.cost.cheaper(moved, slots, is_located);
        let can_apply = is_behind && is_chosen && !cells.is_tight;
        let applies = can_apply && !self.chosen.is_outgrown(self.objects);
        let is_applied = if applies && cheaper == UpdateMethod::Apply {
            let applied = if moved == 0 { Ok(()) } else { self.apply(parity, is_located) };
            self.has_memory(applied)?
        } else {
            false
        };
        if is_applied {
            self.cells[parity].epoch = Some(self.epoch);
        } else {
            self.publish(report.moves)?;
            self.build(self.epoch, cheaper == UpdateMethod::Rebuild)?;
        }
        let method = if is_applied { UpdateMethod::Apply } else { UpdateMethod::Rebuild };
        let end = timestamp(&stream)?;
        let units = if method == UpdateMethod::Apply { moved } else { slots };
        let checks = method == UpdateMethod::Apply && moved > 0;
        let is_built = self.cells[parity].epoch == Some(self.epoch);
        let is_usual = is_built && bytes == self.memory.used_bytes() && grid == self.chosen.grid;
        let epoch = self.epoch;
        self.updating = Some(Update { epoch, method, units, begin, end, checks, is_usual });
        Ok(())
    }

    /// The moves of this cycle and the previous one.
    fn moves(&self) -> MovedArgument {
        let list = |epoch: u64| {
            let (slots, length) = &self.moved[epoch as usize % 3];
            (slots, *length)
        };
        let stamps = &self.records.stamps[self.epoch as usize % 2];
        MovedArgument::new(list(self.epoch - 1), list(self.epoch), stamps, self.epoch)
    }

    /// Queues copying this cycle's moves to the newest positions, for a grid that is rebuilt.
    fn publish(&mut self, moves: u32) -> Result<(), EngineError> {
        if moves == 0 {
            return Ok(());
        }
        let (moved, records) = (self.moves(), self.records.argument());
        let current = &self.records.current;
        self.gpu.kernels.update_publish(&self.update, (&moved, &records), current)
    }

    pub(super) fn apply(&mut self, parity: usize, is_located: bool) -> Result<(), EngineError> {
        let (stream, kernels) = (self.update.clone(), self.gpu.kernels.clone());
        if !is_located {
            self.cells[parity].locate(&kernels, &stream, self.records.capacity())?;
        }
        let (moved, records) = (self.moves(), self.records.argument());
        let (tables, current) = (&mut self.tables, &self.records.current);
        let from = (&moved, &records);
        self.cells[parity].apply(&kernels, &stream, tables, current, from)?;
        self.tables.outgrown.download(&stream, 0, self.outgrown_host.first(1))
    }

    /// Rebuilds the grid of a cycle from the newest positions, which are those after that cycle;
    /// over a new choice of cells if due. Tight if moves will not be applied to it.
    pub(super) fn rebuild(&mut self, epoch: u64, is_tight: bool) -> Result<(), EngineError> {
        let parity = epoch as usize % 2;
        let (stream, kernels) = (self.update.clone(), self.gpu.kernels.clone());
        let slots = self.records.slots;
        let is_uneven = {
            // Read once, although the rebuild may be repeated. Not waited for: a copy in flight is
            // read at the next rebuild.
            let squares = self.squares_host.ready_mut_slice();
            let squares = squares.map_or(0, |squares| std::mem::take(&mut squares[0]));
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
        let grid = (&self.chosen.grid, is_tight);
        self.cells[parity].rebuild(&kernels, &stream, tables, grid, current, of)?;
        self.cells[parity].epoch = Some(epoch);
        self.tables.squares.download(&stream, 0, self.squares_host.first(1))
    }

    /// Rebuilds a grid, without spare capacity if memory ends; or leaves the rebuild to the queries
    /// that read it.
    pub(super) fn build(&mut self, epoch: u64, is_tight: bool) -> Result<(), EngineError> {
        self.cells[epoch as usize % 2].epoch = None;
        for is_tight in [is_tight, true] {
            let built = self.rebuild(epoch, is_tight);
            if self.has_memory(built)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns false, and stores the error, if memory was exhausted.
    fn has_memory(&mut self, made: Result<(), EngineError>) -> Result<bool, EngineError> {
        match made {
            Ok(()) => Ok(true),
            Err(error @ EngineError::OutOfMemory { .. }) => {
                self.lacking = Some(error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Retries to build the grid that queries of the running cycle read, if it is missing.
    pub(super) fn bring_up(&mut self) -> Result<(), EngineError> {
        let epoch = self.epoch - 1;
        if self.cells[epoch as usize % 2].epoch != Some(epoch) {
            self.build(epoch, false)?;
            self.updated = Some(self.update.record_event(None).map_err(fault)?);
        }
        Ok(())
    }

    /// Completes the grid of the running cycle, whose update was queued, for queries that read it
    /// now.
    pub(super) fn bring_up_now(&mut self) -> Result<(), EngineError> {
        self.conclude_update()?;
        if self.cells[self.epoch as usize % 2].epoch != Some(self.epoch) {
            self.build(self.epoch, false)?;
            self.updated = Some(self.update.record_event(None).map_err(fault)?);
        }
        Ok(())
    }

    /// Checks whether the last update was applied, which fails if a cell could not grow, and
    /// records its cost.
    pub(super) fn conclude_update(&mut self) -> Result<(), EngineError> {
        let Some(update) = self.updating.take() else {
            return Ok(());
        };
        if update.checks {
            update.end.synchronize().map_err(fault)?;
        }
        // Without a check the update may still run, because the host has not waited for it.
        if update.is_usual && update.end.is_complete() {
            let took_ms = update.begin.elapsed_ms(&update.end).map_err(fault)?;
            self.cost.learn(update.method, update.units, took_ms);
        }
        if update.checks && self.outgrown_host.as_slice()[0].has_failed() {
            self.cost.learn_failure(update.units, self.records.slots);
            self.cells[update.epoch as usize % 2].epoch = None;
        }
        self.updated = Some(self.update.record_event(None).map_err(fault)?);
        Ok(())
    }
}
