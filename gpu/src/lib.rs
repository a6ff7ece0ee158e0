//! How does a cycle run on the device? G-LFPP: dispatch, update and query kernels on concurrent
//! streams over two grids.
//!
//! With feature `cuda` this is the CUDA backend; without it, or without a driver or a device,
//! asking for one gives a value that says what is missing, never a panic.

#[cfg(feature = "cuda")]
mod backend;
#[cfg(feature = "cuda")]
mod codec;
mod device;
#[cfg(feature = "cuda")]
mod encoder;
#[cfg(feature = "cuda")]
mod launch;
#[cfg(feature = "cuda")]
mod pipeline;
#[cfg(feature = "cuda")]
mod tuning;

#[cfg(feature = "cuda")]
pub use backend::{CudaBackend, Recorder, Recording};
#[cfg(feature = "cuda")]
pub use codec::{DecodeError, Decoder, EncodedColumn};
#[cfg(feature = "cuda")]
pub use device::Gpu;
pub use device::Unavailable;
#[cfg(feature = "cuda")]
pub use encoder::{DeviceColumn, EncodeError, Encoded, Encoder};
#[cfg(feature = "cuda")]
pub use pipeline::{StageSpan, UpdateMethod};
#[cfg(feature = "cuda")]
pub use tuning::Tuning;
