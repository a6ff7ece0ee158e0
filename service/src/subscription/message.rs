//! How do snapshots and events look on the wire?
//!
//! Written straight from the engine's lists into `SubscribeResponse`, once for every session: ids
//! are copied as they lie, kinds are the same numbers on both sides. A message is filled to the
//! target of a chunk; its number and token come last, so that nothing is copied to add them.

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use shoal_codec::FixRow;
use shoal_engine::{RegionEvents, Space};
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;

use super::handle::SessionHandle;
use crate::limits::CHUNK_BYTES_TARGET;
use crate::rpc::records::{RECORD_BYTES_MAX, record};

/// Field of `SubscribeResponse`, and those inside it.
const SNAPSHOT: u32 = 6;
const EVENTS: u32 = 7;
const EPOCH: u32 = 1;
const CLOCK_MS: u32 = 2;
const REGIONS: u32 = 3;
const REGION_ID: u32 = 1;
/// Fields of `RegionEvents`: ids, kinds, records.
const OF_EVENTS: (u32, u32, u32) = (2, 3, 4);
/// Fields of `RegionMembers`: total, first, last, ids, records.
const OF_MEMBERS: (u32, u32, u32, u32, u32) = (2, 3, 4, 5, 6);
/// Encoded bytes of a piece of a region beside its rows at most: keys, lengths, id, total, flags.
const PIECE_BYTES: usize = 48;

/// An epoch and the fleet's clock at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) epoch: u64,
    pub(crate) clock_ms: i64,
}

/// The field `kind` of a message, encoded.
pub(super) type Body = Vec<u8>;

/// Writes the events or the snapshots of one epoch for one session.
pub(super) struct BodyWriter<'a> {
    space: &'a Space,
    told: Told,
    field: u32,
    content: Vec<u8>,
    records: Vec<u8>,
    bodies: Vec<Body>,
}

impl<'a> BodyWriter<'a> {
    pub(super) fn events(space: &'a Space, told: Told) -> Self {
        Self::new(space, told, EVENTS)
    }

    pub(super) fn snapshots(space: &'a Space, told: Told) -> Self {
        Self::new(space, told, SNAPSHOT)
    }

    fn new(space: &'a Space, told: Told, field: u32) -> Self {
        let (content, records, bodies) = (Vec::new(), Vec::new(), Vec::new());
        Self { space, told, field, content, records, bodies }
    }

    /// Rows that fit what is left of this message; starts another when that is little.
    fn room_rows(&mut self, row_bytes: usize) -> usize {
        let needed = PIECE_BYTES + row_bytes.min(CHUNK_BYTES_TARGET / 64);
        if self.content.len() + needed > CHUNK_BYTES_TARGET {
            self.flush();
        }
        let room = CHUNK_BYTES_TARGET - self.content.len() - PIECE_BYTES;
        (room / row_bytes).max(1)
    }

    /// Adds the events of a region.
    pub(super) fn add_events(&mut self, region_id: u64, events: &RegionEvents<'_>) {
        let (objects, kinds) = (events.objects, events.kinds.as_bytes());
        let row_bytes = row_bytes(!events.fixes.is_empty()) + 1;
        let mut from = 0;
        while from < objects.len() {
            let to = objects.len().min(from + self.room_rows(row_bytes));
            self.write_records(OF_EVENTS.2, events.fixes.get(from..to).unwrap_or_default());
            let length = region_id_len(region_id)
                + list_len(8 * (to - from))
                + list_len(to - from)
                + self.records.len();
            self.begin_piece(length, region_id);
            write_objects(&mut self.content, OF_EVENTS.0, &objects[from..to]);
            write_bytes(&mut self.content, OF_EVENTS.1, &kinds[from..to]);
            self.content.append(&mut self.records);
            from = to;
        }
    }

    /// Adds members `from..to` of a snapshot.
    fn add_piece(&mut self, region_id: u64, members: &RegionEvents<'_>, from: usize, to: usize) {
        let (total, last) = (members.objects.len() as u64, to == members.objects.len());
        self.write_records(OF_MEMBERS.4, members.fixes.get(from..to).unwrap_or_default());
        let length = region_id_len(region_id)
            + varint_len(total)
            + varint_len(u64::from(from == 0))
            + varint_len(u64::from(last))
            + if from < to { list_len(8 * (to - from)) } else { 0 }
            + self.records.len();
        self.begin_piece(length, region_id);
        write_varint(&mut self.content, OF_MEMBERS.0, total);
        write_varint(&mut self.content, OF_MEMBERS.1, u64::from(from == 0));
        write_varint(&mut self.content, OF_MEMBERS.2, u64::from(last));
        if from < to {
            write_objects(&mut self.content, OF_MEMBERS.3, &members.objects[from..to]);
        }
        self.content.append(&mut self.records);
    }

