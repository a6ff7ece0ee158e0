//! The CUDA backend: G-LFPP's dispatch, update and query kernels on concurrent streams over two
//! grids.
//!
//! Without feature `cuda`, a driver or a device, opening a device returns a value that says what is
//! missing; nothing panics.

#[cfg(feature = "cuda")]
mod backend;
#[cfg(feature = "cuda")]
mod codec;
mod device;
#[cfg(feature = "cuda")]
mod history;
#[cfg(feature = "cuda")]
mod index;
#[cfg(feature = "cuda")]
mod launch;
#[cfg(feature = "cuda")]
mod stages;
#[cfg(feature = "cuda")]
mod state;
#[cfg(feature = "cuda")]
mod tuning;

#[cfg(feature = "cuda")]
pub use backend::{CudaBackend, Recorder, Recording};
#[cfg(feature = "cuda")]
pub use codec::{DecodeError, Decoder, DeviceColumn, EncodeError, Encoded, EncodedColumn, Encoder};
#[cfg(feature = "cuda")]
pub use device::Gpu;
pub use device::Unavailable;
#[cfg(feature = "cuda")]
pub use history::{DeviceHistory, DeviceRun, DeviceRuns, OffloadThresholds, RunSource};
#[cfg(feature = "cuda")]
pub use index::{DeviceIndex, DeviceKey, DeviceKeys, DevicePlaces, DeviceTree, Scanned};
#[cfg(feature = "cuda")]
pub use stages::{StageSpan, UpdateMethod};
#[cfg(feature = "cuda")]
pub use tuning::Tuning;
