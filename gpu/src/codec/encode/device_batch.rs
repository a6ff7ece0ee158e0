//! Trials of a planner on a column in device memory.
//!
//! The device computes statistics and sizes; no section is placed or copied. Every trial releases
//! its memory before the next one.

use std::ops::Range;

use shoal_codec::assemble::ChunkShape;
use shoal_codec::planner::ColumnBatch;
use shoal_codec::{Statistics, Tree, ValueType};

use super::column;
use super::error::EncodeError;
use super::order::Order;
use super::source::Source;
use super::worker::Worker;

/// A column of a batch on the device.
pub(super) struct DeviceBatch<'a> {
    worker: &'a mut Worker,
    column: Source,
    keys: Option<Source>,
    /// The range of rows of the last keyed trial, and their values in grouped order.
    grouped: Option<(Range<usize>, Source)>,
}

impl<'a> DeviceBatch<'a> {
    pub(super) fn new(worker: &'a mut Worker, column: Source, keys: Option<Source>) -> Self {
        Self { worker, column, keys, grouped: None }
    }

    /// Runs `work` and releases the memory that it allocated.
    fn scoped<T>(
        &mut self,
        work: impl FnOnce(&mut Worker) -> Result<T, EncodeError>,
    ) -> Result<T, EncodeError> {
        let mark = self.worker.arena.mark();
        let outcome = work(self.worker);
        self.worker.wait()?;
        self.worker.arena.release(mark);
        outcome
    }
}

impl ColumnBatch for DeviceBatch<'_> {
    type Error = EncodeError;

    fn extent(&self) -> (ValueType, usize) {
        (self.column.value_type, self.column.rows as usize)
    }

    fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn statistics(&mut self, rows: Range<usize>) -> Result<Statistics, EncodeError> {
        let sample = self.column.part(rows);
        self.scoped(|worker| worker.statistics(&sample))
    }

    fn shape(
        &mut self,
        rows: Range<usize>,
        tree: &Tree,
    ) -> Result<Option<ChunkShape>, EncodeError> {
        let is_grouped = self.grouped.as_ref().is_some_and(|(grouped, _)| *grouped == rows);
        let sample = self.column.part(rows.clone());
        if let (true, false, Some(keys)) = (tree.is_keyed(), is_grouped, self.keys) {
            let keys = keys.part(rows.clone());
            self.grouped = Some((rows, Order::with(self.worker, &keys, &sample)?.1));
        }
        let sample = match &self.grouped {
            Some((_, grouped)) if tree.is_keyed() => *grouped,
            _ => sample,
        };
        let key_column = shoal_codec::Column::Object.id();
        let made = self.scoped(|worker| column::measure(worker, &sample, tree, key_column));
        match made {
            Ok(shape) => Ok(Some(shape)),
            Err(EncodeError::NotApplicable(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn holds(&mut self, tree: &Tree) -> Result<bool, EncodeError> {
        let column = self.column;
        match tree {
            Tree::Const => {
                let [min, max, ..] = self.scoped(|worker| Ok(worker.bounds(&column)?))?;
                Ok(min == max)
            }
            Tree::Divisor(None, _) => {
                Ok(self.scoped(|worker| Ok(worker.common(&column)?))?.is_some())
            }
            _ => Ok(true),
        }
    }
}
