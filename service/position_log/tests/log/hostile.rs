//! Clients' bytes that look like parts of a log, and bytes of earlier groups.

use shoal_position_log::{Group, ReadMode};
use shoal_testkit::Random;

use crate::built::Built;
use crate::sample::{OwnedBody, OwnedCycle, OwnedRequest, cycle, open, options};
use crate::seal::set;

const PAGE: usize = 4096;

/// A frame header as a client can make it: everything but the salt is right.
fn forged(sequence: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    set(&mut page, 0, b"\x89SHFRM\r\n");
    page[8] = 1;
    for (at, value) in [(16, 1), (24, 0), (32, sequence), (40, sequence - 1), (56, 1), (64, 900)] {
        set(&mut page, at, &u64::to_le_bytes(value));
    }
    let crc = crc32c::crc32c(&page[..124]).to_le_bytes();
    set(&mut page, 124, &crc);
    page
}

#[test]
fn a_client_cannot_forge_a_statement_of_what_was_synced() {
    let built = Built::new(1, 1, 100, false);
    let mut log = open(&built.storage, options(64 << 10), 2).unwrap();
    // Pages of the block lie at pages of the segment.
    let mut block = vec![0; PAGE - 128 - 40 - 16];
    (0..8).for_each(|_| block.extend(forged(1_000)));
    let epoch = built.cycles.len() as u64 + 1;
    let header = cycle(&mut Random::new(1), epoch, 2).header;
    let request = OwnedRequest { body: OwnedBody::Block(block), batch: None };
    let mut group = Group::new();
    OwnedCycle { header, requests: vec![request], outcome: None, names: None }
        .append_to(&mut group);
    let start = log.written().offset as usize;
    let end = log.write(&mut group).unwrap();
    drop(log);
    let path = built.segments().pop().unwrap();
    let mut bytes = built.disk.bytes(&path).unwrap();
    let start = if end.offset as usize > start { start } else { PAGE };
    assert_eq!(bytes[start + PAGE..start + 2 * PAGE], forged(1_000), "the pages are aligned");
    // The header of the client's frame did not reach the disk.
    bytes[start..start + PAGE].fill(0);
    built.disk.put(&path, &bytes);
    let outcome = built.read(ReadMode::Recover);
    assert_eq!(outcome.cycles, built.cycles.len());
    assert_eq!(outcome.end.unwrap().end().epoch, epoch - 1);
}

#[test]
fn bytes_of_an_earlier_group_do_not_reach_the_disk() {
    let built = Built::new(1, 0, 1, false);
    let mut log = open(&built.storage, options(64 << 10), 2).unwrap();
    let mut group = Group::new();
    for (epoch, bytes) in [(1, 3_000), (2, 10)] {
        let header = cycle(&mut Random::new(1), epoch, 2).header;
        let request = OwnedRequest { body: OwnedBody::Block(vec![7; bytes]), batch: None };
        OwnedCycle { header, requests: vec![request], outcome: None, names: None }
            .append_to(&mut group);
        log.write(&mut group).unwrap();
    }
    let end = log.written().offset as usize;
    let bytes = built.disk.bytes(&built.segments().pop().unwrap()).unwrap();
    assert_eq!(bytes[end - PAGE + 200..end].iter().position(|byte| *byte != 0), None);
}
