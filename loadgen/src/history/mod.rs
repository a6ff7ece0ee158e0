//! Questions about the past of the fleet, which are asked while reports are sent: trajectories,
//! states as of a moment, passages, replays, densities.
//!
//! `question` defines a question in wire form and for the oracle; `asker` asks the questions of one
//! kind and measures latencies.

mod asker;
mod question;

pub use asker::{Asker, PastTally};
pub use question::{Choosers, HistoryQuery, PastGrid, PastKind};
