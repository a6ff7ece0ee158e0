//! Sentences as position reports.
//!
//! A sentence of AIS with a position is a row, whose object is the MMSI. A moment of a satellite
//! receiver is a row, whose object the user names. AIS messages have no time but the second: it is
//! that of receipt, in a TAG block or before or after the sentence; otherwise the time of the last
//! RMC, ZDA or base station with that second.

use std::collections::VecDeque;
use std::io::Read;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use shoal_client::AckTotals;
use shoal_table::{
    AltitudeUnit, CSV_LINE_BYTES_MAX, CsvFault, FixField, FixFileOptions, LineReader, SpeedUnit,
    TimeReader, TimeUnit,
};

use super::ais_message::{AisMessage, AisPosition};
use super::fragments::{Fragments, Payload};
use super::receiver::{Moment, Receiver, Taken};
use super::sentence::Sentence;
use crate::error::CliError;
use crate::input::fix_builder::{FieldFault, FixBuilder, RowValues};
use crate::input::fix_source::{FixSource, IdKind, SourceRow, SourceSummary, must_be_geographic};
use crate::input::value::Value;

/// The names of the fields.
const NAMES: [(FixField, &str); 7] = [
    (FixField::Object, "MMSI"),
    (FixField::Time, "time"),
    (FixField::X, "longitude"),
    (FixField::Y, "latitude"),
    (FixField::Speed, "speed over ground"),
    (FixField::Heading, "course over ground"),
    (FixField::Altitude, "altitude"),
];

/// The positions of a file of sentences.
pub(in crate::input) struct NmeaFixes<R> {
    file: String,
    lines: LineReader<R>,
    rows: NmeaRows,
    /// Rows that were read and not returned.
    ready: VecDeque<Result<SourceRow, String>>,
    is_at_end: bool,
}

/// How the sentences of a file are read.
struct NmeaRows {
    builder: FixBuilder,
    times: TimeReader,
    receiver: Receiver,
    fragments: Fragments,
    /// The time of the last RMC, ZDA or base station.
    clock: Option<DateTime>,
    has_object: bool,
    has_time_unit: bool,
    counts: Counts,
}

/// Numbers of sentences and messages.
#[derive(Debug, Default)]
struct Counts {
    /// Rows of AIS.
    ais_rows: u64,
    /// AIS messages without a position.
    ais_other: u64,
    /// Other sentences without a position.
    other: u64,
    /// Rows of AIS whose time is the clock of the file.
    by_clock: u64,
    /// Positions of the receiver, for which there is no object; the lines of the first.
    unnamed: u64,
    unnamed_lines: Vec<u64>,
}

impl<R: Read> NmeaFixes<R> {
    /// Reads from `input`; `file` is its name in messages.
    pub(in crate::input) fn new(input: R, file: &str, options: &FixFileOptions) -> Self {
        let mut builder = FixBuilder::new(file, "line", options);
        builder.set_units(SpeedUnit::Knots, AltitudeUnit::Metres);
        for (field, name) in NAMES {
            builder.set_name(field, name);
        }
        let rows = NmeaRows {
            builder,
            times: TimeReader::new(options.time_unit, options),
            receiver: Receiver::default(),
            fragments: Fragments::default(),
            clock: None,
            has_object: options.object.is_some(),
            has_time_unit: options.time_unit.is_some(),
            counts: Counts::default(),
        };
        Self {
            file: file.to_owned(),
            lines: LineReader::new(input, CSV_LINE_BYTES_MAX),
            rows,
            ready: VecDeque::new(),
            is_at_end: false,
        }
    }

    /// Reads the next line; what it makes complete is then ready.
    fn next_line(&mut self, ids: IdKind) {
        let read = self.lines.next_line();
        let line = self.lines.number();
        let result = match read {
            Ok(true) => match std::str::from_utf8(self.lines.line()) {
                Ok(text) => self.rows.take(text.trim(), line, ids, &mut self.ready),
                Err(_) => Err("the line is not UTF-8 text".to_owned()),
            },
            Ok(false) => {
                self.is_at_end = true;
                self.rows.end(ids, &mut self.ready);
                Ok(())
            }
            Err(fault) => {
                self.is_at_end = matches!(fault, CsvFault::Unreadable { .. });
                Err(fault.to_string())
            }
        };
        if let Err(reason) = result {
            self.ready.push_back(Err(self.rows.builder.describe_part(line, "sentence", &reason)));
        }
    }
}

