//! Builds fixes from the values of a row.

use shoal_table::{FixField, FixFileOptions, TimeReader};

use super::chunk::{Chunk, ChunkPosition};
use super::column::Column;
use super::source_columns::{Position, SourceColumns, TimeForm};
use super::wkb::{WkbPoint, point};
use crate::input::{FieldFault, FixBuilder, IdKind, RowValues, SourceRow, Value};

/// Reads the rows of one file, and remembers what their values were found to be.
pub(super) struct RowReader {
    pub(super) builder: FixBuilder,
    pub(super) times: TimeReader,
    time_form: TimeForm,
    /// Points with a measure M, which is not stored.
    pub(super) points_with_m: u64,
    /// The reference system of the first point that states one.
    pub(super) srid: Option<u32>,
}

impl RowReader {
    /// For a file with these columns.
    pub(super) fn new(file: &str, columns: &SourceColumns, options: &FixFileOptions) -> Self {
        let SourceColumns { columns: choice, time_form, position, .. } = columns;
        let mut builder = FixBuilder::new(file, "row", options);
        builder.set_columns(choice);
        let (x, y) = match position {
            Position::Wkb(point) => (point, point),
            Position::Columns(x, y, _) => (x, y),
        };
        builder.set_name(FixField::X, &x.name);
        builder.set_name(FixField::Y, &y.name);
        Self {
            builder,
            times: TimeReader::new(choice.time_unit, options),
            time_form: *time_form,
            points_with_m: 0,
            srid: None,
        }
    }

    /// Builds the fix of a row; `place` is its number in the file.
    ///
    /// # Errors
    /// The field that cannot be used.
    #[inline]
    pub(super) fn fix<'chunk>(
        &mut self,
        chunk: &'chunk Chunk,
        row: usize,
        place: u64,
        ids: IdKind,
    ) -> Result<SourceRow, FieldFault> {
        let value = |column: &'chunk Option<Column>| column.as_ref()?.get(row);
        let time_ms = self.time_ms(value(&chunk.times)).map_err(FieldFault::of(FixField::Time))?;
        let point = position(chunk, row)?;
        let [speed, heading, altitude, validity] = &chunk.measures;
        let values = RowValues {
            object: value(&chunk.objects),
            time_ms,
            x: point.x,
            y: point.y,
            z: point.z,
            speed: value(speed),
            heading: value(heading),
            altitude: value(altitude),
            state: value(&chunk.states),
            validity: value(validity),
        };
        let fix = self.builder.fix(values, place, ids)?;
        self.points_with_m += u64::from(point.has_m);
        self.srid = self.srid.or(point.srid);
        Ok(fix)
    }

    fn time_ms(&mut self, time: Option<Value<'_>>) -> Result<i64, String> {
        match (time, self.time_form) {
            (None, _) => self.times.missing(),
            (Some(Value::Integer(time)), TimeForm::Timestamp(unit, _)) => {
                unit.to_ms(time).ok_or_else(|| format!("`{time}` is no time"))
            }
            (Some(time), _) => time.time_ms(&mut self.times, ""),
        }
    }
}

fn position(chunk: &Chunk, row: usize) -> Result<WkbPoint, FieldFault> {
    let coordinate = |column: &Column, field: FixField| {
        let value = column.get(row).ok_or_else(|| "it is null".to_owned());
        value.and_then(Value::coordinate).map_err(FieldFault::of(field))
    };
    match &chunk.positions {
        ChunkPosition::Wkb(points) => match points.get(row) {
            Some(Value::Bytes(bytes)) => point(bytes),
            Some(_) => Err("it is no WKB".to_owned()),
            None => Err("it is null".to_owned()),
        }
        .map_err(FieldFault::of(FixField::X)),
        ChunkPosition::Columns(x, y, z) => Ok(WkbPoint {
            x: coordinate(x, FixField::X)?,
            y: coordinate(y, FixField::Y)?,
            z: z.as_ref().and_then(|z| z.get(row)?.coordinate().ok()),
            ..WkbPoint::default()
        }),
    }
}
