//! Reports and their acks.
//!
//! `source` draws fixes, `batch` and `prepared` encode messages, `sender` and `acks` are the two
//! halves of a connection, `removal` removes objects between messages.

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
pub use batch::{BatchMaker, MessageFleet, ReportBatch};
pub use prepared::PreparedBlocks;
pub use sender::Sender;
pub use source::Source;
pub use wire::{ReportCodec, ReportMessage};
