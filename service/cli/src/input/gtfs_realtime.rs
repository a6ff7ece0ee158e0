//! GTFS-realtime (gtfs.org/realtime): the vehicle positions of a feed.
//!
//! A feed is one protobuf message, whose entities are read one after the other, so memory is bounded
//! by one entity. The messages here have the fields that are read.

use std::io::{self, BufRead};

use prost::Message;
use shoal_table::{AltitudeUnit, FixField, FixFileOptions, SpeedUnit, TimeReader, TimeUnit};

use super::fix_builder::{FieldFault, FixBuilder, RowValues};
use super::fix_source::{FixSource, IdKind, SourceRow, SourceSummary, must_be_geographic};
use super::value::Value;
use crate::error::CliError;

/// Maximum bytes of an entity.
const PART_BYTES_MAX: u64 = 1 << 20;
/// Fields of `FeedMessage`.
const HEADER: u64 = 1;
const ENTITY: u64 = 2;
/// The names of the fields.
const NAMES: [(FixField, &str); 6] = [
    (FixField::Object, "vehicle.id"),
    (FixField::Time, "timestamp"),
    (FixField::X, "longitude"),
    (FixField::Y, "latitude"),
    (FixField::Speed, "speed"),
    (FixField::Heading, "bearing"),
];

#[derive(Clone, PartialEq, Message)]
struct FeedHeader {
    #[prost(string, tag = "1")]
    gtfs_realtime_version: String,
    #[prost(uint64, optional, tag = "3")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct FeedEntity {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(bool, tag = "2")]
    is_deleted: bool,
    #[prost(message, optional, tag = "4")]
    vehicle: Option<VehiclePosition>,
}

