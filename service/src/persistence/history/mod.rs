//! Writes the history of a fleet from its log, starting after the history's watermark.
//!
//! One thread per fleet reads the durable cycles. A stop or a crash loses nothing, because the
//! next start continues after the watermark and the log keeps the segments that were not read.

mod cycle_rows;
mod fleet_history;
mod history_thread;
mod pace;

pub(crate) use fleet_history::{ErasureRoom, FleetHistory, PastVersion};
pub use fleet_history::{HistoryKeep, HistoryReading};
pub(super) use history_thread::HistoryHandle;
