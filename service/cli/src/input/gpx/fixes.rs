//! The points of tracks as position reports.
//!
//! A point has a time, and perhaps `ele`; `speed` and `course` are its children in GPX 1.0, and in
//! an extension in GPX 1.1 (TrackPointExtension of Garmin). The object is the name of the track,
//! unless the options have one. Way points and points of routes are no positions of an object. The
//! file is read as a stream: memory is bounded by one element.

use std::io::BufRead;

use quick_xml::Reader;
use quick_xml::events::{BytesEnd, Event};
use shoal_table::{FixField, FixFileOptions, TimeReader};

use super::parts::Parts;
use super::track_reader::TrackReader;
use crate::error::CliError;
use crate::input::fix_builder::{FieldFault, FixBuilder, RowValues};
use crate::input::fix_source::{FixSource, IdKind, SourceRow, SourceSummary, must_be_geographic};
use crate::input::value::Value;

/// The names of the fields: their elements and attributes.
const NAMES: [(FixField, &str); 7] = [
    (FixField::Object, "trk/name"),
    (FixField::Time, "time"),
    (FixField::X, "lon"),
    (FixField::Y, "lat"),
    (FixField::Speed, "speed"),
    (FixField::Heading, "course"),
    (FixField::Altitude, "ele"),
];

/// The points of the tracks of a file.
pub(in crate::input) struct GpxFixes<R> {
    file: String,
    xml: Reader<Parts<R>>,
    buffer: Vec<u8>,
    tracks: TrackReader,
    rows: TrackRows,
    is_at_end: bool,
}

/// How the points of a file are read.
struct TrackRows {
    builder: FixBuilder,
    times: TimeReader,
    options: FixFileOptions,
}

impl<R: BufRead> GpxFixes<R> {
    /// Opens a file and checks that its root is `gpx`; `file` is its name in messages.
    ///
    /// # Errors
    /// [`CliError::Input`] for other XML.
    pub(in crate::input) fn open(
        input: R,
        file: &str,
        options: &FixFileOptions,
    ) -> Result<Self, CliError> {
        let mut builder = FixBuilder::new(file, "line", options);
        for (field, name) in NAMES {
            builder.set_name(field, name);
        }
        let times = TimeReader::new(options.time_unit, options);
        let mut gpx = Self {
            file: file.to_owned(),
            xml: Reader::from_reader(Parts::new(input)),
            buffer: Vec::new(),
            tracks: TrackReader::default(),
            rows: TrackRows { builder, times, options: options.clone() },
            is_at_end: false,
        };
        gpx.begin().map_err(|reason| CliError::Input { file: file.to_owned(), reason })?;
        Ok(gpx)
    }

    /// Reads to the root.
    fn begin(&mut self) -> Result<(), String> {
        loop {
            self.buffer.clear();
            match self.xml.read_event_into(&mut self.buffer).map_err(|error| error.to_string())? {
                Event::Start(root) if root.local_name().as_ref() == "gpx" => {
                    return self.tracks.begin(&root, 1);
                }
                Event::Start(root) | Event::Empty(root) => {
                    let root = root.name();
                    return Err(format!(
                        "it is XML with the root {}; GPX, with the root gpx and its tracks, is read",
                        root.as_ref()
                    ));
                }
                Event::Eof => return Err("it is XML without an element".to_owned()),
                _ => {}
            }
        }
    }

    /// Reads to the end of the next point; false at the end of the file.
    fn next_point(&mut self) -> Result<bool, String> {
        loop {
            self.buffer.clear();
            self.xml.get_mut().next_part();
            let event = self.xml.read_event_into(&mut self.buffer);
            let line = || self.xml.get_ref().line;
            let end = |tracks: &mut TrackReader, tag: &BytesEnd<'_>| {
                tracks.end(tag.local_name().as_ref())
            };
            match event {
                Ok(Event::Start(tag)) => self.tracks.begin(&tag, line())?,
                Ok(Event::Empty(tag)) => {
                    self.tracks.begin(&tag, line())?;
                    if end(&mut self.tracks, &tag.to_end()) {
                        return Ok(true);
                    }
                }
                Ok(Event::End(tag)) => {
                    if end(&mut self.tracks, &tag) {
                        return Ok(true);
                    }
                }
                Ok(Event::Text(text)) => self.tracks.text(&text.xml10_content()),
                Ok(Event::CData(text)) => self.tracks.text(&text.xml10_content()),
                Ok(Event::GeneralRef(reference)) => self.tracks.reference(&reference),
                Ok(Event::Eof) if self.tracks.is_open() => {
                    return Err("the file ends within an element".to_owned());
                }
                Ok(Event::Eof) => return Ok(false),
                Ok(_) => {}
                Err(error) => return Err(format!("cannot be read further: {error}")),
            }
        }
    }
}

impl<R: BufRead + Send> FixSource for GpxFixes<R> {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        if self.is_at_end {
            return None;
        }
        match self.next_point() {
            Ok(true) => {
                let line = self.tracks.point.line;
                let fix = self.rows.fix(&self.tracks, ids);
                Some(fix.map_err(|fault| self.rows.builder.describe(line, fault)))
            }
            Ok(false) => {
                self.is_at_end = true;
                None
            }
            Err(reason) => {
                self.is_at_end = true;
                let line = self.xml.get_ref().line;
                Some(Err(self.rows.builder.describe_part(line, "XML", &reason)))
            }
        }
    }

    fn check_space(&self, is_geographic: bool) -> Result<(), CliError> {
        must_be_geographic(&self.file, is_geographic)
    }

    fn summary(&self) -> SourceSummary {
        let rows = &self.rows;
        let object = match &rows.options.object {
            Some(object) => object.as_str(),
            None => "the name of the track",
        };
        let times = rows.times.describe();
        let times = if times.is_empty() { "none" } else { &times };
        let mut notes = vec![format!(
            "GPX: object = {object}, time = time ({times}), speed = speed ({}), heading = course, altitude \
             = ele ({})",
            rows.options.speed_unit.unwrap_or_default(),
            rows.options.altitude_unit.unwrap_or_default(),
        )];
        let other_points = self.tracks.other_points;
        if other_points > 0 {
            notes.push(format!(
                "way points and points of routes, which are not read: {other_points}"
            ));
        }
        rows.builder.summary(notes)
    }
}

