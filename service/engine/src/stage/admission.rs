//! Enforces the object limit of a fleet.
//!
//! One walk over a cycle in order of arrival counts the existing objects and refuses the rows that
//! would exceed the limit. The walk is sequential, so backends walk only cycles that may reach the
//! limit, and list only what can change the count.

use std::collections::HashMap;

use crate::layout::{ADMISSION_EXISTED, ADMISSION_REMOVAL, AdmissionRequest};

/// Whether a cycle with this number of rows may exceed the limit.
#[must_use]
pub fn may_exceed(objects: u64, rows: u64, objects_max: u64) -> bool {
    objects.saturating_add(rows) > objects_max
}

/// The arrivals of the rows that the limit refuses, ascending; `objects` exist at the start of the
/// cycle.
///
/// `admission_requests` ascend by arrival and hold every removal and every valid row. Rows that
/// arrive before the first clear may be omitted if their object existed at the start and the cycle
/// does not remove it. `clears` holds the arrivals before which a clear acts.
#[must_use]
pub fn refused(
    objects: u64,
    objects_max: u64,
    clears: &[u32],
    admission_requests: &[AdmissionRequest],
) -> Vec<u32> {
    debug_assert!(admission_requests.is_sorted_by_key(|it| it.arrival));
    let mut refused = Vec::new();
    let mut alive = objects;
    // By object, whether it exists now; only objects created or removed since the start or the
    // last clear.
    let mut changed: HashMap<u64, bool> = HashMap::new();
    let mut is_cleared = false;
    let mut clears = clears.iter().peekable();
    for AdmissionRequest { object, arrival, flags } in admission_requests {
        while clears.next_if(|clear| *clear <= arrival).is_some() {
            changed.clear();
            is_cleared = true;
            alive = 0;
        }
        let existed = flags & ADMISSION_EXISTED != 0 && !is_cleared;
        let exists = changed.get(object).copied().unwrap_or(existed);
        let is_removal = flags & ADMISSION_REMOVAL != 0;
        if exists == is_removal {
            if is_removal {
                alive -= 1;
            } else if alive < objects_max {
                alive += 1;
            } else {
                refused.push(*arrival);
                continue;
            }
            changed.insert(*object, !is_removal);
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: u32 = 0;
    const OLD: u32 = ADMISSION_EXISTED;
    const REMOVED: u32 = ADMISSION_REMOVAL;

    /// Runs [`refused`] on requests with these objects and flags, one per arrival.
    fn walk(objects: u64, objects_max: u64, clears: &[u32], acts: &[(u64, u32)]) -> Vec<u32> {
        let admission_request = |(arrival, (object, flags)): (u32, &(u64, u32))| AdmissionRequest {
            object: *object,
            arrival,
            flags: *flags,
        };
        let admission_requests: Vec<AdmissionRequest> =
            (0..).zip(acts).map(admission_request).collect();
        refused(objects, objects_max, clears, &admission_requests)
    }

    #[test]
    fn only_cycles_that_may_exceed_the_limit_are_walked() {
        assert!(!may_exceed(0, 0, 0));
        assert!(may_exceed(0, 1, 0));
        assert!(!may_exceed(7, 3, 10));
        assert!(may_exceed(7, 4, 10));
        assert!(may_exceed(11, 0, 10));
        assert!(!may_exceed(u64::MAX, 1, u64::MAX));
    }

    #[test]
    fn the_first_arrivals_are_admitted() {
        let acts = [(5, NEW), (3, NEW), (5, NEW), (4, NEW), (3, NEW), (4, NEW), (5, NEW)];
        assert_eq!(walk(8, 10, &[], &acts), [3, 5]);
        assert_eq!(walk(8, 11, &[], &acts), []);
        assert_eq!(walk(9, 10, &[], &acts), [1, 3, 4, 5]);
        assert_eq!(walk(10, 10, &[], &acts), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(walk(0, 0, &[], &acts[..1]), [0]);
        assert_eq!(walk(0, 0, &[], &[]), []);
    }

    #[test]
    fn a_removal_frees_one_place_for_later_arrivals() {
        let removed = OLD | REMOVED;
        let acts = [(3, NEW), (1, removed), (1, removed), (3, NEW), (4, NEW), (1, OLD)];
        assert_eq!(walk(2, 2, &[], &acts), [0, 4, 5]);
        // Removing an object created in the cycle frees capacity; removing a refused one does not.
        let acts = [(3, NEW), (4, NEW), (4, REMOVED), (3, REMOVED), (5, NEW), (3, NEW)];
        assert_eq!(walk(1, 2, &[], &acts), [1, 5]);
        // A row of an existing object takes no capacity unless a removal precedes it.
        let acts = [(1, OLD), (1, removed), (1, OLD), (2, NEW)];
        assert_eq!(walk(1, 1, &[], &acts), [3]);
    }

    #[test]
    fn a_clear_frees_all_places_for_later_arrivals() {
        let acts = [(1, OLD), (3, NEW), (1, OLD), (2, OLD), (3, NEW), (3, REMOVED), (2, OLD)];
        assert_eq!(walk(2, 2, &[2], &acts), [1, 4]);
        assert_eq!(walk(2, 2, &[0], &acts), [3]);
        // Two clears at one arrival are one; a clear after everything has no effect.
        assert_eq!(walk(2, 2, &[2, 2, 7], &acts), [1, 4]);
        let acts = [(1, OLD), (1, OLD | REMOVED), (2, OLD), (3, NEW)];
        assert_eq!(walk(2, 1, &[0, 1], &acts), [3]);
    }
}
