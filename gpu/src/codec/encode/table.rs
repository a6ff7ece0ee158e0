//! The device's encoder of tables. Its bytes equal those of the CPU's planners and encoder.
//!
//! Columns are shared out among the workers, each of which plans and encodes its columns one after
//! another on its own stream.

use std::sync::{Mutex, PoisonError};

use shoal_codec::{
    EncodedTree, PlannedChunk, TableOutcome, TablePlanner, TableValues, Tree, assemble_table,
    encode_column, encode_planned_table, observe_table, planned_chunks, with_trees,
};

use super::block::{Encoder, downloaded, on_threads, uploaded};
use super::column;
use super::device_batch::DeviceBatch;
use super::error::EncodeError;
use super::order::Order;
use super::source::Source;
use super::worker::Worker;

/// A chunk, its tree, and its encoded form if the tree applies.
type Encoded = (usize, Tree, Option<EncodedTree>);

/// The key column of a table in the device's memory.
#[derive(Clone, Copy)]
struct Key {
    id: u16,
    source: Source,
    order: Order,
}

impl Encoder {
    /// Plans and encodes the columns of a table on the device, each by its planner, replaces `out`
    /// with the table and reports the outcome to the planners. The bytes equal those of
    /// [`encode_planned_table`].
    ///
    /// # Errors
    /// As [`encode_planned_table`], and errors of the device.
    ///
    /// # Panics
    /// If there is not one planner per column, or the key has floats.
    pub fn encode_table(
        &mut self,
        planners: &mut [TablePlanner],
        columns: &[(u16, &TableValues)],
        is_keyed: bool,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<TableOutcome>, EncodeError> {
        let rows = columns.first().map_or(0, |(_, values)| values.len());
        let is_uniform = columns.iter().all(|(_, values)| values.len() == rows);
        if rows == 0 || !is_uniform {
            // There is nothing to encode, or the CPU encoder refuses the columns.
            return Ok(encode_planned_table(planners, columns, is_keyed, sequence, out)?);
        }
        self.clear()?;
        let mut chunks = planned_chunks(planners, columns, is_keyed)?;
        let key = match chunks.first().filter(|_| is_keyed) {
            Some(chunk) => {
                assert!(!chunk.values.value_type().is_float(), "a key is an integer");
                let first = &mut self.workers[0];
                let source = uploaded(first, &chunk.values)?;
                let order = Order::new(first, &source)?;
                first.wait()?;
                Some(Key { id: chunk.id, source, order })
            }
            None => None,
        };
        let (mut trees, mut encoded) = (Vec::new(), Vec::new());
        for (_, tree, chunk) in self.plan_and_encode(&mut chunks, key)? {
            trees.push(tree);
            encoded.push(chunk);
        }
        let outcomes = assemble_table(&with_trees(&chunks, &trees), encoded, sequence, out)?;
        observe_table(&mut chunks, &outcomes);
        Ok(outcomes)
    }

    /// All chunks in order.
    fn plan_and_encode(
        &mut self,
        chunks: &mut [PlannedChunk<'_>],
        key: Option<Key>,
    ) -> Result<Vec<Encoded>, EncodeError> {
        let chunks: Vec<_> = chunks.iter_mut().map(Mutex::new).collect();
        let workers = self.workers.len().min(chunks.len());
        let shares = on_threads(&mut self.workers[..workers], |worker_index, worker| {
            let mut share = Vec::new();
            for index in (worker_index..chunks.len()).step_by(workers) {
                let mark = worker.arena.mark();
                let mut chunk = chunks[index].lock().unwrap_or_else(PoisonError::into_inner);
                let key = key.filter(|_| chunk.takes_key);
                let (tree, encoded) = encoded(worker, &mut chunk, key)?;
                worker.wait()?;
                worker.arena.release(mark);
                share.push((index, tree, encoded));
            }
            Ok(share)
        })?;
        let mut planned = shares.concat();
        planned.sort_by_key(|(index, ..)| *index);
        Ok(planned)
    }
}

/// Plans and encodes one chunk.
fn encoded(
    worker: &mut Worker,
    chunk: &mut PlannedChunk<'_>,
    key: Option<Key>,
) -> Result<(Tree, Option<EncodedTree>), EncodeError> {
    if chunk.values.is_empty() {
        // The column has strings, but no bytes: the host encodes it.
        let tree = chunk.planner.plan(&chunk.values, None);
        let encoded = encode_column(&chunk.values, &tree, None).ok();
        return Ok((tree, encoded));
    }
    let source = uploaded(worker, &chunk.values)?;
    let keys = key.map(|key| key.source);
    let tree = chunk.planner.plan_by(&mut DeviceBatch::new(worker, source, keys))?;
    if tree == Tree::Raw {
        return Ok((tree, None));
    }
    let (source, key_column) = match key.filter(|_| tree.is_keyed()) {
        Some(key) => (key.order.of(worker, &source)?, key.id),
        None => (source, 0),
    };
    match column::encode(worker, &source, &tree, key_column) {
        Ok((sections, shape)) => Ok((tree, Some(downloaded(worker, &sections, shape)?))),
        Err(EncodeError::NotApplicable(_)) => Ok((tree, None)),
        Err(error) => Err(error),
    }
}
