//! Stage update as the driver queues it: updates one of the two grids to the cycle, by the cheaper
//! method.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_engine::layout::{DispatchReport, Entry, Grid};
use shoal_engine::{EngineError, GridUpdates};

use super::cost::{Cost, UpdateMethod};
use super::grid_choice::{GridChoice, SAMPLE};
use super::tables::Tables;
use crate::launch::{DeviceBuffer, MovedArgument, Outgrown, PinnedBuffer, fault};
use crate::stages::context::Context;
use crate::stages::timeline::timestamp;
use crate::state::fleet::FleetState;
use crate::tuning::Tuning;

/// A queued update.
#[derive(Debug)]
pub(crate) struct Update {
    epoch: u64,
    method: UpdateMethod,
    units: u32,
    begin: CudaEvent,
    end: CudaEvent,
    /// True if the host must check whether it was applied.
    checks: bool,
    /// Whether its time is representative: nothing was allocated and no grid chosen.
    is_usual: bool,
}

/// Scratch, cost model and last update of both grids.
#[derive(Debug)]
pub(crate) struct UpdateStage {
    context: Arc<Context>,
    stream: Arc<CudaStream>,
    tables: Tables,
    grid_choice: GridChoice,
    cost: Cost,
    /// How cycles updated the grids.
    pub(crate) updates: GridUpdates,
    outgrown_host: PinnedBuffer<Outgrown>,
    squares_host: PinnedBuffer<u64>,
    /// The last queued update, until it is confirmed as applied.
    updating: Option<Update>,
    /// The event after the last update that is confirmed as applied, or after the last rebuild for
    /// queries.
    updated: Option<CudaEvent>,
}

impl UpdateStage {
    pub(crate) fn new(context: &Arc<Context>, tuning: Tuning) -> Result<Self, EngineError> {
        let memory = &context.memory;
        Ok(Self {
            context: context.clone(),
            stream: context.new_stream()?,
            tables: Tables::new(memory)?,
            grid_choice: GridChoice::first(&context.options.space, tuning.side),
            cost: Cost::new(tuning.update_method),
            updates: GridUpdates::default(),
            outgrown_host: PinnedBuffer::new(memory, 1)?,
            squares_host: PinnedBuffer::new(memory, 1)?,
            updating: None,
            updated: None,
        })
    }

    /// The stream, for the timeline.
    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The grid that the next rebuild uses.
    pub(crate) fn grid(&self) -> &Grid {
        &self.grid_choice.grid
    }

    /// The event after which the grid of the last update may be read.
    pub(crate) fn updated(&self) -> Option<&CudaEvent> {
        self.updated.as_ref()
    }

    /// Queues updating the grid of this cycle's parity, by the cheaper method.
    pub(crate) fn begin(
        &mut self,
        state: &mut FleetState,
        report: &DispatchReport,
    ) -> Result<(), EngineError> {
        let parity = state.epoch as usize % 2;
        state.moved_mut(state.epoch).length = report.moves;
        let stream = self.stream.clone();
        let begin = timestamp(&stream)?;
        let (bytes, grid) = (self.context.memory.used_bytes(), self.grid_choice.grid);
        let cells = &state.grids[parity];
        let is_behind = state.epoch >= 2 && cells.epoch == Some(state.epoch - 2);
        let moved = state.moved(state.epoch - 1).length + report.moves;
        let slots = state.records.slots;
        let cells = &state.grids[parity];
        let is_located = cells.has_places(state.records.capacity());
        let is_chosen = cells.grid == self.grid_choice.grid;
        let cheaper = self.cost.cheaper(moved, slots, is_located);
        let can_apply = is_behind && is_chosen && !cells.is_tight;
        let applies = can_apply && !self.grid_choice.is_outgrown(state.objects);
        let is_applied = if applies && cheaper == UpdateMethod::Apply {
            let applied = if moved == 0 { Ok(()) } else { self.apply(state, is_located) };
            has_memory(state, applied)?
        } else {
            false
        };
        if is_applied {
            self.updates.applied += 1;
            state.grids[parity].epoch = Some(state.epoch);
        } else {
            self.updates.rebuilt += 1;
            self.publish(state, report.moves)?;
            self.build(state, state.epoch, cheaper == UpdateMethod::Rebuild)?;
        }
        let method = if is_applied { UpdateMethod::Apply } else { UpdateMethod::Rebuild };
        let end = timestamp(&stream)?;
        let units = if method == UpdateMethod::Apply { moved } else { slots };
        let checks = method == UpdateMethod::Apply && moved > 0;
        let is_built = state.grids[parity].epoch == Some(state.epoch);
        let is_usual =
            is_built && bytes == self.context.memory.used_bytes() && grid == self.grid_choice.grid;
        let epoch = state.epoch;
        self.updating = Some(Update { epoch, method, units, begin, end, checks, is_usual });
        Ok(())
    }

