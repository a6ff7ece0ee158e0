//! Which engine runs a fleet?
//!
//! The only file that names backends: everything behind it sees `dyn Backend`. Asking for an engine
//! that is not there is an error with its reason, never a silent substitute; `auto` picks.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use shoal_engine::cpu::CpuBackend;
use shoal_engine::{Backend, EngineOptions};

use crate::error::ServiceError;

/// The engine asked for on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
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

    /// What this choice comes to on this machine, and for `auto` without a device the reason.
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

    /// Starts engines with nothing in them. On a device each may take `gpu_fleet_memory_bytes` of
    /// it; `None` for as much as all may take together.
    #[must_use]
    pub fn factory(self, gpu_fleet_memory_bytes: Option<u64>) -> EngineFactory {
        let engine = self.resolve().0;
        let start = move |options: EngineOptions| match engine {
            Self::Cuda => start_cuda(options, gpu_fleet_memory_bytes),
            Self::Auto | Self::Cpu => Ok(Box::new(CpuBackend::new(options)) as Box<dyn Backend>),
        };
        EngineFactory { name: engine.engine_name(), start: Arc::new(start) }
    }

    /// Makes the pool that all engines of the process share, so that its threads bear a name of
    /// their own and not that of the first fleet.
    pub(crate) fn name_threads(threads: usize) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        // An error means that there is one already, from another server of this process.
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
        // Other fleets may leave, and then there is room.
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

/// Starts the engines of a server.
#[derive(Clone)]
pub struct EngineFactory {
    /// Name of what it starts, as `Fleet.engine` tells it.
    pub name: &'static str,
    /// Starts one, on the thread that will run it.
    pub start: StartEngine,
}

/// See [`EngineFactory::start`].
pub type StartEngine =
    Arc<dyn Fn(EngineOptions) -> Result<Box<dyn Backend>, ServiceError> + Send + Sync>;

impl fmt::Debug for EngineFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineFactory({})", self.name)
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
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
