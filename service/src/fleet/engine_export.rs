//! Exports of the engine's state between its cycles, for a checkpoint or for long queries.
//!
//! One export runs at a time. About as many rows are exported between two cycles as the cycles have
//! changed since the last slice, so that an export delays a cycle by at most the duration of a
//! cycle.

use shoal_engine::{EngineError, ExportHeader};
use tracing::{error, warn};

use super::engine_thread::{EngineThread, unless_recoverable};
use super::fleet_shared::FleetShared;
use crate::cycle::{ExportCapacity, ExportRows};
use crate::limits::EXPORT_SLICE_ROWS;

impl EngineThread {
    /// Begins an export if one is due. A checkpoint precedes long queries, because it limits the
    /// size of the log.
    pub(super) fn begin_export(&mut self) -> Result<(), EngineError> {
        let is_checkpoint = self.engine.sink.as_mut().is_some_and(|sink| sink.takes_checkpoint());
        if !is_checkpoint && !self.long_queries.are_waiting() {
            return Ok(());
        }
        // The producers must match the exported state.
        while !self.in_flight.is_empty() {
            self.settle_oldest()?;
        }
        let state = match self.engine.backend.begin_export() {
            Ok(state) => state,
            Err(fault) => {
                warn!(fleet = %self.shared.name, %fault, "no export is begun");
                self.long_queries.refuse(&fault);
                return unless_recoverable(fault);
            }
        };
        self.export = if is_checkpoint {
            let producers = self.planner.producers.states();
            self.engine.sink.as_mut().and_then(|sink| sink.begin_checkpoint(state, producers))
        } else {
            self.begin_search(&state)
        };
        if self.export.is_none() {
            self.engine.backend.end_export();
        }
        Ok(())
    }

    /// Begins to answer long queries from this state.
    fn begin_search(&mut self, state: &ExportHeader) -> Option<ExportRows> {
        let FleetShared { name, options, persistence, .. } = &*self.shared;
        let term = persistence.terms.current();
        let begun = self.long_queries.begin(&name.get(), &options.space, state, term);
        begun.unwrap_or_else(|error| {
            error!(fleet = %name, %error, "long queries are not answered");
            None
        })
    }

    /// Exports about as many rows as the last cycles changed, or fewer if the receiver is full. The
    /// engine then has few changed records to save for the export. A short cycle has a short slice.
    pub(super) fn export_slices(&mut self) -> Result<(), EngineError> {
        let is_short = self.shared.has_light_clients();
        let least = if is_short { EXPORT_SLICE_ROWS / 4 } else { EXPORT_SLICE_ROWS };
        let mut rows = std::mem::take(&mut self.changed_rows).max(least);
        let accepts = |rows: &ExportRows| rows.capacity() == ExportCapacity::Available;
        while rows > 0 {
            let slice = rows.min(EXPORT_SLICE_ROWS);
            self.export_slice(slice)?;
            let goes_on = self.export.as_ref().is_some_and(accepts);
            rows = if goes_on { rows - slice } else { 0 };
        }
        Ok(())
    }

    /// Exports a slice of at most this many rows if one is accepted; begins an export if there is
    /// none.
    pub(super) fn export_slice(&mut self, rows_max: usize) -> Result<(), EngineError> {
        let Some(export) = &self.export else { return self.begin_export() };
        match export.capacity() {
            ExportCapacity::Full => {}
            ExportCapacity::Closed => self.end_export(),
            ExportCapacity::Available => match self.engine.backend.export_next(rows_max)? {
                Some(rows) => export.send(rows),
                None => self.export = None,
            },
        }
        Ok(())
    }

    /// Abandons the export, if there is one.
    pub(super) fn end_export(&mut self) {
        if self.export.take().is_some() {
            self.engine.backend.end_export();
        }
    }
}
