//! Reads the rows of a GeoParquet file as fixes of a report.
//!
//! Memory is bounded by one page of each column and [`CHUNK_ROWS`] rows. A value that cannot be
//! used invalidates its row; a page that cannot be decoded ends the file. Both errors state file,
//! row (from 1) and column.

use std::fs::File;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use shoal_client::v1;
use shoal_table::SpeedUnit;

use super::source_columns::{Leaf, SourceColumns};
use super::wkb;
use crate::error::CliError;
use crate::measures::MEASURES;

/// Rows that are decoded at a time.
const CHUNK_ROWS: usize = 4_096;

/// The rows of one file.
pub struct GeoParquetReader {
    name: String,
    file: SerializedFileReader<File>,
    columns: SourceColumns,
    speed_unit: SpeedUnit,
    /// Index of the next row group; `left` is the number of unread rows of the current one.
    group: usize,
    left: u64,
    readers: Vec<ColumnReader>,
    /// Rows that were read.
    row: u64,
    chunk: std::vec::IntoIter<Result<v1::Fix, String>>,
    is_broken: bool,
}

/// A fault that ends the file: column and reason.
type Broken = (String, String);

impl GeoParquetReader {
    /// Opens a file and finds its columns.
    ///
    /// # Errors
    /// [`CliError::Input`].
    pub fn open(name: &str, file: File, speed_unit: SpeedUnit) -> Result<Self, CliError> {
        let wrong = |reason| CliError::Input { file: name.to_owned(), reason };
        let file = SerializedFileReader::new(file).map_err(|error| wrong(error.to_string()))?;
        let columns = SourceColumns::of(file.metadata().file_metadata()).map_err(wrong)?;
        Ok(Self {
            name: name.to_owned(),
            file,
            columns,
            speed_unit,
            group: 0,
            left: 0,
            readers: Vec::new(),
            row: 0,
            chunk: Vec::new().into_iter(),
            is_broken: false,
        })
    }

    /// Checks that the reference system of the positions fits the space of the fleet.
    ///
    /// # Errors
    /// [`CliError::Input`].
    pub fn check_space(&self, is_geographic: bool) -> Result<(), CliError> {
        let reason = match (&self.columns.crs, is_geographic) {
            (None, true) | (Some(_), false) => return Ok(()),
            (Some(crs), true) => {
                format!("its crs is {crs}; the fleet takes longitude and latitude (OGC:CRS84)")
            }
            (None, false) => {
                "its positions are longitude and latitude; the fleet is planar".to_owned()
            }
        };
        Err(CliError::Input { file: self.name.clone(), reason })
    }

    /// Opens the next row group that has rows; false at the end.
    fn next_group(&mut self) -> Result<bool, Broken> {
        while self.left == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let broken = |error: ParquetError| ("row group".to_owned(), error.to_string());
            let group = self.file.get_row_group(self.group).map_err(broken)?;
            self.left = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
            let SourceColumns { object, time, geometry, measures, state, .. } = &self.columns;
            let optional = measures.iter().chain([state]).flatten();
            let leaves = [object, time, geometry].into_iter().chain(optional);
            let reader = |leaf: &Leaf| group.get_column_reader(leaf.index);
            self.readers = leaves.map(reader).collect::<Result<_, _>>().map_err(broken)?;
            self.group += 1;
        }
        Ok(true)
    }

    /// Decodes the next rows; none at the end.
    fn next_chunk(&mut self) -> Result<Vec<Result<v1::Fix, String>>, Broken> {
        if !self.next_group()? {
            return Ok(Vec::new());
        }
        let rows = CHUNK_ROWS.min(usize::try_from(self.left).unwrap_or(CHUNK_ROWS));
        let columns = &self.columns;
        let mut readers = self.readers.iter_mut();
        let mut next = |leaf: &Leaf| {
            let reader = readers.next().ok_or((leaf.name.clone(), "it is missing".to_owned()))?;
            Ok::<_, Broken>((reader, leaf.clone(), rows))
        };
        let mut chunk = Chunk {
            objects: integers(next(&columns.object)?)?,
            times: integers(next(&columns.time)?)?,
            points: points(next(&columns.geometry)?)?,
            ..Chunk::default()
        };
        for leaf in &columns.measures {
            let values = leaf.as_ref().map(|leaf| numbers(next(leaf)?)).transpose()?;
            chunk.measures.push(values.unwrap_or_default());
        }
        if let Some(leaf) = &columns.state {
            chunk.states = integers(next(leaf)?)?;
        }
        let fix = |row: usize| {
            chunk.fix(row, columns, self.speed_unit).map_err(|(column, fault)| {
                let number = self.row + row as u64 + 1;
                format!("{}, row {number}, {column}: {fault}", self.name)
            })
        };
        let fixes = (0..rows).map(fix).collect();
        self.row += rows as u64;
        self.left -= rows as u64;
        Ok(fixes)
    }
}

