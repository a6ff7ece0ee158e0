//! Rewriting base time and sequence of
//! a prepared block.

use shoal_codec::{BlockError, FixColumns, rewrite_prepared};

use crate::sample::{EARTH, TIME_MS, encode, full, parse, plain, read};

#[test]
fn times_shift_and_nothing_else_changes() {
    let columns = full();
    let before = encode(&columns, &EARTH, 1);
    let mut bytes = before.clone();
    rewrite_prepared(&mut bytes, TIME_MS + 777, 99).unwrap();
    let block = parse(&bytes).unwrap();
    assert_eq!(block.header().sequence, 99);
    let mut expected = columns;
    expected.time_ms.iter_mut().for_each(|time_ms| *time_ms += 777);
    assert_eq!(block.decode().unwrap(), expected);
    assert_eq!(bytes, encode(&expected, &EARTH, 99));
    let changed = before.iter().zip(&bytes).enumerate().filter(|(_, (a, b))| a != b);
    for (index, _) in changed {
        assert!((40..56).contains(&index) || (124..128).contains(&index), "byte {index}");
    }
}

#[test]
fn a_base_beyond_time_is_refused_and_changes_nothing() {
    let before = encode(&full(), &EARTH, 1);
    let mut bytes = before.clone();
    let limit = i64::MAX - i64::from(u32::MAX);
    let error = rewrite_prepared(&mut bytes, limit + 1, 2).unwrap_err();
    assert!(matches!(error, BlockError::TimeOverflow { offset_ms: u32::MAX, .. }), "{error}");
    assert_eq!(bytes, before);
    rewrite_prepared(&mut bytes, limit, 2).unwrap();
    assert_eq!(*read(&bytes).unwrap().time_ms.last().unwrap(), i64::MAX);
    rewrite_prepared(&mut bytes, i64::MIN, 2).unwrap();
    assert_eq!(*read(&bytes).unwrap().time_ms.iter().min().unwrap(), i64::MIN);
}

#[test]
fn an_empty_block_can_be_rewritten() {
    let mut bytes = encode(&FixColumns::new(), &EARTH, 1);
    rewrite_prepared(&mut bytes, i64::MAX, 2).unwrap();
    assert!(read(&bytes).unwrap().is_empty());
}

#[test]
fn only_whole_blocks_are_rewritten() {
    let whole = encode(&plain(), &EARTH, 1);
    for length in 0..whole.len() {
        assert!(rewrite_prepared(&mut whole[..length].to_vec(), 0, 0).is_err(), "{length}");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(rewrite_prepared(&mut longer, 0, 0).is_err());
    for bit in 0..128 * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(rewrite_prepared(&mut bytes, 0, 0).is_err(), "header bit {bit}");
    }
}
