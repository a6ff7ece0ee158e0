//! Which object speaks next?
//!
//! A calendar queue (Brown, CACM 1988): time is cut into buckets, each a list threaded through one
//! node per object, and only the present bucket is sorted. Every object has at most one event, so the
//! queue never grows beyond 16 bytes an object plus the bucket table. Events come out by (time,
//! index), whatever the order they went in.

use crate::limits::CALENDAR_BUCKETS_MAX;

/// End of a list.
const NONE: u32 = u32::MAX;

/// Events that a bucket should hold on average: few enough to sort within the nearest cache, many
/// enough that empty buckets cost nothing.
const BUCKET_EVENTS: i64 = 64;

/// One pending event for each of a fixed number of objects.
#[derive(Debug)]
pub(crate) struct Calendar {
    width_ms: i64,
    /// First node of each bucket; bucket `b` of time lies at `b` modulo the length, a power of two.
    heads: Vec<u32>,
    nodes: Vec<Node>,
    /// The bucket of time that is open, counted from 1970.
    bucket: i64,
    /// Its events, latest first.
    open: Vec<Event>,
    pending: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    due_ms: i64,
    next: u32,
}

/// The moment and the local index of an object; ordered by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) due_ms: i64,
    pub(crate) local: u32,
}

impl Calendar {
    /// An empty calendar from a moment on, for objects that speak every `interval_ms` on average.
    pub(crate) fn new(objects: u64, interval_ms: i64, start_ms: i64) -> Self {
        let objects = i64::try_from(objects.max(1)).expect("objects are below OBJECTS_MAX");
        let width_ms = (interval_ms.saturating_mul(BUCKET_EVENTS) / objects).max(1);
        // Four mean intervals ahead; the few events beyond are looked at once a turn.
        let buckets = (interval_ms * 4 / width_ms).clamp(16, CALENDAR_BUCKETS_MAX);
        let buckets = buckets.unsigned_abs().next_power_of_two() as usize;
        Self {
            width_ms,
            heads: vec![NONE; buckets],
            nodes: vec![
                Node {
                    due_ms: i64::MIN,
                    next: NONE
                };
                objects as usize
            ],
            // The one before the start: events go into lists until the first is taken.
            bucket: start_ms.div_euclid(width_ms) - 1,
            open: Vec::new(),
            pending: 0,
        }
    }

    /// Adds the event of an object that has none, not before the event taken last.
    pub(crate) fn add(&mut self, event: Event) {
        self.pending += 1;
        let bucket = event.due_ms.div_euclid(self.width_ms);
        debug_assert!(bucket >= self.bucket, "{event:?} lies in the past");
        if bucket == self.bucket {
            let place = self.open.partition_point(|other| *other > event);
            self.open.insert(place, event);
            return;
        }
        let place = self.place(bucket);
        let head = &mut self.heads[place];
        self.nodes[event.local as usize] = Node {
            due_ms: event.due_ms,
            next: *head,
        };
        *head = event.local;
    }

    /// Takes the earliest event.
    pub(crate) fn take(&mut self) -> Option<Event> {
        if self.pending == 0 {
            return None;
        }
        while self.open.is_empty() {
            self.bucket += 1;
            self.open_bucket();
        }
        self.pending -= 1;
        self.open.pop()
    }

    /// Collects the present bucket's events; those of a later turn stay.
    fn open_bucket(&mut self) {
        let place = self.place(self.bucket);
        let end_ms = (self.bucket + 1) * self.width_ms;
        let mut local = std::mem::replace(&mut self.heads[place], NONE);
        while local != NONE {
            let Node { due_ms, next } = self.nodes[local as usize];
            if due_ms < end_ms {
                self.open.push(Event { due_ms, local });
            } else {
                self.nodes[local as usize].next = self.heads[place];
                self.heads[place] = local;
            }
            local = next;
        }
        self.open.sort_unstable_by(|one, other| other.cmp(one));
    }

    fn place(&self, bucket: i64) -> usize {
        bucket as usize & (self.heads.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::random::{Domain, below, stream};

    #[test]
    fn events_come_out_as_from_a_heap() {
        for (seed, objects) in [(1, 1), (2, 2), (3, 50), (4, 3_000)] {
            let mut random = stream(seed, Domain::Objects, 0);
            let mut calendar = Calendar::new(objects, 1_000, -5_000);
            let mut heap = BinaryHeap::new();
            let mut now_ms = -5_000;
            for local in 0..objects as u32 {
                let event = Event {
                    due_ms: now_ms + below(&mut random, 3_000) as i64,
                    local,
                };
                calendar.add(event);
                heap.push(Reverse(event));
            }
            for _ in 0..50_000 {
                let event = calendar.take().unwrap();
                assert_eq!(event, heap.pop().unwrap().0, "seed {seed}");
                now_ms = event.due_ms;
                let longest_ms = [2, 500, 5_000, 40_000][below(&mut random, 4)];
                let wait_ms = below(&mut random, longest_ms);
                let again = Event {
                    due_ms: now_ms + wait_ms as i64,
                    local: event.local,
                };
                calendar.add(again);
                heap.push(Reverse(again));
            }
        }
    }

    #[test]
    fn an_empty_calendar_gives_nothing() {
        let mut calendar = Calendar::new(3, 10, 0);
        assert_eq!(calendar.take(), None);
        calendar.add(Event {
            due_ms: 5,
            local: 2,
        });
        assert_eq!(
            calendar.take(),
            Some(Event {
                due_ms: 5,
                local: 2
            })
        );
        assert_eq!(calendar.take(), None);
    }
}
