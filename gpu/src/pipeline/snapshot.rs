//! Export and import of the whole state. Rare: waits for everything that runs.

use shoal_engine::{EngineError, Snapshot};

use super::driver::Driver;
use super::query_answers;

impl Driver {
    pub(super) fn export(&mut self) -> Result<Snapshot, EngineError> {
        self.conclude_update()?;
        self.settle()?;
        let mut rows = self.records.export(&self.dispatch, self.epoch)?;
        rows.sort_unstable_by_key(|row| row.object);
        let rows = rows.iter().map(query_answers::row);
        Ok(Snapshot::new(self.options.term, self.epoch, self.clock_ms, rows))
    }

    pub(super) fn import(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        snapshot.check(&self.options, self.epoch)?;
        self.settle()?;
        let batches = snapshot.batches.iter();
        let rows: Vec<_> = batches
            .flat_map(|batch| (0..batch.len()).map(|row| query_answers::answered(&batch.row(row))))
            .collect();
        self.records.replace(&self.dispatch, &rows)?;
        self.objects = rows.len() as u64;
        self.epoch = snapshot.epoch;
        self.clock_ms = snapshot.clock_ms;
        self.cells[1 - self.epoch as usize % 2].epoch = None;
        self.build(self.epoch, false)?;
        self.settle()?;
        let oldest_ms = rows.iter().map(|row| row.time_ms).min();
        let objects = self.objects;
        self.status.set(|now| {
            now.objects = objects;
            now.oldest_ms = oldest_ms;
        });
        Ok(())
    }
}
