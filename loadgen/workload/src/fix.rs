//! What does one object say about itself at one moment?
//!
//! A fix carries doubles as the source states them. It is not judged here: a fix from real data may
//! lie outside every space, and the engine is the one to refuse it.

/// One position report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fix {
    /// The object. Generators number theirs `0..objects`.
    pub object: u64,
    /// Event time, Unix milliseconds.
    pub time_ms: i64,
    /// Longitude in degrees, or metres from the left border of a planar space.
    pub x: f64,
    /// Latitude in degrees, or metres from the lower border of a planar space.
    pub y: f64,
    /// Speed in metres per second; `None` is unknown.
    pub speed_mps: Option<f64>,
    /// Direction of motion, degrees clockwise from north; generators keep it in `[0, 360)`, real
    /// data may not. `None` is unknown.
    pub heading_deg: Option<f64>,
}
