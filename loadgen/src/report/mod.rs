//! Reports and their acks.
//!
//! `source` draws fixes, `batch` and `prepared` make messages of them; `sender` and `acks` are the
//! two halves of a connection, `removal` the calls between.

pub mod acks;
pub mod batch;
pub mod prepared;
pub mod removal;
pub mod row_wire;
pub mod sender;
pub mod source;
pub mod wire;
pub mod wire_fix;

pub use acks::{AckReader, ReportTally};
pub use batch::{Batch, BatchMaker};
pub use prepared::PreparedBlocks;
pub use sender::Sender;
pub use source::Source;
pub use wire::{ReportCodec, ReportMessage};