impl TrackRows {
    fn fix(&mut self, tracks: &TrackReader, ids: IdKind) -> Result<SourceRow, FieldFault> {
        let point = &tracks.point;
        let coordinate = |text: &Option<String>, field| {
            let value = text.as_ref().ok_or_else(|| "there is none".to_owned());
            let value = value.and_then(|text| Value::Bytes(text.as_bytes()).coordinate());
            value.map_err(FieldFault::of(field))
        };
        let time_ms = match &point.time {
            Some(time) => self.times.text(time, ""),
            None => self.times.missing(),
        };
        // One file is usually the log of one object, so the user's id counts before that of a track.
        let object = self.options.object.as_ref().or(tracks.track.as_ref());
        let values = RowValues {
            object: text_value(object),
            time_ms: time_ms.map_err(FieldFault::of(FixField::Time))?,
            x: coordinate(&point.lon, FixField::X)?,
            y: coordinate(&point.lat, FixField::Y)?,
            z: None,
            speed: text_value(point.speed.as_ref()),
            heading: text_value(point.course.as_ref()),
            altitude: text_value(point.ele.as_ref()),
            state: None,
            validity: None,
        };
        self.builder.fix(values, point.line, ids).map_err(|mut fault| {
            if fault.field == FixField::Object && object.is_some() {
                fault.reason.push_str("; --object names the object of all points");
            }
            fault
        })
    }
}

fn text_value(text: Option<&String>) -> Option<Value<'_>> {
    text.map(|text| Value::Bytes(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;
    use crate::input::fix_source::drained;

    const FILE: &str = include_str!("../../../tests/samples/walk.gpx");

    fn read(
        text: impl AsRef<[u8]>,
        options: &FixFileOptions,
    ) -> (Vec<SourceRow>, Vec<String>, SourceSummary) {
        let opened = GpxFixes::open(BufReader::new(text.as_ref()), "a.gpx", options);
        let mut source = opened.unwrap_or_else(|error| panic!("{error}"));
        drained(&mut source, IdKind::Names)
    }

    #[test]
    fn points_of_tracks_are_rows() {
        let (rows, faults, summary) = read(FILE, &FixFileOptions::default());
        assert_eq!(
            faults,
            ["a.gpx, line 42, time: there is none; --time gives the time of all rows without one"]
        );
        let first = &rows[0];
        assert_eq!((first.place, first.fix.name.as_str()), (14, "Van 3 & trailer"));
        assert_eq!((first.fix.x, first.fix.y), (11.576_124, 48.137_154));
        assert_eq!(first.fix.time_ms, 1_767_254_400_000);
        assert_eq!((first.fix.altitude_m, first.fix.speed_mps), (Some(519.4), Some(8.25)));
        assert_eq!(first.fix.heading_deg, Some(271.5));
        assert_eq!((rows.len(), rows[2].fix.name.as_str()), (4, "Van 4"));
        assert_eq!(summary.notes[1], "way points and points of routes, which are not read: 3");
        assert!(summary.notes[0].contains("object = the name of the track"), "{:?}", summary.notes);
        let options = FixFileOptions { object: Some("7".to_owned()), ..FixFileOptions::default() };
        let (rows, ..) = read(FILE, &options);
        assert!(rows.iter().all(|row| row.fix.name == "7"));
    }

    #[test]
    fn damage_ends_the_file_with_a_fault_and_other_xml_is_refused() {
        let cut = &FILE[..FILE.find("Van 4").unwrap()];
        let (rows, faults, _) = read(cut, &FixFileOptions::default());
        assert_eq!((rows.len(), faults.len()), (2, 1));
        assert!(faults[0].ends_with("XML: the file ends within an element"), "{faults:?}");
        let (rows, faults, _) =
            read(FILE.replacen("</trkpt>", "</wpt>", 1), &FixFileOptions::default());
        assert_eq!((rows.len(), faults.len()), (0, 1));
        assert!(faults[0].starts_with("a.gpx, line 23, XML: cannot be read further"), "{faults:?}");
        let long = format!("<gpx><trk><name>{}</name></trk></gpx>", "x".repeat(3 << 20));
        let (_, faults, _) = read(long, &FixFileOptions::default());
        assert!(faults[0].contains("longer than 1048576 bytes"), "{faults:?}");
        let (_, faults, _) = read("<gpx>".repeat(200), &FixFileOptions::default());
        assert!(faults[0].contains("more than 100 elements"), "{faults:?}");
        let mut latin = FILE.as_bytes().to_vec();
        latin[FILE.find("Van 4").unwrap()] = 0xe9;
        let (rows, faults, _) = read(latin, &FixFileOptions::default());
        assert_eq!((rows[2].fix.name.as_str(), faults.len()), ("éan 4", 1), "{faults:?}");
        let kml = GpxFixes::open(
            &b"<?xml version=\"1.0\"?>\n<kml/>"[..],
            "a",
            &FixFileOptions::default(),
        );
        assert!(kml.err().unwrap().to_string().contains("the root kml"));
    }
}
