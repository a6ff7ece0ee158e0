//! Finds the columns of fixes in a Parquet file, whoever wrote it.
//!
//! Object, time, measures and state are found by the names of their columns, with those of groups
//! before them. The position is a
//! geometry column (GeoParquet, or the Parquet type GEOMETRY), or two columns as of CSV.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetTimeUnit, Type};
use parquet::file::metadata::FileMetaData;
use parquet::schema::types::ColumnDescriptor;
use serde_json::Value;
use shoal_table::{ColumnChoice, ColumnsFault, FixField, FixFileOptions, TimeUnit};

use super::schema::GEO;
use crate::input::column_hint;

/// A column: its index in the file, the definition level of a value that is not null, and the type.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) index: usize,
    pub(super) level: i16,
    pub(super) is_unsigned: bool,
}

/// Where the positions are.
#[derive(Clone, Debug)]
pub(super) enum Position {
    /// Points as WKB.
    Wkb(Leaf),
    /// Columns of x, y, and perhaps z.
    Columns(Leaf, Leaf, Option<Leaf>),
}

/// How the times of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeForm {
    /// Timestamps in this unit; true if they are UTC.
    Timestamp(TimeUnit, bool),
    /// Numbers or texts, whose form is to be found.
    Plain,
}

/// The columns of a file, and the coordinates in it.
#[derive(Clone, Debug)]
pub(super) struct SourceColumns {
    pub(super) columns: ColumnChoice,
    /// `None` if the options have the object of every row.
    pub(super) object: Option<Leaf>,
    /// `None` if the options have the time of every row.
    pub(super) time: Option<Leaf>,
    pub(super) time_form: TimeForm,
    pub(super) position: Position,
    /// Speed, heading, altitude and validity; `None` for a missing column.
    pub(super) measures: [Option<Leaf>; 4],
    pub(super) state: Option<Leaf>,
    /// The reference system, unless that is longitude and latitude of WGS 84.
    pub(super) crs: Option<String>,
    /// Columns that are not read because of their types.
    pub(super) notes: Vec<String>,
    /// True if nothing says what the positions are, so that they fit any fleet.
    pub(super) is_any_space: bool,
}

/// A geometry column of the metadata or the schema.
struct Geometry {
    name: String,
    /// `WKB`, or `point` for columns of coordinates.
    encoding: String,
    crs: Option<String>,
}

impl SourceColumns {
    /// Reads the schema and the metadata `geo`.
    ///
    /// # Errors
    /// The reason why fixes cannot be read.
    pub(super) fn of(file: &FileMetaData, options: &FixFileOptions) -> Result<Self, String> {
        let leaves = file.schema_descr().columns();
        let is_named = |field: FixField| options.columns.iter().any(|column| column.field == field);
        // Named columns of coordinates take precedence.
        let has_coordinates = is_named(FixField::X) || is_named(FixField::Y);
        let geometry = if has_coordinates { None } else { geometry(file)? };
        let required: &[FixField] = match geometry {
            Some(_) => &[FixField::Object, FixField::Time],
            None => &FixField::REQUIRED,
        };
        let names: Vec<String> = leaves.iter().map(|leaf| leaf.path().string()).collect();
        let mut columns = ColumnChoice::find(&names, options, &options.required(required))
            .map_err(|fault| {
                let no_geometry = match &fault {
                    ColumnsFault::Missing { field: FixField::X | FixField::Y, .. } => {
                        "it has no geometry column (metadata `geo` of GeoParquet), and "
                    }
                    _ => "",
                };
                format!("{no_geometry}{fault}{}", column_hint(&fault))
            })?;
        let leaf = |field: FixField, types: &[Type]| {
            let chosen = columns.column(field);
            chosen.map(|chosen| leaf(leaves, chosen.index, types)).transpose()
        };
        let required = |leaf: Option<Leaf>, field: FixField| {
            leaf.ok_or_else(|| format!("it has no column of the {field}"))
        };
        let time = leaf(FixField::Time, &TIMES)?;
        let time_form = time.as_ref().map(|time| time_form(&leaves[time.index])).transpose()?;
        let position = match &geometry {
            Some(geometry) => position(leaves, geometry)?,
            None => {
                let side = |field| required(leaf(field, &NUMBERS)?, field);
                Position::Columns(side(FixField::X)?, side(FixField::Y)?, None)
            }
        };
        let object = leaf(FixField::Object, &OBJECTS)?;
        let attributes = [
            FixField::Speed,
            FixField::Heading,
            FixField::Altitude,
            FixField::Validity,
            FixField::State,
        ];
        let attributes = attributes.map(|field| (field, leaf(field, &NUMBERS)));
        let (mut optional, mut notes) = (Vec::new(), Vec::new());
        for (field, leaf) in attributes {
            match leaf {
                Ok(leaf) => optional.push(leaf),
                Err(reason) if is_named(field) => return Err(reason),
                Err(reason) => {
                    notes.push(format!("the {field} is not read: {reason}"));
                    columns.leave_out(field);
                    optional.push(None);
                }
            }
        }
        let state = optional.pop().flatten();
        let measures = optional.try_into().expect("there are four measures");
        Ok(Self {
            object,
            time_form: time_form.unwrap_or(TimeForm::Plain),
            time,
            position,
            measures,
            state,
            notes,
            is_any_space: geometry.is_none(),
            crs: geometry.and_then(|geometry| geometry.crs),
            columns,
        })
    }

