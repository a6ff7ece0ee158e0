//! What all stages of one fleet share.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use shoal_engine::{EngineError, EngineOptions};

use super::status::Status;
use super::timeline::Timeline;
use crate::device::Gpu;
use crate::launch::{Memory, fault};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) gpu: Gpu,
    pub(crate) options: EngineOptions,
    pub(crate) memory: Memory,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) status: Arc<Status>,
}

impl Context {
    pub(crate) fn new_stream(&self) -> Result<Arc<CudaStream>, EngineError> {
        self.gpu.context.new_stream().map_err(fault)
    }
}