    /// The moves of this cycle and the previous one.
    fn moves(state: &FleetState) -> MovedArgument {
        let list = |epoch: u64| {
            let moved = state.moved(epoch);
            (&moved.slots, moved.length)
        };
        let stamps = &state.records.stamps[state.epoch as usize % 2];
        MovedArgument::new(list(state.epoch - 1), list(state.epoch), stamps, state.epoch)
    }

    /// Queues copying this cycle's moves to the newest positions, for a grid that is rebuilt.
    fn publish(&self, state: &FleetState, moves: u32) -> Result<(), EngineError> {
        if moves == 0 {
            return Ok(());
        }
        let (moved, records) = (Self::moves(state), state.records.argument());
        let current = &state.records.current;
        self.context.gpu.kernels.update_publish(&self.stream, &moved, &records, current)
    }

    fn apply(&mut self, state: &mut FleetState, is_located: bool) -> Result<(), EngineError> {
        let parity = state.epoch as usize % 2;
        let (stream, kernels) = (self.stream.clone(), self.context.gpu.kernels.clone());
        if !is_located {
            state.grids[parity].locate(&kernels, &stream, state.records.capacity())?;
        }
        let (moved, records) = (Self::moves(state), state.records.argument());
        let (tables, current) = (&mut self.tables, &state.records.current);
        state.grids[parity].apply(&kernels, &stream, tables, current, &moved, &records)?;
        self.tables.outgrown.download(&stream, 0, self.outgrown_host.first(1))
    }

    /// Rebuilds the grid of a cycle from the newest positions, which are those after that cycle;
    /// over a new choice of cells if due. The grid is tight if moves will not be applied to it.
    pub(crate) fn rebuild(
        &mut self,
        state: &mut FleetState,
        epoch: u64,
        is_tight: bool,
    ) -> Result<(), EngineError> {
        let parity = epoch as usize % 2;
        let (stream, kernels) = (self.stream.clone(), self.context.gpu.kernels.clone());
        let slots = state.records.slots;
        let is_uneven = {
            // Read once, although the rebuild may be repeated. Does not wait: a copy in flight is
            // read at the next rebuild.
            let squares = self.squares_host.ready_mut_slice();
            let squares = squares.map_or(0, |squares| std::mem::take(&mut squares[0]));
            squares > 0 && self.grid_choice.refine(squares)
        };
        if self.grid_choice.is_outgrown(state.objects) || is_uneven {
            let mut sample = vec![Entry::default(); SAMPLE];
            let on_device = DeviceBuffer::new(&self.context.memory, SAMPLE)?;
            let step = (slots / SAMPLE as u32).max(1);
            kernels.update_sample(&stream, &state.records.current, slots, step, &on_device)?;
            on_device.download(&stream, 0, &mut sample)?;
            stream.synchronize().map_err(fault)?;
            self.grid_choice.choose(&self.context.options.space, &sample, state.objects);
        }
        let (tables, current) = (&mut self.tables, &state.records.current);
        let of = (slots, state.objects);
        let grid = (&self.grid_choice.grid, is_tight);
        state.grids[parity].rebuild(&kernels, &stream, tables, grid, current, of)?;
        state.grids[parity].epoch = Some(epoch);
        self.tables.squares.download(&stream, 0, self.squares_host.first(1))
    }

    /// Rebuilds a grid, without spare capacity if memory is short; if memory is exhausted, leaves
    /// the rebuild to the queries that read the grid.
    pub(crate) fn build(
        &mut self,
        state: &mut FleetState,
        epoch: u64,
        is_tight: bool,
    ) -> Result<(), EngineError> {
        state.grids[epoch as usize % 2].epoch = None;
        for is_tight in [is_tight, true] {
            let built = self.rebuild(state, epoch, is_tight);
            if has_memory(state, built)? {
                break;
            }
        }
        Ok(())
    }

    /// Concludes the last update, and builds the grid of cycle `epoch`, the running one or the
    /// previous one, if it is missing. If memory is short, it remains missing.
    pub(crate) fn bring_up(
        &mut self,
        state: &mut FleetState,
        epoch: u64,
    ) -> Result<(), EngineError> {
        self.conclude(state)?;
        if state.grids[epoch as usize % 2].epoch != Some(epoch) {
            self.build(state, epoch, false)?;
            self.updated = Some(self.stream.record_event(None).map_err(fault)?);
        }
        Ok(())
    }

    /// Checks whether the last update was applied, which fails if a cell could not grow, and
    /// records its cost.
    pub(crate) fn conclude(&mut self, state: &mut FleetState) -> Result<(), EngineError> {
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
            self.cost.learn_failure(update.units, state.records.slots);
            self.updates.applied -= 1;
            self.updates.rebuilt += 1;
            state.grids[update.epoch as usize % 2].epoch = None;
        }
        self.updated = Some(self.stream.record_event(None).map_err(fault)?);
        Ok(())
    }
}

/// Returns false, and stores the error, if memory was exhausted.
fn has_memory(state: &mut FleetState, made: Result<(), EngineError>) -> Result<bool, EngineError> {
    match made {
        Ok(()) => Ok(true),
        Err(error @ EngineError::OutOfMemory { .. }) => {
            state.grid_error = Some(error);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