    /// The columns that are read: object, time, position, measures and state.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        let (first, others) = match &self.position {
            Position::Wkb(leaf) => (leaf, [None, None]),
            Position::Columns(x, y, z) => (x, [Some(y), z.as_ref()]),
        };
        let optional = self.measures.iter().chain([&self.state]).flatten();
        let row = self.object.iter().chain(&self.time).chain([first]);
        row.chain(others.into_iter().flatten()).chain(optional)
    }
}

const NUMBERS: [Type; 5] = [Type::DOUBLE, Type::FLOAT, Type::INT64, Type::INT32, Type::BYTE_ARRAY];
const OBJECTS: [Type; 5] = [Type::INT64, Type::INT32, Type::DOUBLE, Type::FLOAT, Type::BYTE_ARRAY];
const TIMES: [Type; 6] =
    [Type::INT64, Type::INT32, Type::INT96, Type::DOUBLE, Type::FLOAT, Type::BYTE_ARRAY];

/// The geometry column, of the metadata `geo` or by its type; `None` if the file has none.
fn geometry(file: &FileMetaData) -> Result<Option<Geometry>, String> {
    let pairs = file.key_value_metadata().into_iter().flatten();
    let geo = pairs.filter(|pair| pair.key == GEO).find_map(|pair| pair.value.as_ref());
    let Some(geo) = geo else {
        let columns = file.schema_descr().columns();
        return Ok(columns.iter().find_map(|column| {
            let crs = match column.logical_type_ref()? {
                LogicalType::Geometry(of) => of.crs.clone(),
                LogicalType::Geography(of) => of.crs.clone(),
                _ => return None,
            };
            let crs = crs.filter(|crs| !is_wgs84(crs));
            Some(Geometry { name: column.path().string(), encoding: "WKB".to_owned(), crs })
        }));
    };
    let geo: Value = serde_json::from_str(geo)
        .map_err(|error| format!("its metadata `geo` is not JSON: {error}"))?;
    let name = geo["primary_column"].as_str();
    let name = name.ok_or("its metadata `geo` names no primary_column")?;
    let column = &geo["columns"][name];
    let encoding = column["encoding"].as_str().unwrap_or_default();
    if !matches!(encoding, "WKB" | "point") {
        return Err(format!("column {name} has encoding {}, not WKB", column["encoding"]));
    }
    let (name, encoding) = (name.to_owned(), encoding.to_owned());
    Ok(Some(Geometry { name, encoding, crs: crs(column) }))
}

fn position(
    leaves: &[impl AsRef<ColumnDescriptor>],
    geometry: &Geometry,
) -> Result<Position, String> {
    let name = &geometry.name;
    let find = |path: &str, types: &[Type]| {
        let index = leaves.iter().position(|leaf| leaf.as_ref().path().string() == path);
        index.map(|index| leaf(leaves, index, types)).transpose()
    };
    let required = |path: &str, types: &[Type]| {
        find(path, types)?.ok_or_else(|| format!("it has no column {path}"))
    };
    if geometry.encoding == "WKB" {
        return required(name, &[Type::BYTE_ARRAY]).map(Position::Wkb);
    }
    let side = |side: &str| format!("{name}.{side}");
    Ok(Position::Columns(
        required(&side("x"), &NUMBERS)?,
        required(&side("y"), &NUMBERS)?,
        find(&side("z"), &NUMBERS)?,
    ))
}

/// A column of the schema, if it has one of these types.
fn leaf(
    leaves: &[impl AsRef<ColumnDescriptor>],
    index: usize,
    types: &[Type],
) -> Result<Leaf, String> {
    let column = leaves[index].as_ref();
    let (name, found) = (column.path().string(), column.physical_type());
    if !types.contains(&found) || column.max_rep_level() > 0 {
        return Err(format!("column {name} has type {found}; it must have {types:?}"));
    }
    let is_decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal(_)))
        || column.converted_type() == ConvertedType::DECIMAL;
    if is_decimal {
        return Err(format!("column {name} has type DECIMAL; it must have {types:?}"));
    }
    let is_unsigned = match column.logical_type_ref() {
        Some(LogicalType::Integer(of)) => !of.is_signed,
        _ => matches!(column.converted_type(), ConvertedType::UINT_64 | ConvertedType::UINT_32),
    };
    let level = column.max_def_level();
    Ok(Leaf { name, index, level, is_unsigned })
}

