//! JSON objects as position reports.
//!
//! The members of the first object tell which has which field, as the columns of CSV do; a field that
//! it lacks is found when a later object has it. A field keeps its member.

use std::collections::HashSet;
use std::io::BufRead;

use serde_json::Value as Json;
use shoal_table::{
    ColumnChoice, ColumnOverride, ColumnsFault, FixField, FixFileOptions, TimeReader,
};

use super::items::{Item, ItemFault, JsonItems};
use super::row::{Geometry, JsonRow, Point};
use crate::input::fix_builder::{FieldFault, FixBuilder, RowValues};
use crate::input::fix_source::{FixSource, IdKind, SourceRow, SourceSummary};
use crate::input::input_file::column_hint;

/// Maximum number of names of members that are remembered.
const NAMES_MAX: usize = 1_000;

/// The rows of a JSON file.
pub(in crate::input) struct JsonFixes<R> {
    items: JsonItems<R>,
    rows: JsonRows,
}

/// How the objects of a file are read.
struct JsonRows {
    builder: FixBuilder,
    options: FixFileOptions,
    /// The names of the members so far.
    names: Vec<String>,
    known: HashSet<String>,
    /// The members that are read; `None` before the first object with the required ones.
    columns: Option<ColumnChoice>,
    /// Why they cannot be chosen by the names so far.
    fault: Option<FieldFault>,
    times: TimeReader,
    /// True if the user names the members of the position.
    is_position_named: bool,
    /// The member with the geometry of the first row that has one.
    geometry: Option<String>,
}

impl<R: BufRead> JsonFixes<R> {
    /// Reads from `input`; `file` is its name in messages.
    pub(in crate::input) fn new(input: R, file: &str, options: &FixFileOptions) -> Self {
        // A member that the user names may come late, so it is known from the begin.
        let names: Vec<_> = options.columns.iter().map(|column| column.name.clone()).collect();
        let rows = JsonRows {
            builder: FixBuilder::new(file, "line", options),
            options: options.clone(),
            known: names.iter().cloned().collect(),
            names,
            columns: None,
            fault: None,
            is_position_named: options
                .columns
                .iter()
                .any(|column| matches!(column.field, FixField::X | FixField::Y)),
            times: TimeReader::new(options.time_unit, options),
            geometry: None,
        };
        Self { items: JsonItems::new(input), rows }
    }
}

impl<R: BufRead + Send> FixSource for JsonFixes<R> {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        let Self { items, rows } = self;
        let Item { line, text } = items.next()?;
        let object = match text.map_err(|fault: ItemFault| fault.to_string()).and_then(parse) {
            Ok(object) => object,
            Err(reason) => return Some(Err(rows.builder.describe_part(line, "JSON", &reason))),
        };
        let row = object.as_object().map(JsonRow::of).unwrap_or_default();
        let fix = rows.fix(&row, line, ids);
        Some(fix.map_err(|fault| rows.builder.describe(line, fault)))
    }

    fn summary(&self) -> SourceSummary {
        let rows = &self.rows;
        let described = rows.columns.as_ref().map(|of| of.describe(&rows.times.describe()));
        let mut notes: Vec<_> = described.into_iter().collect();
        notes.extend(rows.geometry.as_ref().map(|name| {
            let altitude = if rows.builder.has_z() { " and altitude" } else { "" };
            format!("position{altitude} = {name}")
        }));
        rows.builder.summary(notes)
    }
}

impl JsonRows {
    fn fix(&mut self, row: &JsonRow<'_>, line: u64, ids: IdKind) -> Result<SourceRow, FieldFault> {
        self.choose(row)?;
        let Self { builder, times, columns, geometry, is_position_named, .. } = self;
        let Some(columns) = columns else { unreachable!("`choose` chooses or fails") };
        let value = |field| columns.column(field).and_then(|column| row.value(&column.name));
        let coordinate = |field: FixField| {
            let value = value(field).ok_or_else(|| "there is no position".to_owned());
            value.and_then(|value| value.coordinate()).map_err(FieldFault::of(field))
        };
        let has_columns = value(FixField::X).is_some() && value(FixField::Y).is_some();
        let Point { x, y, z } = match &row.geometry {
            Some(found) if !*is_position_named && (found.point.is_ok() || !has_columns) => {
                geometry.get_or_insert_with(|| found.name.clone());
                found.point.clone().map_err(|reason| FieldFault {
                    field: FixField::X,
                    reason: format!("{}: {reason}", found.name),
                })?
            }
            _ => Point { x: coordinate(FixField::X)?, y: coordinate(FixField::Y)?, z: None },
        };
        let date = columns.date.as_ref().and_then(|date| row.value(&date.name));
        let date = date.map_or_else(String::new, |date| date.to_string());
        let time_ms = match value(FixField::Time) {
            Some(time) => time.time_ms(times, &date),
            None => times.missing(),
        };
        let values = RowValues {
            object: value(FixField::Object),
            time_ms: time_ms.map_err(FieldFault::of(FixField::Time))?,
            x,
            y,
            z,
            speed: value(FixField::Speed),
            heading: value(FixField::Heading),
            altitude: value(FixField::Altitude),
            state: value(FixField::State),
        };
        builder.fix(values, line, ids)
    }

