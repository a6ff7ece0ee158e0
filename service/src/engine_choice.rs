//! The choice of the engine that runs the fleets. No other file of the server names a backend.
//!
//! An engine that is not available is an error with its reason, never replaced silently; `auto`
//! selects one.

#[cfg(any(test, feature = "cuda"))]
mod device_codec;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use shoal_codec::{Aim, BlockCodec, CpuCodec};
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{Backend, EngineOptions};
use shoal_history::limits::PAGE_BYTES_DEFAULT;
use shoal_history::{PageMemory, RunDevice};

use crate::error::ServiceError;

/// The engine as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The fastest that is available.
    #[default]
    Auto,
    /// The CPU backend.
    Cpu,
    /// The CUDA backend.
    Cuda,
}

impl EngineChoice {
    /// Confirms that this choice can run here.
    ///
    /// # Errors
    /// [`ServiceError::EngineUnavailable`].
    pub fn check(self) -> Result<(), ServiceError> {
        match self {
            Self::Auto | Self::Cpu => Ok(()),
            Self::Cuda => cuda_device().map(|_| ()).map_err(|cause| {
                ServiceError::EngineUnavailable { engine: "cuda", cause: cause.to_string() }
            }),
        }
    }

    /// The engine that this choice runs on this machine. If `auto` finds no usable device, also the
    /// reason.
    #[must_use]
    pub fn resolve(self) -> (Self, Option<String>) {
        match self {
            Self::Auto => match cuda_device() {
                Ok(_) => (Self::Cuda, None),
                Err(cause) => (Self::Cpu, Some(cause.to_string())),
            },
            Self::Cpu | Self::Cuda => (self, None),
        }
    }

    /// Returns a factory of empty engines. On a device, each engine may use
    /// `gpu_fleet_memory_bytes`; with `None`, each may use the whole budget of the device.
    #[must_use]
    pub fn factory(self, gpu_fleet_memory_bytes: Option<u64>) -> EngineFactory {
        let engine = self.resolve().0;
        let start = move |options: EngineOptions| match engine {
            Self::Cuda => start_cuda(options, gpu_fleet_memory_bytes),
            Self::Auto | Self::Cpu => Ok(Box::new(CpuBackend::new(options)) as Box<dyn Backend>),
        };
        let factory = EngineFactory::new(engine.engine_name(), Arc::new(start));
        match engine {
            Self::Cuda => EngineFactory { codec: Arc::new(cuda_codec), ..factory },
            Self::Auto | Self::Cpu => factory,
        }
    }

    /// Returns the device that searches the runs of histories. They may use `memory_bytes` of its
    /// memory; with `None`, a tenth of its budget. Returns `None` if the CPU must search them.
    pub(crate) fn history_device(self, memory_bytes: Option<u64>) -> Option<Arc<dyn RunDevice>> {
        match self.resolve().0 {
            Self::Cuda => open_history_device(memory_bytes),
            Self::Auto | Self::Cpu => None,
        }
    }

