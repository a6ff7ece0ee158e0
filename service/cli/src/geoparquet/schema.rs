//! The columns of a GeoParquet file of fixes, and its metadata `geo`.
//!
//! GeoParquet 1.1: geoparquet.org/releases/v1.1.0. One row a fix: `object_id` (u64, or a string in a
//! named fleet), `time` (milliseconds, UTC), `geometry` (WKB Point), `bbox` (its covering), the
//! measures (null if unknown: `speed` in m/s, `heading` in degrees clockwise from north, `altitude`
//! in m, `valid_s` in s) and `state` (u32, bits).

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};
use serde_json::{Value, json};

use crate::measures::MEASURES;

/// Key of the metadata that GeoParquet defines.
pub(super) const GEO: &str = "geo";
/// Key of the metadata that says which version of a history a file shows.
pub(super) const SHOAL: &str = "shoal";
/// The geometry column.
pub(super) const GEOMETRY: &str = "geometry";
/// Bytes of a point as WKB: byte order, type, x, y.
pub(super) const POINT_BYTES: usize = 21;
/// Type of a point in WKB.
pub(super) const POINT: u32 = 1;
/// The object in a numeric fleet.
const INTEGER_ID: &str = "int64 object_id (INTEGER(64, false))";
/// Level of zstd: on a day of buses level 9 takes four times as long for 4 % fewer bytes.
const ZSTD_LEVEL: i32 = 3;

/// The schema of an export from a fleet whose objects have names or numbers.
pub(super) fn schema(is_named: bool) -> Result<TypePtr, ParquetError> {
    let object = if is_named { "binary object_id (STRING)" } else { INTEGER_ID };
    let measure = |name| format!("optional double {name};");
    let measures: String = MEASURES.iter().map(|of| measure(of.name)).collect();
    let text = format!(
        "message fixes {{
            required {object};
            required int64 time (TIMESTAMP(MILLIS, true));
            required binary {GEOMETRY};
            required group bbox {{
                required double xmin;
                required double ymin;
                required double xmax;
                required double ymax;
            }}
            {measures}
            required int32 state (INTEGER(32, false));
        }}"
    );
    Ok(Arc::new(parse_message_type(&text)?))
}

/// How an export is written. Dictionaries do not help coordinates and times; split into streams of
/// bytes, the coordinates of a day of buses take twice as many bytes as plain.
pub(super) fn properties() -> Result<Arc<WriterProperties>, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("shoal ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        // Minimum and maximum of WKB bytes have no meaning.
        .set_column_statistics_enabled(GEOMETRY.into(), EnabledStatistics::None)
        .set_column_dictionary_enabled(GEOMETRY.into(), false)
        .set_column_dictionary_enabled("time".into(), false)
        .set_column_encoding("time".into(), Encoding::DELTA_BINARY_PACKED);
    for side in ["xmin", "ymin", "xmax", "ymax"] {
        let path = ColumnPath::new(vec!["bbox".to_owned(), side.to_owned()]);
        properties = properties.set_column_dictionary_enabled(path, false);
    }
    Ok(Arc::new(properties.build()))
}

/// The metadata `geo`. A geographic space has the reference system OGC:CRS84, which is the default
/// and is left out. A plane has none: `crs` is null. `extent` is x_min, y_min, x_max, y_max.
pub(super) fn geo(is_geographic: bool, extent: Option<[f64; 4]>) -> Value {
    let side = |name| json!(["bbox", name]);
    let mut column = json!({
        "encoding": "WKB",
        "geometry_types": ["Point"],
        "covering": { "bbox": {
            "xmin": side("xmin"), "ymin": side("ymin"), "xmax": side("xmax"), "ymax": side("ymax"),
        } },
    });
    if !is_geographic {
        column["crs"] = Value::Null;
    }
    if let Some(extent) = extent {
        column["bbox"] = json!(extent);
    }
    json!({ "version": "1.1.0", "primary_column": GEOMETRY, "columns": { GEOMETRY: column } })
}
