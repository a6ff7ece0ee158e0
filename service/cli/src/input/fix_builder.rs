//! Builds the fixes of a report from the values of rows.

use shoal_client::v1;
use shoal_table::{
    AltitudeUnit, ColumnChoice, DroppedMeasures, FixField, FixFileOptions, MeasureReader,
    RowMeasures, SpeedUnit, object_default_note, object_number,
};

use super::fix_source::{IdKind, SourceRow, SourceSummary};
use super::value::{NESTED, Value};

/// The values of a row as its file states them; `None` where it has none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowValues<'row> {
    pub(crate) object: Option<Value<'row>>,
    pub(crate) time_ms: i64,
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The third coordinate, which is the altitude in metres if there is no other.
    pub(crate) z: Option<f64>,
    /// In units of the file.
    pub(crate) speed: Option<Value<'row>>,
    pub(crate) heading: Option<Value<'row>>,
    pub(crate) altitude: Option<Value<'row>>,
    pub(crate) state: Option<Value<'row>>,
    pub(crate) validity: Option<Value<'row>>,
}

/// A field of a row that cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct FieldFault {
    pub(crate) field: FixField,
    pub(crate) reason: String,
}

impl FieldFault {
    /// Makes a fault from a reason.
    pub(crate) fn of(field: FixField) -> impl FnOnce(String) -> Self {
        move |reason| Self { field, reason }
    }
}

/// Builds the fixes of one file.
pub(crate) struct FixBuilder {
    /// The file in messages.
    file: String,
    /// What the places of rows count.
    place: &'static str,
    /// The names of the fields in the file.
    names: [String; FixField::COUNT],
    measures: MeasureReader,
    is_hexadecimal: bool,
    /// The object of rows that state none.
    object: Option<String>,
    has_object_defaults: bool,
    is_strict: bool,
    /// Measures without which rows were built.
    dropped: DroppedMeasures,
    /// True if a third coordinate was an altitude.
    has_z: bool,
}

/// An object of a numeric or of a named fleet.
struct ObjectId {
    object: u64,
    name: String,
}

impl FixBuilder {
    /// For a file with the units that the options name; `place` is what the places of rows count.
    pub(crate) fn new(file: &str, place: &'static str, options: &FixFileOptions) -> Self {
        let speed_unit = options.speed_unit.unwrap_or_default();
        let altitude_unit = options.altitude_unit.unwrap_or_default();
        Self {
            file: file.to_owned(),
            place,
            names: FixField::ALL.map(|field| field.name().to_owned()),
            measures: MeasureReader::new(speed_unit, altitude_unit, options.is_strict),
            is_hexadecimal: false,
            object: options.object.clone(),
            has_object_defaults: false,
            is_strict: options.is_strict,
            dropped: DroppedMeasures::default(),
            has_z: false,
        }
    }

    /// Takes the names and units of chosen columns.
    pub(crate) fn set_columns(&mut self, columns: &ColumnChoice) {
        self.set_units(columns.speed_unit, columns.altitude_unit);
        self.measures = self.measures.with_validities_in(columns.validity_unit);
        self.is_hexadecimal = columns.is_hexadecimal;
        self.names = FixField::ALL.map(|field| columns.name(field).to_owned());
    }

    /// Takes the units of a format that has its own.
    pub(crate) fn set_units(&mut self, speed_unit: SpeedUnit, altitude_unit: AltitudeUnit) {
        self.measures = MeasureReader::new(speed_unit, altitude_unit, self.is_strict);
    }

    /// Takes the name of a field in the file.
    pub(crate) fn set_name(&mut self, field: FixField, name: &str) {
        self.names[field as usize] = name.to_owned();
    }

    /// Describes a row that cannot be read.
    pub(crate) fn describe(&self, place: u64, FieldFault { field, reason }: FieldFault) -> String {
        self.describe_part(place, &self.names[field as usize], &reason)
    }

    /// Describes a fault of a part of the file that is no field.
    pub(crate) fn describe_part(&self, place: u64, part: &str, reason: &str) -> String {
        format!("{}, {} {place}, {part}: {reason}", self.file, self.place)
    }

    /// True if the third coordinate of a row was its altitude.
    pub(crate) fn has_z(&self) -> bool {
        self.has_z
    }

