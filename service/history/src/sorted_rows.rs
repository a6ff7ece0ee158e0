//! Writes sorted rows of one partition, from a batch or from joined partitions, as a run.
//!
//! An object has one cell in all runs of a partition, so that these are merged row by row.

use shoal_codec::FixRow;

use crate::error::HistoryError;
use crate::hilbert::hilbert_cell;
use crate::partition::Partition;
use crate::query::QueryBudget;
use crate::removal::{Removal, Return};
use crate::run::{CellRow, NewRun, RunEntry, RunWriter};
use crate::version::Version;

/// The (cell, object) of each object of sorted rows. The cell is the one that the object has in the
/// runs of the partition, so that all of them have the same order; otherwise that of its first fix.
pub(crate) fn cells_of(
    version: &Version,
    partition: Partition,
    rows: &[FixRow],
) -> Result<Vec<(u32, u64)>, HistoryError> {
    let first = rows.chunk_by(|a, b| a.object == b.object).map(|rows| &rows[0]);
    let mut cells: Vec<(Option<u32>, &FixRow)> = first.map(|row| (None, row)).collect();
    let budget = QueryBudget::unlimited();
    for file in version.partitions.get(&partition.start_ms).iter().flat_map(|runs| runs.iter()) {
        let mut reader = version.reader(file)?;
        for (cell, row) in cells.iter_mut().filter(|(cell, _)| cell.is_none()) {
            *cell = reader.find(row.object, &budget)?.map(|entry| entry.cell);
        }
    }
    let of = |(cell, row): (Option<u32>, &FixRow)| {
        (cell.unwrap_or_else(|| hilbert_cell(row.x, row.y)), row.object)
    };
    Ok(cells.into_iter().map(of).collect())
}

/// Writes sorted rows of one partition as a run, without erased objects. Returns `None` if no row
/// and no removal remains.
pub(crate) fn write_sorted(
    run: NewRun,
    version: &Version,
    rows: &[FixRow],
    cells: &[(u32, u64)],
    removals: &[Removal],
    returns: &[Return],
) -> Result<Option<RunEntry>, HistoryError> {
    let objects = rows.chunk_by(|a, b| a.object == b.object).zip(cells);
    let mut objects: Vec<_> =
        objects.filter(|(_, (_, object))| !version.is_erased(*object)).collect();
    let is_kept = |object: u64| !version.is_erased(object);
    let removals: Vec<_> = removals.iter().copied().filter(|it| is_kept(it.object)).collect();
    let returns: Vec<_> = returns.iter().copied().filter(|it| is_kept(it.object)).collect();
    if objects.is_empty() && removals.is_empty() {
        return Ok(None);
    }
    objects.sort_unstable_by_key(|(_, key)| **key);
    let mut writer = RunWriter::create(run)?;
    for (rows, (cell, _)) in objects {
        for row in rows {
            writer.push(CellRow { cell: *cell, row: *row })?;
        }
    }
    writer.finish(&removals, &returns).map(Some)
}