    /// Chooses members by the names so far, if this row has new ones or its position is elsewhere.
    fn choose(&mut self, row: &JsonRow<'_>) -> Result<(), FieldFault> {
        let mut is_new = self.columns.is_none();
        for (name, _) in &row.members {
            if self.names.len() < NAMES_MAX && !self.known.contains(name) {
                self.known.insert(name.clone());
                self.names.push(name.clone());
                is_new = true;
            }
        }
        let has_point = row.geometry.as_ref().is_some_and(|geometry| geometry.point.is_ok());
        let has_column = |field| self.columns.as_ref().is_some_and(|of| of.column(field).is_some());
        let lacks_position = !has_point && !has_column(FixField::X);
        if !is_new && !lacks_position {
            return Ok(());
        }
        if let (false, Some(fault)) = (is_new, &self.fault) {
            return Err(fault.clone());
        }
        let mut options = self.options.clone();
        for (field, column) in self.columns.iter().flat_map(ColumnChoice::chosen) {
            options.columns.retain(|chosen| chosen.field != field);
            options.columns.push(ColumnOverride { field, name: column.name.clone() });
        }
        let fields: &[FixField] =
            if has_point { &[FixField::Object, FixField::Time] } else { &FixField::REQUIRED };
        match ColumnChoice::find(&self.names, &options, &options.required(fields)) {
            Ok(columns) => {
                self.builder.set_columns(&columns);
                let has_time = |of: &ColumnChoice| of.column(FixField::Time).is_some();
                if !self.columns.as_ref().is_some_and(has_time) {
                    self.times = TimeReader::new(columns.time_unit, &self.options);
                }
                (self.columns, self.fault) = (Some(columns), None);
                Ok(())
            }
            Err(fault) if self.columns.is_none() || lacks_position => {
                let field = match fault {
                    ColumnsFault::Missing { field, .. } => field,
                    _ => FixField::Object,
                };
                let list = row.list_of_objects().map_or_else(String::new, |name| {
                    format!("; or the rows are in the list `{name}`, which jq -c '.[\"{name}\"][]' extracts")
                });
                let fault = match &row.geometry {
                    Some(Geometry { name, point: Err(reason) }) => {
                        FieldFault { field: FixField::X, reason: format!("{name}: {reason}") }
                    }
                    _ => FieldFault {
                        field,
                        reason: format!("{fault}{}{list}", column_hint(&fault)),
                    },
                };
                self.fault = row.geometry.is_none().then(|| fault.clone());
                Err(fault)
            }
            Err(_) => Ok(()),
        }
    }
}

/// Parses an object. Python writes NaN and infinities, which JSON has not: they are null.
fn parse(text: &[u8]) -> Result<Json, String> {
    serde_json::from_slice(text).or_else(|error| {
        let lenient = without_nan(text).ok_or(());
        lenient.and_then(|text| serde_json::from_slice(&text).map_err(drop)).map_err(|()| {
            let shown = error.to_string();
            // The place in the object says little about the place in the file.
            shown.rsplit_once(" at line ").map_or(shown.clone(), |(reason, _)| reason.to_owned())
        })
    })
}