    /// Builds the fix of the row at `place`.
    ///
    /// # Errors
    /// The object is missing or not of the kind of the fleet; a measure that is no number, if the
    /// options are strict.
    #[inline]
    pub(crate) fn fix(
        &mut self,
        row: RowValues<'_>,
        place: u64,
        ids: IdKind,
    ) -> Result<SourceRow, FieldFault> {
        let id = self.object_id(row.object, ids).map_err(FieldFault::of(FixField::Object))?;
        let mut dropped = Vec::new();
        let is_strict = self.is_strict;
        let mut readable = |field, value: Option<Value<'_>>| match value.map(Value::real) {
            None => Ok(None),
            Some(Ok(value)) => Ok(value),
            Some(Err(reason)) if is_strict => Err(FieldFault { field, reason }),
            Some(Err(reason)) => {
                dropped.push(FieldFault { field, reason });
                Ok(None)
            }
        };
        let read = RowMeasures {
            speed: readable(FixField::Speed, row.speed)?,
            heading: readable(FixField::Heading, row.heading)?,
            altitude: readable(FixField::Altitude, row.altitude)?,
            validity: readable(FixField::Validity, row.validity)?,
        };
        let mut drop = |field, raw: f64| {
            dropped.push(FieldFault { field, reason: format!("`{raw}`") });
        };
        let mut kept = self.measures.convert(read, &mut drop);
        if let (None, Some(z)) = (read.altitude.filter(|altitude| !altitude.is_nan()), row.z) {
            let third = RowMeasures { altitude: Some(z), ..RowMeasures::default() };
            kept.altitude = self.measures.in_metres().convert(third, &mut drop).altitude;
            self.has_z = true;
        }
        let state = match row.state.map(Value::bits) {
            None => 0,
            Some(Ok(bits)) => bits,
            Some(Err(reason)) if is_strict => {
                return Err(FieldFault { field: FixField::State, reason });
            }
            Some(Err(reason)) => {
                dropped.push(FieldFault { field: FixField::State, reason });
                0
            }
        };
        for fault in dropped {
            // `describe` needs the builder while its counter changes.
            let mut count = std::mem::take(&mut self.dropped);
            count.add(|| self.describe(place, fault));
            self.dropped = count;
        }
        let fix = v1::Fix {
            object: id.object,
            name: id.name,
            time_ms: row.time_ms,
            x: row.x,
            y: row.y,
            // Rounding to `f32` is finer than the stored resolution.
            speed_mps: kept.speed.map(|speed| speed as f32),
            heading_deg: kept.heading.map(|heading| heading as f32),
            altitude_m: kept.altitude,
            state,
            valid_s: kept.validity,
        };
        Ok(SourceRow { fix, place })
    }

    #[inline]
    fn object_id(&mut self, id: Option<Value<'_>>, ids: IdKind) -> Result<ObjectId, String> {
        if let (IdKind::Numbers, Some(Value::Integer(id @ 0..))) = (ids, id) {
            return Ok(ObjectId { object: id.cast_unsigned(), name: String::new() });
        }
        self.any_object_id(id, ids)
    }

    /// As [`Self::object_id`], of any value.
    fn any_object_id(&mut self, id: Option<Value<'_>>, ids: IdKind) -> Result<ObjectId, String> {
        let is_empty = |id: &Value<'_>| match id {
            Value::Bytes(text) => text.trim_ascii().is_empty(),
            // Programs write integers with nulls as floats.
            Value::Real(number) => number.is_nan(),
            Value::Integer(_) | Value::Natural(_) => false,
        };
        let default = self.object.as_ref().map(|object| Value::Bytes(object.as_bytes()));
        let stated = id.filter(|id| !is_empty(id));
        let is_default = stated.is_none();
        self.has_object_defaults |= is_default;
        let id = stated
            .or(default)
            .ok_or("there is none; --object gives the object of all rows without one")?;
        if ids == IdKind::Names {
            let name = match id {
                Value::Bytes(NESTED) => return Err("it is a list or an object".to_owned()),
                Value::Bytes(bytes) => {
                    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text")?;
                    text.trim().to_owned()
                }
                number => number.to_string(),
            };
            return Ok(ObjectId { name, object: 0 });
        }
        let object = match id {
            Value::Integer(object) => u64::try_from(object).ok(),
            Value::Natural(object) => Some(object),
            Value::Real(object) => {
                let is_whole = (0.0..1.8e19).contains(&object) && object.fract() == 0.0;
                is_whole.then_some(object as u64)
            }
            Value::Bytes(bytes) => {
                let text = std::str::from_utf8(bytes).unwrap_or_default();
                object_number(text.trim(), self.is_hexadecimal && !is_default)
            }
        };
        let wrong = || {
            format!(
                "`{id}` is no object id, a number; a fleet with names takes texts (--fleet NAME --fleet-create named)"
            )
        };
        Ok(ObjectId { object: object.ok_or_else(wrong)?, name: String::new() })
    }

    /// The summary with the notes of the format.
    pub(crate) fn summary(&self, mut notes: Vec<String>) -> SourceSummary {
        let default = self.object.as_ref().filter(|_| self.has_object_defaults);
        notes.extend(default.map(|object| object_default_note(object)));
        SourceSummary {
            file: self.file.clone(),
            place: self.place,
            notes,
            names: self.names.clone(),
            dropped: self.dropped.clone(),
        }
    }
}
