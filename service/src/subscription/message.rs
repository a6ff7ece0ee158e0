//! Encodes snapshots and events as `SubscribeResponse`.
//!
//! Messages are written directly from columns: ids are copied unchanged, and event kinds have the
//! same numbers in the engine and on the wire. Snapshot messages are filled to the target size of a
//! chunk. The numbers and the token are appended last, so that nothing is copied to add them.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use shoal_codec::FixRow;
use shoal_engine::{RegionEvents, Space};
use shoal_proto::fields::{
    event_batch, region_events, region_members, snapshot_chunk, subscribe_response,
};
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;

use super::columns::EventColumns;
use super::handle::SessionHandle;
use crate::limits::CHUNK_BYTES_TARGET;
use crate::names::NameTable;
use crate::record::{RECORD_BYTES_MAX, record};

/// Most encoded bytes of a region's part of a snapshot message without its rows: keys, lengths, id,
/// total, flags.
const MEMBERS_PIECE_BYTES: usize = 48;
/// Most encoded bytes of a region's part of an event message without its rows: keys, lengths, id.
pub(super) const EVENTS_PIECE_BYTES: usize = 28;

const _: () = assert!(
    event_batch::EPOCH == snapshot_chunk::EPOCH
        && event_batch::CLOCK_MS == snapshot_chunk::CLOCK_MS
        && event_batch::REGIONS == snapshot_chunk::REGIONS
        && region_events::REGION_ID == region_members::REGION_ID,
    "events and snapshots have the same frame"
);

/// An epoch, and the clock of the fleet at that epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EpochStamp {
    pub(crate) epoch: u64,
    pub(crate) clock_ms: i64,
}

/// The encoded field `kind` of a message.
pub(super) type Body = Vec<u8>;

/// What the messages of a fleet are encoded with.
#[derive(Clone, Debug)]
pub(crate) struct MessageFormat {
    pub(crate) space: Space,
    /// The names of the objects, if they have names.
    pub(crate) names: Option<Arc<NameTable>>,
}

impl MessageFormat {
    /// Most encoded bytes of a member.
    pub(super) fn row_bytes(&self, with_fixes: bool) -> usize {
        let name = self.names.as_ref().map_or(0, |names| names.field_bytes_max());
        8 + if with_fixes { RECORD_BYTES_MAX } else { 0 } + name
    }

    #[cfg(test)]
    pub(super) fn numeric() -> Self {
        Self { space: Space::geographic(), names: None }
    }

    /// The number of members of a snapshot in one message.
    pub(super) fn members_per_message(&self, with_fixes: bool) -> usize {
        (CHUNK_BYTES_TARGET - MEMBERS_PIECE_BYTES) / self.row_bytes(with_fixes)
    }
}

/// Encodes regions one after the other.
struct RegionWriter<'a> {
    format: &'a MessageFormat,
    content: Vec<u8>,
    /// Records and names of the region.
    rows: Vec<u8>,
}

impl<'a> RegionWriter<'a> {
    fn new(format: &'a MessageFormat, content: Vec<u8>) -> Self {
        Self { format, content, rows: Vec::new() }
    }

    fn write_events(&mut self, events: &super::columns::EventSlice<'_>) {
        let (rows, region_id) = (events.objects.len(), events.region_id);
        self.encode_records(region_events::FIXES, events.fixes);
        self.encode_names(region_events::NAMES, events.objects);
        let lists = list_len(size_of_val(events.objects)) + list_len(rows);
        self.begin_region(varint_len(region_id) + lists + self.rows.len(), region_id);
        write_objects(&mut self.content, region_events::OBJECTS, events.objects);
        write_bytes(&mut self.content, region_events::KINDS, events.kinds);
        self.content.append(&mut self.rows);
    }

    /// Members `from..to` of a snapshot.
    fn write_members(
        &mut self,
        region_id: u64,
        members: &RegionEvents<'_>,
        (from, to): (usize, usize),
    ) {
        use region_members::{FIRST, FIXES, LAST, NAMES, OBJECTS, TOTAL};
        let objects = &members.objects[from..to];
        let total = members.objects.len() as u64;
        let (first, last) = (u64::from(from == 0), u64::from(to == members.objects.len()));
        self.encode_records(FIXES, members.fixes.get(from..to).unwrap_or_default());
        self.encode_names(NAMES, objects);
        let numbers = [region_id, total, first, last].into_iter().map(varint_len).sum::<usize>();
        let list = if objects.is_empty() { 0 } else { list_len(size_of_val(objects)) };
        self.begin_region(numbers + list + self.rows.len(), region_id);
        write_varint(&mut self.content, TOTAL, total);
        write_varint(&mut self.content, FIRST, first);
        write_varint(&mut self.content, LAST, last);
        if !objects.is_empty() {
            write_objects(&mut self.content, OBJECTS, objects);
        }
        self.content.append(&mut self.rows);
    }

