//! The durable log of a fleet: cycles in segments, checkpoints of the state, and recovery.
//!
//! `LOG.md` of this crate specifies every byte of the files, and the recovery after a crash. The
//! log stores the input of the engine and knows neither engine nor codec: blocks are opaque bytes.

mod aligned_buffer;
mod checkpoint;
mod cycle_source;
mod directory_lock;
mod error;
mod fleet_identity;
mod frame;
mod group;
pub mod limits;
mod log_bounds;
mod log_reader;
mod log_writer;
mod manifest;
mod new_file;
mod position;
mod read_options;
mod record;
mod record_names;
mod recovered;
mod repair;
mod retention;
mod retirement;
mod segment;
mod segment_list;
mod segment_pool;
mod segment_window;
mod spare;
mod storage;
mod tail;
mod terms;
mod text_file;
mod whole_file;
mod wire;

pub use aligned_buffer::AlignedBuffer;
pub use checkpoint::{
    CheckpointExport, CheckpointHeader, CheckpointImport, CheckpointReader, CheckpointSummary,
    CheckpointWriter, Checkpoints, ProducerState, Rejected, Section, checkpoint_epochs,
    decode_producers, open_checkpoint, open_newest,
};
pub use cycle_source::CycleSource;
pub use directory_lock::DirectoryLock;
pub use error::LogError;
pub use fleet_identity::FleetIdentity;
pub use frame::{FrameHeader, FrameKind};
pub use group::Group;
pub use log_bounds::{LogBounds, create_log};
pub use log_reader::{Frame, LogReader};
pub use log_writer::{LogOptions, LogWriter};
pub use manifest::{Manifest, ManifestEntry};
pub use new_file::NewFile;
pub use position::{Position, SegmentInfo};
pub use read_options::{ReadMode, ReadOptions};
pub use record::{
    CycleHeader, CycleOutcome, EVERY_ROW, LoggedCycle, LoggedRequest, ObjectIds, ProducerBatch,
    RefusedRow, RequestBody,
};
pub use record_names::{LoggedNames, push_name};
pub use recovered::{ReadCounts, Recovered, TornTail};
pub use repair::{RepairReport, list_segments, repair};
pub use retention::Retention;
pub use retirement::{Retired, Retirement};
pub use segment::{SegmentHeader, segment_path};
pub use segment_list::SegmentEntry;
pub use spare::{Spare, SpareJob};
pub use storage::{Fault, FileStorage, SimulatedDisk, Storage, StorageFile, create_root};
pub use terms::{EpochState, PastTerm, Terms};
pub use text_file::TextFile;
pub use whole_file::{read_file, replace_file};

/// The checksum of frames: CRC32C.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}
