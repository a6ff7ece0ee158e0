//! Values of the next rows of one column, and how they are read.

use std::fmt;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use shoal_table::{measure_text, state_bits};

use super::source_columns::Leaf;

/// A fault that ends the file, or that makes a row unusable.
pub(super) struct Fault {
    /// The column in the file.
    pub(super) column: String,
    pub(super) reason: String,
}

/// The values of a column in the next rows.
#[derive(Debug)]
pub(super) struct Column {
    name: String,
    values: Values,
}

/// Values, `None` for a null value.
#[derive(Debug)]
enum Values {
    /// Integers.
    Integers(Vec<Option<i128>>),
    /// Floats.
    Reals(Vec<Option<f64>>),
    /// Bytes: WKB or text.
    Bytes(Vec<Option<ByteArray>>),
}

/// A value of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'chunk> {
    /// An integer.
    Integer(i128),
    /// A float.
    Real(f64),
    /// Bytes.
    Bytes(&'chunk [u8]),
}

impl Column {
    /// Decodes the values of the next `rows` rows.
    ///
    /// # Errors
    /// The column cannot be read further.
    pub(super) fn read(reader: &mut ColumnReader, leaf: &Leaf, rows: usize) -> Result<Self, Fault> {
        let values = Values::read(reader, leaf, rows)?;
        Ok(Self { name: leaf.name.clone(), values })
    }

    /// The value of a row; `None` for a null value.
    pub(super) fn get(&self, row: usize) -> Option<Value<'_>> {
        self.values.get(row)
    }

    /// Reads the value of a row.
    ///
    /// # Errors
    /// The value is null, or `read` fails.
    pub(super) fn required<'chunk, T>(
        &'chunk self,
        row: usize,
        read: impl FnOnce(Value<'chunk>) -> Result<T, String>,
    ) -> Result<T, Fault> {
        let value = self.get(row).ok_or_else(|| "it is null".to_owned());
        value.and_then(read).map_err(|reason| self.fault(reason))
    }

    /// An unusable value of the column.
    pub(super) fn fault(&self, reason: String) -> Fault {
        Fault { column: self.name.clone(), reason }
    }

    /// Its name in the file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Values {
    fn read(reader: &mut ColumnReader, leaf: &Leaf, rows: usize) -> Result<Self, Fault> {
        match reader {
            ColumnReader::Int64ColumnReader(reader) if leaf.is_unsigned => {
                values(reader, leaf, rows, |value| value.cast_unsigned().into()).map(Self::Integers)
            }
            ColumnReader::Int64ColumnReader(reader) => {
                values(reader, leaf, rows, i128::from).map(Self::Integers)
            }
            ColumnReader::Int32ColumnReader(reader) if leaf.is_unsigned => {
                values(reader, leaf, rows, |value| value.cast_unsigned().into()).map(Self::Integers)
            }
            ColumnReader::Int32ColumnReader(reader) => {
                values(reader, leaf, rows, i128::from).map(Self::Integers)
            }
            // Milliseconds; only columns of time have this type.
            ColumnReader::Int96ColumnReader(reader) => {
                values(reader, leaf, rows, |value| value.to_millis().into()).map(Self::Integers)
            }
            ColumnReader::DoubleColumnReader(reader) => {
                values(reader, leaf, rows, |value| value).map(Self::Reals)
            }
            ColumnReader::FloatColumnReader(reader) => {
                values(reader, leaf, rows, f64::from).map(Self::Reals)
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                values(reader, leaf, rows, |value| value).map(Self::Bytes)
            }
            _ => Err(leaf.broken("its type is not that of the schema")),
        }
    }

    fn get(&self, row: usize) -> Option<Value<'_>> {
        match self {
            Self::Integers(values) => values[row].map(Value::Integer),
            Self::Reals(values) => values[row].map(Value::Real),
            Self::Bytes(values) => values[row].as_ref().map(|bytes| Value::Bytes(bytes.data())),
        }
    }
}

impl Value<'_> {
    /// The value as a number; `None` if it is a text that means "unknown".
    ///
    /// # Errors
    /// The value, if it is a text that is no number.
    pub(super) fn real(self) -> Result<Option<f64>, String> {
        match self {
            Self::Integer(value) => Ok(Some(value as f64)),
            Self::Real(value) => Ok(Some(value)),
            Self::Bytes(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                measure_text(text.trim()).map_err(|error| format!("`{text}` is {error}"))
            }
        }
    }

    /// The value as a finite number.
    ///
    /// # Errors
    /// The value is none.
    pub(super) fn coordinate(self) -> Result<f64, String> {
        let value = self.real()?.filter(|value| value.is_finite());
        value.ok_or_else(|| "it is not a finite number".to_owned())
    }

    /// State bits.
    ///
    /// # Errors
    /// The value is none.
    pub(super) fn bits(self) -> Result<u32, String> {
        let value = match self {
            Self::Integer(value) => u32::try_from(value).ok(),
            // Programs write integers with nulls as floats.
            Self::Real(value) if value.is_nan() => Some(0),
            _ => state_bits(self.to_string().trim()),
        };
        value.ok_or_else(|| format!("{self} is not 0 to {}", u32::MAX))
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(formatter),
            Self::Real(value) => value.fmt(formatter),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).fmt(formatter),
        }
    }
}

impl Leaf {
    fn broken(&self, reason: impl Into<String>) -> Fault {
        Fault { column: self.name.clone(), reason: reason.into() }
    }
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
