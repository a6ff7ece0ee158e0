//! Removal by age. Blocks of slots keep a lower bound on the deadlines of their records; a block is
//! scanned only when the clock has passed its bound; the scan makes the bound exact.
//!
//! Updates only lower a bound, so a block is scanned about once per time to live (the shortest of
//! its records), and there is no queue.

use shoal_codec::deadline_ms;

use super::record::{EXPIRING, NO_OBJECT, UNTOUCHED};
use super::shard::{EXPIRY_BLOCK, Shard, ShardCycle};
use super::update::CellOperation;
use crate::stage::settle;

impl Shard {
    /// Removes the records that have expired, listing their cell operations.
    pub(super) fn expire(&mut self, cycle: &ShardCycle<'_>, base: u32) {
        self.expired = 0;
        for block in 0..self.deadlines_ms.len() {
            if self.deadlines_ms[block] < cycle.clock_ms {
                self.expire_block(cycle, base, block);
            }
        }
    }

    fn expire_block(&mut self, cycle: &ShardCycle<'_>, base: u32, block: usize) {
        let mut earliest_ms = i64::MAX;
        let first = block * EXPIRY_BLOCK;
        for slot in first..(first + EXPIRY_BLOCK).min(self.records.len()) {
            let record = self.records[slot];
            if record.object == NO_OBJECT {
                continue;
            }
            let deadline_ms = self.deadline_ms(cycle.ttl_ms, slot);
            if deadline_ms < cycle.clock_ms {
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
                earliest_ms = earliest_ms.min(deadline_ms);
            }
        }
        self.deadlines_ms[block] = earliest_ms;
    }

    /// The deadline of a record.
    pub(super) fn deadline_ms(&self, ttl_ms: Option<i64>, slot: usize) -> i64 {
        let valid_ms = self.attributes_of(slot).valid_ms;
        deadline_ms(self.records[slot].time_ms, valid_ms, ttl_ms)
    }

    /// The earliest clock at which a record of this shard may have expired; `None` if none does.
    pub(super) fn expiry_due_ms(&self) -> Option<i64> {
        self.deadlines_ms.iter().copied().min().and_then(settle::due_ms)
    }
}
