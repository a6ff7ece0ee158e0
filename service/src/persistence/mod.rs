//! Keeps fleets across restarts: every cycle goes to a log, checkpoints shorten recovery.
//!
//! `shoal_position_log` defines the formats and writes the files; this folder decides when.

mod checkpoint;
mod copied_folder;
mod data_folder;
mod disk_thread;
mod fleet_log;
mod fleet_record;
mod follow_record;
mod follower_table;
mod group_thread;
mod history;
mod log_content;
mod log_copy;
mod log_purge;
mod log_sink;
mod log_tail;
mod read_ahead;
mod recovery;
mod role_record;
mod rows_body;
mod stored_folder;
mod sync_times;

pub use data_folder::DataFolder;
pub(crate) use data_folder::{FleetFolder, random};
pub use fleet_log::{FleetLog, LogCondition, LogDepth, LogReading, SyncReading};
pub(crate) use fleet_record::spec as recorded_spec;
pub(crate) use follow_record::FollowRecord;
pub(crate) use follower_table::FollowerPlace;
pub(crate) use history::{ErasureRoom, PastVersion};
pub use history::{HistoryKeep, HistoryReading};
pub use log_content::{LogContent, ReadDepth, SegmentContent, SegmentState};
pub(crate) use log_copy::LogCopy;
pub(crate) use read_ahead::record as logged_record;
pub(crate) use recovery::{RecoveredFleet, RecoveryTools, recover};
pub(crate) use role_record::{NewTerm, RoleRecord, StoredRole};
#[cfg(test)]
pub(crate) use rows_body::RowsEncoder;
pub use stored_folder::{RepairPlan, StoredCheckpoint, StoredFleet, StoredFolder};
