//! Fuzz target of the block parser: mutated blocks with recomputed checksums.
//!
//! The reader may accept or refuse but must not panic; accepted blocks obey the header and the
//! budget. Every tenth mutant keeps its broken checksums and must be refused unless unchanged.

use bytes::Bytes;
use shoal_codec::{Block, Budget, FixColumns};
use shoal_testkit::{
    Bound, Random, fuzz_seed,
    seal::{COLUMNS, DIRECTORY_BYTES, HEADER, ROWS, seal, set},
};

use crate::sample::{EARTH, PLANE, encode, full, plain, random, read};

const BUDGET: Budget =
    Budget { rows_max: 400, bytes_max: 1 << 16, scratch_bytes_max: 0, text_bytes_max: 0 };

#[test]
fn fuzz_block_parser() {
    let mut chance = Random::new(fuzz_seed(31));
    let mut seeds: Vec<Vec<u8>> = [FixColumns::new(), plain(), full()]
        .iter()
        .flat_map(|columns| [encode(columns, &EARTH, 1), encode(columns, &PLANE, 2)])
        .collect();
    for rows in [1, 16, 33, 300] {
        let columns = random(&mut chance, rows);
        seeds.push(encode(&columns, &EARTH, rows as u64));
    }
    let (mut accepted, mut bound) = (0, Bound::new(50_000));
    while bound.goes_on() {
        let execution = bound.done();
        let whole = &seeds[chance.below(seeds.len())];
        let mut bytes = whole.clone();
        for _ in 0..=chance.below(4) {
            mutate(&mut chance, &mut bytes);
        }
        if execution % 10 == 0 {
            assert!(bytes == *whole || read(&bytes).is_err(), "execution {execution}");
            continue;
        }
        seal(&mut bytes);
        accepted += u64::from(judge(&mut chance, bytes, execution));
    }
    // Changed values inside the box and changed headers are legal; all others are refused.
    let executions = bound.done();
    assert!(accepted > executions / 100, "only {accepted} accepted: sealing does not work");
    assert!(accepted < executions * 9 / 10, "{accepted} accepted: checks do not work");
}

/// Reads a mutant and returns true if it is accepted. Fails if an accepted mutant does not obey its
/// header.
fn judge(chance: &mut Random, bytes: Vec<u8>, execution: u64) -> bool {
    let Ok(block) = Block::parse(Bytes::from(bytes), &BUDGET) else {
        return false;
    };
    let rows = block.rows();
    assert!(rows <= BUDGET.rows_max as usize, "execution {execution}");
    let start = chance.below(rows + 1);
    let end = start + chance.below(rows - start + 1);
    let mut part = FixColumns::new();
    let partly = block.decode_rows(start..end, &mut part);
    let Ok(columns) = block.decode() else {
        return false;
    };
    assert!(partly.is_ok() && part.len() == end - start, "execution {execution}");
    assert_eq!(columns.len(), rows, "execution {execution}");
    columns.check().expect("decoded columns are equally long");
    let header = block.header();
    for index in 0..rows {
        let row = columns.row(index);
        let inside = (header.time_min_ms()..=header.time_max_ms()).contains(&row.time_ms)
            && (header.x_min..=header.x_max).contains(&row.x)
            && (header.y_min..=header.y_max).contains(&row.y);
        assert!(inside, "execution {execution}: row {index} is outside");
    }
    true
}

/// Makes one change: of a bit, a byte or a field, or it cuts, extends or moves bytes.
fn mutate(chance: &mut Random, bytes: &mut Vec<u8>) {
    if bytes.len() < HEADER {
        bytes.push(chance.edgy() as u8);
        return;
    }
    let length = bytes.len();
    let directory = HEADER..length.min(HEADER + 448);
    let place = match chance.below(3) {
        0 => chance.below(HEADER),
        1 => directory.start + chance.below(directory.len() + 1),
        _ => chance.below(length),
    }
    .min(length - 1);
    match chance.below(10) {
        0 | 1 => bytes[place] ^= 1 << chance.below(8),
        2 => bytes[place] = chance.edgy() as u8,
        3 if place + 2 <= length => set(bytes, place, (chance.edgy() as u16).to_le_bytes()),
        4 if place + 4 <= length => set(bytes, place, (chance.edgy() as u32).to_le_bytes()),
        5 if place + 8 <= length => set(bytes, place, chance.edgy().to_le_bytes()),
        6 => bytes.truncate(place),
        7 => bytes.resize(length + chance.below(200), chance.edgy() as u8),
        8 => {
            let from = chance.below(length);
            let count = chance.below(64).min(length - from.max(place));
            bytes.copy_within(from..from + count, place);
        }
        _ => {
            let field = [ROWS, COLUMNS, DIRECTORY_BYTES, 32][chance.below(4)];
            bytes[field] = bytes[field].wrapping_add(chance.below(3) as u8).wrapping_sub(1);
        }
    }
}
