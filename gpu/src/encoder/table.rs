//! The device's encoder of tables, byte for byte as the CPU's planners and encoder.
//!
//! Columns are shared out among the workers, each of which plans and encodes its columns one after
//! another on its own stream.

use std::sync::{Mutex, PoisonError};

use shoal_codec::{
    ColumnPlanner, EncodedTree, TableColumn, TableOutcome, Tree, Values, assemble_table,
    encode_planned_table, observe_table,
};

use super::block::{Encoder, downloaded, on_threads, uploaded};
use super::column;
use super::device_batch::DeviceBatch;
use super::error::EncodeError;
use super::order::Order;
use super::source::Source;
use super::worker::Worker;

/// A column, its tree, and its encoded form if the tree applies.
type PlannedColumn = (usize, Tree, Option<EncodedTree>);

/// The key column of a table in the device's memory.
#[derive(Clone, Copy)]
struct Key {
    id: u16,
    source: Source,
    order: Order,
}

impl Encoder {
    /// Plans the columns of a table on the device, each by its planner, replaces `out` with the
    /// table and reports the outcome to the planners: byte for byte as [`encode_planned_table`].
    ///
    /// # Errors
    /// As there, or the device's.
    ///
    /// # Panics
    /// If the number of planners differs, or the key has floats.
    pub fn encode_table(
        &mut self,
        planners: &mut [ColumnPlanner],
        columns: &[(u16, &Values)],
        is_keyed: bool,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<TableOutcome>, EncodeError> {
        assert_eq!(planners.len(), columns.len(), "a planner a column");
        let rows = columns.first().map_or(0, |(_, values)| values.len());
        let is_uniform = columns.iter().all(|(_, values)| values.len() == rows);
        if rows == 0 || !is_uniform {
            // Nothing to encode, or refused.
            return Ok(encode_planned_table(planners, columns, is_keyed, sequence, out)?);
        }
        self.clear()?;
        let key = match columns.first().filter(|_| is_keyed) {
            Some((id, values)) => {
                assert!(!values.value_type().is_float(), "a key is an integer");
                let first = &mut self.workers[0];
                let source = uploaded(first, values)?;
                let order = Order::new(first, &source)?;
                first.wait()?;
                Some(Key { id: *id, source, order })
            }
            None => None,
        };
        let planned = self.plan_and_encode(planners, columns, key)?;
        let (mut trees, mut encoded) = (Vec::new(), Vec::new());
        for (_, tree, column) in planned {
            trees.push(tree);
            encoded.push(column);
        }
        let columns: Vec<_> = columns
            .iter()
            .zip(&trees)
            .map(|((id, values), tree)| TableColumn { id: *id, values, tree })
            .collect();
        let outcomes = assemble_table(&columns, encoded, sequence, out)?;
        observe_table(planners, &columns, &outcomes);
        Ok(outcomes)
    }

    /// All columns in order.
    fn plan_and_encode(
        &mut self,
        planners: &mut [ColumnPlanner],
        columns: &[(u16, &Values)],
        key: Option<Key>,
    ) -> Result<Vec<PlannedColumn>, EncodeError> {
        let planners: Vec<_> = planners.iter_mut().map(Mutex::new).collect();
        let workers = self.workers.len().min(columns.len());
        let shares = on_threads(&mut self.workers[..workers], |worker_index, worker| {
            let mut share = Vec::new();
            for index in (worker_index..columns.len()).step_by(workers) {
                let mark = worker.arena.mark();
                // The key itself is in the order of rows.
                let key = key.filter(|_| index > 0);
                let mut planner = planners[index].lock().unwrap_or_else(PoisonError::into_inner);
                let (tree, encoded) = encoded(worker, &mut planner, columns[index].1, key)?;
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

/// Plans and encodes one column.
fn encoded(
    worker: &mut Worker,
    planner: &mut ColumnPlanner,
    values: &Values,
    key: Option<Key>,
) -> Result<(Tree, Option<EncodedTree>), EncodeError> {
    let source = uploaded(worker, values)?;
    let keys = key.map(|key| key.source);
    let tree = planner.plan_by(&mut DeviceBatch::new(worker, source, keys))?;
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
