//! The changes of each object in a cycle, for queries that evaluate every fix.
//!
//! Refused rows and those of failed blocks are not part of the input; late rows are dropped by
//! comparing them with the record at the start.

use rayon::prelude::*;
use shoal_codec::FixRow;
use shoal_engine::EventKind;
use shoal_engine::layout::AnswerRecord;
use shoal_engine::stage::settle;
use shoal_engine::stage::subscription::{ObjectChange, Observation};

use super::host_evaluation::ObservedObject;
use crate::state::record::row;

/// Least number of objects per thread.
const MANY: usize = 1 << 10;

/// One row or removal.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    object: u64,
    number: u32,
    change: ObjectChange,
}

/// Sets the changes of each object. `arrived` has rows and removals: `found` is 0 for a removal,
/// and `reserved` is the number of the arrival. `clears` has the arrivals before which all objects
/// were cleared.
pub(super) fn fill(objects: &mut [ObservedObject], arrived: &[AnswerRecord], clears: &[u32]) {
    let arrival = |arrived: &AnswerRecord| {
        let removed = ObjectChange::End(EventKind::Removed);
        let change = if arrived.found == 0 { removed } else { ObjectChange::Row(row(arrived)) };
        Arrival { object: arrived.object, number: arrived.reserved, change }
    };
    let mut arrivals: Vec<Arrival> = arrived.iter().map(arrival).collect();
    arrivals.par_sort_unstable_by_key(|arrival| (arrival.object, arrival.number));
    objects.par_iter_mut().with_min_len(MANY).for_each(|object| {
        let from = arrivals.partition_point(|arrival| arrival.object < object.object);
        let end = arrivals.partition_point(|arrival| arrival.object <= object.object);
        let own = arrivals.get(from..end).unwrap_or(&[]);
        object.changes = in_order(object.before, own, clears);
        // The device writes no record for a row that expired on arrival, so `after` is set here.
        let expired = object.after.is_none().then(|| last(object.before, &object.changes));
        if let Some(row) = expired.flatten() {
            object.after = Some(Observation::Gone { row, reason: EventKind::Expired });
        }
    });
}

/// The record of an object after all its changes.
fn last(before: Option<FixRow>, changes: &[ObjectChange]) -> Option<FixRow> {
    changes.iter().fold(before, |record, change| match change {
        ObjectChange::End(_) => None,
        ObjectChange::Row(row) => {
            let is_newest = settle::supersedes(record.map(|it| it.time_ms), row.time_ms);
            if is_newest { Some(*row) } else { record }
        }
    })
}

/// The changes of one object with the clears between them, without late rows.
fn in_order(before: Option<FixRow>, own: &[Arrival], clears: &[u32]) -> Vec<ObjectChange> {
    let mut arrived = Vec::with_capacity(own.len() + clears.len());
    let (mut start, mut clears) = (before, clears.iter().peekable());
    for arrival in own {
        while clears.next_if(|clear| **clear <= arrival.number).is_some() {
            arrived.push(ObjectChange::End(EventKind::Cleared));
            start = None;
        }
        match arrival.change {
            ObjectChange::Row(row)
                if settle::is_late(start.map(|start| start.time_ms), row.time_ms) => {}
            ObjectChange::End(reason) => {
                arrived.push(ObjectChange::End(reason));
                start = None;
            }
            row => arrived.push(row),
        }
    }
    arrived.extend(clears.map(|_| ObjectChange::End(EventKind::Cleared)));
    arrived
}