/// The text with null for NaN and infinities outside of texts; `None` if there are none.
fn without_nan(text: &[u8]) -> Option<Vec<u8>> {
    const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let (mut out, mut at, mut is_text) = (Vec::with_capacity(text.len()), 0, false);
    while at < text.len() {
        let word = WORDS.iter().find(|word| !is_text && text[at..].starts_with(word));
        if let Some(word) = word {
            out.extend_from_slice(b"null");
            at += word.len();
            continue;
        }
        let step = if is_text && text[at] == b'\\' { 2 } else { 1 };
        is_text ^= text[at] == b'"';
        out.extend_from_slice(&text[at..text.len().min(at + step)]);
        at += step;
    }
    (out != text).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::fix_source::drained;

    fn read(
        text: &str,
        options: &FixFileOptions,
        ids: IdKind,
    ) -> (Vec<SourceRow>, Vec<String>, SourceSummary) {
        let mut source = JsonFixes::new(std::io::Cursor::new(text.to_owned()), "a.json", options);
        drained(&mut source, ids)
    }

    #[test]
    fn objects_of_lines_are_rows() {
        let text = "{\"mmsi\":1,\"timestamp\":\"2026-01-31T12:00:00Z\",\"lat\":2.5,\"lon\":\"1.5\",\"sog\":10}\n\
            {\"mmsi\":2,\"timestamp\":\"2026-01-31T12:00:00Z\",\"lat\":2.5}\n\
            {\"mmsi\":3,\"timestamp\":\"2026-01-31T12:00:00Z\",\"lat\":2.5,\"lon\":3,\"sog\":NaN,\"cog\":90}\n\
            {\"mmsi\":4,\"timestamp\":\"2026-01-31T12:00:00Z\",\"lat\":2.5,\"lon\":3,\"cog\":true}\n";
        let (rows, faults, summary) = read(text, &FixFileOptions::default(), IdKind::Numbers);
        assert_eq!(rows.iter().map(|row| row.fix.object).collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!((rows[0].fix.x, rows[0].fix.y, rows[0].place), (1.5, 2.5, 1));
        assert!((rows[0].fix.speed_mps.unwrap() - 5.144_444).abs() < 1e-5);
        assert_eq!((rows[1].fix.speed_mps, rows[1].fix.heading_deg), (None, Some(90.0)));
        assert_eq!(faults, ["a.json, line 2, lon: there is no position"]);
        assert_eq!(summary.dropped.shown, ["a.json, line 4, cog: `true` is not a number"]);
        assert_eq!(
            summary.notes,
            ["object = mmsi, time = timestamp (ISO 8601), x = lon, y = lat, speed = sog (knots), \
              heading = cog"]
        );
    }

    #[test]
    fn features_are_rows_with_a_point() {
        let text = "{\"type\":\"FeatureCollection\",\"features\":[\n\
            {\"type\":\"Feature\",\"geometry\":{\"type\":\"Point\",\"coordinates\":[1.5,2.5,100]},\"properties\":{\"vehicle\":\"bus-7\",\"time\":1795590000}},\n\
            {\"type\":\"Feature\",\"geometry\":{\"type\":\"LineString\",\"coordinates\":[[1,2]]},\"properties\":{\"vehicle\":\"bus-8\",\"time\":1795590000}},\n\
            {\"type\":\"Feature\",\"geometry\":null,\"properties\":{\"vehicle\":\"bus-9\",\"time\":1795590000}}\n]}\n";
        let (rows, faults, summary) = read(text, &FixFileOptions::default(), IdKind::Names);
        assert_eq!((rows.len(), rows[0].fix.name.as_str(), rows[0].place), (1, "bus-7", 2));
        assert_eq!((rows[0].fix.altitude_m, rows[0].fix.time_ms), (Some(100.0), 1_795_590_000_000));
        assert!(
            faults[0].starts_with("a.json, line 3, x: geometry: a LineString is no"),
            "{faults:?}"
        );
        assert!(
            faults[1].starts_with("a.json, line 4, x: geometry: the feature has no geometry"),
            "{faults:?}"
        );
        assert_eq!(summary.notes[1], "position and altitude = geometry");
    }

    #[test]
    fn a_feature_without_a_geometry_may_have_coordinates_as_properties() {
        let text = "{\"type\":\"Feature\",\"geometry\":null,\"properties\":{\"id\":1,\"t_ms\":5,\"lat\":2,\"lon\":1}}\n\
            {\"type\":\"Feature\",\"geometry\":{\"type\":\"Point\",\"coordinates\":[3,4]},\"properties\":{\"id\":2,\"t_ms\":5,\"lat\":9,\"lon\":9}}\n\
            {\"id\":3,\"t_ms\":5,\"lat\":6,\"lon\":5,\"zone\":{\"type\":\"Polygon\",\"coordinates\":[]}}\n\
            {\"id\":4,\"t_ms\":5}\n";
        let (rows, faults, _) = read(text, &FixFileOptions::default(), IdKind::Numbers);
        let found: Vec<_> = rows.iter().map(|row| (row.fix.object, row.fix.x, row.fix.y)).collect();
        assert_eq!(found, [(1, 1.0, 2.0), (2, 3.0, 4.0), (3, 5.0, 6.0)]);
        assert_eq!(faults, ["a.json, line 4, lon: there is no position"]);
        let (_, faults, _) = read(&"{}\n".repeat(2), &FixFileOptions::default(), IdKind::Numbers);
        assert!(faults.len() == 2 && faults[1].contains("no column of the object"), "{faults:?}");
    }

    #[test]
    fn members_are_named_by_the_user_and_nested_ones_by_paths() {
        let options = FixFileOptions {
            columns: vec!["object=dev.tag".parse().unwrap()],
            ..FixFileOptions::default()
        };
        let text = "{\"dev\":{\"tag\":9},\"gps\":{\"lat\":2,\"lon\":1},\"t_ms\":5}\n{\"gps\":{\"lat\":2,\"lon\":1},\"t_ms\":5}\n[]\n{\"a\":}";
        let (rows, faults, _) = read(text, &options, IdKind::Numbers);
        assert_eq!((rows.len(), rows[0].fix.object, rows[0].fix.time_ms), (1, 9, 5));
        assert_eq!(
            faults,
            [
                "a.json, line 2, dev.tag: there is none; --object gives the object of all rows without one",
                "a.json, line 4, JSON: expected value",
            ]
        );
        let (_, faults, _) =
            read("{\"a\":1,\"lat\":2}", &FixFileOptions::default(), IdKind::Numbers);
        assert!(faults[0].contains("no column of the object"), "{faults:?}");
        assert!(faults[0].ends_with("name it with --column object=NAME"), "{faults:?}");
    }
}
