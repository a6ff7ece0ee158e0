//! Lists the rows of a cycle that may exceed the object limit for [`crate::stage::admission`],
//! shard by shard.
//!
//! Runs between routing and settling, only in cycles that may exceed the limit; shards are only
//! read, as they are at the start of the cycle.

use std::collections::HashSet;

use super::dispatch::Lane;
use super::parallel;
use super::shard::{GROUP, SHARDS, Shard};
use crate::layout::{ADMISSION_EXISTED, ADMISSION_REMOVAL, AdmissionRequest};

/// All admission requests of the cycle, ascending by arrival; `size` is the number of routed rows.
pub(super) fn admission_requests(
    shards: &[Shard],
    lanes: &[Lane],
    size: usize,
) -> Vec<AdmissionRequest> {
    let mut found = vec![Vec::new(); SHARDS];
    parallel::for_each_mut(&mut found, size, |number, found| {
        list(&shards[number], lanes, number, found);
    });
    let mut admission_requests = found.concat();
    parallel::sort(&mut admission_requests, |it| it.arrival);
    admission_requests
}

/// Lists the admission requests of shard `number`: removals, and rows whose object may not exist.
fn list(shard: &Shard, lanes: &[Lane], number: usize, found: &mut Vec<AdmissionRequest>) {
    let rows = lanes.iter().flat_map(|lane| &lane.routed[number]);
    let removed: HashSet<u64> = rows.filter(|row| row.is_removal()).map(|row| row.object).collect();
    let mut is_cleared = false;
    for lane in lanes {
        is_cleared |= lane.clear.is_some();
        for group in lane.routed[number].chunks(GROUP) {
            shard.prefetch_group(group);
            for row in group {
                let existed = shard.find(row.hash, row.object).is_some();
                if existed && !is_cleared && !removed.contains(&row.object) {
                    continue;
                }
                let mut flags = if existed { ADMISSION_EXISTED } else { 0 };
                if row.is_removal() {
                    flags |= ADMISSION_REMOVAL;
                }
                found.push(AdmissionRequest { object: row.object, arrival: row.arrival(), flags });
            }
        }
    }
}
