//! Writes fixes as GeoParquet.
//!
//! Groups of rows are sorted by the Hilbert cell of the position, object and time, and cut into row
//! groups. Each covers a small area, which its statistics of `bbox` state. Memory is bounded by
//! [`SORTED_ROWS`] rows, 50 MB, and some kilobytes of the file's footer for each row group.

use std::collections::HashMap;
use std::io::Write;

use bytes::Bytes;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use serde_json::Value;
use shoal_client::{AnswerRow, v1};
use shoal_engine::Space;
use shoal_history::hilbert_cell;

use super::schema::{GEO, POINT, POINT_BYTES, SHOAL, geo, properties, schema};
use crate::measures::MEASURES;

/// Rows of a row group, about as many as other writers take (DuckDB: 122,880).
pub const ROW_GROUP_ROWS: usize = 1 << 17;
/// Maximum number of rows that are sorted together.
pub const SORTED_ROWS: usize = 4 * ROW_GROUP_ROWS;

/// A fix and the cell of its position.
struct Row {
    cell: u32,
    object: u64,
    fix: v1::FixRecord,
}

/// Writes one file.
pub struct GeoParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    space: Space,
    /// Rows that are not written yet.
    rows: Vec<Row>,
    /// In a named fleet: the names of their objects.
    names: Option<HashMap<u64, ByteArray>>,
    /// Least x and y, greatest x and y.
    extent: Option<[f64; 4]>,
}

impl<W: Write + Send> GeoParquetWriter<W> {
    /// Begins a file of fixes in `space`, of objects with or without names; `shoal` is a document
    /// about their origin.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(
        out: W,
        space: Space,
        is_named: bool,
        shoal: &Value,
    ) -> Result<Self, ParquetError> {
        let mut file = SerializedFileWriter::new(out, schema(is_named)?, properties()?)?;
        file.append_key_value_metadata(KeyValue::new(SHOAL.to_owned(), shoal.to_string()));
        let names = is_named.then(HashMap::new);
        Ok(Self { file, space, rows: Vec::new(), names, extent: None })
    }

    /// Takes the next rows, in any order.
    ///
    /// # Errors
    /// Those of writing.
    pub fn rows(&mut self, rows: impl Iterator<Item = AnswerRow>) -> Result<(), ParquetError> {
        for row in rows {
            let (object, fix) = (row.object, row.fix.unwrap_or_default());
            if let Some(names) = &mut self.names {
                names.entry(object).or_insert_with(|| row.label().as_bytes().to_vec().into());
            }
            // The server's positions lie in its space.
            let (x, y) = self.space.quantise(fix.x, fix.y).unwrap_or_default();
            self.rows.push(Row { cell: hilbert_cell(x, y), object, fix });
            let [west, south, east, north] = self.extent.unwrap_or([fix.x, fix.y, fix.x, fix.y]);
            let (west, east) = (west.min(fix.x), east.max(fix.x));
            self.extent = Some([west, south.min(fix.y), east, north.max(fix.y)]);
            if self.rows.len() == SORTED_ROWS {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Completes the file and returns its writer.
    ///
    /// # Errors
    /// Those of writing.
    pub fn end(mut self) -> Result<W, ParquetError> {
        self.write()?;
        let geo = geo(self.space.is_geographic(), self.extent).to_string();
        self.file.append_key_value_metadata(KeyValue::new(GEO.to_owned(), geo));
        self.file.into_inner()
    }

    /// Sorts the rows and writes them.
    fn write(&mut self) -> Result<(), ParquetError> {
        self.rows.sort_unstable_by_key(|row| (row.cell, row.object, row.fix.time_ms));
        for rows in self.rows.chunks(ROW_GROUP_ROWS) {
            let mut group = self.file.next_row_group()?;
            write_group(&mut group, rows, self.names.as_ref())?;
            group.close()?;
        }
        self.rows.clear();
        self.names.iter_mut().for_each(HashMap::clear);
        Ok(())
    }
}

/// The columns of a row group, in the order of the schema.
fn write_group<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row],
    names: Option<&HashMap<u64, ByteArray>>,
) -> Result<(), ParquetError> {
    match names {
        Some(names) => {
            let names: Vec<ByteArray> = rows.iter().map(|row| names[&row.object].clone()).collect();
            write_column::<ByteArrayType, W>(group, &names, None)?;
        }
        None => {
            let objects: Vec<i64> = rows.iter().map(|row| row.object.cast_signed()).collect();
            write_column::<Int64Type, W>(group, &objects, None)?;
        }
    }
    let times: Vec<i64> = rows.iter().map(|row| row.fix.time_ms).collect();
    write_column::<Int64Type, W>(group, &times, None)?;
    write_column::<ByteArrayType, W>(group, &points(rows), None)?;
    let x: Vec<f64> = rows.iter().map(|row| row.fix.x).collect();
    let y: Vec<f64> = rows.iter().map(|row| row.fix.y).collect();
    // `bbox`: xmin, ymin, xmax, ymax; for a point the minimum equals the maximum.
    for side in [&x, &y, &x, &y] {
        write_column::<DoubleType, W>(group, side, None)?;
    }
    for measure in MEASURES {
        let known: Vec<f64> = rows.iter().filter_map(|row| (measure.of)(&row.fix)).collect();
        let is_known = |row: &Row| i16::from((measure.of)(&row.fix).is_some());
        let levels: Vec<i16> = rows.iter().map(is_known).collect();
        write_column::<DoubleType, W>(group, &known, Some(&levels))?;
    }
    let states: Vec<i32> = rows.iter().map(|row| row.fix.state.cast_signed()).collect();
    write_column::<Int32Type, W>(group, &states, None)
}

