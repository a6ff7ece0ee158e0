//! A calendar queue (Brown, CACM 1988) of the next reports of objects.
//!
//! Time is cut into buckets, each a list of small chunks of events, and only the open bucket is
//! sorted. An object has at most one event, so the queue takes less than 18 bytes per object plus
//! 128 per bucket. Events leave in the order of (time, index).

use crate::limits::CALENDAR_BUCKETS_MAX;

/// End of a list.
const NONE: u32 = u32::MAX;

/// Mean events of a bucket: few enough to sort in the nearest cache, and enough that empty buckets
/// cost nothing.
const BUCKET_EVENTS: i64 = 64;

/// Events of a chunk. A chunk fills two cache lines, because each step of a list is a cache miss.
const CHUNK_EVENTS: usize = 7;

/// Pending events, one for each object.
#[derive(Debug)]
pub(crate) struct Calendar {
    width_ms: i64,
    /// First chunk of each bucket; bucket `b` of time lies at `b` modulo the length, a power of
    /// two.
    heads: Vec<u32>,
    chunks: Vec<Chunk>,
    /// First chunk of the free list.
    free: u32,
    /// The open bucket, counted from 1970.
    bucket: i64,
    /// Its events, latest first.
    open: Vec<Event>,
    pending: usize,
}

/// Events of a bucket. All chunks of a list except the first are full.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    events: [Event; CHUNK_EVENTS],
    length: u32,
    next: u32,
}

/// The time of a report and the local index of its object; ordered by both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) due_ms: i64,
    pub(crate) local: u32,
}

impl Calendar {
    /// An empty calendar that begins at `start_ms`, for objects that report every `interval_ms` on
    /// average.
    pub(crate) fn new(objects: u64, interval_ms: i64, start_ms: i64) -> Self {
        let objects = i64::try_from(objects.max(1)).expect("objects are below OBJECTS_MAX");
        let width_ms = (interval_ms.saturating_mul(BUCKET_EVENTS) / objects).max(1);
        // Enough buckets for four mean intervals, within the limits. The few later events share
        // buckets with earlier ones.
        let buckets = (interval_ms * 4 / width_ms).clamp(16, CALENDAR_BUCKETS_MAX);
        let buckets = buckets.unsigned_abs().next_power_of_two() as usize;
        Self {
            width_ms,
            heads: vec![NONE; buckets],
            chunks: Vec::with_capacity(objects as usize / CHUNK_EVENTS),
            free: NONE,
            // The bucket before the start, so that events go to lists until the first one is taken.
            bucket: start_ms.div_euclid(width_ms) - 1,
            open: Vec::new(),
            pending: 0,
        }
    }

    /// Adds the event of an object that has none, not earlier than the last taken event.
    pub(crate) fn add(&mut self, event: Event) {
        self.pending += 1;
        let bucket = event.due_ms.div_euclid(self.width_ms);
        debug_assert!(bucket >= self.bucket, "{event:?} lies in the past");
        if bucket == self.bucket {
            let place = self.open.partition_point(|other| *other > event);
            self.open.insert(place, event);
        } else {
            self.keep(self.place(bucket), event);
        }
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

    /// Adds an event to the list of a bucket.
    fn keep(&mut self, place: usize, event: Event) {
        let head = self.heads[place];
        if head != NONE && (self.chunks[head as usize].length as usize) < CHUNK_EVENTS {
            let chunk = &mut self.chunks[head as usize];
            chunk.events[chunk.length as usize] = event;
            chunk.length += 1;
            return;
        }
        let mut chunk = Chunk { events: Default::default(), length: 1, next: head };
        chunk.events[0] = event;
        self.heads[place] = self.free;
        if self.free == NONE {
            self.heads[place] = self.chunks.len() as u32;
            self.chunks.push(chunk);
        } else {
            let reused = &mut self.chunks[self.free as usize];
            self.free = reused.next;
            *reused = chunk;
        }
    }

    /// Moves the events of the current bucket to `open`; events of a later turn of the wheel stay
    /// in its list.
    fn open_bucket(&mut self) {
        let place = self.place(self.bucket);
        let end_ms = (self.bucket + 1) * self.width_ms;
        let mut number = std::mem::replace(&mut self.heads[place], NONE);
        while number != NONE {
            let chunk = self.chunks[number as usize];
            self.chunks[number as usize].next = self.free;
            self.free = number;
            for event in &chunk.events[..chunk.length as usize] {
                if event.due_ms < end_ms {
                    self.open.push(*event);
                } else {
                    self.keep(place, *event);
                }
            }
            number = chunk.next;
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
                let event = Event { due_ms: now_ms + below(&mut random, 3_000) as i64, local };
                calendar.add(event);
                heap.push(Reverse(event));
            }
            for _ in 0..50_000 {
                let event = calendar.take().unwrap();
                assert_eq!(event, heap.pop().unwrap().0, "seed {seed}");
                now_ms = event.due_ms;
                let longest_ms = [2, 500, 5_000, 40_000][below(&mut random, 4)];
                let wait_ms = below(&mut random, longest_ms);
                let again = Event { due_ms: now_ms + wait_ms as i64, local: event.local };
                calendar.add(again);
                heap.push(Reverse(again));
            }
        }
    }

    #[test]
    fn an_empty_calendar_gives_nothing() {
        let mut calendar = Calendar::new(3, 10, 0);
        assert_eq!(calendar.take(), None);
        calendar.add(Event { due_ms: 5, local: 2 });
        assert_eq!(calendar.take(), Some(Event { due_ms: 5, local: 2 }));
        assert_eq!(calendar.take(), None);
    }
}
