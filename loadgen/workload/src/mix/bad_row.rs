//! Rows that every server must refuse.
//!
//! Random bits choose one of seven faults in object, time or position. Attributes are not changed:
//! a client may omit them, and the row would then be good.

use crate::{Fix, WorkloadSpace};

/// The last millisecond before 2000-01-01.
const BEFORE_2000_MS: i64 = 946_684_799_999;

/// The reserved object number.
const OBJECT_RESERVED: u64 = u64::MAX;

/// A fix with one fault.
pub(super) fn bad_row(fix: &Fix, space: WorkloadSpace, bits: u64) -> Fix {
    let (width, height) = match space {
        WorkloadSpace::Geographic => (180.0, 90.0),
        WorkloadSpace::Planar { width_m, height_m } => (width_m, height_m),
    };
    let mut bad = *fix;
    match bits % 7 {
        0 => bad.x = f64::NAN,
        1 => bad.y = f64::INFINITY,
        2 => bad.x = width * 2.0 + 1.0,
        3 => bad.y = -height - 1.0,
        4 => bad.time_ms = BEFORE_2000_MS,
        5 => bad.time_ms = i64::MAX,
        _ => bad.object = OBJECT_RESERVED,
    }
    bad
}
