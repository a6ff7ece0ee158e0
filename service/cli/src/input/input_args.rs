//! Flags that say how a file of positions is read.

use clap::Args;
use shoal_table::{AltitudeUnit, ColumnOverride, FixFileOptions, SpeedUnit, TimeDefault, TimeUnit};

use super::fix_source::FixSource;
use super::input_file::open_input;
use super::prefixed::Prefixed;
use crate::error::CliError;
use crate::values::delimiter;

/// Flags that say how a file is read.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "How a file is read")]
pub struct InputArgs {
    /// The column of a field, where its name does not say so: FIELD is object, time, x (or lon), y
    /// (or lat), speed, heading, altitude, state or validity, as in --column object=mmsi; may be
    /// repeated
    #[arg(long, env = "SHOAL_COLUMN", value_name = "FIELD=NAME", value_delimiter = ',')]
    pub column: Vec<ColumnOverride>,
    /// Separator of CSV fields: a character, or tab [default: found from the header]
    #[arg(long, env = "SHOAL_DELIMITER", value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Unit of times that are numbers: s, ms, us or ns [default: that of the column's name, as in
    /// t_ms, or found from the first time]
    #[arg(long, env = "SHOAL_TIME_UNIT", value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,
    /// Form of times that are texts, as of strptime: '%d/%m/%Y %H:%M:%S' [default: ISO 8601]
    #[arg(long, env = "SHOAL_TIME_FORMAT", value_name = "FORMAT")]
    pub time_format: Option<String>,
    /// Unit of speeds: m/s, km/h, knots or mph [default: that of the column's name, as in
    /// speed_kmh; knots for SOG; otherwise m/s]
    #[arg(long, env = "SHOAL_SPEED_UNIT", value_name = "UNIT")]
    pub speed_unit: Option<SpeedUnit>,
    /// Unit of altitudes: m or ft [default: that of the column's name, as in alt_ft; otherwise m]
    #[arg(long, env = "SHOAL_ALTITUDE_UNIT", value_name = "UNIT")]
    pub altitude_unit: Option<AltitudeUnit>,
    /// The object of one position, of rows of a file that state none, as in NMEA, and of all points
    /// of GPX: a number, or a name in a named fleet
    #[arg(long, env = "SHOAL_OBJECT", value_name = "ID", allow_hyphen_values = true)]
    pub object: Option<String>,
    /// Text before the id of each object, in a named fleet: bus- makes 402 the object bus-402
    #[arg(long, env = "SHOAL_NAME_PREFIX", value_name = "TEXT")]
    pub name_prefix: Option<String>,
    /// Refuse a row with a speed, heading, altitude, state or validity that cannot be stored,
    /// instead of storing the position without it
    #[arg(long, env = "SHOAL_STRICT", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub strict: Option<bool>,
}

impl InputArgs {
    /// Opens a file; `time` is that of rows that state none.
    ///
    /// # Errors
    /// As [`open_input`].
    pub fn open(
        &self,
        file: &str,
        time: Option<TimeDefault>,
    ) -> Result<Box<dyn FixSource>, CliError> {
        let source = open_input(file, &self.options(time))?;
        Ok(match self.name_prefix.clone().filter(|prefix| !prefix.is_empty()) {
            Some(prefix) => Box::new(Prefixed::new(source, prefix)),
            None => source,
        })
    }

    /// The options of a reader; `time` is that of rows that state none.
    fn options(&self, time: Option<TimeDefault>) -> FixFileOptions {
        FixFileOptions {
            columns: self.column.clone(),
            delimiter: self.delimiter,
            time_unit: self.time_unit,
            time_format: self.time_format.clone(),
            speed_unit: self.speed_unit,
            altitude_unit: self.altitude_unit,
            object: self.object.clone(),
            time,
            is_strict: self.strict.unwrap_or_default(),
        }
    }
}
