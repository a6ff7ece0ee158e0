//! Planning of a stream of tables: one planner for each column.

use crate::error::BlockError;
use crate::planner::column_planner::ColumnPlanner;
use crate::table::{TableColumn, TableOutcome, encode_table};
use crate::tree::Tree;
use crate::values::Values;

/// Plans the columns of a table, each by its planner, replaces `out` with the table and reports the
/// outcome to the planners. With `is_keyed` the first column, of integers, orders keyed trees of
/// the others.
///
/// # Errors
/// As [`encode_table`].
///
/// # Panics
/// If the number of planners differs, or the key has floats.
pub fn encode_planned_table(
    planners: &mut [ColumnPlanner],
    columns: &[(u16, &Values)],
    is_keyed: bool,
    sequence: u64,
    out: &mut Vec<u8>,
) -> Result<Vec<TableOutcome>, BlockError> {
    assert_eq!(planners.len(), columns.len(), "a planner a column");
    let key = columns.first().filter(|_| is_keyed);
    let keys = key.map(|(_, values)| values.keys());
    let mut trees: Vec<Tree> = Vec::with_capacity(columns.len());
    for (index, (planner, (_, values))) in planners.iter_mut().zip(columns).enumerate() {
        // The key itself is in the order of rows.
        trees.push(planner.plan(values, keys.as_deref().filter(|_| index > 0)));
    }
    let of_trees = columns.iter().zip(&trees);
    let columns: Vec<_> =
        of_trees.map(|((id, values), tree)| TableColumn { id: *id, values, tree }).collect();
    let outcomes = encode_table(&columns, key.map(|(id, _)| *id), sequence, out)?;
    observe_table(planners, &columns, &outcomes);
    Ok(outcomes)
}

/// Reports the outcome of a table to the planners of its columns.
pub fn observe_table(
    planners: &mut [ColumnPlanner],
    columns: &[TableColumn<'_>],
    outcomes: &[TableOutcome],
) {
    for (planner, (column, outcome)) in planners.iter_mut().zip(columns.iter().zip(outcomes)) {
        let raw_bytes = column.values.len() * column.values.value_type().width_bytes();
        planner.observe(raw_bytes, outcome.encoded_bytes);
    }
}