impl<R: Read + Send> FixSource for NmeaFixes<R> {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Some(row);
            }
            if self.is_at_end {
                return self.rows.unnamed_fault().map(Err);
            }
            self.next_line(ids);
        }
    }

    fn check_space(&self, is_geographic: bool) -> Result<(), CliError> {
        must_be_geographic(&self.file, is_geographic)
    }

    fn summary(&self) -> SourceSummary {
        let NmeaRows { builder, times, receiver, fragments, counts, .. } = &self.rows;
        let object = if counts.ais_rows + counts.ais_other > 0 {
            "AIS: object = MMSI,"
        } else {
            "NMEA 0183:"
        };
        let mut notes =
            vec![format!("{object} speed over ground (knots), heading = course over ground")];
        let times = times.describe();
        if !times.is_empty() {
            notes.push(format!("time of receipt: {times}"));
        }
        for (count, what) in [
            (counts.by_clock, "AIS messages whose time is that of RMC, ZDA or a base station"),
            (receiver.void, "positions that the receiver marks as not valid, which are not read"),
            (counts.unnamed, "positions of the receiver, which are not read: --object names it"),
            (counts.ais_other, "AIS messages that are no position of a ship or aircraft"),
            (counts.other, "other sentences"),
            (fragments.lost(), "AIS sentences whose message lacks another sentence"),
        ] {
            if count > 0 {
                notes.push(format!("{what}: {count}"));
            }
        }
        builder.summary(notes)
    }
}

impl NmeaRows {
    /// Takes a line.
    fn take(
        &mut self,
        text: &str,
        line: u64,
        ids: IdKind,
        ready: &mut VecDeque<Result<SourceRow, String>>,
    ) -> Result<(), String> {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let sentence = Sentence::of(text)?;
        if matches!(sentence.kind, "VDM" | "VDO") {
            let Some(payload) = self.fragments.take(&sentence, line)? else { return Ok(()) };
            match AisMessage::of(&payload.text, payload.fill_bits)? {
                AisMessage::Position(position) => {
                    let row = self.ais_row(&payload, position, ids);
                    ready
                        .push_back(row.map_err(|fault| self.builder.describe(payload.line, fault)));
                }
                AisMessage::Time(time) => {
                    self.clock = Some(time);
                    self.counts.ais_other += 1;
                }
                AisMessage::Other => self.counts.ais_other += 1,
            }
            return Ok(());
        }
        let before = self.receiver.clock();
        let Taken { complete, is_other } = self.receiver.take(&sentence, line)?;
        self.counts.other += u64::from(is_other);
        if self.receiver.clock() != before {
            self.clock = self.receiver.clock();
        }
        ready.extend(complete.and_then(|moment| self.receiver_row(&moment, ids)));
        Ok(())
    }

    /// Takes the end of the file.
    fn end(&mut self, ids: IdKind, ready: &mut VecDeque<Result<SourceRow, String>>) {
        let complete = self.receiver.end();
        ready.extend(complete.and_then(|moment| self.receiver_row(&moment, ids)));
    }

    /// The fault of a position of the receiver without an object, if no other rows say that the
    /// file is about something else.
    fn unnamed_fault(&mut self) -> Option<String> {
        if self.counts.ais_rows > 0 {
            return None;
        }
        self.counts.unnamed = self.counts.unnamed.checked_sub(1)?;
        let reason = "there is none; --object names it".to_owned();
        let fault = FieldFault { field: FixField::Object, reason };
        let line = self.counts.unnamed_lines.pop().unwrap_or_default();
        Some(self.builder.describe(line, fault))
    }

    fn ais_row(
        &mut self,
        payload: &Payload,
        position: AisPosition,
        ids: IdKind,
    ) -> Result<SourceRow, FieldFault> {
        self.counts.ais_rows += 1;
        let clock = self.clock.map(|clock| at_second(clock, position.second));
        let time_ms = self.time_ms(payload.received.as_deref(), clock);
        let row = RowValues {
            // The own ship has the number 0 until it is set.
            object: (position.mmsi > 0).then(|| Value::Integer(position.mmsi.into())),
            time_ms: time_ms.map_err(FieldFault::of(FixField::Time))?,
            x: position.x,
            y: position.y,
            z: None,
            speed: position.speed_knots.map(Value::Real),
            heading: position.course_deg.map(Value::Real),
            altitude: position.altitude_m.map(Value::Real),
            state: None,
            validity: None,
        };
        self.builder.fix(row, payload.line, ids)
    }

