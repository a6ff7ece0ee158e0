//! The table of measures: the attributes of a fix that users report as real numbers. The state is
//! not one of them.
//!
//! This file has no dependencies, because the build of the GPU package includes it by path.

/// Calls `$render!` with the table. A row has the column, field and type as stored, field, type and
/// field number as users report it; then for a device its type in records, the position of its
/// column, and the least and greatest value of a filter; then the value that means unknown, the
/// least and greatest stored value, the number of stored units in one unit of the user, and true if
/// values are on a circle.
#[macro_export]
macro_rules! measures {
    ($render:ident) => {
        $render! {
            Speed speed_mm_s: u32, speed_mps: f32, SPEED_MPS
                { [u32 speed_at speed_min speed_max]
                    SPEED_UNKNOWN, 0, u32::MAX - 2, 1e3, is_circular: false };
            Heading heading_cdeg: u16, heading_deg: f32, HEADING_DEG
                { [u32 heading_at heading_min heading_max]
                    HEADING_UNKNOWN, 0, 35_999, 1e2, is_circular: true };
            Altitude altitude_mm: i32, altitude_m: f64, ALTITUDE_M
                { [i32 altitude_at altitude_min altitude_max]
                    ALTITUDE_UNKNOWN, i32::MIN + 2, i32::MAX, 1e3, is_circular: false };
            Validity valid_ms: u32, valid_s: f64, VALID_S
                { [u32 valid_at valid_min valid_max]
                    VALIDITY_UNKNOWN, 0, u32::MAX - 2, 1e3, is_circular: false };
        }
    };
}
