//! Removal by age. Blocks of slots keep a lower bound on the event time of their records; a block
//! is scanned only when its bound is below the least time that does not expire; the scan makes the
//! bound exact.
//!
//! Updates only lower a bound, so a block is scanned about once per time to live, and there is no
//! queue.

use super::record::{EXPIRING, NO_OBJECT, UNTOUCHED};
use super::shard::{EXPIRY_BLOCK, Shard, ShardCycle};
use super::update::CellOperation;
use crate::stage::settle;

impl Shard {
    /// Removes records older than `cycle.time_min_ms`, listing their cell operations.
    pub(super) fn expire(&mut self, cycle: &ShardCycle<'_>, base: u32) {
        self.expired = 0;
        for block in 0..self.oldest_ms.len() {
            if self.oldest_ms[block] < cycle.time_min_ms {
                self.expire_block(cycle, base, block);
            }
        }
    }

    fn expire_block(&mut self, cycle: &ShardCycle<'_>, base: u32, block: usize) {
        let mut oldest_ms = i64::MAX;
        let first = block * EXPIRY_BLOCK;
        for slot in first..(first + EXPIRY_BLOCK).min(self.records.len()) {
            let record = self.records[slot];
            if record.object == NO_OBJECT {
                continue;
            }
            if settle::is_expired(cycle.time_min_ms, record.time_ms) {
                if record.touched != EXPIRING {
                    debug_assert_eq!(record.touched, UNTOUCHED, "expiry runs after the rows");
                    self.record_expiry(cycle, slot);
                }
                self.save(std::iter::once((slot as u32, true)));
                let delete = CellOperation::delete(base | slot as u32, record.x, record.y);
                self.list(cycle.grid.locate(record.x, record.y), delete);
                self.free_slot(slot as u32, cycle.hash.shard_and_hash(record.object).1);
                self.expired += 1;
            } else {
                oldest_ms = oldest_ms.min(record.time_ms);
            }
        }
        self.oldest_ms[block] = oldest_ms;
    }

    /// A lower bound on the event times of this shard; `None` without one.
    pub(super) fn oldest_bound_ms(&self) -> Option<i64> {
        self.oldest_ms.iter().copied().min().filter(|oldest| *oldest != i64::MAX)
    }
}
