//! Corruption: any flipped bit or overwritten byte of
//! a small block is detected.

use crate::sample::{EARTH, PLANE, encode, full, plain, read};
use shoal_codec::FixColumns;

#[test]
fn every_flipped_bit_is_detected() {
    for columns in [FixColumns::new(), plain(), full()] {
        for space in [EARTH, PLANE] {
            let whole = encode(&columns, &space, 9);
            let mut bytes = whole.clone();
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    read(&bytes).is_err(),
                    "bit {bit} of {} flipped undetected",
                    bytes.len() * 8
                );
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(bytes, whole);
        }
    }
}

#[test]
fn every_overwritten_byte_is_detected() {
    let whole = encode(&full(), &EARTH, 9);
    let mut bytes = whole.clone();
    for index in 0..bytes.len() {
        for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            bytes[index] = value;
            let expected = value == whole[index];
            assert_eq!(read(&bytes).is_ok(), expected, "byte {index} set to {value:#04x}");
        }
        bytes[index] = whole[index];
    }
}

#[test]
fn the_error_names_chunk_and_offset_of_a_damaged_payload() {
    let mut bytes = encode(&full(), &EARTH, 9);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let message = read(&bytes).unwrap_err().to_string();
    let offset = (last / 64 * 64).to_string();
    assert!(message.contains("chunk 7") && message.contains(&offset), "{message}");
}
