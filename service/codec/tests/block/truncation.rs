//! Truncation and extension: every length but a
//! block's own is refused.

use shoal_testkit::seal::{BLOCK_BYTES, HEADER, seal, set};

use crate::sample::{EARTH, encode, full, plain, read};

#[test]
fn every_shorter_length_is_refused() {
    for columns in [plain(), full()] {
        let whole = encode(&columns, &EARTH, 1);
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
        }
        read(&whole).unwrap();
    }
}

#[test]
fn every_shorter_length_is_refused_when_the_header_agrees_with_it() {
    for columns in [plain(), full()] {
        let whole = encode(&columns, &EARTH, 1);
        for length in HEADER..whole.len() {
            let mut bytes = whole[..length].to_vec();
            set(&mut bytes, BLOCK_BYTES, (length as u64).to_le_bytes());
            seal(&mut bytes);
            assert!(read(&bytes).is_err(), "{length} of {} bytes", whole.len());
        }
    }
}

#[test]
fn bytes_after_the_end_are_refused() {
    let whole = encode(&full(), &EARTH, 1);
    for extra in [1, 63, 64, 128, 4096] {
        let mut bytes = whole.clone();
        bytes.resize(whole.len() + extra, 0);
        assert!(read(&bytes).is_err(), "{extra} bytes more");
        let length = bytes.len() as u64;
        set(&mut bytes, BLOCK_BYTES, length.to_le_bytes());
        seal(&mut bytes);
        assert!(read(&bytes).is_err(), "{extra} bytes more, stated");
    }
}
