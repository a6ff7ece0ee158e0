//! Begin of an export, and import of the whole state. Rare: waits for everything that runs.

use rayon::prelude::*;
use shoal_codec::FixColumns;
use shoal_engine::{EngineError, ExportHeader, RowValidator, Snapshot};

use super::driver::Driver;
use super::query_answers;
use super::records_export::RecordsExport;
use crate::launch::fault;

impl Driver {
    /// Copies the records on the device; the rest of the export needs no driver.
    pub(super) fn begin_export(&mut self) -> Result<(ExportHeader, RecordsExport), EngineError> {
        self.conclude_update()?;
        self.settle()?;
        let (slots, objects) = (self.records.slots as usize, self.objects);
        let records = self.records.copy(&self.dispatch, self.epoch)?;
        self.dispatch.synchronize().map_err(fault)?;
        let stream = self.gpu.context.new_stream().map_err(fault)?;
        let export = RecordsExport::new(&self.memory, stream, records, (slots, objects))?;
        let (term, epoch, clock_ms) = (self.options.term, self.epoch, self.clock_ms);
        Ok((ExportHeader { term, epoch, clock_ms, objects }, export))
    }

    pub(super) fn import(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.check(snapshot)?;
        self.settle()?;
        let count = snapshot.batches.iter().map(FixColumns::len).sum();
        let records = snapshot.batches.iter().map(|batch| {
            (0..batch.len()).into_par_iter().map(|row| query_answers::answered(&batch.row(row)))
        });
        self.records.replace_by_parts(&self.dispatch, count, records)?;
        self.objects = count as u64;
        self.epoch = snapshot.epoch;
        self.clock_ms = snapshot.clock_ms;
        self.cells[1 - self.epoch as usize % 2].epoch = None;
        self.build(self.epoch, false)?;
        self.settle()?;
        let batches = snapshot.batches.par_iter();
        let oldest_ms = batches.filter_map(|batch| batch.time_ms.iter().copied().min()).min();
        let objects = self.objects;
        self.status.set(|now| {
            now.objects = objects;
            now.oldest_ms = oldest_ms;
        });
        Ok(())
    }
    /// As [`Snapshot::check`], on all cores.
    fn check(&self, snapshot: &Snapshot) -> Result<(), EngineError> {
        snapshot.check_size(&self.options, self.epoch)?;
        let validator = RowValidator::new(&self.options.space, i64::MAX);
        let batches = (0..snapshot.batches.len()).into_par_iter();
        let fault = batches.find_map_first(|batch| snapshot.check_batch(batch, &validator).err());
        if let Some(fault) = fault {
            return Err(fault);
        }
        let mut objects: Vec<u64> = Vec::new();
        objects.reserve_exact(snapshot.batches.iter().map(FixColumns::len).sum());
        snapshot.batches.iter().for_each(|batch| objects.par_extend(&batch.object));
        objects.par_sort_unstable();
        let repeated = objects.par_windows(2).find_first(|pair| pair[0] == pair[1]);
        repeated.map_or(Ok(()), |pair| Err(Snapshot::repeated(pair[0])))
    }
}
