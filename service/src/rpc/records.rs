//! Rows of answers, and the messages that have them.

use std::ops::Range;

use shoal_codec::FixRow;
use shoal_engine::{Answer, Space};
use shoal_proto::v1;

use super::object_names::names_of;
use crate::fleet::Fleet;
use crate::json::RowRef;
use crate::names::NameTable;
use crate::record::{RECORD_BYTES_MAX, record};

/// Encoded bytes of an id, and of a distance.
const NUMBER_BYTES: usize = 8;

/// Some rows of one answer, as they are stored. Lists that the answer does not have are empty.
#[derive(Debug)]
pub struct StoredRows<H> {
    /// The first rows of an answer have its header.
    pub(crate) header: Option<H>,
    pub(super) objects: Vec<u64>,
    fixes: Vec<FixRow>,
    pub(super) distance_m: Vec<f64>,
    /// The names of the objects in a named fleet, else empty.
    pub(super) names: Vec<String>,
    space: Space,
}

impl<H> StoredRows<H> {
    /// Rows without distances.
    pub(super) fn new(
        fleet: &Fleet,
        header: Option<H>,
        objects: Vec<u64>,
        fixes: Vec<FixRow>,
    ) -> Self {
        let (names, space) = (names_of(fleet, &objects), *fleet.space());
        Self { header, objects, fixes, distance_m: Vec::new(), names, space }
    }

    /// Some rows of an answer.
    pub(super) fn of(
        fleet: &Fleet,
        header: Option<H>,
        answer: &Answer<'_>,
        range: Range<usize>,
    ) -> Self {
        let objects = answer.objects[range.clone()].to_vec();
        let fixes = answer.fixes.get(range.clone()).unwrap_or_default().to_vec();
        let ranks = answer.ranks.get(range).unwrap_or_default();
        let rows = Self::new(fleet, header, objects, fixes);
        Self { distance_m: ranks.iter().map(|&rank| rows.space.distance_m(rank)).collect(), ..rows }
    }

    /// The records as a list of a message.
    pub(super) fn records(&self) -> Vec<v1::FixRecord> {
        self.fixes.iter().map(|row| record(&self.space, row)).collect()
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// A row, if there are so many.
    pub(crate) fn row(&self, at: usize) -> Option<RowRef<'_>> {
        Some(RowRef {
            object: *self.objects.get(at)?,
            name: self.names.get(at).map(String::as_str).filter(|name| !name.is_empty()),
            fix: self.fixes.get(at),
            space: &self.space,
            distance_m: self.distance_m.get(at).copied(),
        })
    }
}

/// A message that has rows.
pub trait RowMessage: Default + Send + 'static {
    /// What the first message of an answer has.
    type Header: Send + 'static;

    /// Creates a message of rows.
    fn new(rows: StoredRows<Self::Header>) -> Self;
}

macro_rules! messages {
    ($($message:ident: $header:ident $(, $distance_m:ident)? $({ $other:ident })?;)+) => {$(
        impl RowMessage for v1::$message {
            type Header = v1::$header;

            fn new(rows: StoredRows<v1::$header>) -> Self {
                Self {
                    fixes: rows.records(),
                    header: rows.header,
                    objects: rows.objects,
                    names: rows.names,
                    $($distance_m: rows.$distance_m,)?
                    $($other: Default::default(),)?
                }
            }
        }
    )+};
}

messages! {
    GetResponse: AnswerHeader;
    RangeResponse: AnswerHeader;
    NearestResponse: AnswerHeader, distance_m;
    TrajectoryResponse: HistoryHeader;
    PassedResponse: HistoryHeader;
    AsOfResponse: HistoryHeader;
    ReplayResponse: HistoryHeader { time_ms };
}

/// Most encoded bytes of one row of an answer.
pub(super) fn row_bytes_max(fleet: &Fleet, answer: &Answer<'_>) -> usize {
    let fix = if answer.fixes.is_empty() { 0 } else { RECORD_BYTES_MAX };
    let rank = if answer.ranks.is_empty() { 0 } else { NUMBER_BYTES };
    NUMBER_BYTES + fix + rank + fleet.names().map_or(0, NameTable::field_bytes_max)
}