impl Iterator for GeoParquetReader {
    type Item = Result<v1::Fix, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.chunk.next() {
            return Some(row);
        }
        if self.is_broken {
            return None;
        }
        match self.next_chunk() {
            Ok(chunk) => {
                self.chunk = chunk.into_iter();
                self.chunk.next()
            }
            Err((column, reason)) => {
                self.is_broken = true;
                let row = self.row + 1;
                Some(Err(format!(
                    "{}, row {row}, {column}: cannot be read further: {reason}",
                    self.name
                )))
            }
        }
    }
}

/// Decoded columns; columns that are not in the file are empty.
#[derive(Default)]
struct Chunk {
    objects: Vec<Option<i128>>,
    times: Vec<Option<i128>>,
    points: Vec<Option<ByteArray>>,
    measures: Vec<Vec<Option<f64>>>,
    states: Vec<Option<i128>>,
}

impl Chunk {
    /// Builds a fix from a row, or returns the unusable column and the reason.
    fn fix<'columns>(
        &self,
        row: usize,
        columns: &'columns SourceColumns,
        speed_unit: SpeedUnit,
    ) -> Result<v1::Fix, (&'columns str, String)> {
        let name = columns.object.name.as_str();
        let object = value(&self.objects, row, name)?;
        let wrong = |what| move |_| (name, format!("{object} is no {what}"));
        let object = u64::try_from(object).map_err(wrong("object id"))?;
        let name = columns.time.name.as_str();
        let time = value(&self.times, row, name)?.div_euclid(columns.time_per_ms.into());
        let time_ms = i64::try_from(time).map_err(|_| (name, format!("{time} is no time")))?;
        let name = columns.geometry.name.as_str();
        let point = self.points[row].as_ref().ok_or_else(|| (name, "it is null".to_owned()))?;
        let (x, y) = wkb::point(point.data()).map_err(|fault| (name, fault))?;
        let state = self.states.get(row).copied().flatten().unwrap_or(0);
        let state = u32::try_from(state)
            .map_err(|_| ("state", format!("{state} is not 0 to {}", u32::MAX)))?;
        let mut fix = v1::Fix { object, time_ms, x, y, state, ..v1::Fix::default() };
        for (measure, values) in MEASURES.iter().zip(&self.measures) {
            (measure.set)(&mut fix, values.get(row).copied().flatten());
        }
        let to_m_s = |speed| speed_unit.to_m_s(f64::from(speed)) as f32;
        fix.speed_mps = fix.speed_mps.map(to_m_s);
        Ok(fix)
    }
}

/// Returns the value of a required column in a row; fails if it is null.
fn value<'name>(
    values: &[Option<i128>],
    row: usize,
    name: &'name str,
) -> Result<i128, (&'name str, String)> {
    values[row].ok_or_else(|| (name, "it is null".to_owned()))
}

/// Arguments for reading a column: its reader, its description, and the number of rows.
type Reading<'readers> = (&'readers mut ColumnReader, Leaf, usize);

