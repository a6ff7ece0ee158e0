//! Rows of CSV files as rows of reports.

use shoal_proto::v1;
use shoal_table::CsvRow;

/// A row in the wire's form, without its name. Rounding speed and heading to `f32` loses less than
/// storing does.
#[must_use]
pub fn to_wire(row: &CsvRow) -> v1::Fix {
    let CsvRow { fix, altitude_m, state, valid_s } = *row;
    v1::Fix {
        object: fix.object,
        time_ms: fix.time_ms,
        x: fix.x,
        y: fix.y,
        speed_mps: fix.speed_mps.map(|speed| speed as f32),
        heading_deg: fix.heading_deg.map(|heading| heading as f32),
        altitude_m,
        state,
        name: String::new(),
        valid_s,
    }
}
