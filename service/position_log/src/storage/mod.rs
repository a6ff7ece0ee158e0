//! The disk as the log uses it: a small trait, real files, and a simulated disk for tests.

mod file_storage;
mod simulated_disk;
mod simulated_file;
mod storage_trait;

pub use file_storage::{FileStorage, create_root};
pub(crate) use file_storage::{PLAIN, check_regular};
pub use simulated_disk::{Fault, SimulatedDisk};
pub(crate) use storage_trait::folder_of;
pub use storage_trait::{Storage, StorageFile};
