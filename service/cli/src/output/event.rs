//! Events, one a line: columns for people, a JSON object, or a GeoJSON Feature.
//!
//! A record has the same keys as in the rows of an answer.

use std::io::{self, Write};

use serde::Serialize;
use shoal_service::json::{FeatureJson, RowJson};
use shoal_service::timestamp::rfc3339;
use shoal_table::printable;

use crate::watch::{EventForm, EventRow};

/// An event, with the keys of the record if records are reported.
#[derive(Clone, Debug, Serialize)]
struct EventJson<'a> {
    event: &'a str,
    epoch: u64,
    clock_ms: i64,
    #[serde(flatten)]
    row: RowJson,
}

/// Writes events.
#[derive(Clone, Copy, Debug)]
pub struct EventLines {
    form: EventForm,
    /// Number of decimal places of a coordinate.
    digits: usize,
}

impl EventLines {
    /// A writer for a fleet whose space is geographic or planar.
    #[must_use]
    pub fn new(form: EventForm, is_geographic: bool) -> Self {
        Self { form, digits: if is_geographic { 7 } else { 2 } }
    }

    /// Writes one event at the fleet's clock.
    ///
    /// # Errors
    /// Whatever writing gives.
    pub fn write(&self, event: &EventRow, clock_ms: i64, out: &mut dyn Write) -> io::Result<()> {
        let json = || EventJson {
            event: &event.event,
            epoch: event.epoch,
            clock_ms,
            row: RowJson::new(&event.row, clock_ms),
        };
        match self.form {
            EventForm::Text => return self.write_text(event, clock_ms, out),
            EventForm::Json => serde_json::to_writer(&mut *out, &json())?,
            EventForm::GeoJson => {
                let feature = FeatureJson::with_properties(&event.row, json());
                serde_json::to_writer(&mut *out, &feature)?;
            }
        }
        writeln!(out)
    }

    fn write_text(&self, event: &EventRow, clock_ms: i64, out: &mut dyn Write) -> io::Result<()> {
        let (clock, digits) = (rfc3339(clock_ms), self.digits);
        let label = event.row.label();
        write!(out, "{clock}  {:<8}  {:>20}", event.event, printable(&label))?;
        if let Some(fix) = &event.row.fix {
            write!(out, "  {:>14.digits$}  {:>14.digits$}", fix.x, fix.y)?;
            if let Some(speed_mps) = fix.speed_mps {
                write!(out, "  {speed_mps:>6.1} m/s")?;
            }
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use shoal_client::{AnswerRow, v1};

    use super::*;

    fn line(form: EventForm, fix: Option<v1::FixRecord>) -> String {
        let row = AnswerRow { object: u64::MAX - 1, fix, ..AnswerRow::default() };
        let event = EventRow { event: "enter".to_owned(), epoch: 3, row };
        let mut out = Vec::new();
        EventLines::new(form, true).write(&event, 1_480_140_067_500, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_form_has_event_object_and_record() {
        let fix = v1::FixRecord { x: -97.5, y: 30.0, speed_mps: Some(4.25), ..Default::default() };
        let text = line(EventForm::Text, Some(fix));
        let words: Vec<_> = text.split_whitespace().collect();
        let expected = ["2016-11-26T06:01:07.500Z", "enter", "18446744073709551614", "-97.5000000"];
        assert_eq!(words[..4], expected);
        assert_eq!(words[5..], ["4.2", "m/s"]);
        assert_eq!(line(EventForm::Text, None).split_whitespace().count(), 3);
        let json: serde_json::Value =
            serde_json::from_str(&line(EventForm::Json, Some(fix))).unwrap();
        assert_eq!((&json["event"], &json["x"]), (&"enter".into(), &(-97.5).into()));
        let feature: geojson::Feature = line(EventForm::GeoJson, Some(fix)).parse().unwrap();
        assert_eq!(feature.property("event").unwrap(), "enter");
        assert_eq!(feature.property("object").unwrap(), "18446744073709551614");
        let bare: geojson::Feature = line(EventForm::GeoJson, None).parse().unwrap();
        assert!(bare.geometry.is_none());
    }
}
