//! The state of a fleet after its last cycle.
//!
//! The engine thread writes it once per cycle; GetFleet, ListFleets and the metrics read it. All
//! values belong to the same epoch. Counts start with the engine.

use shoal_engine::{CycleOutput, GridUpdates, RequestOutcome};

/// Rows since the engine started, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowTotals {
    /// Rows that became their object's record.
    pub applied: u64,
    /// Rows equal to the record.
    pub duplicate: u64,
    /// Rows replaced by another row of the same cycle.
    pub superseded: u64,
    /// Rows older than the record.
    pub late: u64,
    /// Rows older than the time to live.
    pub expired: u64,
    /// Refused rows.
    pub refused: u64,
    /// Accepted rows later than the event clock after their cycle; also counted above.
    pub ahead: u64,
}

impl RowTotals {
    /// Adds one request's counts, and the number of its refused rows.
    pub fn add(&mut self, outcome: &RequestOutcome, refused: u64) {
        self.applied += outcome.applied;
        self.duplicate += outcome.duplicate;
        self.superseded += outcome.superseded;
        self.late += outcome.late;
        self.expired += outcome.expired;
        self.refused += refused;
        self.ahead += outcome.ahead;
    }
}

/// A fleet after its last cycle.
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetView {
    /// Last cycle applied.
    pub epoch: u64,
    /// Clock after it.
    pub clock_ms: i64,
    /// How often the clock was set back.
    pub clock_rewinds: u64,
    /// Objects after it.
    pub objects: u64,
    /// Bytes of the engine's state.
    pub memory_bytes: u64,
    /// How cycles updated the engine's grid.
    pub grid_updates: GridUpdates,
    /// Rows so far.
    pub rows: RowTotals,
    /// Queries answered so far.
    pub queries: u64,
    /// Cycles submitted and not finished.
    pub cycles_in_flight: u64,
}

impl FleetView {
    /// Adds one cycle, and the rows refused on its receipt.
    pub(super) fn update(&mut self, output: &CycleOutput, on_receipt: u64) {
        self.epoch = output.epoch;
        self.clock_rewinds += u64::from(output.clock_ms < self.clock_ms);
        self.clock_ms = output.clock_ms;
        self.objects = output.objects;
        self.queries += output.answers.len() as u64;
        self.rows.refused += on_receipt;
        for outcome in &output.requests {
            self.rows.add(outcome, outcome.refused.len() as u64);
        }
    }
}
