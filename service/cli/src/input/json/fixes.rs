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

use super::items::{Item, ItemFault, JsonItems, check_crs_of};
use super::lists::{Around, Element, elements};
use super::row::{Geometry, JsonRow, Point};
use crate::input::fix_builder::{FieldFault, FixBuilder, RowValues};
use crate::input::fix_source::{FixSource, IdKind, SourceRow, SourceSummary};
use crate::input::input_file::column_hint;

/// Maximum number of names of members that are remembered.
const NAMES_MAX: usize = 1_000;

/// The rows of a JSON file.
pub(in crate::input) struct JsonFixes<R> {
    items: JsonItems<R>,
    /// The rows of the list within the last object, the next one last.
    elements: Vec<Element>,
    rows: JsonRows,
}

/// What the objects of a file are.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// Not known before the first object with a position, or with a list of such objects.
    Unknown,
    /// Rows.
    Rows,
    /// Objects with rows in the list at this path.
    Lists(String),
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
    form: Form,
    /// The names of the other members of the object around a list of rows.
    outside: Vec<String>,
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
            form: Form::Unknown,
            outside: Vec::new(),
        };
        Self { items: JsonItems::new(input), elements: Vec::new(), rows }
    }

    /// The next object or element of a list, and the line on which it begins.
    fn next_element(&mut self) -> Option<(u64, Result<Element, String>)> {
        if let Some(element) = self.elements.pop() {
            return Some((element.line, Ok(element)));
        }
        let Item { line, text } = self.items.next()?;
        let element = |text: &[u8]| Element { line, text: text.to_vec(), around: None };
        Some((line, text.map(element).map_err(|fault: ItemFault| fault.to_string())))
    }
}