    /// Adds all members of a region, of which there may be none.
    pub(super) fn add_members(&mut self, region_id: u64, members: &RegionEvents<'_>) {
        let row_bytes = row_bytes(!members.fixes.is_empty());
        let mut from = 0;
        loop {
            let to = members.objects.len().min(from + self.room_rows(row_bytes));
            self.add_piece(region_id, members, from, to);
            from = to;
            if from == members.objects.len() {
                return;
            }
        }
    }

    fn begin_piece(&mut self, length: usize, region_id: u64) {
        encode_key(REGIONS, WireType::LengthDelimited, &mut self.content);
        encode_varint(length as u64, &mut self.content);
        write_varint(&mut self.content, REGION_ID, region_id);
    }

    fn write_records(&mut self, field: u32, fixes: &[FixRow]) {
        for row in fixes {
            let record = record(self.space, row);
            encode_key(field, WireType::LengthDelimited, &mut self.records);
            encode_varint(record.encoded_len() as u64, &mut self.records);
            record.encode_raw(&mut self.records);
        }
    }

    fn flush(&mut self) {
        let (epoch, clock_ms) = (self.told.epoch, self.told.clock_ms as u64);
        let length = varint_len(epoch) + varint_len(clock_ms) + self.content.len();
        // Room for what `seal` adds.
        let mut body = Vec::with_capacity(length + 96);
        encode_key(self.field, WireType::LengthDelimited, &mut body);
        encode_varint(length as u64, &mut body);
        write_varint(&mut body, EPOCH, epoch);
        write_varint(&mut body, CLOCK_MS, clock_ms);
        body.append(&mut self.content);
        self.bodies.push(body);
    }

    /// The bodies of all messages.
    pub(super) fn finish(mut self) -> Vec<Body> {
        if !self.content.is_empty() {
            self.flush();
        }
        self.bodies
    }
}

/// Members of a snapshot that fit one message.
pub(super) fn members_at_once(with_fixes: bool) -> usize {
    (CHUNK_BYTES_TARGET - PIECE_BYTES) / row_bytes(with_fixes)
}

/// A message of members `from..to` of one region.
pub(super) fn members_body(
    space: &Space,
    told: Told,
    region_id: u64,
    members: &RegionEvents<'_>,
    (from, to): (usize, usize),
) -> Body {
    let mut writer = BodyWriter::snapshots(space, told);
    writer.add_piece(region_id, members, from, to);
    writer.finish().pop().unwrap_or_default()
}

/// Encoded bytes of a member at most.
pub(super) fn row_bytes(with_fixes: bool) -> usize {
    8 + if with_fixes { RECORD_BYTES_MAX } else { 0 }
}

/// The body of any kind of message.
pub(super) fn body(kind: Kind) -> Body {
    v1::SubscribeResponse { kind: Some(kind), ..Default::default() }.encode_to_vec()
}

/// Completes a numbered message.
pub(super) fn seal(
    mut body: Body,
    handle: &SessionHandle,
    (first_sequence, last_sequence): (u64, u64),
    epoch_done: bool,
) -> Bytes {
    let resume_token = handle.token(last_sequence).to_vec();
    let head = v1::SubscribeResponse {
        first_sequence,
        last_sequence,
        resume_token,
        epoch_done,
        kind: None,
    };
    // Not twice as much: this is what a session is said to hold.
    body.reserve_exact(head.encoded_len());
    head.encode_raw(&mut body);
    body.into()
}

/// A message that has no number; the stream stands after `sequence`.
pub(crate) fn unnumbered(handle: &SessionHandle, sequence: u64, kind: Kind) -> Bytes {
    let epoch_done = matches!(kind, Kind::Progress(_));
    let resume_token = handle.token(sequence).to_vec();
    let kind = Some(kind);
    v1::SubscribeResponse { resume_token, epoch_done, kind, ..Default::default() }
        .encode_to_vec()
        .into()
}

fn region_id_len(region_id: u64) -> usize {
    varint_len(region_id)
}

/// Encoded bytes of a number with its key; zeros are left out.
fn varint_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + encoded_len_varint(value) }
}

/// Encoded bytes of a list with its key.
fn list_len(bytes: usize) -> usize {
    1 + encoded_len_varint(bytes as u64) + bytes
}

fn write_varint(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        encode_key(field, WireType::Varint, out);
        encode_varint(value, out);
    }
}