    /// Builds the pool that all engines of the process share, so that its threads are not named
    /// after the first fleet.
    pub(crate) fn build_pool(threads: usize) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        // An error means that another server of this process has built it.
        let _ = pool.thread_name(|index| format!("engine-{index}")).build_global();
    }

    /// Name of the engine that this choice runs here: "cpu" or "cuda".
    pub fn engine_name(self) -> &'static str {
        match self.resolve().0 {
            Self::Auto | Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda_device() -> Result<shoal_gpu::Gpu, shoal_gpu::Unavailable> {
    shoal_gpu::Gpu::open(shoal_gpu::Gpu::FIRST)
}

#[cfg(not(feature = "cuda"))]
fn cuda_device() -> Result<(), shoal_gpu::Unavailable> {
    Err(shoal_gpu::Unavailable::NotBuilt)
}

#[cfg(feature = "cuda")]
fn start_cuda(
    options: EngineOptions,
    memory_bytes: Option<u64>,
) -> Result<Box<dyn Backend>, ServiceError> {
    use shoal_engine::EngineError;
    let unavailable = |cause: String| ServiceError::EngineUnavailable { engine: "cuda", cause };
    let gpu = cuda_device().map_err(|cause| unavailable(cause.to_string()))?;
    let memory_bytes = memory_bytes.unwrap_or_else(|| gpu.budget_bytes());
    match shoal_gpu::CudaBackend::with_budget(&gpu, options, memory_bytes) {
        Ok(backend) => Ok(Box::new(backend)),
        // A retry helps: other fleets may be deleted.
        Err(fault @ EngineError::OutOfMemory { .. }) => Err(fault.into()),
        Err(fault) => Err(unavailable(fault.to_string())),
    }
}

#[cfg(not(feature = "cuda"))]
fn start_cuda(
    _options: EngineOptions,
    _memory_bytes: Option<u64>,
) -> Result<Box<dyn Backend>, ServiceError> {
    let cause = shoal_gpu::Unavailable::NotBuilt.to_string();
    Err(ServiceError::EngineUnavailable { engine: "cuda", cause })
}

/// A codec on the device, which is opened by the first request that is large enough for it.
#[cfg(feature = "cuda")]
fn cuda_codec() -> Box<dyn BlockCodec + Send> {
    use shoal_gpu::{EncodeError, Encoder};

    use self::device_codec::{DeviceCodec, DeviceFault};
    use crate::limits::DEVICE_ENCODE_BYTES_MAX;
    let open = || {
        let gpu = cuda_device().map_err(|error| DeviceFault::Device(error.to_string()))?;
        let opened = Encoder::new(&gpu, DEVICE_ENCODE_BYTES_MAX);
        opened.map_err(|error| DeviceFault::Device(error.to_string()))
    };
    let mut opened: Option<Encoder> = None;
    Box::new(DeviceCodec::new(move |columns, plan, space, sequence, out| {
        let encoder = match &mut opened {
            Some(encoder) => encoder,
            None => opened.insert(open()?),
        };
        let encoded = encoder.encode_planned(columns, plan, space, sequence, out);
        encoded.map_err(|error| match error {
            EncodeError::Block(error) => DeviceFault::Block(error),
            error => DeviceFault::Device(error.to_string()),
        })
    }))
}

#[cfg(not(feature = "cuda"))]
fn cuda_codec() -> Box<dyn BlockCodec + Send> {
    Box::new(CpuCodec)
}

#[cfg(feature = "cuda")]
fn open_history_device(memory_bytes: Option<u64>) -> Option<Arc<dyn RunDevice>> {
    use crate::limits::HISTORY_DEVICE_SHARE;
    let report = |cause: &str| tracing::warn!(cause, "the CPU searches a run of the history");
    let open = || {
        let gpu = cuda_device().map_err(|cause| cause.to_string())?;
        let bytes = memory_bytes.unwrap_or(gpu.budget_bytes() / HISTORY_DEVICE_SHARE);
        let runs = shoal_gpu::DeviceRuns::new(
            &gpu,
            bytes,
            shoal_gpu::OffloadThresholds::default(),
            report,
        );
        runs.map_err(|cause| cause.to_string())
    };
    match open() {
        Ok(runs) => Some(Arc::new(runs)),
        Err(cause) => {
            tracing::warn!(cause, "the CPU searches the history: the device cannot");
            None
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn open_history_device(_memory_bytes: Option<u64>) -> Option<Arc<dyn RunDevice>> {
    None
}

/// Starts the engines of a server.
#[derive(Clone)]
pub struct EngineFactory {
    /// Name of its engine, as in `Fleet.engine`.
    pub name: &'static str,
    /// Starts one, on the thread that will run it.
    pub start: StartEngine,
    /// Opens the codec that encodes plain rows for the log of a fleet.
    pub codec: OpenCodec,
    /// The aim of the log's blocks: speed or size.
    pub log_aim: Aim,
    /// The device that searches the runs of histories, if there is one.
    pub history_device: Option<Arc<dyn RunDevice>>,
    /// Memory for pages of all histories.
    pub history_pages: PageMemory,
}

/// See [`EngineFactory::codec`].
pub type OpenCodec = Arc<dyn Fn() -> Box<dyn BlockCodec + Send> + Send + Sync>;

impl EngineFactory {
    /// Engines of this name, and the codec of the CPU with the aim `fast`.
    #[must_use]
    pub fn new(name: &'static str, start: StartEngine) -> Self {
        let codec: OpenCodec = Arc::new(|| Box::new(CpuCodec));
        let history_pages = PageMemory::new(PAGE_BYTES_DEFAULT);
        Self { name, start, codec, log_aim: Aim::Fast, history_device: None, history_pages }
    }
}

/// See [`EngineFactory::start`].
pub type StartEngine =
    Arc<dyn Fn(EngineOptions) -> Result<Box<dyn Backend>, ServiceError> + Send + Sync>;

impl fmt::Debug for EngineFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineFactory({})", self.name)
    }
}

impl FromStr for EngineChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            _ => Err(format!("engine {text:?} is not auto, cpu or cuda")),
        }
    }
}
