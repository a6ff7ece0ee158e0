//! Questions about the past of the fleet, beside its reports: trajectories, states as of a moment,
//! passages, replays, densities.
//!
//! `question` is one in both of its forms, `asker` asks those of one kind and measures.

mod asker;
mod question;

pub use asker::{Asker, PastTally};
pub use question::{Choosers, HistoryQuery, PastGrid, PastKind};