#[derive(Clone, PartialEq, Message)]
struct VehiclePosition {
    #[prost(message, optional, tag = "2")]
    position: Option<Position>,
    #[prost(uint64, optional, tag = "5")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "8")]
    vehicle: Option<VehicleDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct VehicleDescriptor {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    label: String,
    #[prost(string, tag = "3")]
    license_plate: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Position {
    #[prost(float, tag = "1")]
    latitude: f32,
    #[prost(float, tag = "2")]
    longitude: f32,
    /// Degrees clockwise from north.
    #[prost(float, optional, tag = "3")]
    bearing: Option<f32>,
    /// m/s
    #[prost(float, optional, tag = "5")]
    speed: Option<f32>,
}

/// True for the begin of a feed: a header that begins with the version.
pub(super) fn is_feed(head: &[u8]) -> bool {
    let [0x0a, rest @ ..] = head else { return false };
    // The length of the header has one or two bytes.
    let header = match rest {
        [first, rest @ ..] if *first < 0x80 => rest,
        [_, second, rest @ ..] if *second < 0x80 => rest,
        _ => return false,
    };
    matches!(header, [0x0a, 1..=8, version, ..] if version.is_ascii_digit())
}

/// The vehicle positions of a feed.
pub(super) struct GtfsRealtimeFixes<R> {
    file: String,
    input: R,
    buffer: Vec<u8>,
    header: FeedHeader,
    builder: FixBuilder,
    times: TimeReader,
    /// Entities so far.
    entities: u64,
    counts: Counts,
    is_at_end: bool,
}

/// Numbers of entities.
#[derive(Debug, Default)]
struct Counts {
    /// Without a vehicle, or deleted.
    other: u64,
    without_position: u64,
    by_feed_time: u64,
    by_entity_id: u64,
}

impl<R: BufRead> GtfsRealtimeFixes<R> {
    /// Reads from `input`; `file` is its name in messages.
    pub(super) fn new(input: R, file: &str, options: &FixFileOptions) -> Self {
        let mut builder = FixBuilder::new(file, "entity", options);
        builder.set_units(SpeedUnit::MetresPerSecond, AltitudeUnit::Metres);
        for (field, name) in NAMES {
            builder.set_name(field, name);
        }
        Self {
            file: file.to_owned(),
            input,
            buffer: Vec::new(),
            header: FeedHeader::default(),
            builder,
            times: TimeReader::new(Some(TimeUnit::Seconds), options),
            entities: 0,
            counts: Counts::default(),
            is_at_end: false,
        }
    }

    /// Reads the next entity; `None` at the end.
    fn next_entity(&mut self) -> Result<Option<FeedEntity>, EntityFault> {
        while let Some(key) = self.varint_or_end()? {
            let (field, wire_type) = (key >> 3, key & 7);
            let bytes = match wire_type {
                0 => {
                    self.varint()?;
                    continue;
                }
                1 => 8,
                2 => self.varint()?,
                5 => 4,
                other => {
                    return Err(damaged(format!("wire type {other}, which feeds do not have")));
                }
            };
            self.take(bytes)?;
            match (field, wire_type) {
                (HEADER, 2) => {
                    let header = FeedHeader::decode(self.buffer.as_slice());
                    self.header = header.map_err(|error| damaged(error.to_string()))?;
                }
                (ENTITY, 2) => {
                    self.entities += 1;
                    let entity = FeedEntity::decode(self.buffer.as_slice());
                    return entity
                        .map(Some)
                        .map_err(|error| EntityFault::Entity(error.to_string()));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Reads the next bytes into the buffer.
    fn take(&mut self, bytes: u64) -> Result<(), EntityFault> {
        if bytes > PART_BYTES_MAX {
            return Err(damaged(format!(
                "a message has {bytes} bytes, more than {PART_BYTES_MAX}"
            )));
        }
        self.buffer.resize(bytes as usize, 0);
        Ok(self.input.read_exact(&mut self.buffer)?)
    }

    /// Reads a number; `None` at the end of the file.
    fn varint_or_end(&mut self) -> Result<Option<u64>, EntityFault> {
        if self.input.fill_buf()?.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    fn varint(&mut self) -> Result<u64, EntityFault> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.input.read_exact(&mut byte)?;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged("a number has more than ten bytes".to_owned()))
    }

    /// The row of an entity; `None` if it has no position.
    fn row(&mut self, entity: &FeedEntity, ids: IdKind) -> Option<Result<SourceRow, FieldFault>> {
        let Some(vehicle) = entity.vehicle.as_ref().filter(|_| !entity.is_deleted) else {
            self.counts.other += 1;
            return None;
        };
        let Some(position) = vehicle.position else {
            self.counts.without_position += 1;
            return None;
        };
        let ids_of_vehicle =
            vehicle.vehicle.iter().flat_map(|of| [&of.id, &of.label, &of.license_plate]);
        let id = ids_of_vehicle.into_iter().find(|id| !id.is_empty()).unwrap_or_else(|| {
            self.counts.by_entity_id += 1;
            &entity.id
        });
        let stated = |timestamp: Option<u64>| timestamp.filter(|timestamp| *timestamp > 0);
        let timestamp = stated(vehicle.timestamp).or_else(|| {
            let timestamp = stated(self.header.timestamp);
            self.counts.by_feed_time += u64::from(timestamp.is_some());
            timestamp
        });
        let time_ms = match timestamp {
            Some(timestamp) => Value::Natural(timestamp).time_ms(&mut self.times, ""),
            None => self.times.missing(),
        };
        let coordinate = |value: f32, field| {
            Value::Real(value.into()).coordinate().map_err(FieldFault::of(field))
        };
        let build = || {
            let values = RowValues {
                object: Some(Value::Bytes(id.as_bytes())),
                time_ms: time_ms.map_err(FieldFault::of(FixField::Time))?,
                x: coordinate(position.longitude, FixField::X)?,
                y: coordinate(position.latitude, FixField::Y)?,
                z: None,
                speed: position.speed.map(|speed| Value::Real(speed.into())),
                heading: position.bearing.map(|bearing| Value::Real(bearing.into())),
                altitude: None,
                state: None,
                validity: None,
            };
            self.builder.fix(values, self.entities, ids)
        };
        Some(build())
    }
}

/// A fault of an entity, or one that ends the file.
enum EntityFault {
    Entity(String),
    File(String),
}

fn damaged(reason: String) -> EntityFault {
    EntityFault::File(reason)
}

impl From<io::Error> for EntityFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::File("the file ends within a message".to_owned()),
            _ => Self::File(error.to_string()),
        }
    }
}

impl<R: BufRead + Send> FixSource for GtfsRealtimeFixes<R> {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        while !self.is_at_end {
            let fault = match self.next_entity() {
                Ok(Some(entity)) => {
                    if let Some(row) = self.row(&entity, ids) {
                        let number = self.entities;
                        return Some(row.map_err(|fault| self.builder.describe(number, fault)));
                    }
                    continue;
                }
                Ok(None) => {
                    self.is_at_end = true;
                    return None;
                }
                Err(EntityFault::Entity(reason)) => {
                    self.builder.describe_part(self.entities, "message", &reason)
                }
                Err(EntityFault::File(reason)) => {
                    self.is_at_end = true;
                    let reason = format!("cannot be read further: {reason}");
                    self.builder.describe_part(self.entities + 1, "message", &reason)
                }
            };
            return Some(Err(fault));
        }
        None
    }

    fn check_space(&self, is_geographic: bool) -> Result<(), CliError> {
        must_be_geographic(&self.file, is_geographic)
    }

    fn summary(&self) -> SourceSummary {
        let version = &self.header.gtfs_realtime_version;
        let mut notes = vec![format!(
            "GTFS-realtime {version}: object = vehicle id, label or license plate, time = timestamp \
             (Unix seconds), heading = bearing, speed = speed (m/s)"
        )];
        for (count, what) in [
            (
                self.counts.by_feed_time,
                "vehicles without a timestamp, whose time is that of the feed",
            ),
            (
                self.counts.by_entity_id,
                "vehicles without an id, whose object is that of their entity",
            ),
            (self.counts.without_position, "vehicles without a position, which are not read"),
            (self.counts.other, "deleted entities, trip updates and alerts, which are not read"),
        ] {
            if count > 0 {
                notes.push(format!("{what}: {count}"));
            }
        }
        self.builder.summary(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fix_source::drained;
    use super::*;

    /// Written with the bindings of gtfs.org for Python.
    const FEED: &[u8] = include_bytes!("../../tests/samples/vehicles.pb");

    fn read(bytes: &[u8]) -> (Vec<SourceRow>, Vec<String>, SourceSummary) {
        let mut source = GtfsRealtimeFixes::new(bytes, "a.pb", &FixFileOptions::default());
        drained(&mut source, IdKind::Names)
    }

    #[test]
    fn vehicle_positions_are_rows() {
        assert!(is_feed(FEED));
        for other in
            [&b"\n\r\n\x03id,"[..], b"\n", b"id,t,x,y\n", b"\x0a\x80\x80\x0a", b"\x0a\x05\x0a\x03x"]
        {
            assert!(!is_feed(other), "{other:?}");
        }
        let (rows, faults, summary) = read(FEED);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.place, row.fix.name.as_str(), row.fix.time_ms / 1_000))
            .collect();
        assert_eq!(
            found,
            [
                (1, "9031005901234", 1_769_860_855),
                (2, "9031005901235", 1_769_860_860),
                (3, "4711", 1_769_860_856),
                (4, "e-77", 1_769_860_857),
            ]
        );
        assert_eq!((rows[0].fix.heading_deg, rows[0].fix.speed_mps), (Some(271.5), Some(8.25)));
        assert!((rows[0].fix.y - 59.3293).abs() < 4e-6 && (rows[0].fix.x - 18.0686).abs() < 1e-6);
        assert_eq!((rows[2].fix.heading_deg, rows[2].fix.speed_mps), (Some(0.0), None));
        assert_eq!(faults, ["a.pb, entity 9, latitude: `NaN` is not a finite number"]);
        let notes = summary.notes.join("\n");
        for part in ["realtime 2.0", "of the feed: 1", "entity: 1", "not read: 1", "not read: 3"] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
    }

    #[test]
    fn a_damaged_feed_is_read_as_far_as_it_goes() {
        let (rows, faults, _) = read(&FEED[..FEED.len() - 9]);
        assert_eq!((rows.len(), faults.len()), (4, 1));
        assert!(
            faults[0].starts_with("a.pb, entity 9, message: cannot be read further"),
            "{faults:?}"
        );
        let mut feed = FEED.to_vec();
        // The length of the id of the first entity.
        let id = FEED.windows(3).position(|bytes| bytes == [0x0a, 1, b'1']).unwrap();
        feed[id + 1] = 100;
        let (rows, faults, _) = read(&feed);
        assert_eq!((rows.len(), faults.len()), (3, 2));
        assert!(faults[0].starts_with("a.pb, entity 1, message: failed to decode"), "{faults:?}");
    }
}
