//! Reads a block of a named fleet.
//!
//! The object of a row is an index in the names of the message. Names are looked up once for each
//! that a valid row has, and rows get the numbers of their names. The rows reach the engine as
//! columns, since a block cannot be changed.

use shoal_codec::{Block, FixColumns, FixRow};
use shoal_engine::limits::TIME_MAX_MS;
use shoal_engine::{Refusal, Request, RowValidator, Space};

use crate::error::ServiceError;
use crate::fleet::{ConvertedRequest, RefusedRows};
use crate::names::{NameTable, check_name};

/// Decodes a block and replaces indices in `names` by numbers. Rows that are invalid at any time of
/// the clock, and rows with an invalid name or one beyond the limit of names, are refused.
/// `time_max_ms` affects only the reason of rows with several faults.
///
/// # Errors
/// [`ServiceError::Block`] for a block that breaks its format, [`ServiceError::Field`] for an index
/// beyond the names; then no name is added.
pub(super) fn read(
    block: &Block,
    names: &[&str],
    (space, time_max_ms): (&Space, i64),
    table: &NameTable,
) -> Result<ConvertedRequest, ServiceError> {
    let mut columns = block.decode()?;
    let is_beyond = |index: &u64| *index >= names.len() as u64;
    if let Some(at) = columns.object.iter().position(is_beyond) {
        let (index, count) = (columns.object[at], names.len());
        let problem = format!("row {at} has object {index} of {count} names");
        return Err(ServiceError::field("block_names", problem));
    }
    let is_name: Vec<bool> = names.iter().map(|name| check_name(name).is_ok()).collect();
    let mut is_used = vec![false; names.len()];
    let mut invalid = Vec::new();
    let validator = RowValidator::new(space, TIME_MAX_MS);
    if is_name.iter().all(|is_name| *is_name) && validator.are_valid(&columns) {
        columns.object.iter().for_each(|index| is_used[*index as usize] = true);
    } else {
        let reasons = RowValidator::new(space, time_max_ms);
        for at in 0..columns.len() {
            let index = columns.object[at] as usize;
            let row = FixRow { object: 0, ..columns.row(at) };
            let name = (!is_name[index]).then_some(Refusal::Name);
            match validator.validate_row(&row).or(name) {
                None => is_used[index] = true,
                Some(refusal) => {
                    let first = reasons.validate(0, row.time_ms, row.x, row.y);
                    invalid.push((at as u32, first.unwrap_or(refusal)));
                }
            }
        }
    }
    let numbers = numbers_of(names, &is_used, table);
    columns.object.iter_mut().for_each(|object| *object = numbers[*object as usize]);
    if invalid.is_empty() && !columns.object.contains(&0) {
        return Ok(Request::Fixes(columns).into());
    }
    let (mut invalid, mut refused) = (invalid.into_iter().peekable(), Vec::new());
    for (at, object) in columns.object.iter().enumerate() {
        match invalid.next_if(|(row, _)| *row == at as u32) {
            Some(row) => refused.push(row),
            None if *object == 0 => refused.push((at as u32, Refusal::NameLimit)),
            None => {}
        }
    }
    Ok(without(&columns, &refused))
}

/// The number of each name that is used; 0 for the others, and for a name beyond the limit.
fn numbers_of(names: &[&str], is_used: &[bool], table: &NameTable) -> Vec<u64> {
    let used: Vec<&str> =
        names.iter().zip(is_used).filter(|(_, is_used)| **is_used).map(|(name, _)| *name).collect();
    let mut found = Vec::with_capacity(used.len());
    table.intern_all(&used, &mut found);
    let mut found = found.into_iter();
    is_used.iter().map(|is_used| is_used.then(|| found.next()).flatten().unwrap_or(0)).collect()
}

/// A request with the rows that are not refused. `refused` ascends by row.
fn without(columns: &FixColumns, refused: &[(u32, Refusal)]) -> ConvertedRequest {
    let (mut kept, mut rows) =
        (FixColumns::with_capacity(columns.len() - refused.len()), RefusedRows::default());
    let mut next = refused.iter().peekable();
    for at in 0..columns.len() {
        match next.next_if(|(row, _)| *row == at as u32) {
            Some((row, refusal)) => rows.push(*row, *refusal),
            None => kept.push_row(columns.row(at)),
        }
    }
    ConvertedRequest { refused: rows, ..Request::Fixes(kept).into() }
}
