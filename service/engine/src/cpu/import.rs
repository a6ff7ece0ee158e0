//! Import of a state: all cores route the rows of a few batches at a time to the shards; then each
//! shard appends its rows.
//!
//! Shards are sized first and the cells are filled last, so no structure is reallocated.

use rayon::prelude::*;
use shoal_codec::{Attributes, FixColumns};

use super::backend::CpuBackend;
use super::index::ObjectHash;
use super::parallel;
use super::record::{Record, UNTOUCHED};
use super::regrid;
use super::shard::{GROUP, SHARDS, Shard};
use crate::cycle::Snapshot;
use crate::error::EngineError;
use crate::stage::dispatch::RowValidator;

/// Batches that are routed at a time: at 48 bytes a row the routed rows take at most 48 MiB.
const BATCHES_AT_ONCE: usize = 16;

/// A row on its way to its shard.
#[derive(Clone, Copy, Debug)]
struct ImportedRow {
    record: Record,
    hash: u32,
    attributes: Attributes,
}

/// Rows of a batch by shard.
type Routed = Vec<Vec<ImportedRow>>;

impl CpuBackend {
    /// Checks every row by itself.
    pub(super) fn check_rows(&self, snapshot: &Snapshot) -> Result<(), EngineError> {
        let validator = RowValidator::new(&self.options.space, i64::MAX);
        let batches = (0..snapshot.batches.len()).into_par_iter();
        let fault = batches.find_map_first(|batch| snapshot.check_batch(batch, &validator).err());
        fault.map_or(Ok(()), Err)
    }

    /// Replaces the state by a checked snapshot. Fails if an object repeats; the engine is then
    /// empty.
    pub(super) fn replace(&mut self, mut snapshot: Snapshot) -> Result<(), EngineError> {
        let empty = Self::new(self.options.clone());
        *self = empty;
        let (hash, mut rest) = (self.hash, snapshot.batches.as_mut_slice());
        let counts = rest.par_iter().map(|batch| shard_rows(batch, hash));
        let counts = counts.reduce(|| [0; SHARDS], |a, b| std::array::from_fn(|i| a[i] + b[i]));
        self.shards.iter_mut().zip(counts).for_each(|(shard, rows)| shard.reserve(rows));
        let (mut repeated, ttl_ms) = (None, self.options.ttl_ms);
        while !rest.is_empty() && repeated.is_none() {
            let (batches, later) = rest.split_at_mut(BATCHES_AT_ONCE.min(rest.len()));
            rest = later;
            // The memory of a batch is free once it is routed.
            let batches = batches.par_iter_mut().map(std::mem::take);
            let routed: Vec<Routed> = batches.map(|batch| route(&batch, hash)).collect();
            let mut shards: Vec<_> = self.shards.iter_mut().map(|shard| (shard, None)).collect();
            parallel::for_each_mut(&mut shards, usize::MAX, |number, (shard, repeated)| {
                *repeated = routed.iter().find_map(|routed| shard.append(&routed[number], ttl_ms));
            });
            repeated = shards.iter().find_map(|(_, repeated)| *repeated);
        }
        if let Some(object) = repeated {
            *self = Self::new(self.options.clone());
            return Err(Snapshot::repeated(object));
        }
        (self.grid, self.bands, self.chosen) =
            regrid::rebuild(&self.options.space, &mut self.shards);
        (self.epoch, self.clock_ms) = (snapshot.epoch, snapshot.clock_ms);
        Ok(())
    }
}

/// Rows of a batch in each shard.
fn shard_rows(batch: &FixColumns, hash: ObjectHash) -> [usize; SHARDS] {
    let mut rows = [0; SHARDS];
    batch.object.iter().for_each(|object| rows[hash.shard_and_hash(*object).0] += 1);
    rows
}

fn route(batch: &FixColumns, hash: ObjectHash) -> Routed {
    let places = batch.object.iter().map(|object| hash.shard_and_hash(*object));
    let places: Vec<(usize, u32)> = places.collect();
    let mut rows = [0; SHARDS];
    places.iter().for_each(|(shard, _)| rows[*shard] += 1);
    let mut routed: Routed = rows.map(Vec::with_capacity).into();
    for (row, (shard, hash)) in places.into_iter().enumerate() {
        let row = batch.row(row);
        let record = Record {
            object: row.object,
            time_ms: row.time_ms,
            x: row.x,
            y: row.y,
            state: row.state,
            touched: UNTOUCHED,
        };
        routed[shard].push(ImportedRow { record, hash, attributes: row.attributes() });
    }
    routed
}

impl Shard {
    /// Appends rows; returns the first object that repeats, if there is one.
    fn append(&mut self, rows: &[ImportedRow], ttl_ms: Option<i64>) -> Option<u64> {
        for group in rows.chunks(GROUP) {
            group.iter().for_each(|row| self.prefetch(row.hash));
            for ImportedRow { record, hash, attributes } in group {
                if self.find(*hash, record.object).is_some() {
                    return Some(record.object);
                }
                self.import(*record, *hash, *attributes, ttl_ms);
            }
        }
        None
    }
}
