//! Where objects were: sorted runs of past fixes, and queries over time.
//!
//! `HISTORY.md` of this crate specifies every byte and every crash. A [`HistoryWriter`]
//! seals [`Batch`]es of accepted fixes into runs, merges and drops them; a [`History`] gives
//! queries a [`Version`] to hold. The crate knows neither engine nor protocol, and has no clock.

mod batch;
mod error;
mod gap;
mod hilbert;
mod history;
mod history_writer;
mod key_tree;
pub mod limits;
mod manifest;
mod merge;
mod partition;
mod query;
mod removal;
mod run;
mod run_device;
mod sorted_rows;
mod state;
mod version;
mod wire;
mod work;

pub use batch::Batch;
pub use error::HistoryError;
pub use gap::Gap;
pub use hilbert::hilbert_cell;
pub use history::History;
pub use history_writer::{ErasedLog, HistoryOptions, HistoryWriter, Sealed};
pub use key_tree::{FAN_OUT, LEAF_BYTES, LEVELS_MAX, ObjectTime, TreeKey, TreeShape};
pub use manifest::Watermark;
pub use partition::Partition;
pub use query::{
    AsOf, AsOfQuery, Density, DensityCell, DensityGrid, Everywhere, Objects, QueryBudget, Replay,
    RowFilter, Scan, Trajectory,
};
pub use run::{PageMemory, RunEntry, Zone};
pub use run_device::{RunDevice, RunObject, RunPages};
pub use version::Version;
pub use work::Work;
