//! An engine whose cycles are numbered by its caller.
//!
//! A leader counts its cycles. A follower gives a cycle the epoch that it has on the leader; a
//! cycle that only answers queries keeps the epoch of the cycle before. Backends count all cycles
//! themselves; this type replaces their numbers, so that no caller sees them.

use std::collections::VecDeque;

use shoal_codec::FixColumns;
use shoal_engine::{
    Backend, CycleInput, CycleOutput, EngineError, ExportHeader, GridUpdates, Snapshot, Ticket,
};

/// The epoch of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CycleNumber {
    /// One more than the epoch of the previous cycle.
    Next,
    /// This epoch, which is greater than that of the previous cycle.
    At(u64),
    /// The epoch of the previous cycle. Used for a cycle that changes nothing.
    Same,
}

impl CycleNumber {
    fn after(self, epoch: u64) -> u64 {
        match self {
            Self::Next => epoch + 1,
            Self::At(epoch) => epoch,
            Self::Same => epoch,
        }
    }
}

/// See the file's head.
pub(crate) struct NumberedEngine {
    backend: Box<dyn Backend>,
    /// Epoch of the last cycle that was waited for.
    epoch: u64,
    in_flight: VecDeque<CycleNumber>,
}

impl NumberedEngine {
    /// Wraps an engine that has run no cycle yet.
    pub(crate) fn new(backend: Box<dyn Backend>) -> Self {
        Self { backend, epoch: 0, in_flight: VecDeque::new() }
    }

    /// See [`Backend::answer_lag`].
    pub(crate) fn answer_lag(&self) -> u64 {
        self.backend.answer_lag()
    }

    /// See [`Backend::due_ms`].
    pub(crate) fn due_ms(&self) -> Option<i64> {
        self.backend.due_ms()
    }

    /// See [`Backend::objects`].
    pub(crate) fn objects(&self) -> u64 {
        self.backend.objects()
    }

    /// See [`Backend::memory_bytes`].
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.backend.memory_bytes()
    }

    /// See [`Backend::grid_updates`].
    pub(crate) fn grid_updates(&self) -> GridUpdates {
        self.backend.grid_updates()
    }

    /// The epoch after all submitted cycles, unless one of them fails.
    pub(crate) fn epoch_submitted(&self) -> u64 {
        self.in_flight.iter().fold(self.epoch, |epoch, number| number.after(epoch))
    }

    /// The epochs that a cycle and its answers would have, unless one in flight fails.
    pub(crate) fn epochs_of(&self, number: CycleNumber) -> (u64, u64) {
        let before = self.epoch_submitted();
        let epoch = number.after(before);
        (epoch, if self.answer_lag() == 0 { epoch } else { before })
    }

    /// Submits a cycle; see [`Backend::submit`].
    pub(crate) fn submit(
        &mut self,
        input: CycleInput,
        number: CycleNumber,
    ) -> Result<Ticket, EngineError> {
        let ticket = self.backend.submit(input)?;
        self.in_flight.push_back(number);
        Ok(ticket)
    }

    /// Waits for the oldest cycle in flight; see [`Backend::wait`]. A cycle that failed does not
    /// advance the epoch.
    pub(crate) fn wait(&mut self, ticket: Ticket) -> Result<CycleOutput, EngineError> {
        let output = self.backend.wait(ticket);
        let number = self.in_flight.pop_front().unwrap_or(CycleNumber::Same);
        let mut output = output?;
        let before = self.epoch;
        self.epoch = number.after(before);
        output.epoch = self.epoch;
        output.answer_epoch = if self.answer_lag() == 0 { self.epoch } else { before };
        Ok(output)
    }

    /// Sets the epoch of the state, to skip epochs of cycles that changed nothing. No cycle may be
    /// in flight.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        debug_assert!(self.in_flight.is_empty(), "cycles in flight have their epochs");
        self.epoch = epoch;
    }

    /// See [`Backend::begin_export`]; no cycle is in flight.
    pub(crate) fn begin_export(&mut self) -> Result<ExportHeader, EngineError> {
        let header = self.backend.begin_export()?;
        Ok(ExportHeader { epoch: self.epoch, ..header })
    }

    /// See [`Backend::export_next`].
    pub(crate) fn export_next(
        &mut self,
        rows_max: usize,
    ) -> Result<Option<FixColumns>, EngineError> {
        self.backend.export_next(rows_max)
    }

    /// See [`Backend::end_export`].
    pub(crate) fn end_export(&mut self) {
        self.backend.end_export();
    }

    /// See [`Backend::import`].
    pub(crate) fn import(&mut self, snapshot: Snapshot) -> Result<(), EngineError> {
        let epoch = snapshot.epoch;
        self.backend.import(snapshot)?;
        self.epoch = epoch;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use shoal_engine::{EngineOptions, Model, Space};

    use super::*;

    #[test]
    fn cycles_have_the_epochs_of_the_caller() {
        let model = Model::new(EngineOptions::new(Space::geographic()));
        let mut engine = NumberedEngine::new(Box::new(model));
        let mut run = |number| {
            let ticket = engine.submit(CycleInput::default(), number).unwrap();
            let output = engine.wait(ticket).unwrap();
            (output.epoch, output.answer_epoch)
        };
        assert_eq!(run(CycleNumber::Next), (1, 1));
        assert_eq!(run(CycleNumber::At(9)), (9, 9));
        assert_eq!(run(CycleNumber::Same), (9, 9));
        assert_eq!(run(CycleNumber::Next), (10, 10));
        engine.set_epoch(7);
        assert_eq!(engine.epochs_of(CycleNumber::Next), (8, 8));
        assert_eq!(engine.begin_export().unwrap().epoch, 7);
    }

    #[test]
    fn a_cycle_that_fails_has_no_epoch() {
        let model = Model::new(EngineOptions::new(Space::geographic()));
        let mut engine = NumberedEngine::new(Box::new(model));
        let ticket = engine.submit(CycleInput::default(), CycleNumber::At(5)).unwrap();
        engine.wait(ticket).unwrap();
        assert!(engine.wait(Ticket(99)).is_err());
        assert_eq!(engine.epoch_submitted(), 5);
    }
}
