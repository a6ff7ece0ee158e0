//! Encodes rows as protobuf in one pass. The bytes are those that prost writes for a
//! `ReportRequest`, but no vector of messages is built, so that generators take less time from a
//! server on the same machine. A test decodes the bytes with prost.

use bytes::{BufMut, Bytes, BytesMut};
use shoal_workload::Fix;

use super::wire_fix::wire_heading;
use crate::names::{NAME_BYTES_MAX, name_bytes, write_name};

// Tags: field number * 8 + wire type (0 varint, 1 eight bytes, 2 length, 5 four bytes).
const REPORT_FLEET: u8 = 0x0a;
const REPORT_ROWS: u8 = 0x22;
const REPORT_BLOCK: u8 = 0x2a;
const REPORT_BLOCK_NAMES: u8 = 0x42;
const ROWS_FIXES: u8 = 0x0a;
const FIX_OBJECT: u8 = 0x09;
const FIX_TIME: u8 = 0x11;
const FIX_X: u8 = 0x19;
const FIX_Y: u8 = 0x21;
const FIX_SPEED: u8 = 0x2d;
const FIX_HEADING: u8 = 0x35;
const FIX_NAME: u8 = 0x4a;

/// Bytes of an integer or a double with its tag.
const LONG_BYTES: usize = 9;
/// Bytes of a float with its tag.
const FLOAT_BYTES: usize = 5;
/// Maximum bytes of a fix with its tag and length: object or name, time, position, two floats.
const FIX_BYTES_MAX: usize = 2 + 3 * LONG_BYTES + 2 * FLOAT_BYTES + 2 + NAME_BYTES_MAX;

/// Writes a whole `ReportRequest` of rows, with the names of the objects if `is_named`; `buffer`
/// keeps its allocation between calls.
pub fn write_rows(fleet: &str, fixes: &[Fix], is_named: bool, buffer: &mut BytesMut) -> Bytes {
    let rows_bytes: usize = fixes.iter().map(|fix| 2 + fix_bytes(fix, is_named)).sum();
    buffer.reserve(head_bytes_max(fleet) + rows_bytes);
    write_fleet(fleet, buffer);
    write_payload(REPORT_ROWS, rows_bytes, buffer);
    for fix in fixes {
        write_fix(fix, is_named, buffer);
    }
    buffer.split().freeze()
}

/// Writes the part of a `ReportRequest` that precedes the bytes of its block. `objects` are those
/// whose names the block refers to; none in a numeric fleet.
pub fn write_block_head(
    fleet: &str,
    objects: &[u64],
    block_bytes: usize,
    buffer: &mut BytesMut,
) -> Bytes {
    buffer.reserve(head_bytes_max(fleet) + objects.len() * (2 + NAME_BYTES_MAX));
    write_fleet(fleet, buffer);
    for object in objects {
        buffer.put_u8(REPORT_BLOCK_NAMES);
        write_length(name_bytes(*object), buffer);
        write_name(*object, buffer.writer()).expect("a buffer takes every byte");
    }
    write_payload(REPORT_BLOCK, block_bytes, buffer);
    buffer.split().freeze()
}

/// Maximum bytes of [`write_fleet`] and [`write_payload`]: tags, two lengths, the name.
fn head_bytes_max(fleet: &str) -> usize {
    2 + 2 * prost::length_delimiter_len(usize::MAX) + fleet.len()
}

fn write_fleet(fleet: &str, buffer: &mut BytesMut) {
    buffer.put_u8(REPORT_FLEET);
    write_length(fleet.len(), buffer);
    buffer.put_slice(fleet.as_bytes());
}

fn write_payload(payload: u8, payload_bytes: usize, buffer: &mut BytesMut) {
    buffer.put_u8(payload);
    write_length(payload_bytes, buffer);
}

fn write_length(length: usize, buffer: &mut BytesMut) {
    prost::encode_length_delimiter(length, buffer).expect("room was reserved");
}

/// Bytes of a fix without its own tag and length.
fn fix_bytes(fix: &Fix, is_named: bool) -> usize {
    let floats = usize::from(fix.speed_mps.is_some()) + usize::from(fix.heading_deg.is_some());
    let object = if is_named { 2 + name_bytes(fix.object) } else { LONG_BYTES };
    object + 3 * LONG_BYTES + floats * FLOAT_BYTES
}