    /// The time of receipt, or of the clock of the file; otherwise that of the options.
    fn time_ms(&mut self, received: Option<&str>, clock: Option<DateTime>) -> Result<i64, String> {
        let received = received.map(|text| self.received_ms(text));
        match (received, clock) {
            (Some(Ok(time_ms)), _) => Ok(time_ms),
            (_, Some(clock)) => {
                self.counts.by_clock += 1;
                to_ms(clock)
            }
            (Some(Err(reason)), None) => self.times.missing().map_err(|_| reason),
            (None, None) => self.times.missing(),
        }
    }

    /// Reads a time of receipt. Stations write different units into one file.
    fn received_ms(&mut self, text: &str) -> Result<i64, String> {
        let unit = text.parse().ok().and_then(TimeUnit::of).filter(|_| !self.has_time_unit);
        match unit.and_then(|unit| unit.to_ms(text.parse().ok()?)) {
            Some(time_ms) => Ok(time_ms),
            None => self.times.text(text, ""),
        }
    }

    /// The row of a position of the receiver; `None` if it has no object.
    fn receiver_row(&mut self, moment: &Moment, ids: IdKind) -> Option<Result<SourceRow, String>> {
        let position = moment.position()?;
        if !self.has_object {
            self.counts.unnamed += 1;
            if self.counts.unnamed_lines.len() < AckTotals::LISTED_MAX {
                self.counts.unnamed_lines.insert(0, moment.line);
            }
            return None;
        }
        let time_ms = match (moment.date_time(), &moment.received) {
            (Some(time), _) => to_ms(time),
            (None, Some(received)) => self.received_ms(received),
            (None, None) => self
                .times
                .missing()
                .map_err(|reason| format!("no RMC or ZDA before it has the date; {reason}")),
        };
        let row = time_ms.map_err(FieldFault::of(FixField::Time)).and_then(|time_ms| {
            let row = RowValues {
                object: None,
                time_ms,
                x: position.x,
                y: position.y,
                z: None,
                speed: moment.speed_knots.map(Value::Real),
                heading: moment.course_deg.map(Value::Real),
                altitude: moment.altitude_m.map(Value::Real),
                state: None,
                validity: None,
            };
            self.builder.fix(row, moment.line, ids)
        });
        Some(row.map_err(|fault| self.builder.describe(moment.line, fault)))
    }
}

fn to_ms(time: DateTime) -> Result<i64, String> {
    let time = Offset::UTC.to_timestamp(time).map_err(|error| error.to_string())?;
    Ok(time.as_millisecond())
}

/// The moment nearest to the clock with this second of its minute.
fn at_second(clock: DateTime, second: Option<i8>) -> DateTime {
    let Some(second) = second else { return clock };
    let ahead_s = (i64::from(second) - i64::from(clock.second()) + 90).rem_euclid(60) - 30;
    let clock = clock.with().subsec_nanosecond(0).build().unwrap_or(clock);
    let ahead = jiff::Span::new().seconds(ahead_s);
    clock.checked_add(ahead).unwrap_or(clock)
}

#[cfg(test)]
mod tests {
    use shoal_table::TimeDefault;

    use super::*;
    use crate::input::fix_source::drained;

    const SHIPS: &str = include_str!("../../../tests/samples/ships.nmea");
    const BOAT: &str = include_str!("../../../tests/samples/boat.nmea");

    fn read(text: &str, options: &FixFileOptions) -> (Vec<SourceRow>, Vec<String>, SourceSummary) {
        let mut source = NmeaFixes::new(text.as_bytes(), "a.nmea", options);
        drained(&mut source, IdKind::Numbers)
    }

