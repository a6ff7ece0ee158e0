//! Builds fixes from the values of a row.

use shoal_client::v1;
use shoal_table::{
    ColumnChoice, DroppedMeasures, FixField, FixFileOptions, MeasureReader, RowMeasures,
    TimeReader, object_number,
};

use super::chunk::{Chunk, ChunkPosition};
use super::column::{Column, Fault, Value};
use super::source_columns::TimeForm;
use super::wkb::{WkbPoint, point};
use crate::input::IdKind;

/// Reads the rows of one file, and remembers what their values were found to be.
pub(super) struct RowReader {
    /// The file in messages.
    name: String,
    pub(super) times: TimeReader,
    time_form: TimeForm,
    measures: MeasureReader,
    is_hexadecimal: bool,
    is_strict: bool,
    pub(super) dropped: DroppedMeasures,
    /// Points with a measure M, which is not stored.
    pub(super) points_with_m: u64,
    /// True if a point had a third coordinate that is its altitude.
    pub(super) has_z: bool,
    /// The reference system of the first point that states one.
    pub(super) srid: Option<u32>,
}

/// An object of a numeric or of a named fleet.
#[derive(Default)]
struct ObjectId {
    object: u64,
    name: String,
}

impl RowReader {
    /// For a file with these columns.
    pub(super) fn new(
        name: &str,
        columns: &ColumnChoice,
        time_form: TimeForm,
        options: &FixFileOptions,
    ) -> Self {
        Self {
            name: name.to_owned(),
            times: TimeReader::new(columns.time_unit, options.time_format.clone()),
            time_form,
            measures: MeasureReader::new(columns, options.is_strict),
            is_hexadecimal: columns.is_hexadecimal,
            is_strict: options.is_strict,
            dropped: DroppedMeasures::default(),
            points_with_m: 0,
            has_z: false,
            srid: None,
        }
    }

    /// Builds the fix of a row; `place` is its number in the file.
    ///
    /// # Errors
    /// The unusable column.
    pub(super) fn fix(
        &mut self,
        chunk: &Chunk,
        row: usize,
        place: u64,
        ids: IdKind,
    ) -> Result<v1::Fix, Fault> {
        let id = chunk.objects.required(row, |id| self.object_id(id, ids))?;
        let time_ms = chunk.times.required(row, |time| self.time_ms(time))?;
        let point = position(chunk, row)?;
        let [speed, heading, altitude] = &chunk.measures;
        let mut dropped = Vec::new();
        let mut measure = |column: &Option<Column>| -> Result<Option<f64>, Fault> {
            let Some(column) = column else { return Ok(None) };
            match column.get(row).map(Value::real) {
                None => Ok(None),
                Some(Ok(value)) => Ok(value),
                Some(Err(reason)) if self.is_strict => Err(column.fault(reason)),
                Some(Err(reason)) => {
                    dropped.push((column.name().to_owned(), reason));
                    Ok(None)
                }
            }
        };
        let read = RowMeasures {
            speed: measure(speed)?,
            heading: measure(heading)?,
            altitude: measure(altitude)?,
        };
        let name = |field: FixField| {
            let column = match field {
                FixField::Speed => speed,
                FixField::Heading => heading,
                _ => altitude,
            };
            column.as_ref().map_or(field.name(), Column::name).to_owned()
        };
        let mut drop = |field, raw: f64| dropped.push((name(field), format!("`{raw}`")));
        let mut kept = self.measures.convert(read, &mut drop);
        if let (None, Some(z)) = (read.altitude.filter(|altitude| !altitude.is_nan()), point.z) {
            let third = RowMeasures { altitude: Some(z), ..RowMeasures::default() };
            kept.altitude = self.measures.in_metres().convert(third, &mut drop).altitude;
            self.has_z = true;
        }
        let mut state = 0;
        if let Some(column) = &chunk.states
            && let Some(value) = column.get(row)
        {
            match value.bits() {
                Ok(bits) => state = bits,
                Err(reason) if self.is_strict => return Err(column.fault(reason)),
                Err(reason) => dropped.push((column.name().to_owned(), reason)),
            }
        }
        for (column, reason) in dropped {
            self.dropped.add(|| format!("{}, row {place}, {column}: {reason}", self.name));
        }
        self.points_with_m += u64::from(point.has_m);
        self.srid = self.srid.or(point.srid);
        Ok(v1::Fix {
            object: id.object,
            name: id.name,
            time_ms,
            x: point.x,
            y: point.y,
            // Rounding to `f32` is finer than the stored resolution.
            speed_mps: kept.speed.map(|speed| speed as f32),
            heading_deg: kept.heading.map(|heading| heading as f32),
            altitude_m: kept.altitude,
            state,
        })
    }

    fn object_id(&self, id: Value<'_>, ids: IdKind) -> Result<ObjectId, String> {
        if ids == IdKind::Names {
            return match id {
                Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                    Ok(name) => Ok(ObjectId { name: name.trim().to_owned(), object: 0 }),
                    Err(_) => Err("it is not UTF-8 text".to_owned()),
                },
                number => Ok(ObjectId { name: number.to_string(), object: 0 }),
            };
        }
        let object = match id {
            Value::Integer(object) => u64::try_from(object).ok(),
            Value::Real(object) => {
                let is_whole = (0.0..1.8e19).contains(&object) && object.fract() == 0.0;
                is_whole.then_some(object as u64)
            }
            Value::Bytes(bytes) => {
                let text = std::str::from_utf8(bytes).unwrap_or_default();
                object_number(text.trim(), self.is_hexadecimal)
            }
        };
        let wrong = || format!("{id} is no object id, a number; a fleet with names takes texts");
        Ok(ObjectId { object: object.ok_or_else(wrong)?, name: String::new() })
    }

    fn time_ms(&mut self, time: Value<'_>) -> Result<i64, String> {
        let wrong = || format!("{time} is no time");
        let integer = |time: i128| i64::try_from(time).map_err(|_| wrong());
        match (time, self.time_form) {
            (Value::Integer(time), TimeForm::Timestamp(unit, _)) => {
                unit.to_ms(integer(time)?).ok_or_else(wrong)
            }
            (Value::Integer(time), TimeForm::Plain) => self.times.number(integer(time)?),
            (Value::Real(time), _) => self.times.real(time, &time.to_string()),
            (Value::Bytes(bytes), _) => self.times.text(String::from_utf8_lossy(bytes).trim(), ""),
        }
    }
}

fn position(chunk: &Chunk, row: usize) -> Result<WkbPoint, Fault> {
    match &chunk.positions {
        ChunkPosition::Wkb(points) => points.required(row, |value| match value {
            Value::Bytes(bytes) => point(bytes),
            _ => Err("it is no WKB".to_owned()),
        }),
        ChunkPosition::Columns(x, y, z) => Ok(WkbPoint {
            x: x.required(row, Value::coordinate)?,
            y: y.required(row, Value::coordinate)?,
            z: z.as_ref().and_then(|z| z.get(row)?.coordinate().ok()),
            ..WkbPoint::default()
        }),
    }
}
