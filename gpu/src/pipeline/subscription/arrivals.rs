//! What arrived for each object in a cycle, for regions that judge every fix.
//!
//! Rows that were refused and those of blocks that failed count for nothing; late ones neither,
//! which shows against the record at the start.

use rayon::prelude::*;
use shoal_codec::{FixColumns, FixRow};
use shoal_engine::stage::subscription::{Arrived, Look};
use shoal_engine::{EventKind, Request};

use super::judge::Seen;

/// One row or removal.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    object: u64,
    number: u32,
    what: Arrived,
}

/// Gives each object what arrived for it. `refused` tells of every arrival whether it was, and
/// `failed` of every request.
pub(super) fn fill(
    seen: &mut [Seen],
    requests: &[Request],
    refused: &[u8],
    failed: impl Fn(usize) -> bool,
) {
    let (mut arrivals, mut clears) = (Vec::new(), Vec::new());
    let mut first = 0_u32;
    for (number, request) in requests.iter().enumerate() {
        match request {
            _ if failed(number) => {}
            Request::Fixes(columns) => push(&mut arrivals, columns, first, refused),
            Request::Block(block) => {
                // A block that does not decode has failed on the device as well.
                if let Ok(columns) = block.decode() {
                    push(&mut arrivals, &columns, first, refused);
                }
            }
            Request::Remove(objects) => {
                let what = Arrived::End(EventKind::Removed);
                let gone =
                    |(object, number): (&u64, u32)| Arrival { object: *object, number, what };
                arrivals.extend(objects.iter().zip(first..).map(gone));
            }
            Request::Clear => clears.push(first),
        }
        first += request.rows() as u32;
    }
    arrivals.par_sort_unstable_by_key(|arrival| (arrival.object, arrival.number));
    for seen in seen {
        let from = arrivals.partition_point(|arrival| arrival.object < seen.object);
        let end = arrivals.partition_point(|arrival| arrival.object <= seen.object);
        let own = arrivals.get(from..end).unwrap_or(&[]);
        seen.arrived = in_order(seen.before, own, &clears);
        // What came too old to stay was never written.
        let expired = seen.after.is_none().then(|| last(seen.before, &seen.arrived)).flatten();
        if let Some(row) = expired {
            seen.after = Some(Look::Gone { row, reason: EventKind::Expired });
        }
    }
}

/// The record of an object after all that arrived for it.
fn last(before: Option<FixRow>, arrived: &[Arrived]) -> Option<FixRow> {
    arrived.iter().fold(before, |record, arrived| match arrived {
        Arrived::End(_) => None,
        Arrived::Row(row) => match record {
            Some(record) if row.time_ms < record.time_ms => Some(record),
            _ => Some(*row),
        },
    })
}

/// Adds the rows of a request whose first arrival is `first`.
fn push(arrivals: &mut Vec<Arrival>, columns: &FixColumns, first: u32, refused: &[u8]) {
    for (row, number) in (0..columns.len()).zip(first..) {
        if refused.get(number as usize).is_none_or(|reason| *reason == 0) {
            let row = columns.row(row);
            arrivals.push(Arrival { object: row.object, number, what: Arrived::Row(row) });
        }
    }
}

/// Arrivals of one object with the clears between them, without rows that are late.
fn in_order(before: Option<FixRow>, own: &[Arrival], clears: &[u32]) -> Vec<Arrived> {
    let mut arrived = Vec::with_capacity(own.len() + clears.len());
    let (mut start, mut clears) = (before, clears.iter().peekable());
    for arrival in own {
        while clears.next_if(|clear| **clear <= arrival.number).is_some() {
            arrived.push(Arrived::End(EventKind::Cleared));
            start = None;
        }
        match arrival.what {
            Arrived::Row(row) if start.is_some_and(|start| row.time_ms < start.time_ms) => {}
            Arrived::End(reason) => {
                arrived.push(Arrived::End(reason));
                start = None;
            }
            row => arrived.push(row),
        }
    }
    arrived.extend(clears.map(|_| Arrived::End(EventKind::Cleared)));
    arrived
}
