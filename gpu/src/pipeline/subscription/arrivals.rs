//! What arrived for each object in a cycle, for regions that judge every fix.
//!
//! Rows that were refused and those of blocks that failed never get here; late ones count for
//! nothing, which shows against the record at the start.

use rayon::prelude::*;
use shoal_codec::FixRow;
use shoal_engine::EventKind;
use shoal_engine::layout::Answered;
use shoal_engine::stage::subscription::{ObjectChange, Observation};

use super::judge::Seen;
use crate::pipeline::query_answers::row;

/// Objects that a thread takes at a time at least.
const MANY: usize = 1 << 10;

/// One row or removal.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    object: u64,
    number: u32,
    what: ObjectChange,
}

/// Gives each object what arrived for it: `arrived` are rows, and removals, which are not found;
/// reserved is the number of the arrival. `clears` are the arrivals before which all was cleared.
pub(super) fn fill(seen: &mut [Seen], arrived: &[Answered], clears: &[u32]) {
    let arrival = |told: &Answered| {
        let removed = ObjectChange::End(EventKind::Removed);
        let what = if told.found == 0 { removed } else { ObjectChange::Row(row(told)) };
        Arrival { object: told.object, number: told.reserved, what }
    };
    let mut arrivals: Vec<Arrival> = arrived.iter().map(arrival).collect();
    arrivals.par_sort_unstable_by_key(|arrival| (arrival.object, arrival.number));
    seen.par_iter_mut().with_min_len(MANY).for_each(|seen| {
        let from = arrivals.partition_point(|arrival| arrival.object < seen.object);
        let end = arrivals.partition_point(|arrival| arrival.object <= seen.object);
        let own = arrivals.get(from..end).unwrap_or(&[]);
        seen.arrived = in_order(seen.before, own, clears);
        // What came too old to stay was never written.
        let expired = seen.after.is_none().then(|| last(seen.before, &seen.arrived)).flatten();
        if let Some(row) = expired {
            seen.after = Some(Observation::Gone { row, reason: EventKind::Expired });
        }
    });
}

/// The record of an object after all that arrived for it.
fn last(before: Option<FixRow>, arrived: &[ObjectChange]) -> Option<FixRow> {
    arrived.iter().fold(before, |record, arrived| match arrived {
        ObjectChange::End(_) => None,
        ObjectChange::Row(row) => match record {
            Some(record) if row.time_ms < record.time_ms => Some(record),
            _ => Some(*row),
        },
    })
}

/// Arrivals of one object with the clears between them, without rows that are late.
fn in_order(before: Option<FixRow>, own: &[Arrival], clears: &[u32]) -> Vec<ObjectChange> {
    let mut arrived = Vec::with_capacity(own.len() + clears.len());
    let (mut start, mut clears) = (before, clears.iter().peekable());
    for arrival in own {
        while clears.next_if(|clear| **clear <= arrival.number).is_some() {
            arrived.push(ObjectChange::End(EventKind::Cleared));
            start = None;
        }
        match arrival.what {
            ObjectChange::Row(row) if start.is_some_and(|start| row.time_ms < start.time_ms) => {}
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
