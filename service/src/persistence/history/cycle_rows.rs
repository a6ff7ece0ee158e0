//! Adds a cycle of the log to a batch of the history: the rows that the engine accepted, removals
//! and clears.

use shoal_codec::FixColumns;
use shoal_engine::{Clock, Request};
use shoal_history::Batch;
use shoal_position_log::{EVERY_ROW, LoggedCycle, RequestBody};

use super::super::rows_body;

/// Adds cycles to a batch; reuses the memory of decoded rows.
pub(super) struct CycleRows {
    columns: FixColumns,
    clock: Clock,
    /// The fleet's clock after the last cycle.
    pub(super) clock_ms: i64,
}

impl CycleRows {
    pub(super) fn new(clock: Clock, clock_ms: i64) -> Self {
        Self { columns: FixColumns::new(), clock, clock_ms }
    }

    /// Adds a cycle.
    ///
    /// # Errors
    /// A description of what is wrong with a request.
    pub(super) fn add(&mut self, cycle: &LoggedCycle<'_>, batch: &mut Batch) -> Result<(), String> {
        // If the log has no clock for the cycle, compute it as the engine does.
        let mut latest_ms = self.clock_ms;
        if self.clock == Clock::System {
            latest_ms = latest_ms.max(cycle.header.system_ms);
        }
        let mut refused = cycle.refused().peekable();
        for (number, request) in (0_u32..).zip(cycle.requests()) {
            if refused.next_if_eq(&(number, EVERY_ROW)).is_some() {
                continue;
            }
            let is_decoded = match request.body {
                RequestBody::Block(bytes) => {
                    // The engine refuses a block that does not decode.
                    let block = rows_body::block(bytes)?;
                    block.decode_rows(0..block.rows(), &mut self.columns).is_ok()
                }
                RequestBody::Rows(body) => self.decode(body)?,
                RequestBody::Remove(objects) => {
                    let objects = objects.iter().filter(|object| *object != u64::MAX);
                    objects.for_each(|object| batch.removal(object));
                    false
                }
                RequestBody::Clear => {
                    batch.clear_all();
                    false
                }
                RequestBody::Rewind => false,
            };
            if !is_decoded {
                continue;
            }
            for row in 0..self.columns.len() {
                if refused.next_if_eq(&(number, row as u32)).is_some() {
                    continue;
                }
                let fix = self.columns.row(row);
                if fix.time_ms <= cycle.header.time_max_ms && fix.object != u64::MAX {
                    latest_ms = latest_ms.max(fix.time_ms);
                    batch.fix(fix);
                }
            }
        }
        if let Some(refused) = refused.next() {
            return Err(format!("refused row {refused:?} does not exist"));
        }
        self.clock_ms = cycle.clock_ms.unwrap_or(latest_ms);
        batch.end_cycle(self.clock_ms);
        Ok(())
    }

    /// Decodes plain rows.
    fn decode(&mut self, body: &[u8]) -> Result<bool, String> {
        match rows_body::decode(body)? {
            Request::Block(block) => {
                let decoded = block.decode_rows(0..block.rows(), &mut self.columns);
                decoded.map_err(|error| error.to_string())?;
            }
            Request::Fixes(columns) => self.columns = columns,
            Request::Remove(_) | Request::Clear | Request::Rewind => return Ok(false),
        }
        Ok(true)
    }
}
