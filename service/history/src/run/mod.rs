//! Runs: files of sorted fixes of one partition of event time (HISTORY.md, section 3).

mod page;
mod planners;
mod run_entry;
mod run_file;
mod run_index;
mod run_reader;
mod run_writer;
mod shared_rows;
mod zone;

pub(crate) use page::PageCache;
pub use page::PageMemory;
pub(crate) use planners::SharedPlanners;
pub use run_entry::RunEntry;
pub(crate) use run_file::RunFile;
pub(crate) use run_reader::{ObjectEntry, RunReader};
pub(crate) use run_writer::{CellRow, NewRun, RunWriter};
pub(crate) use shared_rows::SharedRows;
pub use zone::Zone;
