//! Converts rows of answers to the lists of a message.

use shoal_engine::Answer;
use shoal_proto::v1::FixRecord;

use super::object_names::names_of;
use crate::fleet::Fleet;
use crate::names::NameTable;
use crate::record::{RECORD_BYTES_MAX, record};

/// Encoded bytes of an id, and of a distance.
const NUMBER_BYTES: usize = 8;

/// Some rows of one answer, as lists of a message.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) objects: Vec<u64>,
    pub(super) fixes: Vec<FixRecord>,
    pub(super) distance_m: Vec<f64>,
    /// The names of the objects in a named fleet, else empty.
    pub(super) names: Vec<String>,
}

impl Records {
    /// Converts the rows `from..to` of an answer.
    pub(super) fn of(fleet: &Fleet, answer: &Answer<'_>, from: usize, to: usize) -> Self {
        let space = fleet.space();
        // A list that the answer does not have stays empty.
        let fixes = answer.fixes.get(from..to).unwrap_or_default();
        let ranks = answer.ranks.get(from..to).unwrap_or_default();
        Self {
            objects: answer.objects[from..to].to_vec(),
            fixes: fixes.iter().map(|row| record(space, row)).collect(),
            distance_m: ranks.iter().map(|&rank| space.distance_m(rank)).collect(),
            names: names_of(fleet, &answer.objects[from..to]),
        }
    }
}

/// Most encoded bytes of one row of an answer.
pub(super) fn row_bytes_max(fleet: &Fleet, answer: &Answer<'_>) -> usize {
    let fix = if answer.fixes.is_empty() { 0 } else { RECORD_BYTES_MAX };
    let rank = if answer.ranks.is_empty() { 0 } else { NUMBER_BYTES };
    NUMBER_BYTES + fix + rank + fleet.names().map_or(0, NameTable::field_bytes_max)
}