impl<R: BufRead + Send> FixSource for JsonFixes<R> {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        loop {
            let (line, element) = self.next_element()?;
            let parsed = element.and_then(|element| {
                let object = parse(&element.text)?;
                if object.is_object() { Ok((element, object)) } else { Err(NO_OBJECT.to_owned()) }
            });
            let (element, object) = match parsed {
                Ok(parsed) => parsed,
                Err(reason) => {
                    return Some(Err(self.rows.builder.describe_part(line, "JSON", &reason)));
                }
            };
            let mut row = object.as_object().map(JsonRow::of).unwrap_or_default();
            if let Some(around) = &element.around {
                row.add_around(around);
            } else {
                let list = self.rows.list_of(&object, &row);
                self.items.may_have_lists = self.rows.form != Form::Rows;
                match list {
                    Ok(None) => {}
                    Ok(Some(list)) => {
                        let around = self.rows.enter(&list, &row);
                        let text = without_nan(&element.text).unwrap_or(element.text);
                        self.elements = elements(&text, &list, line, &around);
                        self.elements.reverse();
                        continue;
                    }
                    Err(reason) => {
                        return Some(Err(self.rows.builder.describe_part(line, "JSON", &reason)));
                    }
                }
            }
            let fix = self.rows.fix(&row, line, ids);
            return Some(fix.map_err(|fault| self.rows.builder.describe(line, fault)));
        }
    }

    fn summary(&self) -> SourceSummary {
        let rows = &self.rows;
        let described = rows.columns.as_ref().map(|of| of.describe(&rows.times.describe()));
        let mut notes: Vec<_> = described.into_iter().collect();
        notes.extend(rows.columns.as_ref().and_then(|of| of.describe_unread(&[])));
        notes.extend(rows.geometry.as_ref().map(|name| {
            let altitude = if rows.builder.has_z() { " and altitude" } else { "" };
            format!("position{altitude} = {name}")
        }));
        if let Form::Lists(list) = &rows.form {
            notes.push(format!("rows = elements of the list {list}"));
        }
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
            validity: value(FixField::Validity),
        };
        builder.fix(values, line, ids)
    }

    /// The path of the list with the rows of an object; `None` if the object is a row.
    ///
    /// # Errors
    /// It has neither a position nor the list; several lists have positions; its positions are not
    /// longitude and latitude.
    fn list_of(&mut self, object: &Json, row: &JsonRow<'_>) -> Result<Option<String>, String> {
        if self.form == Form::Rows {
            return Ok(None);
        }
        let known = match &self.form {
            Form::Lists(list) => Some(list.clone()),
            Form::Unknown | Form::Rows => None,
        };
        let is_known =
            |(name, json): &(String, &Json)| known.as_ref() == Some(name) && json.is_array();
        let has_known = row.members.iter().any(is_known);
        if !has_known && (object["type"] == "Feature" || self.has_position(row)) {
            if self.form == Form::Unknown {
                self.form = Form::Rows;
            }
            return Ok(None);
        }
        let mut lists = row.members.iter().filter(|(_, json)| json.is_array()).peekable();
        let has_list = lists.peek().is_some();
        let with_rows: Vec<&str> =
            lists.filter(|(_, json)| self.has_rows(json)).map(|(name, _)| name.as_str()).collect();
        let list = match (known, with_rows.as_slice()) {
            // In a file of rows it is one without a position.
            (None, []) if !has_list => return Ok(None),
            (None, []) => {
                return Err("it has no position, and no list of objects with one".to_owned());
            }
            (None, [list]) => (*list).to_owned(),
            (Some(list), of) if of.iter().all(|name| *name == list) => {
                if !has_known {
                    return Err(format!("it has no list `{list}`"));
                }
                list
            }
            (known, of) => {
                let mut lists: Vec<&str> = known.iter().map(String::as_str).collect();
                lists.extend(of.iter().filter(|name| !lists.contains(name)).collect::<Vec<_>>());
                return Err(format!(
                    "several lists have positions, `{}`; extract the rows of one, as with \
                     jq -c '.{}[]'",
                    lists.join("`, `"),
                    lists[0],
                ));
            }
        };
        check_crs_around(object, &list).map_err(|fault| fault.to_string())?;
        self.form = Form::Lists(list.clone());
        Ok(Some(list))
    }

    /// True for a list in which an object has a position.
    fn has_rows(&self, json: &Json) -> bool {
        let mut objects = json.as_array().into_iter().flatten().filter_map(Json::as_object);
        objects.any(|object| self.has_position(&JsonRow::of(object)))
    }

    fn has_position(&self, row: &JsonRow<'_>) -> bool {
        let position = [FixField::X, FixField::Y];
        let has_chosen = |field| {
            let column = self.columns.as_ref().and_then(|columns| columns.column(field));
            column.is_some_and(|column| row.value(&column.name).is_some())
        };
        let has_point = !self.is_position_named
            && row.geometry.as_ref().is_some_and(|geometry| geometry.point.is_ok());
        if has_point || position.into_iter().all(has_chosen) {
            return true;
        }
        let mut options = self.options.clone();
        options.columns.retain(|column| position.contains(&column.field));
        let members = row.members.iter().filter(|(_, json)| !json.is_null());
        let names: Vec<_> = members.map(|(name, _)| name.clone()).collect();
        ColumnChoice::find(&names, &options, &position).is_ok()
    }

    /// Begins to read the elements of a list; returns the members around it that the user names.
    fn enter(&mut self, list: &str, row: &JsonRow<'_>) -> Around {
        let others = row.members.iter().filter(|(name, json)| name != list && !json.is_array());
        self.outside = others.clone().map(|(name, _)| name.clone()).take(NAMES_MAX).collect();
        let is_named = |name: &str| self.options.columns.iter().any(|column| column.name == name);
        let named = others.filter(|(name, _)| is_named(name));
        Around::new(named.map(|(name, json)| (name.clone(), (*json).clone())).collect())
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
                let outside = match (&self.form, self.outside.as_slice()) {
                    (Form::Lists(list), [_, ..]) => format!(
                        "; members of the object around the list `{list}` can be named too: `{}`",
                        self.outside.join("`, `"),
                    ),
                    _ => String::new(),
                };
                let fault = match &row.geometry {
                    Some(Geometry { name, point: Err(reason) }) => {
                        FieldFault { field: FixField::X, reason: format!("{name}: {reason}") }
                    }
                    _ => FieldFault {
                        field,
                        reason: format!("{fault}{}{outside}", column_hint(&fault)),
                    },
                };
                self.fault = row.geometry.is_none().then(|| fault.clone());
                Err(fault)
            }
            Err(_) => Ok(()),
        }
    }
}

/// Why an element of a list is no row.
const NO_OBJECT: &str = "it is no JSON object";

