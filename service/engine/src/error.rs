//! The errors of the engine, by what the caller can do about them.
//!
//! A refused row is no error: it is counted in its request's outcome. A block that fails to decode
//! is its request's outcome as well; the cycle proceeds.

use thiserror::Error;

use crate::limits::CYCLES_IN_FLIGHT_MAX;

/// The error of a failed engine call. The state is unchanged, except after `Device`.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum EngineError {
    /// A cycle, query or region exceeds a named limit: send less.
    #[error("{what} is {value}, the limit is {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// What the caller gave.
        value: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// A ticket that was never issued or was waited for already.
    #[error("ticket {0} is not in flight")]
    UnknownTicket(u64),
    /// Too many cycles are in flight: wait for one first.
    #[error("{0} cycles are in flight, the limit is {CYCLES_IN_FLIGHT_MAX}")]
    TooManyInFlight(usize),
    /// The import is refused: cycles have run, or the snapshot is invalid.
    #[error("snapshot refused: {0}")]
    Snapshot(String),
    /// A cycle does not fit the memory that the engine may take.
    #[error(
        "out of memory: {needed_bytes} bytes more are needed, {left_bytes} of {budget_bytes} are \
         left of {budget}"
    )]
    OutOfMemory {
        /// The budget that is exhausted, in words.
        budget: &'static str,
        /// Size of the budget in bytes.
        budget_bytes: u64,
        /// Bytes needed beyond those in use.
        needed_bytes: u64,
        /// Bytes that are not in use.
        left_bytes: u64,
    },
    /// The device failed; this engine takes no more cycles.
    #[error("the device failed: {0}")]
    Device(String),
}

/// The error of a region, point or space that cannot be built. It has the field at fault, and the
/// problem in plain words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{problem}")]
pub struct GeometryError {
    field: String,
    problem: String,
}

impl GeometryError {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// A value that is NaN or infinite.
    pub(crate) fn not_finite(field: &str, name: &str) -> Self {
        Self::new(field, format!("{name} must be a finite number"))
    }

    /// A value outside a closed range; `unit` is empty or begins with a space.
    pub(crate) fn outside(
        field: &str,
        (name, unit): (&str, &str),
        value: f64,
        [min, max]: [f64; 2],
    ) -> Self {
        let [value, min, max] = [value, min, max].map(number);
        Self::new(field, format!("{name} {value}{unit} is outside {min} to {max}{unit}"))
    }

    /// Path of the field at fault, relative to what was to be built: `west` of a rectangle,
    /// `radius_m` of a circle, `rings[1].x[3]` of a polygon, `polygons[0].rings[1]` of a
    /// multipolygon, `x` of a point, `width_m` of a plane.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The same problem with a new field name, which `name` computes from the old one.
    pub(crate) fn renamed(self, name: impl FnOnce(&str) -> String) -> Self {
        Self { field: name(&self.field), problem: self.problem }
    }
}

/// A number for display, in exponent notation if it would have too many digits.
pub(crate) fn number(value: f64) -> String {
    let is_short = value == 0.0 || (1e-9..1e15).contains(&value.abs());
    if is_short { value.to_string() } else { format!("{value:e}") }
}
