//! What a user says about a file of fixes.

use std::str::FromStr;

use jiff::Timestamp;

use super::{AltitudeUnit, FixField, SpeedUnit, TimeUnit};

/// How a file of fixes is read. The default finds columns and units in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FixFileOptions {
    /// Columns by name; the other fields are found by the usual names.
    pub columns: Vec<ColumnOverride>,
    /// Byte between two fields of CSV; `None`: comma, semicolon, tab or `|`, found from the header.
    pub delimiter: Option<u8>,
    /// Unit of times that are numbers; `None`: that of the column's name, or found from the first
    /// time.
    pub time_unit: Option<TimeUnit>,
    /// Form of times that are texts, as of `strptime`; `None`: ISO 8601.
    pub time_format: Option<String>,
    /// Unit of speeds; `None`: that of the column's name, or metres per second.
    pub speed_unit: Option<SpeedUnit>,
    /// Unit of altitudes; `None`: that of the column's name, or metres.
    pub altitude_unit: Option<AltitudeUnit>,
    /// The object of rows that state none; `None`: such a row is an error.
    pub object: Option<String>,
    /// The time of rows that state none; `None`: such a row is an error.
    pub time: Option<TimeDefault>,
    /// True if a measure that cannot be stored makes its row an error, or stays in the row for the
    /// server to refuse. False: the measure is dropped and counted, and the row is read without it.
    pub is_strict: bool,
}

impl FixFileOptions {
    /// Speeds in a unit, and no measure dropped: for workloads and measurements.
    #[must_use]
    pub fn strict(speed_unit: SpeedUnit) -> Self {
        Self { speed_unit: Some(speed_unit), is_strict: true, ..Self::default() }
    }

    /// Of some fields those that a row must state, because the options have no value for them.
    #[must_use]
    pub fn required(&self, fields: &[FixField]) -> Vec<FixField> {
        let is_given = |field: &FixField| match field {
            FixField::Object => self.object.is_some(),
            FixField::Time => self.time.is_some(),
            _ => false,
        };
        fields.iter().filter(|field| !is_given(field)).copied().collect()
    }
}

/// The time of rows that state none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeDefault {
    /// That of reading the row.
    Now,
    /// Unix milliseconds.
    At(i64),
}

impl TimeDefault {
    /// The time now, Unix milliseconds.
    #[must_use]
    pub fn ms(self) -> i64 {
        match self {
            Self::Now => Timestamp::now().as_millisecond(),
            Self::At(time_ms) => time_ms,
        }
    }
}

/// A column that the user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnOverride {
    /// The field of its values.
    pub field: FixField,
    /// Its name in the file.
    pub name: String,
}

impl FromStr for ColumnOverride {
    type Err = String;

    /// Parses `FIELD=NAME`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (field, name) =
            text.split_once('=').ok_or("it must be FIELD=NAME, as in object=mmsi")?;
        Ok(Self { field: field.parse()?, name: name.trim().to_owned() })
    }
}
