//! Writes the history of a fleet from its log, behind the watermark that the history states.
//!
//! A thread for each fleet reads what is durable. A stop or a crash loses nothing: the next start
//! continues behind the watermark. Segments that it has not read are held.

mod cycle_rows;
mod fleet_history;
mod history_thread;
mod pace;

pub(crate) use fleet_history::{ErasureRoom, FleetHistory, PastVersion};
pub use fleet_history::{HistoryKeep, HistoryReading};
pub(super) use history_thread::HistoryHandle;