/// Checks the reference system of the objects around the list at a path.
fn check_crs_around(object: &Json, list: &str) -> Result<(), ItemFault> {
    let names = list.split('.');
    let around = names.scan(object, |around, name| Some(std::mem::replace(around, &around[name])));
    // Members of other kinds have this name too.
    for members in around.filter(|members| members["crs"].is_object()) {
        check_crs_of(members)?;
    }
    Ok(())
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
    fn the_elements_of_a_list_within_an_object_are_rows() {
        let text = "{ \"now\": 1795590000.5, \"messages\": 9, \"alerts\": [{\"id\":1}],\n\
            \"aircraft\" : [\n\
            {\"hex\":\"3c6444\",\"lat\":1,\"lon\":2,\"gs\":400.5,\"sensors\":[{\"lat\":9,\"lon\":9}]},\n\
            {\"hex\":\"a0b1c2\",\"alt_baro\":\"ground\"},\n\
            7, {\"hex\":\"4b1806\",\"lat\":3,\"lon\":NaN}, {\"hex\":\"4b1807\",\"lat\":3,\"lon\":4}\n\
            ]}\n\
            {\"now\":1795590001.5,\"aircraft\":[]}\n\
            {\"now\":1795590002.5,\"aircraft\":[{\"hex\":\"3c6444\",\"lat\":5,\"lon\":6}]}\n";
        let mut options = FixFileOptions::default();
        let (rows, faults, _) = read(text, &options, IdKind::Names);
        assert_eq!((rows.len(), faults.len()), (0, 6));
        let hint = "; members of the object around the list `aircraft` can be named too: `messages`, `now`";
        assert!(faults[0].starts_with("a.json, line 3, "), "{faults:?}");
        assert!(faults[0].ends_with(hint), "{faults:?}");

        options.columns.push("time=now".parse().unwrap());
        let (rows, faults, summary) = read(text, &options, IdKind::Names);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.fix.name.as_str(), row.fix.time_ms, row.fix.y, row.place))
            .collect();
        let expected = [
            ("3c6444", 1_795_590_000_500, 1.0, 3),
            ("4b1807", 1_795_590_000_500, 3.0, 5),
            ("3c6444", 1_795_590_002_500, 5.0, 8),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            faults,
            [
                "a.json, line 4, lon: there is no position",
                "a.json, line 5, JSON: it is no JSON object",
                "a.json, line 5, lon: there is no position",
            ]
        );
        assert!(summary.notes.contains(&"rows = elements of the list aircraft".to_owned()));
    }

    #[test]
    fn the_first_object_tells_whether_rows_are_in_lists() {
        let row = |id: u64| format!("{{\"id\":{id},\"t_ms\":1,\"lat\":2,\"lon\":3}}");
        let objects = |text: &str| {
            let (rows, faults, _) = read(text, &FixFileOptions::default(), IdKind::Numbers);
            let rows: Vec<_> = rows.iter().map(|row| (row.fix.object, row.place)).collect();
            (rows, faults)
        };
        // A row without a position keeps its list, and so does one with a position.
        let stops = format!("{{\"id\":8,\"t_ms\":1,\"stops\":[{}]}}", row(1));
        let (rows, faults) = objects(&format!("{}\n{stops}\n{}", row(7), row(9)));
        assert_eq!(rows, [(7, 1), (9, 3)]);
        assert_eq!(faults, ["a.json, line 2, lon: there is no position"]);
        let own = "{\"id\":7,\"t_ms\":1,\"lat\":2,\"lon\":3,\"cars\":[{\"id\":8,\"t_ms\":1,\"lat\":2,\"lon\":3}]}";
        assert_eq!(objects(own), (vec![(7, 1)], vec![]));
        // The list may be nested, have elements without a position, and be empty.
        let blank = "{\"id\":5}";
        let list = |of: &str| format!("{{\"time\":9,\"data\":{{\"cars\":[{of}]}}}}\n");
        let many = format!("{}{},{}", format!("{blank},").repeat(30), row(1), row(2));
        let text =
            [list(""), list(&many), list(""), list(blank), row(3) + "\n{\"data\":7}"].concat();
        let (rows, faults) = objects(&text);
        assert_eq!((rows, faults.len()), (vec![(1, 2), (2, 2), (3, 5)], 33));
        let neither = "a.json, line 1, JSON: it has no position, and no list of objects with one";
        assert_eq!(
            (faults[0].as_str(), faults[32].as_str()),
            (neither, "a.json, line 6, JSON: it has no list `data.cars`")
        );
        // Two lists with positions are a fault.
        let two = format!("{{\"buses\":[{}],\"trains\":[{}]}}\n", row(1), row(2));
        let one = format!("{{\"buses\":[{}],\"trains\":[]}}\n", row(3));
        let (rows, faults) = objects(&[two.as_str(), &one, &two].concat());
        assert_eq!((rows, faults.len()), (vec![(3, 2)], 2));
        assert!(faults.iter().all(|fault| fault.contains("positions, `buses`, `trains`;")));
        let other = format!("{{\"buses\":[],\"trains\":[{}]}}\n", row(2));
        let (rows, faults) = objects(&[one.as_str(), &other].concat());
        assert_eq!((rows.len(), faults.len()), (1, 1));
        assert!(faults[0].contains("positions, `buses`, `trains`;"), "{faults:?}");
        // The object around the list may have a position too, once the list is known.
        let placed = format!("{{\"lat\":1,\"lon\":1,\"crs\":\"PAD\",\"buses\":[{}]}}\n", row(4));
        let null = format!("{{\"lat\":null,\"lon\":null,\"buses\":[{}]}}\n", row(5));
        let (rows, faults) = objects(&[null.as_str(), &placed].concat());
        assert_eq!((rows, faults), (vec![(5, 1), (4, 2)], vec![]));
        // Another reference system, and a feature, are no lists of rows.
        let crs = "\"crs\":{\"properties\":{\"name\":\"EPSG:3857\"}}";
        let (rows, faults) = objects(&format!("{{\"d\":{{{crs},\"features\":[{}]}}}}", row(1)));
        assert!(rows.is_empty() && faults[0].contains("EPSG:3857"), "{faults:?}");
        let feature = format!("{{\"type\":\"Feature\",\"properties\":{{\"track\":[{}]}}}}", row(1));
        let (rows, faults) = objects(&feature);
        assert_eq!((rows.len(), faults.len()), (0, 1));
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
