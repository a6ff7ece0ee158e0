//! How do rows leave, and how do their acks come back?
//!
//! `source` draws fixes, `door` turns them into what the server stores, `wire` and `prepared` into
//! messages; `sender` and `acks` are the two halves of a connection, `removal` the calls between.

pub mod acks;
pub mod batch;
pub mod door;
pub mod in_flight;
pub mod prepared;
pub mod removal;
pub mod row_wire;
pub mod sender;
pub mod source;
pub mod wire;

pub use acks::{AckReader, ReportTally};
pub use batch::{Batch, BatchMaker};
pub use in_flight::InFlight;
pub use prepared::PreparedBlocks;
pub use sender::Sender;
pub use source::Source;
pub use wire::{ReportCodec, ReportMessage};
