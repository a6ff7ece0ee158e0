//! What can go wrong in the engine, by what the caller can do about it.
//!
//! A refused row is not an error: it is counted in its batch's outcome. A block that fails while
//! decoding is that request's outcome as well; the cycle goes on.

use thiserror::Error;

use crate::limits::CYCLES_IN_FLIGHT_MAX;

/// An engine call that could not be carried out; the state is as before the call.
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
    /// A snapshot that this backend cannot take: not empty, other space, unequal columns.
    #[error("snapshot refused: {0}")]
    Snapshot(String),
    /// A cycle does not fit the memory that the engine may take.
    #[error(
        "out of memory: {needed_bytes} bytes more are needed, {left_bytes} of {budget_bytes} are \
         left of {budget}"
    )]
    OutOfMemory {
        /// Which memory is at its end, in words.
        budget: &'static str,
        /// Bytes of it.
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

/// A region, space or filter that cannot be built; names the value and what is allowed.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum GeometryError {
    /// Not a finite number.
    #[error("{what} is {value}, it must be a finite number")]
    NotFinite {
        /// Which value.
        what: &'static str,
        /// The value given.
        value: f64,
    },
    /// Outside what the space or the kind of region allows.
    #[error("{what} is {value}, it must lie in [{min}, {max}]")]
    OutOfRange {
        /// Which value.
        what: &'static str,
        /// The value given.
        value: f64,
        /// Least allowed.
        min: f64,
        /// Most allowed.
        max: f64,
    },
    /// A rule that is not a range: order of sides, vertices, widths.
    #[error("{0}")]
    Rule(String),
}