/// Writes the next column: its values, and for an optional column the definition level of each row
/// (1 if it has a value, else 0).
fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// Positions as WKB. All share one allocation.
fn points(rows: &[Row]) -> Vec<ByteArray> {
    let mut bytes = Vec::with_capacity(rows.len() * POINT_BYTES);
    for Row { fix, .. } in rows {
        // Little-endian.
        bytes.push(1);
        bytes.extend_from_slice(&POINT.to_le_bytes());
        bytes.extend_from_slice(&fix.x.to_le_bytes());
        bytes.extend_from_slice(&fix.y.to_le_bytes());
    }
    let bytes = Bytes::from(bytes);
    let point = |row: usize| bytes.slice(row * POINT_BYTES..(row + 1) * POINT_BYTES).into();
    (0..rows.len()).map(point).collect()
}

#[cfg(test)]
mod tests {
    use parquet::column::reader::ColumnReader;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::file::statistics::Statistics;
    use serde_json::json;

    use super::*;

    #[test]
    fn row_groups_follow_the_curve_and_state_their_ranges() {
        let mut writer =
            GeoParquetWriter::begin(Vec::new(), Space::geographic(), false, &json!({})).unwrap();
        // One and a half sorted groups; positions jump all over the world.
        let rows = SORTED_ROWS as u64 * 3 / 2;
        let row = |row: u64| {
            let place = |prime: u64, side: f64| (row * prime % 1_009) as f64 / 1_008.0 * side;
            let (x, y) = (place(7_919, 360.0) - 180.0, place(104_729, 180.0) - 90.0);
            let fix = v1::FixRecord { time_ms: row as i64, x, y, ..v1::FixRecord::default() };
            AnswerRow { object: row % 100, fix: Some(fix), ..AnswerRow::default() }
        };
        for first in (0..rows).step_by(1_000) {
            writer.rows((first..rows.min(first + 1_000)).map(row)).unwrap();
        }
        let file = Bytes::from(writer.end().unwrap());
        let file = SerializedFileReader::new(file).unwrap();
        let groups = file.metadata().row_groups();
        let counts: Vec<_> = groups.iter().map(|group| group.num_rows() as usize).collect();
        assert_eq!(counts, [ROW_GROUP_ROWS; 6]);
        let column = |group: usize, index| {
            let mut values = Vec::new();
            let reader = file.get_row_group(group).unwrap().get_column_reader(index).unwrap();
            let ColumnReader::DoubleColumnReader(mut reader) = reader else { unreachable!() };
            reader.read_records(ROW_GROUP_ROWS, None, None, &mut values).unwrap();
            values
        };
        let range = |group: usize, column| match groups[group].column(column).statistics() {
            Some(Statistics::Double(range)) => {
                range.min_opt().copied().zip(range.max_opt().copied())
            }
            other => panic!("{other:?}"),
        };
        let extent = |values: &[f64]| {
            let least = values.iter().copied().reduce(f64::min);
            least.zip(values.iter().copied().reduce(f64::max))
        };
        let mut last = 0;
        for (group, metadata) in groups.iter().enumerate() {
            let (x, y) = (column(group, 3), column(group, 4));
            assert_eq!((range(group, 3), range(group, 5)), (extent(&x), extent(&x)));
            assert_eq!((range(group, 4), range(group, 6)), (extent(&y), extent(&y)));
            assert!(metadata.column(2).statistics().is_none());
            // Cells ascend along the curve, and begin anew with each group of `SORTED_ROWS` rows.
            last = if group * ROW_GROUP_ROWS == SORTED_ROWS { 0 } else { last };
            for (x, y) in x.iter().zip(&y) {
                let (x, y) = Space::geographic().quantise(*x, *y).unwrap();
                let cell = hilbert_cell(x, y);
                assert!(last <= cell, "group {group}");
                last = cell;
            }
        }
    }
}
