//! Reads the rows of a Parquet file as fixes of a report.
//!
//! Memory is bounded by the pages of [`CHUNK_ROWS`] rows, see `page_bounds.rs`. A value that cannot be
//! used invalidates its row; a page that cannot be decoded ends the file. Both errors state file,
//! row (from 1) and column. RowMeasures that cannot be stored are dropped and counted, unless the
//! options are strict.

use std::fs::File;

use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use shoal_table::FixFileOptions;

use super::chunk::Chunk;
use super::column::Fault;
use super::page_bounds::{BoundedFile, Pages};
use super::row_reader::RowReader;
use super::source_columns::{Leaf, Position, SourceColumns, TimeForm};
use crate::error::CliError;
use crate::input::{FixSource, IdKind, SourceRow, SourceSummary, must_be_geographic};

/// Rows that are decoded at a time.
const CHUNK_ROWS: usize = 4_096;

/// The rows of one file.
pub struct GeoParquetReader {
    name: String,
    file: SerializedFileReader<BoundedFile>,
    pages: Pages,
    columns: SourceColumns,
    rows: RowReader,
    /// Index of the next row group; `left` is the number of unread rows of the current one.
    group: usize,
    left: u64,
    readers: Vec<ColumnReader>,
    /// Rows before the chunk.
    rows_before: u64,
    /// The decoded rows; `None` before the first.
    chunk: Option<Chunk>,
    /// The next row of the chunk.
    next: usize,
    is_broken: bool,
}

impl GeoParquetReader {
    /// Opens a file and finds its columns.
    ///
    /// # Errors
    /// [`CliError::Input`].
    pub fn open(name: &str, file: File, options: &FixFileOptions) -> Result<Self, CliError> {
        let wrong = |reason| CliError::Input { file: name.to_owned(), reason };
        let (file, pages) = BoundedFile::new(file);
        let file = SerializedFileReader::new(file).map_err(|error| wrong(error.to_string()))?;
        let metadata = file.metadata();
        pages.open(metadata);
        let groups = metadata.row_groups().iter().map(RowGroupMetaData::num_rows);
        let rows = groups.fold(0, i64::wrapping_add);
        let stated = metadata.file_metadata().num_rows();
        if rows != stated {
            return Err(wrong(format!(
                "its row groups have {rows} rows, its footer states {stated}"
            )));
        }
        let columns = SourceColumns::of(metadata.file_metadata(), options).map_err(wrong)?;
        let rows = RowReader::new(name, &columns, options);
        Ok(Self {
            name: name.to_owned(),
            file,
            pages,
            columns,
            rows,
            group: 0,
            left: 0,
            readers: Vec::new(),
            rows_before: 0,
            chunk: None,
            next: 0,
            is_broken: false,
        })
    }

    /// Opens the next row group that has rows; false at the end.
    fn next_group(&mut self) -> Result<bool, Fault> {
        while self.left == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let broken = |error: ParquetError| Fault {
                column: "row group".to_owned(),
                reason: error.to_string(),
            };
            let group = self.file.get_row_group(self.group).map_err(broken)?;
            let rows = group.metadata().num_rows();
            for leaf in self.columns.leaves() {
                let values = group.metadata().column(leaf.index).num_values();
                if values != rows {
                    let reason = format!("it has {values} values in a row group of {rows} rows");
                    return Err(Fault { column: leaf.name.clone(), reason });
                }
            }
            self.left = u64::try_from(rows).unwrap_or(0);
            let reader = |leaf: &Leaf| group.get_column_reader(leaf.index);
            self.readers =
                self.columns.leaves().map(reader).collect::<Result<_, _>>().map_err(broken)?;
            self.group += 1;
        }
        Ok(true)
    }

    /// Decodes the next rows, if those of the chunk are used; false at the end.
    fn has_row(&mut self) -> Result<bool, Fault> {
        let rows_chunk = self.chunk.as_ref().map_or(0, |chunk| chunk.rows);
        if self.next < rows_chunk {
            return Ok(true);
        }
        self.rows_before += rows_chunk as u64;
        (self.next, self.chunk) = (0, None);
        self.pages.begin_chunk();
        if !self.next_group()? {
            return Ok(false);
        }
        let rows = CHUNK_ROWS.min(usize::try_from(self.left).unwrap_or(CHUNK_ROWS));
        self.chunk = Some(Chunk::read(&self.columns, &mut self.readers, rows, &self.pages)?);
        self.left -= rows as u64;
        Ok(true)
    }
}

impl FixSource for GeoParquetReader {
    fn next_row(&mut self, ids: IdKind) -> Option<Result<SourceRow, String>> {
        if self.is_broken {
            return None;
        }
        let has_row = self.has_row();
        let place = self.rows_before + self.next as u64 + 1;
        match has_row {
            Ok(true) => {
                let chunk = self.chunk.as_ref()?;
                let fix = self.rows.fix(chunk, self.next, place, ids);
                self.next += 1;
                Some(fix.map_err(|fault| self.rows.builder.describe(place, fault)))
            }
            Ok(false) => None,
            Err(Fault { column, reason }) => {
                self.is_broken = true;
                let reason = format!("cannot be read further: {reason}");
                Some(Err(self.rows.builder.describe_part(place, &column, &reason)))
            }
        }
    }