    fn object(object: &str) -> FixFileOptions {
        FixFileOptions { object: Some(object.to_owned()), ..FixFileOptions::default() }
    }
    #[test]
    fn ships_are_rows_with_the_time_of_receipt() {
        let (rows, faults, summary) = read(SHIPS, &FixFileOptions::default());
        let found: Vec<_> =
            rows.iter().map(|row| (row.place, row.fix.object, row.fix.time_ms)).collect();
        assert_eq!(
            found,
            [
                (2, 265_547_250, 1_769_860_800_000),
                (3, 423_302_100, 1_769_860_801_000),
                (6, 111_232_511, 1_769_860_802_000),
                (7, 206_914_217, 1_769_860_803_000),
                (9, 265_547_250, 1_769_860_805_000),
                (10, 265_547_250, 1_769_860_806_000),
                // The second of the message after the last base station, of 2007.
                (11, 265_547_250, 1_179_172_673_000),
            ]
        );
        assert!((rows[0].fix.x - 11.832_976_666).abs() < 1e-8);
        assert!((rows[0].fix.speed_mps.unwrap() - 7.150_777).abs() < 1e-5);
        assert_eq!(rows[0].fix.heading_deg, Some(40.4));
        assert_eq!(rows[2].fix.altitude_m, Some(303.0));
        assert!(
            faults[0].starts_with("a.nmea, line 12, sentence: the checksum is 25"),
            "{faults:?}"
        );
        assert!(faults[1].starts_with("a.nmea, line 13, sentence: the sentence has no checksum"));
        assert_eq!(faults.len(), 2);
        for note in [
            "time of receipt: ISO 8601",
            "AIS messages whose time is that of RMC, ZDA or a base station: 1",
            "positions of the receiver, which are not read: --object names it: 1",
            "AIS messages that are no position of a ship or aircraft: 2",
        ] {
            assert!(summary.notes.iter().any(|found| found == note), "{note}: {:?}", summary.notes);
        }
        // With an object the position of the receiver is a row too.
        assert_eq!(read(SHIPS, &object("7")).0.last().unwrap().fix.object, 7);
    }

    #[test]
    fn positions_of_a_receiver_are_rows_of_the_named_object() {
        let (rows, faults, summary) = read(BOAT, &object("7"));
        let found: Vec<_> =
            rows.iter().map(|row| (row.place, row.fix.object, row.fix.time_ms)).collect();
        let time_ms = 1_769_847_300_000;
        assert_eq!(found, [(4, 7, time_ms), (10, 7, time_ms + 1_000), (13, 7, time_ms + 2_000)]);
        assert_eq!((rows[0].fix.heading_deg, rows[0].fix.altitude_m), (Some(84.4), Some(12.4)));
        assert!((rows[0].fix.y - 57.660_353_333).abs() < 1e-8);
        assert_eq!(rows[2].fix.speed_mps, None);
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].contains("line 12, sentence: the sentence has no checksum"),
            "{faults:?}"
        );
        let notes = summary.notes.join("\n");
        for note in ["marks as not valid, which are not read: 1", "other sentences: 3"] {
            assert!(notes.contains(note), "{notes}");
        }
        let (rows, faults, _) = read(BOAT, &FixFileOptions::default());
        assert_eq!((rows.len(), faults.len()), (0, 4));
        assert!(faults[1].contains("line 4, MMSI: there is none"), "{faults:?}");
    }

    #[test]
    fn a_time_without_a_date_needs_one() {
        let text = "$GPGLL,4916.45,N,12311.12,W,225444,A*31\n";
        let (_, faults, _) = read(text, &object("7"));
        assert!(faults[0].contains("no RMC or ZDA before it has the date"), "{faults:?}");
        let options = FixFileOptions { time: Some(TimeDefault::At(5)), ..object("7") };
        assert_eq!(read(text, &options).0[0].fix.time_ms, 5);
        let ais = "!AIVDM,1,1,,A,13u?etPv2;0n:dDPwUM1U1Cb069D,0*24\n";
        let (_, faults, _) = read(ais, &FixFileOptions::default());
        assert!(faults[0].contains("line 1, time: there is none; --time"), "{faults:?}");
        let (rows, ..) = read(&format!("12:00:01 {ais}"), &options);
        assert_eq!(rows[0].fix.time_ms, 5);
    }

    #[test]
    fn the_second_of_a_message_is_that_nearest_to_the_clock() {
        for (clock, second, expected) in [
            ("2026-01-31T12:00:10", 9, "2026-01-31T12:00:09"),
            ("2026-01-31T12:00:10", 15, "2026-01-31T12:00:15"),
            ("2026-01-31T12:00:02", 58, "2026-01-31T11:59:58"),
            ("2026-01-31T23:59:58.5", 1, "2026-02-01T00:00:01"),
        ] {
            let found = at_second(clock.parse().unwrap(), Some(second));
            assert_eq!(found, expected.parse().unwrap(), "{clock}");
        }
    }
}
