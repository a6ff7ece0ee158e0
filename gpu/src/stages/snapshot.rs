//! Begin of an export, and import of the whole state. Rare: waits for everything that runs.

use rayon::prelude::*;
use shoal_codec::{FixColumns, deadline_ms};
use shoal_engine::{EngineError, ExportHeader, RowValidator, Snapshot};

use crate::launch::fault;
use crate::stages::driver::Driver;
use crate::state::record::answered;
use crate::state::records_export::RecordsExport;

impl Driver {
    /// Copies the records on the device; the rest of the export needs no driver.
    pub(crate) fn begin_export(&mut self) -> Result<(ExportHeader, RecordsExport), EngineError> {
        self.update.conclude(&mut self.state)?;
        self.settle()?;
        let (slots, objects) = (self.state.records.slots as usize, self.state.objects);
        let records = self.state.records.copy(&self.dispatch.stream, self.state.epoch)?;
        self.dispatch.stream.synchronize().map_err(fault)?;
        let stream = self.context.new_stream()?;
        let export = RecordsExport::new(&self.context.memory, stream, records, slots, objects)?;
        let (term, epoch, clock_ms) =
            (self.context.options.term, self.state.epoch, self.state.clock_ms);
        Ok((ExportHeader { term, epoch, clock_ms, objects }, export))
    }

    pub(crate) fn import(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.check(snapshot)?;
        self.settle()?;
        let count = snapshot.batches.iter().map(FixColumns::len).sum();
        let records = snapshot
            .batches
            .iter()
            .map(|batch| (0..batch.len()).into_par_iter().map(|row| answered(&batch.row(row))));
        self.state.records.replace_by_parts(&self.dispatch.stream, count, records)?;
        self.state.objects = count as u64;
        self.state.epoch = snapshot.epoch;
        self.state.clock_ms = snapshot.clock_ms;
        self.state.grids[1 - self.state.epoch as usize % 2].epoch = None;
        self.update.build(&mut self.state, snapshot.epoch, false)?;
        self.settle()?;
        let ttl_ms = self.context.options.ttl_ms;
        let deadlines_ms = snapshot.batches.par_iter().flat_map_iter(|batch| {
            (0..batch.len()).map(move |row| {
                deadline_ms(batch.time_ms[row], batch.attributes(row).valid_ms, ttl_ms)
            })
        });
        let deadline_ms = deadlines_ms.min().filter(|deadline_ms| *deadline_ms != i64::MAX);
        let objects = self.state.objects;
        self.context.status.set(|now| {
            now.objects = objects;
            now.deadline_ms = deadline_ms;
        });
        Ok(())
    }
    /// As [`Snapshot::check`], on all cores.
    fn check(&self, snapshot: &Snapshot) -> Result<(), EngineError> {
        snapshot.check_size(&self.context.options, self.state.epoch)?;
        let validator = RowValidator::new(&self.context.options.space, i64::MAX);
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
