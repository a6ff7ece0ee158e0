//! How do positions become few bytes? The block container and its CPU codec.
//!
//! `FORMAT.md` beside this package is law for every byte; the code follows it. Modules bear the
//! names of the format's structures. Nothing here reads files, clocks or the network.

pub mod block;
pub mod chunk;
pub mod codec;
pub mod column;
pub mod columns;
mod decode;
mod encode;
pub mod error;
pub mod header;
pub mod limits;
pub mod plan;
pub mod raw;
mod rewrite;
pub mod space;
mod wire;

pub use block::Block;
pub use chunk::Chunk;
pub use codec::{BlockCodec, CpuCodec};
pub use column::{Column, ColumnSet, ValueType};
pub use columns::{
    ALTITUDE_UNKNOWN, FixColumns, FixRow, HEADING_UNKNOWN, SPEED_UNKNOWN, STATE_NONE,
};
pub use error::BlockError;
pub use header::BlockHeader;
pub use limits::Budget;
pub use plan::{Encoding, Plan, PlanNode};
pub use rewrite::rewrite_prepared;
pub use space::{SpaceKind, SpaceTag};
