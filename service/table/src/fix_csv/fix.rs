//! One position report as its source states it.

/// One position report. A fix of real data may lie outside every space; the engine refuses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fix {
    /// The object. Generators number their objects from 0.
    pub object: u64,
    /// Event time, Unix milliseconds.
    pub time_ms: i64,
    /// Longitude in degrees, or metres from the left border of a planar space.
    pub x: f64,
    /// Latitude in degrees, or metres from the lower border of a planar space.
    pub y: f64,
    /// Speed in metres per second; `None` is unknown.
    pub speed_mps: Option<f64>,
    /// Direction of motion, degrees clockwise from north; `None` is unknown. Generators stay in
    /// `[0, 360)`; real data can have any value.
    pub heading_deg: Option<f64>,
}

/// One row of a file. Only reports and exports use the columns other than the fix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CsvRow {
    /// The position.
    pub fix: Fix,
    /// Altitude in metres; `None` is unknown.
    pub altitude_m: Option<f64>,
    /// State bits; 0 if the file has none.
    pub state: u32,
    /// How long the fix is valid after its time, in seconds; `None` if the file does not say.
    pub valid_s: Option<f64>,
}

/// One row of a file whose objects have names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedCsvRow {
    /// The name of the object.
    pub name: String,
    /// The row, with object 0.
    pub row: CsvRow,
}