fn time_form(column: impl AsRef<ColumnDescriptor>) -> Result<TimeForm, String> {
    let column = column.as_ref();
    Ok(match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(of)), _) => {
            let unit = match of.unit {
                ParquetTimeUnit::MILLIS => TimeUnit::Milliseconds,
                ParquetTimeUnit::MICROS => TimeUnit::Microseconds,
                ParquetTimeUnit::NANOS => TimeUnit::Nanoseconds,
            };
            TimeForm::Timestamp(unit, of.is_adjusted_to_u_t_c)
        }
        (None, ConvertedType::TIMESTAMP_MILLIS) => {
            TimeForm::Timestamp(TimeUnit::Milliseconds, true)
        }
        (None, ConvertedType::TIMESTAMP_MICROS) => {
            TimeForm::Timestamp(TimeUnit::Microseconds, true)
        }
        _ if column.physical_type() == Type::INT96 => {
            TimeForm::Timestamp(TimeUnit::Milliseconds, true)
        }
        (
            None,
            converted @ (ConvertedType::DATE
            | ConvertedType::TIME_MILLIS
            | ConvertedType::TIME_MICROS),
        ) => return Err(format!("column {} is no time but {converted}", column.name())),
        (None | Some(LogicalType::Integer(_) | LogicalType::String), _) => TimeForm::Plain,
        (Some(other), _) => {
            return Err(format!("column {} is no time but {other:?}", column.name()));
        }
    })
}

/// The reference system of a geometry column, unless that is longitude and latitude of WGS 84.
/// GeoParquet orders the axes of EPSG:4326 as OGC:CRS84 does.
fn crs(column: &Value) -> Option<String> {
    let crs = column.get("crs")?;
    if let Some(text) = crs.as_str() {
        return (!is_wgs84(text)).then(|| text.to_owned());
    }
    let id = &crs["id"];
    let authority = id["authority"].as_str().unwrap_or_default();
    let code = id["code"].as_str().map_or_else(|| id["code"].to_string(), str::to_owned);
    if is_wgs84(&format!("{authority}:{code}")) {
        return None;
    }
    Some(match (crs["name"].as_str(), authority) {
        (Some(name), "") => name.to_owned(),
        (Some(name), _) => format!("{name} ({authority}:{code})"),
        (None, _) => crs.to_string(),
    })
}

/// True for the names of longitude and latitude of WGS 84: OGC:CRS84, EPSG:4326, and both with a
/// height (OGC:CRS84h, EPSG:4979); also as a URN, or as the last identifier of a WKT text.
pub(crate) fn is_wgs84(text: &str) -> bool {
    const NAMES: [&str; 4] = ["OGC:CRS84", "OGC:CRS84h", "EPSG:4326", "EPSG:4979"];
    let is_name = |text: &str| NAMES.iter().any(|name| name.eq_ignore_ascii_case(text));
    let wkt = || {
        let (_, id) = text.trim_end_matches([']', ')']).rsplit_once(['[', '('])?;
        let (authority, code) = id.split_once(',')?;
        let bare = |text: &str| text.trim().trim_matches('"').to_owned();
        Some(format!("{}:{}", bare(authority), bare(code)))
    };
    let urn = || {
        let mut parts = text.strip_prefix("urn:ogc:def:crs:")?.split(':');
        let (authority, _version, code) = (parts.next()?, parts.next()?, parts.next()?);
        Some(format!("{authority}:{code}"))
    };
    is_name(text)
        || urn().is_some_and(|name| is_name(&name))
        || (text.starts_with("GEOG") && wkt().is_some_and(|name| is_name(&name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wgs84_has_several_names_and_others_are_named() {
        let of = |value: Value| crs(&json!({ "crs": value }));
        for (authority, code) in [
            ("OGC", json!("CRS84")),
            ("EPSG", json!(4326)),
            ("EPSG", json!("4326")),
            ("EPSG", json!(4979)),
        ] {
            let id = json!({ "id": { "authority": authority, "code": code }, "name": "WGS 84" });
            assert_eq!(of(id), None);
        }
        assert_eq!(crs(&json!({})), None);
        assert_eq!(of(json!("EPSG:4326")), None);
        assert_eq!(of(json!("urn:ogc:def:crs:OGC:1.3:CRS84")), None);
        assert_eq!(of(json!("urn:ogc:def:crs:EPSG::4326")), None);
        assert!(of(json!("urn:ogc:def:crs:EPSG::3857")).is_some());
        let wkt = "GEOGCS[\"WGS 84\",DATUM[\"x\"],AUTHORITY[\"EPSG\",\"4326\"]]";
        assert_eq!(of(json!(wkt)), None);
        let swiss = json!({ "name": "LV95", "id": { "authority": "EPSG", "code": 2056 } });
        assert_eq!(of(swiss).as_deref(), Some("LV95 (EPSG:2056)"));
        assert_eq!(of(json!({ "name": "UTM" })).as_deref(), Some("UTM"));
        assert_eq!(of(Value::Null).as_deref(), Some("null"));
        assert!(of(json!("PROJCS[\"x\",AUTHORITY[\"EPSG\",\"4326\"]]")).is_some());
    }
}
