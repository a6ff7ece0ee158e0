//! Values of the next rows of one column.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};

use super::page_bounds::{CHUNK_BYTES_MAX, Pages};
use super::source_columns::Leaf;
use crate::input::Value;

/// A fault that ends the file.
pub(super) struct Fault {
    /// The column in the file.
    pub(super) column: String,
    pub(super) reason: String,
}

/// The values of a column in the next rows.
#[derive(Debug)]
pub(super) struct Column(Values);

/// Values, `None` for a null value.
#[derive(Debug)]
enum Values {
    /// Integers.
    Integers(Vec<Option<i64>>),
    /// Integers of 64 bits without a sign.
    Naturals(Vec<Option<u64>>),
    /// Floats.
    Reals(Vec<Option<f64>>),
    /// Bytes: WKB or text.
    Bytes(Vec<Option<ByteArray>>),
}

impl Column {
    /// Decodes the values of the next `rows` rows.
    ///
    /// # Errors
    /// The column cannot be read further.
    pub(super) fn read(
        reader: &mut ColumnReader,
        leaf: &Leaf,
        rows: usize,
        pages: &Pages,
    ) -> Result<Self, Fault> {
        Values::read(reader, leaf, rows, pages).map(Self)
    }

    /// The value of a row; `None` for a null value.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<Value<'_>> {
        self.0.get(row)
    }
}

impl Values {
    fn read(
        reader: &mut ColumnReader,
        leaf: &Leaf,
        rows: usize,
        pages: &Pages,
    ) -> Result<Self, Fault> {
        match reader {
            ColumnReader::Int64ColumnReader(reader) if leaf.is_unsigned => {
                values(reader, leaf, rows, i64::cast_unsigned).map(Self::Naturals)
            }
            ColumnReader::Int64ColumnReader(reader) => {
                values(reader, leaf, rows, |value| value).map(Self::Integers)
            }
            ColumnReader::Int32ColumnReader(reader) if leaf.is_unsigned => {
                values(reader, leaf, rows, |value| value.cast_unsigned().into()).map(Self::Integers)
            }
            ColumnReader::Int32ColumnReader(reader) => {
                values(reader, leaf, rows, i64::from).map(Self::Integers)
            }
            // Milliseconds; only columns of time have this type.
            ColumnReader::Int96ColumnReader(reader) => {
                values(reader, leaf, rows, |value| value.to_millis()).map(Self::Integers)
            }
            ColumnReader::DoubleColumnReader(reader) => {
                values(reader, leaf, rows, |value| value).map(Self::Reals)
            }
            ColumnReader::FloatColumnReader(reader) => {
                values(reader, leaf, rows, f64::from).map(Self::Reals)
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                texts(reader, leaf, rows, pages).map(Self::Bytes)
            }
            _ => Err(leaf.broken("its type is not that of the schema")),
        }
    }

    #[inline]
    fn get(&self, row: usize) -> Option<Value<'_>> {
        match self {
            Self::Integers(values) => values[row].map(Value::Integer),
            Self::Naturals(values) => values[row].map(Value::Natural),
            Self::Reals(values) => values[row].map(Value::Real),
            Self::Bytes(values) => values[row].as_ref().map(|bytes| Value::Bytes(bytes.data())),
        }
    }
}

impl Leaf {
    fn broken(&self, reason: impl Into<String>) -> Fault {
        Fault { column: self.name.clone(), reason: reason.into() }
    }
}

/// Returns the texts of the next rows. A text may repeat the one before it without taking bytes of
/// the page, so they are read in steps that together take no more than [`CHUNK_BYTES_MAX`].
fn texts(
    reader: &mut ColumnReaderImpl<ByteArrayType>,
    leaf: &Leaf,
    rows: usize,
    pages: &Pages,
) -> Result<Vec<Option<ByteArray>>, Fault> {
    let (mut all, mut bytes) = (Vec::with_capacity(rows), 0);
    // The first step shows how large the pages are.
    let mut step = 1;
    while all.len() < rows {
        let some = values(reader, leaf, step.min(rows - all.len()), |value| value)?;
        bytes += some.iter().flatten().map(|text| text.len() as u64).sum::<u64>();
        if bytes > CHUNK_BYTES_MAX {
            return Err(leaf.broken(format!("{rows} texts have more than {CHUNK_BYTES_MAX} bytes")));
        }
        all.extend(some);
        let steps = CHUNK_BYTES_MAX / pages.largest_bytes().max(1);
        step = usize::try_from(steps).unwrap_or(rows).clamp(1, rows);
    }
    Ok(all)
}

/// Returns the values of the next rows.
fn values<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    leaf: &Leaf,
    rows: usize,
    convert: impl Fn(T::T) -> V,
) -> Result<Vec<Option<V>>, Fault> {
    let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let read = reader.read_records(rows, Some(&mut levels), None, &mut values);
    let (count, ..) = read.map_err(|error| leaf.broken(error.to_string()))?;
    if count != rows {
        return Err(leaf.broken("it has fewer rows than its row group"));
    }
    let mut values = values.into_iter().map(convert);
    if leaf.level == 0 {
        return Ok(values.map(Some).collect());
    }
    Ok(levels.iter().map(|level| (*level == leaf.level).then(|| values.next()).flatten()).collect())
}
