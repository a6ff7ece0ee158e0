//! A file of the simulated disk: what the program sees, and what a crash may leave of it.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::limits::SECTOR_BYTES;

/// A seeded source of numbers.
#[derive(Debug)]
pub(super) struct Chance(SplitMix64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::from_seed(seed.to_le_bytes()))
    }

    pub(super) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }
}

/// A write that is not synced.
#[derive(Clone, Debug)]
struct PendingWrite {
    offset: usize,
    bytes: Vec<u8>,
}

/// Contents of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct SimulatedFile {
    /// What reads return.
    pub(super) seen: Vec<u8>,
    /// What is durable on the disk.
    durable: Vec<u8>,
    pending: Vec<PendingWrite>,
}

fn store(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    if bytes.len() < offset + new.len() {
        bytes.resize(offset + new.len(), 0);
    }
    bytes[offset..offset + new.len()].copy_from_slice(new);
}

impl SimulatedFile {
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        store(&mut self.seen, offset, bytes);
        self.pending.push(PendingWrite { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn sync(&mut self) {
        for write in self.pending.drain(..) {
            store(&mut self.durable, write.offset, &write.bytes);
        }
    }

    /// Simulates a failed sync: each write is durable, durable in part or lost, no later sync
    /// writes it again, and reads return the content of the disk.
    pub(super) fn fail_sync(&mut self, chance: &mut Chance) {
        for write in std::mem::take(&mut self.pending) {
            if chance.below(2) == 0 {
                keep_part(&mut self.durable, &write, chance);
            }
        }
        self.seen.clone_from(&self.durable);
    }

    /// Changes a bit on the disk.
    pub(super) fn flip(&mut self, bit: usize) {
        self.seen[bit / 8] ^= 1 << (bit % 8);
        if let Some(byte) = self.durable.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Simulates a crash: keeps a part of each write that is not synced.
    pub(super) fn crash(&mut self, chance: &mut Chance) {
        for write in std::mem::take(&mut self.pending) {
            keep_part(&mut self.durable, &write, chance);
        }
        self.seen.clone_from(&self.durable);
    }
}

/// Applies a part of a write: all sectors, none, the first ones, or each sector as old, new, zeros
/// or garbage.
fn keep_part(durable: &mut Vec<u8>, write: &PendingWrite, chance: &mut Chance) {
    let sectors = write.bytes.len() / SECTOR_BYTES;
    let front = chance.below(sectors as u64 + 1) as usize;
    match chance.below(5) {
        0 => store(durable, write.offset, &write.bytes),
        1 => {}
        2 => store(durable, write.offset, &write.bytes[..front * SECTOR_BYTES]),
        mode => {
            for (index, new) in write.bytes.chunks(SECTOR_BYTES).enumerate() {
                let offset = write.offset + index * SECTOR_BYTES;
                // In mode 3 a quarter of the sectors is new; in mode 4 nearly all are.
                match chance.below(if mode == 3 { 4 } else { 40 }) {
                    0 => {}
                    1 => store(durable, offset, &[0; SECTOR_BYTES][..new.len()]),
                    2 => {
                        let garbage: Vec<u8> = new.iter().map(|_| chance.word() as u8).collect();
                        store(durable, offset, &garbage);
                    }
                    _ => store(durable, offset, new),
                }
            }
        }
    }
}