    /// Checks that the reference system of the positions fits the space of the fleet.
    fn check_space(&self, is_geographic: bool) -> Result<(), CliError> {
        let reason = match (&self.columns.crs, is_geographic) {
            _ if self.columns.is_any_space => return Ok(()),
            (None, true) | (Some(_), false) => return Ok(()),
            (Some(crs), true) => {
                format!("its crs is {crs}; the fleet takes longitude and latitude (OGC:CRS84)")
            }
            (None, false) => return must_be_geographic(&self.name, is_geographic),
        };
        Err(CliError::Input { file: self.name.clone(), reason })
    }

    fn summary(&self) -> SourceSummary {
        let columns = &self.columns.columns;
        let time = match self.columns.time_form {
            TimeForm::Timestamp(_, false) => "without a zone: read as UTC".to_owned(),
            TimeForm::Timestamp(_, true) => "UTC".to_owned(),
            TimeForm::Plain => self.rows.times.describe(),
        };
        let mut notes = vec![columns.describe(&time)];
        let position = match &self.columns.position {
            Position::Wkb(leaf) => vec![leaf.name.as_str()],
            Position::Columns(x, y, z) => [Some(x), Some(y), z.as_ref()]
                .iter()
                .flatten()
                .map(|leaf| leaf.name.as_str())
                .collect(),
        };
        notes.extend(columns.describe_unread(&position));
        notes.extend(self.columns.notes.iter().cloned());
        match &self.columns.position {
            Position::Wkb(leaf) if self.rows.builder.has_z() => {
                notes.push(format!("position and altitude = {}", leaf.name));
            }
            Position::Wkb(leaf) => notes.push(format!("position = {}", leaf.name)),
            Position::Columns(x, y, _) if !self.columns.is_any_space => {
                notes.push(format!("position = {}, {}", x.name, y.name));
            }
            Position::Columns(..) => {}
        }
        if self.rows.points_with_m > 0 {
            let points = self.rows.points_with_m;
            notes.push(format!("points with a measure M, which is not stored: {points}"));
        }
        if let Some(srid) = self.rows.srid {
            notes.push(format!("points state SRID {srid}, which is not checked"));
        }
        self.rows.builder.summary(notes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::panic::catch_unwind;
    use std::sync::Arc;

    use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use serde_json::json;
    use shoal_client::{AnswerRow, v1};
    use shoal_engine::Space;

    use shoal_testkit::Random;

    use super::*;
    use crate::geoparquet::GeoParquetWriter;

    const ROWS: u64 = 6_000;

    fn file() -> Vec<u8> {
        let begun = GeoParquetWriter::begin(Vec::new(), Space::geographic(), false, &json!({}));
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
        let read = catch_unwind(|| match GeoParquetReader::open("a", file, &Default::default()) {
            Ok(mut reader) => {
                let rows = std::iter::from_fn(|| reader.next_row(IdKind::Numbers));
                let (rows, faults): (Vec<_>, Vec<_>) = rows.partition(Result::is_ok);
                (rows.len(), faults.len())
            }
            Err(_) => (0, 1),
        });
        read.unwrap_or((0, 1))
    }

    /// A file of one row in a column of `object`, one of `time`, and a position, whose names of
    /// objects have `bytes` bytes each, in pages of one row.
    fn long_names(compression: Compression, bytes: usize, version: WriterVersion) -> Vec<u8> {
        let schema = "message m { required binary object (UTF8); required int64 time \
             (TIMESTAMP_MILLIS); required double lon; required double lat; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_writer_version(version)
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::PLAIN)
            .set_statistics_enabled(EnabledStatistics::None)
            .build();
        let mut out = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut out, schema, properties.into()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let name = ByteArray::from(vec![b'a'; bytes]);
        column.typed::<ByteArrayType>().write_batch(&[name], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[1_480_000_000_000], None, None).unwrap();
        column.close().unwrap();
        for _ in 0..2 {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<DoubleType>().write_batch(&[1.0], None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        out
    }

    #[test]
    fn a_page_that_is_too_large_is_refused_before_it_is_decoded() {
        let codecs = [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::GZIP(GzipLevel::default()),
            Compression::BROTLI(BrotliLevel::default()),
            Compression::LZ4_RAW,
            Compression::ZSTD(ZstdLevel::default()),
        ];
        for codec in codecs {
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                for (bytes, is_read) in [(9, true), (129 << 20, false)] {
                    let file = long_names(codec, bytes, version);
                    let mut stored = tempfile::tempfile().unwrap();
                    stored.write_all(&file).unwrap();
                    let mut reader =
                        GeoParquetReader::open("a", stored, &Default::default()).unwrap();
                    let row = reader.next_row(IdKind::Names).unwrap();
                    assert_eq!(row.is_ok(), is_read, "{codec:?} {version:?}");
                    if let Err(fault) = row {
                        assert!(fault.contains("row 1, object"), "{fault}");
                        assert!(fault.contains("write smaller row groups"), "{fault}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_page_is_not_longer_than_its_header_states() {
        for codec in
            [Compression::GZIP(GzipLevel::default()), Compression::BROTLI(BrotliLevel::default())]
        {
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                let mut file = long_names(codec, 100_000, version);
                // The size of the first page, in zigzag form: the text and its length.
                let stated = [0xc8, 0x9a, 0x0c];
                let place = file.windows(3).position(|of| of == stated).unwrap();
                file[place] = 0xc6;
                let (rows, faults) = read(&file);
                assert_eq!((rows, faults), (0, 1), "{codec:?}");
            }
        }
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
