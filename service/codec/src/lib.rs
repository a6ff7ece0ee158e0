//! How do positions become few bytes? The block container and its CPU codec.
//!
//! `FORMAT.md` beside this package is law for every byte; the code follows it. Modules bear the
//! names of the format's structures. Nothing here reads files, clocks or the network.

pub mod column;
pub mod columns;
pub mod error;
pub mod limits;
pub mod raw;
pub mod space;

pub use column::{Column, ColumnSet, ValueType};
pub use columns::{
    ALTITUDE_UNKNOWN, FixColumns, FixRow, HEADING_UNKNOWN, SPEED_UNKNOWN, STATE_NONE,
};
pub use error::BlockError;
pub use limits::Budget;
pub use space::{SpaceKind, SpaceTag};