/// Returns the values of the next rows, `None` for a null value.
fn values<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    leaf: &Leaf,
    rows: usize,
    convert: impl Fn(T::T) -> V,
) -> Result<Vec<Option<V>>, Broken> {
    let broken = |reason: String| (leaf.name.clone(), reason);
    let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let read = reader.read_records(rows, Some(&mut levels), None, &mut values);
    let (count, ..) = read.map_err(|error| broken(error.to_string()))?;
    if count != rows {
        return Err(broken("it has fewer rows than its row group".to_owned()));
    }
    let mut values = values.into_iter().map(convert);
    if leaf.level == 0 {
        return Ok(values.map(Some).collect());
    }
    Ok(levels.iter().map(|level| (*level == leaf.level).then(|| values.next()).flatten()).collect())
}

fn integers((reader, leaf, rows): Reading<'_>) -> Result<Vec<Option<i128>>, Broken> {
    match reader {
        ColumnReader::Int64ColumnReader(reader) if leaf.is_unsigned => {
            values(reader, &leaf, rows, |value| value.cast_unsigned().into())
        }
        ColumnReader::Int64ColumnReader(reader) => values(reader, &leaf, rows, i128::from),
        ColumnReader::Int32ColumnReader(reader) if leaf.is_unsigned => {
            values(reader, &leaf, rows, |value| value.cast_unsigned().into())
        }
        ColumnReader::Int32ColumnReader(reader) => values(reader, &leaf, rows, i128::from),
        _ => Err((leaf.name, "it has no integers".to_owned())),
    }
}

fn numbers((reader, leaf, rows): Reading<'_>) -> Result<Vec<Option<f64>>, Broken> {
    match reader {
        ColumnReader::DoubleColumnReader(reader) => values(reader, &leaf, rows, |value| value),
        ColumnReader::FloatColumnReader(reader) => values(reader, &leaf, rows, f64::from),
        _ => Err((leaf.name, "it has no numbers".to_owned())),
    }
}

fn points((reader, leaf, rows): Reading<'_>) -> Result<Vec<Option<ByteArray>>, Broken> {
    match reader {
        ColumnReader::ByteArrayColumnReader(reader) => values(reader, &leaf, rows, |value| value),
        _ => Err((leaf.name, "it has no bytes".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::panic::catch_unwind;

    use serde_json::json;
    use shoal_client::AnswerRow;
    use shoal_engine::Space;

    use shoal_testkit::Random;

    use super::*;
    use crate::geoparquet::GeoParquetWriter;

    const ROWS: u64 = 6_000;

    fn file() -> Vec<u8> {
        let begun = GeoParquetWriter::begin(Vec::new(), Space::geographic(), &json!({}));
        let mut writer = begun.unwrap();
        let row = |row: u64| {
            let fix = v1::FixRecord { time_ms: row as i64, x: 1.0, y: 2.0, ..Default::default() };
            AnswerRow { object: row, fix: Some(fix), ..AnswerRow::default() }
        };
        writer.rows((0..ROWS).map(row)).unwrap();
        writer.end().unwrap()
    }

    /// Numbers of rows and faults of a file. A panic of the decoder counts as a fault, as in the
    /// reading thread.
    fn read(bytes: &[u8]) -> (usize, usize) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let read = catch_unwind(|| match GeoParquetReader::open("a", file, SpeedUnit::default()) {
            Ok(reader) => {
                let (rows, faults): (Vec<_>, Vec<_>) = reader.partition(Result::is_ok);
                (rows.len(), faults.len())
            }
            Err(_) => (0, 1),
        });
        read.unwrap_or((0, 1))
    }

    #[test]
    fn damaged_files_end_with_a_fault_or_all_rows() {
        let whole = file();
        assert_eq!(read(&whole), (ROWS as usize, 0));
        let mut random = Random::new(1);
        for _ in 0..400 {
            let place = random.below(whole.len());
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << random.below(8);
            let (rows, faults) = read(&damaged);
            assert!(faults > 0 || rows == ROWS as usize, "byte {place}: {rows} rows");
            let (_, faults) = read(&whole[..place]);
            assert!(faults > 0, "cut at {place}");
        }
    }
}
