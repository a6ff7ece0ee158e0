//! Copies the records of marked items from the device to the host.
//!
//! A prefix sum of the marks gives each item its place; then records are written and copied in
//! pieces of a fixed length.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::AnswerRecord;

use crate::launch::{DeviceBuffer, Memory, PinnedBuffer, Scratch, fault};

/// Most marked items of one piece.
pub(super) const PIECE: usize = 1 << 16;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Pieces {
    /// 1 for a marked item, else 0; one more 0 follows the last.
    pub(super) marks: DeviceBuffer<u32>,
    places: DeviceBuffer<u32>,
    /// The records of one piece.
    records: DeviceBuffer<AnswerRecord>,
    /// Records of each marked item.
    each: usize,
    length_host: PinnedBuffer<u32>,
    scratch: Scratch,
}

/// The target of the records of one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// By mark: the number of marks before it.
    pub(super) places: &'a DeviceBuffer<u32>,
    pub(super) records: &'a DeviceBuffer<AnswerRecord>,
    /// Number of the first marked item in the piece.
    pub(super) first: u32,
    pub(super) length: u32,
}

impl Pieces {
    /// `each` is the number of records of every marked item.
    pub(super) fn new(memory: &Memory, each: usize) -> Result<Self, EngineError> {
        Ok(Self {
            marks: DeviceBuffer::new(memory, 1)?,
            places: DeviceBuffer::new(memory, 1)?,
            records: DeviceBuffer::new(memory, 1)?,
            each,
            length_host: PinnedBuffer::new(memory, 1)?,
            scratch: Scratch::new(memory)?,
        })
    }

    /// Reserves memory for this number of marks.
    pub(super) fn fit(&mut self, marks: usize) -> Result<(), EngineError> {
        self.marks.fit(marks + 1)?;
        self.places.fit(marks + 1)?;
        self.records.fit(self.each * PIECE).map(drop)
    }

    /// Queues counting the marked items among `marks` marks.
    pub(super) fn count(&mut self, stream: &CudaStream, marks: u32) -> Result<(), EngineError> {
        self.scratch.sum_before(stream, &self.marks, &self.places, marks + 1)?;
        let host = self.length_host.first(1);
        self.places.download(stream, marks as usize, host)
    }

    /// Calls `read` with the records of each marked item, in order, and returns its results.
    /// `write` queues writing the records of a piece. Waits.
    pub(super) fn take<T>(
        &self,
        stream: &CudaStream,
        write: impl Fn(Piece<'_>) -> Result<(), EngineError>,
        read: impl Fn(&[AnswerRecord]) -> T,
    ) -> Result<Vec<T>, EngineError> {
        stream.synchronize().map_err(fault)?;
        let all = self.length_host.as_slice()[0];
        let mut taken = Vec::with_capacity(all as usize);
        let mut host = vec![AnswerRecord::default(); self.each * PIECE.min(all as usize)];
        for first in (0..all).step_by(PIECE) {
            let length = (all - first).min(PIECE as u32);
            write(Piece { places: &self.places, records: &self.records, first, length })?;
            let host = &mut host[..self.each * length as usize];
            self.records.download(stream, 0, &mut *host)?;
            stream.synchronize().map_err(fault)?;
            taken.extend(host.chunks_exact(self.each).map(&read));
        }
        Ok(taken)
    }
}