    fn begin_region(&mut self, length: usize, region_id: u64) {
        encode_key(event_batch::REGIONS, WireType::LengthDelimited, &mut self.content);
        encode_varint(length as u64, &mut self.content);
        write_varint(&mut self.content, region_events::REGION_ID, region_id);
    }

    fn encode_records(&mut self, field: u32, fixes: &[FixRow]) {
        for row in fixes {
            let record = record(&self.format.space, row);
            encode_key(field, WireType::LengthDelimited, &mut self.rows);
            encode_varint(record.encoded_len() as u64, &mut self.rows);
            record.encode_raw(&mut self.rows);
        }
    }

    /// The names of objects, if they have names; an unknown name is empty.
    fn encode_names(&mut self, field: u32, objects: &[u64]) {
        let Some(names) = &self.format.names else { return };
        let reader = names.reader();
        for object in objects {
            let name = reader.name(*object).unwrap_or_default();
            write_bytes(&mut self.rows, field, name.as_bytes());
        }
    }

    /// Moves the encoded regions into a body; `field` is the field number of its kind.
    fn take_body(&mut self, field: u32, stamp: EpochStamp, coalesced_from_epoch: u64) -> Body {
        let (epoch, clock_ms) = (stamp.epoch, stamp.clock_ms as u64);
        let numbers = [epoch, clock_ms, coalesced_from_epoch];
        let length = numbers.into_iter().map(varint_len).sum::<usize>() + self.content.len();
        // Reserve capacity for the bytes that `seal` adds.
        let mut body = Vec::with_capacity(length + 96);
        encode_key(field, WireType::LengthDelimited, &mut body);
        encode_varint(length as u64, &mut body);
        write_varint(&mut body, event_batch::EPOCH, epoch);
        write_varint(&mut body, event_batch::CLOCK_MS, clock_ms);
        body.append(&mut self.content);
        write_varint(&mut body, event_batch::COALESCED_FROM_EPOCH, coalesced_from_epoch);
        body
    }
}

/// Encodes the snapshots of one epoch for one session.
pub(super) struct SnapshotWriter<'a> {
    stamp: EpochStamp,
    regions: RegionWriter<'a>,
    bodies: Vec<Body>,
}

impl<'a> SnapshotWriter<'a> {
    pub(super) fn new(format: &'a MessageFormat, stamp: EpochStamp) -> Self {
        Self { stamp, regions: RegionWriter::new(format, Vec::new()), bodies: Vec::new() }
    }

    /// The number of rows that fit into the rest of the current message; begins another message if
    /// only few fit.
    fn free_rows(&mut self, row_bytes: usize) -> usize {
        let needed = MEMBERS_PIECE_BYTES + row_bytes.min(CHUNK_BYTES_TARGET / 64);
        if self.regions.content.len() + needed > CHUNK_BYTES_TARGET {
            self.flush();
        }
        let free_bytes = CHUNK_BYTES_TARGET - self.regions.content.len() - MEMBERS_PIECE_BYTES;
        (free_bytes / row_bytes).max(1)
    }

    /// Adds all members of a region; there may be none.
    pub(super) fn add(&mut self, region_id: u64, members: &RegionEvents<'_>) {
        let row_bytes = self.regions.format.row_bytes(!members.fixes.is_empty());
        let mut from = 0;
        loop {
            let to = members.objects.len().min(from + self.free_rows(row_bytes));
            self.regions.write_members(region_id, members, (from, to));
            from = to;
            if from == members.objects.len() {
                return;
            }
        }
    }

    fn flush(&mut self) {
        self.bodies.push(self.regions.take_body(subscribe_response::SNAPSHOT, self.stamp, 0));
    }

    /// The bodies of all messages.
    pub(super) fn finish(mut self) -> Vec<Body> {
        if !self.regions.content.is_empty() {
            self.flush();
        }
        self.bodies
    }
}

/// The body of a message of events.
pub(super) fn events_body(format: &MessageFormat, columns: &EventColumns) -> Body {
    let mut writer = RegionWriter::new(format, Vec::with_capacity(columns.bytes()));
    columns.slices().for_each(|events| writer.write_events(&events));
    writer.take_body(subscribe_response::EVENTS, columns.stamp, columns.coalesced_from_epoch)
}

/// The body of a message with a range of the members of one region.
pub(super) fn members_body(
    format: &MessageFormat,
    stamp: EpochStamp,
    region_id: u64,
    members: &RegionEvents<'_>,
    range: (usize, usize),
) -> Body {
    let mut writer = RegionWriter::new(format, Vec::new());
    writer.write_members(region_id, members, range);
    writer.take_body(subscribe_response::SNAPSHOT, stamp, 0)
}

/// The body of a message that reports that messages of the regions `region_ids` are missing. An
/// empty list stands for all regions of the session.
pub(super) fn lagged_body(region_ids: Vec<u64>) -> Body {
    let kind = Some(Kind::Lagged(v1::Lagged { region_ids }));
    v1::SubscribeResponse { kind, ..Default::default() }.encode_to_vec()
}