fn write_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_objects(out: &mut Vec<u8>, field: u32, objects: &[u64]) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(8 * objects.len() as u64, out);
    out.reserve(8 * objects.len());
    objects.iter().for_each(|object| out.extend_from_slice(&object.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use shoal_engine::{EventHead, EventKind, EventSet, RegionId};

    use super::*;

    fn set(rows: usize, with_fixes: bool) -> EventSet {
        let objects: Vec<u64> = (0..rows as u64).map(|row| row << 40 | 7).collect();
        let kinds = (0..rows).map(|row| EventKind::ALL[1 + row % 9] as u8).collect();
        let fix = |object: &u64| FixRow { state: 9, ..FixRow::new(*object, 5, -7, 8) };
        let fixes: Vec<FixRow> =
            if with_fixes { objects.iter().map(fix).collect() } else { Vec::new() };
        let head = EventHead {
            region: RegionId(1),
            events: (0, rows),
            fixes: (0, fixes.len()),
            ..EventHead::default()
        };
        EventSet::new(vec![head], objects, kinds, fixes)
    }

    fn decode(bodies: Vec<Body>) -> Vec<v1::SubscribeResponse> {
        let handle = SessionHandle::draw(1, 2).unwrap();
        let sealed = bodies.into_iter().map(|body| seal(body, &handle, (3, 4), true));
        let decoded = sealed.map(|bytes| {
            assert!(bytes.len() <= crate::limits::CHUNK_BYTES_MAX, "{} bytes", bytes.len());
            let message = v1::SubscribeResponse::decode(bytes).unwrap();
            assert_eq!(message.resume_token, handle.token(4));
            assert_eq!((message.first_sequence, message.last_sequence), (3, 4));
            assert!(message.epoch_done);
            message
        });
        decoded.collect()
    }

    const TOLD: Told = Told { epoch: 300, clock_ms: -5 };

    #[test]
    fn events_read_back_whatever_their_number() {
        let space = Space::geographic();
        for (rows, with_fixes) in [(1, false), (3, true), (70_000, false), (9_000, true)] {
            let set = set(rows, with_fixes);
            let mut writer = BodyWriter::events(&space, TOLD);
            for region_id in [0, 77] {
                writer.add_events(region_id, &set.get(0));
            }
            let (mut found, mut fixes) = ([Vec::new(), Vec::new()], 0);
            for message in decode(writer.finish()) {
                let Some(Kind::Events(batch)) = message.kind else { panic!("{message:?}") };
                assert_eq!((batch.epoch, batch.clock_ms), (300, -5));
                for of in batch.regions {
                    assert_eq!(of.objects.len(), of.kinds.len());
                    fixes += of.fixes.len();
                    let pairs = of.objects.into_iter().zip(of.kinds);
                    found[usize::from(of.region_id == 77)].extend(pairs);
                }
            }
            let expected: Vec<(u64, i32)> =
                set.get(0).iter().map(|(object, kind, _)| (object, kind as i32)).collect();
            assert_eq!(found, [expected.clone(), expected], "{rows} rows");
            assert_eq!(fixes, if with_fixes { 2 * rows } else { 0 });
        }
    }

    #[test]
    fn snapshots_say_where_they_begin_and_end() {
        let space = Space::geographic();
        for (rows, with_fixes) in [(0, false), (1, true), (100_000, false), (9_000, true)] {
            let set = set(rows, with_fixes);
            let mut writer = BodyWriter::snapshots(&space, TOLD);
            writer.add_members(5, &set.get(0));
            let mut pieces = Vec::new();
            for message in decode(writer.finish()) {
                let Some(Kind::Snapshot(chunk)) = message.kind else { panic!("{message:?}") };
                pieces.extend(chunk.regions);
            }
            assert!(pieces[0].first && pieces[pieces.len() - 1].last);
            assert_eq!(pieces.iter().filter(|piece| piece.first || piece.last).count(), {
                pieces.len().min(2)
            });
            assert!(pieces.iter().all(|piece| piece.total == rows as u64 && piece.region_id == 5));
            let objects: Vec<u64> =
                pieces.iter().flat_map(|piece| piece.objects.iter().copied()).collect();
            assert_eq!(objects, set.get(0).objects);
            let fixes: Vec<_> = pieces.iter().flat_map(|piece| &piece.fixes).collect();
            assert_eq!(fixes.len(), if with_fixes { rows } else { 0 });
            assert!(fixes.iter().all(|fix| (fix.time_ms, fix.state) == (5, 9)));
        }
    }

    #[test]
    fn kinds_have_the_same_numbers_on_both_sides() {
        use v1::EventKind as Wire;
        let wire = [
            Wire::Unspecified,
            Wire::Enter,
            Wire::Move,
            Wire::Cross,
            Wire::Left,
            Wire::Removed,
            Wire::Expired,
            Wire::Filtered,
            Wire::RegionChanged,
            Wire::Cleared,
        ];
        for (kind, wire) in EventKind::ALL.into_iter().zip(wire) {
            assert_eq!(kind as i32, wire as i32);
        }
    }
}
