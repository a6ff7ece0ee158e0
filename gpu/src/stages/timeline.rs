//! Records when each stage of each cycle ran on the device. For benchmarks; off by default.
//!
//! A stage is marked by two events on its stream; times are read at the end, counted from the start
//! of the recording.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaEvent, CudaStream, sys};
use shoal_engine::EngineError;

use crate::launch::fault;

/// One stage of one cycle on the device's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageSpan {
    /// The cycle, counted from 1 by the engine.
    pub epoch: u64,
    /// "copy in", "dispatch", "update", "query", "subscription" or "copy out".
    pub stage: &'static str,
    /// Milliseconds since recording began.
    pub begin_ms: f32,
    /// Milliseconds since recording began.
    pub end_ms: f32,
}

/// Marks stages while recording is on.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    is_on: AtomicBool,
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    base: Option<CudaEvent>,
    stages: Vec<(u64, &'static str, CudaEvent, CudaEvent)>,
}

/// An event with a timestamp.
pub(crate) fn timestamp(stream: &Arc<CudaStream>) -> Result<CudaEvent, EngineError> {
    stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).map_err(fault)
}

impl Timeline {
    /// Restarts the recording.
    pub(crate) fn start(&self, stream: &Arc<CudaStream>) -> Result<(), EngineError> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        *marks = Marks { base: Some(timestamp(stream)?), stages: Vec::new() };
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The beginning of a stage, when recording.
    pub(crate) fn begin(&self, stream: &Arc<CudaStream>) -> Result<Option<CudaEvent>, EngineError> {
        if self.is_on.load(Ordering::Relaxed) { timestamp(stream).map(Some) } else { Ok(None) }
    }

    /// The end of a stage that began.
    pub(crate) fn end(
        &self,
        epoch: u64,
        stage: &'static str,
        begin: Option<CudaEvent>,
        stream: &Arc<CudaStream>,
    ) -> Result<(), EngineError> {
        if let Some(begin) = begin {
            let end = timestamp(stream)?;
            let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            marks.stages.push((epoch, stage, begin, end));
        }
        Ok(())
    }

    /// Ends recording and reads all times; waits for the stages.
    pub(crate) fn stop(&self) -> Result<Vec<StageSpan>, EngineError> {
        self.is_on.store(false, Ordering::Relaxed);
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(base) = &marks.base else { return Ok(Vec::new()) };
        let span = |(epoch, stage, begin, end): &(u64, &'static str, CudaEvent, CudaEvent)| {
            end.synchronize()?;
            let (begin_ms, end_ms) = (base.elapsed_ms(begin)?, base.elapsed_ms(end)?);
            Ok(StageSpan { epoch: *epoch, stage, begin_ms, end_ms })
        };
        marks.stages.iter().map(span).collect::<Result<_, _>>().map_err(fault)
    }
}
