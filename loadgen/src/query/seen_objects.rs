//! A bounded sample of recently sent object ids, for get queries. Ids of real data cannot be drawn
//! from a range.

use std::sync::{Mutex, PoisonError};

use crate::limits::SEEN_OBJECTS_MAX;

/// Minimum number of ids taken from each message; all of them if it has fewer, and never twice as
/// many.
const SAMPLES: usize = 8;

/// Recently sent ids of one connection.
#[derive(Debug, Default)]
pub struct SeenObjects(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    ids: Vec<u64>,
    next: usize,
}

impl SeenObjects {
    /// Samples ids of a message.
    pub fn add(&self, objects: impl ExactSizeIterator<Item = u64>) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let every = (objects.len() / SAMPLES).max(1);
        for object in objects.step_by(every) {
            let next = ring.next;
            if ring.ids.len() < SEEN_OBJECTS_MAX {
                ring.ids.push(object);
            } else {
                ring.ids[next] = object;
            }
            ring.next = (next + 1) % SEEN_OBJECTS_MAX;
        }
    }

    /// One of the sampled ids, selected by `draw`; an arbitrary id if none was sent.
    #[must_use]
    pub fn pick(&self, draw: u64) -> u64 {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match ring.ids.len() as u64 {
            0 => draw >> 1,
            count => ring.ids[(draw % count) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_remembered_and_memory_is_bounded() {
        let seen = SeenObjects::default();
        assert_eq!(seen.pick(8), 4);
        for message in 0..10_000 {
            let objects: Vec<u64> = (0..100).map(|index| message * 100 + index).collect();
            seen.add(objects.into_iter());
        }
        let ids = seen.0.lock().unwrap().ids.clone();
        assert_eq!(ids.len(), SEEN_OBJECTS_MAX);
        assert!(ids.iter().all(|id| *id > 900_000));
    }
}