/// Writes one fix: assembled on the stack, then copied once.
fn write_fix(fix: &Fix, is_named: bool, buffer: &mut BytesMut) {
    let mut row = [0; FIX_BYTES_MAX];
    row[0] = ROWS_FIXES;
    let mut end = 2;
    let mut put = |tag: u8, value: &[u8]| {
        row[end] = tag;
        row[end + 1..end + 1 + value.len()].copy_from_slice(value);
        end += 1 + value.len();
    };
    if !is_named {
        put(FIX_OBJECT, &fix.object.to_le_bytes());
    }
    put(FIX_TIME, &fix.time_ms.to_le_bytes());
    put(FIX_X, &fix.x.to_le_bytes());
    put(FIX_Y, &fix.y.to_le_bytes());
    if let Some(speed_mps) = fix.speed_mps {
        put(FIX_SPEED, &(speed_mps as f32).to_le_bytes());
    }
    if let Some(heading_deg) = fix.heading_deg {
        put(FIX_HEADING, &wire_heading(heading_deg).to_le_bytes());
    }
    if is_named {
        let bytes = name_bytes(fix.object);
        (row[end], row[end + 1]) = (FIX_NAME, bytes as u8);
        end += 2;
        write_name(fix.object, &mut row[end..]).expect("room for the longest name");
        end += bytes;
    }
    row[1] = (end - 2) as u8;
    buffer.put_slice(&row[..end]);
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use shoal_proto::v1::{ReportRequest, report_request::Payload};

    use super::*;
    use crate::limits::{MESSAGE_HEAD_BYTES_MAX, ROW_BYTES_MAX};
    use crate::names::name_of;

    #[test]
    fn prost_reads_what_was_written() {
        let fix = |object, speed_mps, heading_deg| Fix {
            object,
            time_ms: -5 + object as i64,
            x: -0.5 * object as f64,
            y: 1.0 / 3.0,
            speed_mps,
            heading_deg,
        };
        let fixes = [
            fix(0, None, None),
            fix(u64::MAX >> 1, Some(3.25), None),
            fix(2, None, Some(359.999)),
            fix(3, Some(0.0), Some(12.34)),
        ];
        let mut buffer = BytesMut::new();
        for is_named in [false, true, false] {
            let bytes = write_rows("fleet-1", &fixes, is_named, &mut buffer);
            assert!(bytes.len() <= fixes.len() * ROW_BYTES_MAX + MESSAGE_HEAD_BYTES_MAX);
            let request = ReportRequest::decode(bytes).unwrap();
            assert_eq!(request.fleet, "fleet-1");
            let Some(Payload::Rows(rows)) = request.payload else { panic!("not rows") };
            assert_eq!(rows.fixes.len(), fixes.len());
            for (got, sent) in rows.fixes.iter().zip(&fixes) {
                let name = name_of(sent.object);
                let object = if is_named { (0, name.as_str()) } else { (sent.object, "") };
                assert_eq!((got.object, got.name.as_str()), object);
                assert_eq!(got.time_ms, sent.time_ms);
                assert_eq!((got.x, got.y), (sent.x, sent.y));
                assert_eq!(got.speed_mps, sent.speed_mps.map(|speed| speed as f32));
                assert_eq!(got.heading_deg, sent.heading_deg.map(wire_heading));
                assert_eq!((got.altitude_m, got.state), (None, 0));
            }
        }
    }

    #[test]
    fn a_block_follows_its_head() {
        for objects in [&[][..], &[7, 0, u64::MAX - 1, u64::MAX]] {
            let mut bytes = write_block_head("f", objects, 300, &mut BytesMut::new()).to_vec();
            bytes.extend([9; 300]);
            let request = ReportRequest::decode(bytes.as_slice()).unwrap();
            assert_eq!(request.payload, Some(Payload::Block(vec![9; 300].into())));
            assert_eq!(request.fleet, "f");
            let names: Vec<String> = objects.iter().map(|object| name_of(*object)).collect();
            assert_eq!(request.block_names, names);
        }
    }

    #[test]
    fn no_rows_are_a_legal_message() {
        let bytes = write_rows("f", &[], true, &mut BytesMut::new());
        let request = ReportRequest::decode(bytes).unwrap();
        assert!(matches!(request.payload, Some(Payload::Rows(rows)) if rows.fixes.is_empty()));
    }
}
