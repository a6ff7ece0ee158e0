//! The devices of this machine, by ordinal.
//!
//! A missing driver or device is a value, never a panic. All fleets on a device share its context;
//! each fleet has its own streams and memory. A process opens one [`Gpu`] per GPU, and a fleet runs
//! on one of them.

use thiserror::Error;

/// The reason why a device cannot be opened.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Unavailable {
    /// The library was built without feature `cuda`.
    #[error("this binary was built without CUDA (feature `cuda`)")]
    NotBuilt,
    /// No driver on this machine.
    #[error("there is no NVIDIA driver: libcuda could not be loaded")]
    NoDriver,
    /// The driver has no such device, or the kernels were not built for it.
    #[error("no CUDA device could be opened: {0}")]
    NoDevice(String),
}

#[cfg(feature = "cuda")]
pub use present::Gpu;

#[cfg(feature = "cuda")]
mod present {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex, PoisonError};

    use cudarc::driver::{CudaContext, sys};

    use bytes::Bytes;
    use shoal_engine::EngineError;

    use super::Unavailable;
    use crate::launch::{Account, Accounts, Kernels, Memory, PinnedBuffer, fault};

    /// Page-locked memory that holds the bytes of a block.
    struct Pinned(PinnedBuffer<u8>);

    impl AsRef<[u8]> for Pinned {
        fn as_ref(&self) -> &[u8] {
            self.0.as_slice()
        }
    }

    /// An open device with the kernels loaded. Cloning shares it.
    #[derive(Clone, Debug)]
    pub struct Gpu {
        pub(crate) context: Arc<CudaContext>,
        pub(crate) kernels: Arc<Kernels>,
        /// The budget of all fleets together.
        pub(crate) account: Arc<Account>,
        name: String,
        memory_bytes: u64,
    }

    impl Gpu {
        /// The share of the device's memory for fleets, percent; the driver needs the rest.
        const SHARE_PERCENT: u64 = 90;

        /// The default device.
        pub const FIRST: usize = 0;

        /// Opens the device with this ordinal, counted from 0 in the order of the driver
        /// (`CUDA_VISIBLE_DEVICES`). Later calls in the process return the result of the first.
        ///
        /// # Errors
        /// [`Unavailable`], which says what is missing.
        pub fn open(ordinal: usize) -> Result<Self, Unavailable> {
            static OPENED: Mutex<BTreeMap<usize, Result<Gpu, Unavailable>>> =
                Mutex::new(BTreeMap::new());
            let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
            opened.entry(ordinal).or_insert_with(|| Self::open_new(ordinal)).clone()
        }

        fn open_new(ordinal: usize) -> Result<Self, Unavailable> {
            if !crate::launch::has_driver() {
                return Err(Unavailable::NoDriver);
            }
            let failed =
                |fault: cudarc::driver::DriverError| Unavailable::NoDevice(fault.to_string());
            let context = CudaContext::new(ordinal).map_err(failed)?;
            let kernels = Arc::new(Kernels::load(&context).map_err(failed)?);
            let name = context.name().map_err(failed)?;
            let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
            let multiprocessors = context.attribute(attribute).map_err(failed)?;
            let memory_bytes = context.total_mem().map_err(failed)? as u64;
            let name = format!("{name}, {multiprocessors} multiprocessors");
            let account = Arc::new(Account::of_device(memory_bytes / 100 * Self::SHARE_PERCENT));
            Ok(Self { context, kernels, account, name, memory_bytes })
        }

        /// Copies `bytes` to page-locked memory. The device copies a block in this memory without
        /// staging. Intended for callers that receive blocks into ordinary memory.
        ///
        /// # Errors
        /// [`EngineError::Device`] if page-locked memory cannot be allocated.
        pub fn pinned_bytes(&self, bytes: &[u8]) -> Result<Bytes, EngineError> {
            let memory = self.memory(0);
            let mut buffer = PinnedBuffer::<u8>::new(&memory, bytes.len())?;
            buffer.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
            Ok(Bytes::from_owner(Pinned(buffer)).slice(..bytes.len()))
        }

        /// The same device with narrower launches; see
        /// [`crate::Tuning::resident_threads`].
        pub(crate) fn narrow(&self, resident_threads: u32) -> Result<Self, EngineError> {
            let kernels = Kernels::narrow(&self.context, resident_threads).map_err(fault)?;
            Ok(Self { kernels: Arc::new(kernels), ..self.clone() })
        }

        /// The same device treated as one of an older generation, without clusters.
        #[cfg(test)]
        pub(crate) fn without_clusters(&self) -> Self {
            let kernels = Kernels::load(&self.context).unwrap().without_clusters();
            Self { kernels: Arc::new(kernels), ..self.clone() }
        }

        /// The same device with a separate account of this number of bytes.
        #[cfg(test)]
        pub(crate) fn with_share(&self, budget_bytes: u64) -> Self {
            Self { account: Arc::new(Account::of_device(budget_bytes)), ..self.clone() }
        }

        /// The memory of a new fleet with a budget of this number of bytes.
        pub(crate) fn memory(&self, budget_bytes: u64) -> Memory {
            Memory::new(self.context.clone(), Accounts::new(self.account.clone(), budget_bytes))
        }

        /// Budget of all fleets together, bytes.
        #[must_use]
        pub fn budget_bytes(&self) -> u64 {
            self.account.budget_bytes()
        }

        /// Name and number of multiprocessors, for display.
        #[must_use]
        pub fn name(&self) -> &str {
            &self.name
        }

        /// Bytes of the device's memory.
        #[must_use]
        pub fn memory_bytes(&self) -> u64 {
            self.memory_bytes
        }
    }
}
