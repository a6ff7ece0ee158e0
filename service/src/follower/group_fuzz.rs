//! Fuzz target of the leader's stream: mutated groups with right checksums, in parts of any size,
//! and mutated messages. The assembly may accept or refuse a group; it must not panic, and what it
//! returns takes no more memory than the bytes that arrived justify.

use bytes::Bytes;
use prost::Message as _;
use shoal_codec::{Aim, BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::{Request, Space};
use shoal_position_log::{
    CycleHeader, Group, LoggedRequest, ObjectIds, ProducerBatch, RequestBody, checksum,
};
use shoal_proto::v1;
use shoal_proto::v1::follow_response::Kind;
use shoal_testkit::{Bound, Random, fuzz_seed};

use super::group_assembly::GroupAssembly;
use crate::fleet::FollowedCycle;
use crate::persistence::RowsEncoder;

/// Bytes of a raw row in the log.
const RAW_ROW_BYTES: usize = 40;

fn columns(chance: &mut Random, is_wide: bool) -> FixColumns {
    let mut columns = FixColumns::new();
    for object in 0..=chance.below(30_u64) {
        let time_ms = 1_700_000_000_000 + chance.below(9_000_i64);
        // The first time is too far from the others for a block, so the rows are stored raw.
        let time_ms = if is_wide && object == 0 { i64::MIN } else { time_ms };
        columns.push_row(FixRow::new(object, time_ms, chance.below(1 << 20), 7));
    }
    columns
}

/// The payload of a group with every kind of request.
fn payload(chance: &mut Random) -> Vec<u8> {
    let (space, aim) = (Space::geographic().tag(), Aim::ALL[chance.below(3)]);
    let mut group = Group::new();
    for epoch in 1..=1 + chance.below(4) as u64 {
        let rows = columns(chance, false);
        let mut block = Vec::new();
        CpuCodec.encode(&rows, &space, 1, &mut block).unwrap();
        let is_wide = chance.below(2) == 0;
        let rows = columns(chance, is_wide);
        let encoded = RowsEncoder::new(&CpuCodec, aim, space).encode(&rows);
        let batch = Some(ProducerBatch { producer: "producer", batch_seq: epoch });
        let objects = [epoch, 9];
        let request = |body, batch| LoggedRequest { body, batch };
        let requests = [
            request(RequestBody::Block(&block), batch),
            request(RequestBody::Rows(&encoded), None),
            request(RequestBody::Remove(ObjectIds::Ids(&objects)), batch),
            request(RequestBody::Clear, None),
            request(RequestBody::Rewind, None),
        ];
        let header = CycleHeader { epoch: 10 * epoch, system_ms: 1, time_max_ms: 2 };
        group.append(header, requests).unwrap();
    }
    group.payload().to_vec()
}

fn mutate(chance: &mut Random, bytes: &mut Vec<u8>) {
    let Some(last) = bytes.len().checked_sub(1) else { return };
    let place = chance.below(bytes.len());
    let put = |bytes: &mut Vec<u8>, place: usize, value: &[u8]| {
        for (byte, value) in bytes[place..].iter_mut().zip(value) {
            *byte = *value;
        }
    };
    match chance.below(7) {
        0 | 1 => bytes[place] ^= 1 << chance.below(8),
        2 => put(bytes, place & !3, &(chance.edgy() as u32).to_le_bytes()),
        3 | 4 => put(bytes, place & !7, &chance.edgy().to_le_bytes()),
        5 => bytes.truncate(place),
        _ => {
            let (from, count) = (chance.below(bytes.len()), chance.below(200));
            let count = count.min(last + 1 - from.max(place));
            bytes.copy_within(from..from + count, place);
        }
    }
}

/// Messages with a group in parts; sometimes a part is missing, or the checksum is another.
fn messages(chance: &mut Random, group: &[u8]) -> Vec<v1::FollowResponse> {
    let size = 1 + chance.below(group.len() + 1);
    let (count, mut crc) = (group.len().div_ceil(size), checksum(group));
    crc ^= u32::from(chance.below(20) == 0);
    let part = |(index, data): (usize, &[u8])| v1::GroupPart {
        data: Bytes::copy_from_slice(data),
        last: index + 1 == count,
        crc,
        term: 7,
        durable_epoch: 0,
    };
    let message = |part| v1::FollowResponse { kind: Some(Kind::Group(part)) };
    let mut messages: Vec<_> = group.chunks(size).enumerate().map(part).map(message).collect();
    if chance.below(20) == 0 && messages.len() > 1 {
        messages.remove(chance.below(count));
    }
    messages
}

/// Confirms that the memory of a cycle is bounded by the bytes of its record.
fn check(cycle: &FollowedCycle) {
    let bytes = cycle.encoded.len();
    assert!(cycle.requests.len() * 16 <= bytes && cycle.requests.len() == cycle.batches.len());
    let held = cycle.requests.iter().map(|request| match request {
        Request::Fixes(columns) => columns.len() * RAW_ROW_BYTES,
        Request::Block(block) => block.bytes().len(),
        Request::Remove(objects) => size_of_val(&objects[..]),
        Request::Clear | Request::Rewind => 0,
    });
    assert!(held.sum::<usize>() <= bytes);
}

#[test]
fn fuzz_groups() {
    let mut chance = Random::new(fuzz_seed(44));
    let groups: Vec<Vec<u8>> = (0..20).map(|_| payload(&mut chance)).collect();
    let (mut accepted, mut bound) = (0, Bound::new(20_000));
    while bound.goes_on() {
        let mut group = groups[chance.below(groups.len())].clone();
        for _ in 0..chance.below(4) {
            mutate(&mut chance, &mut group);
        }
        let mut assembly = GroupAssembly::default();
        let after_epoch = if chance.below(4) == 0 { chance.edgy() } else { 0 };
        let (mut received, mut returned, mut is_refused) = (0, 0, false);
        for message in messages(&mut chance, &group) {
            let mut bytes = message.encode_to_vec();
            if chance.below(20) == 0 {
                mutate(&mut chance, &mut bytes);
            }
            let Ok(message) = v1::FollowResponse::decode(&bytes[..]) else { continue };
            let Some(Kind::Group(part)) = message.kind else { continue };
            received += part.data.len();
            match assembly.add(&part, after_epoch) {
                Ok(cycles) => {
                    cycles.iter().for_each(check);
                    let epochs: Vec<u64> = cycles.iter().map(|it| it.header.epoch).collect();
                    assert!(epochs.is_sorted() && epochs.iter().all(|epoch| *epoch > after_epoch));
                    returned += cycles.iter().map(|cycle| cycle.encoded.len()).sum::<usize>();
                }
                Err(_) => {
                    is_refused = true;
                    break;
                }
            }
        }
        assert!(returned <= received, "{returned} bytes of {received}");
        accepted += u64::from(!is_refused && returned > 0);
    }
    let executions = bound.done();
    assert!(accepted > executions / 10, "only {accepted} accepted: checksums do not work");
    assert!(accepted < executions * 9 / 10, "{accepted} accepted: checks do not work");
}