/// Adds the numbers and the token to a body, and returns the complete message.
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
    // Exact, since a session counts the bytes of its messages.
    body.reserve_exact(head.encoded_len());
    head.encode_raw(&mut body);
    body.into()
}

/// A message without a number, for a reader that has read the messages up to `sequence`.
pub(crate) fn unnumbered(handle: &SessionHandle, sequence: u64, kind: Kind) -> Bytes {
    let epoch_done = matches!(kind, Kind::Progress(_));
    let resume_token = handle.token(sequence).to_vec();
    let kind = Some(kind);
    v1::SubscribeResponse { resume_token, epoch_done, kind, ..Default::default() }
        .encode_to_vec()
        .into()
}

/// Encoded bytes of a number with its key; 0 for the number 0, which is omitted.
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

    use super::super::columns::{EventSlice, EventWriter};
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

    const STAMP: EpochStamp = EpochStamp { epoch: 300, clock_ms: -5 };

    #[test]
    fn events_decode_in_any_number() {
        let format = MessageFormat::numeric();
        for (rows, with_fixes) in [(1, false), (3, true), (70_000, false), (9_000, true)] {
            let set = set(rows, with_fixes);
            let RegionEvents { objects, kinds, fixes, .. } = set.get(0);
            let mut writer = EventWriter::new(&format, STAMP, 299, CHUNK_BYTES_TARGET);
            for region_id in [0, 77] {
                writer.add(EventSlice { region_id, objects, kinds: kinds.as_bytes(), fixes });
            }
            let bodies =
                writer.finish().iter().map(|columns| events_body(&format, columns)).collect();
            let (mut found, mut fixes) = ([Vec::new(), Vec::new()], 0);
            for message in decode(bodies) {
                let Some(Kind::Events(batch)) = message.kind else { panic!("{message:?}") };
                assert_eq!((batch.epoch, batch.clock_ms), (300, -5));
                assert_eq!(batch.coalesced_from_epoch, 299);
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
    fn snapshots_mark_their_first_and_last_part() {
        let format = MessageFormat::numeric();
        for (rows, with_fixes) in [(0, false), (1, true), (100_000, false), (9_000, true)] {
            let set = set(rows, with_fixes);
            let mut writer = SnapshotWriter::new(&format, STAMP);
            writer.add(5, &set.get(0));
            let mut pieces = Vec::new();
            for message in decode(writer.finish()) {
                let Some(Kind::Snapshot(chunk)) = message.kind else { panic!("{message:?}") };
                pieces.extend(chunk.regions);
            }
            assert!(pieces[0].first && pieces[pieces.len() - 1].last);
            let ends = pieces.iter().filter(|piece| piece.first || piece.last).count();
            assert_eq!(ends, pieces.len().min(2));
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
    fn long_names_make_messages_of_fewer_rows_and_no_greater_size() {
        let names = Arc::new(NameTable::new(1 << 20));
        let texts: Vec<String> = (0..40_000).map(|at| format!("{at:0256}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        names.intern_all(&texts, &mut Vec::new());
        let format = MessageFormat { names: Some(names), ..MessageFormat::numeric() };
        let head = EventHead { region: RegionId(1), events: (0, 40_001), ..EventHead::default() };
        // The last object has no name.
        let kinds = vec![EventKind::Enter as u8; 40_001];
        let set = EventSet::new(vec![head], (1..=40_001).collect(), kinds, Vec::new());
        let RegionEvents { objects, kinds, fixes, .. } = set.get(0);
        let mut events = EventWriter::new(&format, STAMP, 0, CHUNK_BYTES_TARGET);
        events.add(EventSlice { region_id: 5, objects, kinds: kinds.as_bytes(), fixes });
        let mut snapshot = SnapshotWriter::new(&format, STAMP);
        snapshot.add(5, &set.get(0));
        let bodies = events.finish().into_iter().map(|columns| events_body(&format, &columns));
        let bodies = bodies.chain(snapshot.finish()).collect();
        let mut found = [Vec::new(), Vec::new()];
        for message in decode(bodies) {
            match message.kind {
                Some(Kind::Events(batch)) => batch.regions.into_iter().for_each(|of| {
                    assert_eq!(of.names.len(), of.objects.len());
                    found[0].extend(of.names);
                }),
                Some(Kind::Snapshot(chunk)) => chunk.regions.into_iter().for_each(|of| {
                    assert_eq!(of.names.len(), of.objects.len());
                    found[1].extend(of.names);
                }),
                other => panic!("{other:?}"),
            }
        }
        let expected = [&texts[..], &[""]].concat();
        assert!(found.iter().all(|names| *names == expected));
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
        assert_eq!(EventKind::ALL.map(|kind| kind as i32), wire.map(|kind| kind as i32));
        assert!(Wire::try_from(EventKind::ALL.len() as i32).is_err(), "the engine has all kinds");
    }
}
