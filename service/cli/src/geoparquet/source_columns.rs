//! Finds the columns of fixes in a GeoParquet file, whoever wrote it.
//!
//! Required: `object_id` (integer), `time` (timestamp) or `t_ms` (integer, Unix milliseconds), and
//! points as WKB in the primary geometry column. Optional: the measures and `state`.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::file::metadata::FileMetaData;
use parquet::schema::types::ColumnDescriptor;
use serde_json::Value;

use super::schema::GEO;
use crate::measures::MEASURES;

/// A column: its name, its index in the file, and the definition level of a value that is not null.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) index: usize,
    pub(super) level: i16,
    pub(super) is_unsigned: bool,
}

/// The columns of a file, and the coordinates in it.
#[derive(Clone, Debug)]
pub(super) struct SourceColumns {
    pub(super) object: Leaf,
    pub(super) time: Leaf,
    /// Units of time in a millisecond.
    pub(super) time_per_ms: i64,
    pub(super) geometry: Leaf,
    /// Columns of the measures, in the order of [`MEASURES`]; `None` for a missing column.
    pub(super) measures: Vec<Option<Leaf>>,
    pub(super) state: Option<Leaf>,
    /// The reference system, unless that is longitude and latitude of WGS 84.
    pub(super) crs: Option<String>,
}

impl SourceColumns {
    /// Reads the schema and the metadata `geo`.
    ///
    /// # Errors
    /// The reason why fixes cannot be read.
    pub(super) fn of(file: &FileMetaData) -> Result<Self, String> {
        let pairs = file.key_value_metadata().into_iter().flatten();
        let geo = pairs.filter(|pair| pair.key == GEO).find_map(|pair| pair.value.as_ref());
        let geo = geo.ok_or("it has no metadata `geo`: it is Parquet, but not GeoParquet")?;
        let geo: Value = serde_json::from_str(geo)
            .map_err(|error| format!("its metadata `geo` is not JSON: {error}"))?;
        let name = geo["primary_column"].as_str();
        let name = name.ok_or("its metadata `geo` names no primary_column")?;
        let column = &geo["columns"][name];
        if column["encoding"] != "WKB" {
            return Err(format!("column {name} has encoding {}, not WKB", column["encoding"]));
        }
        let columns = file.schema_descr().columns();
        let find = |name: &str, types: &[Type]| find(columns, name, types);
        let integers = [Type::INT64, Type::INT32];
        let time = match find("time", &[Type::INT64])? {
            Some(time) => time,
            None => required(find("t_ms", &[Type::INT64])?, "time or t_ms")?,
        };
        let measure = |name| find(name, &[Type::DOUBLE, Type::FLOAT]);
        Ok(Self {
            object: required(find("object_id", &integers)?, "object_id")?,
            time_per_ms: per_ms(&columns[time.index])?,
            time,
            geometry: required(find(name, &[Type::BYTE_ARRAY])?, name)?,
            measures: MEASURES.iter().map(|of| measure(of.name)).collect::<Result<_, _>>()?,
            state: find("state", &integers)?,
            crs: crs(column),
        })
    }
}

/// A column of the root, if there is one.
fn find(
    columns: &[impl AsRef<ColumnDescriptor>],
    name: &str,
    types: &[Type],
) -> Result<Option<Leaf>, String> {
    let mut columns = columns.iter().map(AsRef::as_ref).enumerate();
    let Some((index, column)) = columns.find(|(_, column)| column.path().string() == name) else {
        return Ok(None);
    };
    let found = column.physical_type();
    if !types.contains(&found) || column.max_rep_level() > 0 {
        return Err(format!("column {name} has type {found}; it must have {types:?}"));
    }
    let is_unsigned = match column.logical_type_ref() {
        Some(LogicalType::Integer(of)) => !of.is_signed,
        _ => matches!(column.converted_type(), ConvertedType::UINT_64 | ConvertedType::UINT_32),
    };
    let level = column.max_def_level();
    Ok(Some(Leaf { name: name.to_owned(), index, level, is_unsigned }))
}

fn required(found: Option<Leaf>, name: &str) -> Result<Leaf, String> {
    found.ok_or_else(|| format!("it has no column {name}"))
}

/// Returns how many time units of a column make a millisecond.
fn per_ms(column: &ColumnDescriptor) -> Result<i64, String> {
    let micros = column.converted_type() == ConvertedType::TIMESTAMP_MICROS;
    match column.logical_type_ref() {
        Some(LogicalType::Timestamp(of)) => Ok(match of.unit {
            TimeUnit::MILLIS => 1,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1_000_000,
        }),
        None if micros => Ok(1_000),
        None | Some(LogicalType::Integer(_)) => Ok(1),
        Some(other) => Err(format!("column {} is no time but {other:?}", column.name())),
    }
}

/// The reference system of a geometry column, unless that is longitude and latitude of WGS 84:
/// OGC:CRS84, the default, or EPSG:4326, whose axes GeoParquet orders alike.
fn crs(column: &Value) -> Option<String> {
    let crs = column.get("crs")?;
    let (authority, code) = (crs["id"]["authority"].as_str(), &crs["id"]["code"]);
    match (authority, code.as_str(), code.as_i64()) {
        (Some("OGC"), Some("CRS84"), _) | (Some("EPSG"), Some("4326"), _) => None,
        (Some("EPSG"), _, Some(4326)) => None,
        _ => Some(crs["name"].as_str().map_or_else(|| crs.to_string(), str::to_owned)),
    }
}
