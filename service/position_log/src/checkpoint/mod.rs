//! Checkpoints: the state of a fleet at one epoch, in one file (LOG.md, section 9).

mod checkpoint_copy;
mod checkpoint_files;
mod checkpoint_header;
mod checkpoint_reader;
mod checkpoint_writer;
mod producer_table;
mod section;

pub use checkpoint_copy::{CheckpointExport, CheckpointImport};
pub use checkpoint_files::{
    Checkpoints, Rejected, checkpoint_epochs, open_checkpoint, open_newest,
};
pub use checkpoint_header::CheckpointHeader;
pub use checkpoint_reader::{CheckpointReader, Section};
pub use checkpoint_writer::{CheckpointSummary, CheckpointWriter};
pub use producer_table::{ProducerState, decode_producers};
