//! How do the lists of a cycle become one stretch of bytes on the device?
//!
//! Lists are only named until their places are known; then they are copied side by side into pinned
//! memory and go over in few copies. What is pinned already goes from where it lies.

use cudarc::driver::CudaStream;
use rayon::prelude::*;
use shoal_engine::EngineError;

use crate::launch::{ByteRange, DeviceBuffer, Plain, bytes_of, is_pinned};

/// Every list of the input begins at a multiple of this.
const ALIGN: usize = 256;
/// Bytes that one core copies at a time.
const COPY_BYTES: usize = 1 << 20;

/// Lists and where they go.
#[derive(Default)]
pub(super) struct Packing<'a> {
    /// Bytes of the device's side before it.
    pub(super) front: usize,
    pieces: Vec<(usize, &'a [u8])>,
    /// What is in page-locked memory already and needs no packing.
    pinned: Vec<(usize, &'a [u8])>,
    /// How many of those are on their way.
    pub(super) uploaded: usize,
    /// How long it is.
    pub(super) bytes: usize,
}

impl<'a> Packing<'a> {
    pub(super) fn push<T: Plain>(&mut self, values: &'a [T]) -> ByteRange {
        self.push_all([values])
    }

    /// Lists that follow each other as one.
    pub(super) fn push_all<T: Plain>(
        &mut self,
        lists: impl IntoIterator<Item = &'a [T]>,
    ) -> ByteRange {
        let at = self.front + self.bytes;
        let mut length = 0;
        for values in lists {
            let bytes = bytes_of(values);
            self.pieces.push((self.bytes, bytes));
            self.bytes += bytes.len();
            length += values.len();
        }
        self.bytes = self.bytes.next_multiple_of(ALIGN);
        ByteRange { at, length }
    }

    /// A whole block; gives where it begins.
    pub(super) fn push_block(&mut self, bytes: &'a [u8]) -> usize {
        if is_pinned(bytes) {
            return self.push_pinned(bytes).at;
        }
        self.push(bytes).at
    }

    /// A list in page-locked memory.
    pub(super) fn push_pinned<T: Plain>(&mut self, values: &'a [T]) -> ByteRange {
        let (at, bytes) = (self.bytes, bytes_of(values));
        self.pinned.push((at, bytes));
        self.bytes = (at + bytes.len()).next_multiple_of(ALIGN);
        ByteRange { at: self.front + at, length: values.len() }
    }

    /// Copies everything on all cores; pieces ascend.
    pub(super) fn copy(&self, into: &mut [u8]) {
        let mut work: Vec<(&mut [u8], &[u8])> = Vec::with_capacity(self.pieces.len());
        let (mut rest, mut done) = (into, 0);
        for (at, bytes) in &self.pieces {
            let (_, tail) = rest.split_at_mut(at - done);
            let (mut room, tail) = tail.split_at_mut(bytes.len());
            (rest, done) = (tail, at + bytes.len());
            let mut from = *bytes;
            while from.len() > COPY_BYTES {
                let (head, more) = room.split_at_mut(COPY_BYTES);
                work.push((head, &from[..COPY_BYTES]));
                (room, from) = (more, &from[COPY_BYTES..]);
            }
            work.push((room, from));
        }
        let copy = |(room, from): &mut (&mut [u8], &[u8])| room.copy_from_slice(from);
        if self.bytes <= COPY_BYTES {
            work.iter_mut().for_each(copy);
        } else {
            work.par_iter_mut().for_each(copy);
        }
    }

    /// Copies what lies in pinned memory to the device, from where it lies; each once.
    pub(super) fn upload_pinned(
        &mut self,
        stream: &CudaStream,
        device: &DeviceBuffer<u8>,
    ) -> Result<(), EngineError> {
        for (at, bytes) in &self.pinned[self.uploaded..] {
            device.upload(stream, self.front + at, bytes)?;
        }
        self.uploaded = self.pinned.len();
        Ok(())
    }

    /// Copies what was packed into `packed`.
    pub(super) fn upload_packed(
        &self,
        stream: &CudaStream,
        device: &DeviceBuffer<u8>,
        packed: &[u8],
    ) -> Result<(), EngineError> {
        let mut done = 0;
        for (at, bytes) in &self.pinned {
            device.upload(stream, self.front + done, &packed[done..*at])?;
            done = at + bytes.len();
        }
        device.upload(stream, self.front + done, &packed[done..self.bytes])
    }

    /// Bytes of the device's side up to its end.
    pub(super) fn device_bytes(&self) -> usize {
        self.front + self.bytes
    }
}
