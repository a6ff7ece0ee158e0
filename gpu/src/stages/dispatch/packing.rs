//! Packs the lists of a cycle into one range of bytes on the device.
//!
//! Lists are registered first. Once their places are fixed, they are copied side by side into
//! pinned memory, and from there to the device in few copies. Lists that are in pinned memory
//! already are copied to the device directly.

use bytes::Bytes;
use cudarc::driver::CudaStream;
use rayon::prelude::*;
use shoal_engine::EngineError;
use shoal_engine::layout::Part;

use crate::launch::{ByteRange, DeviceBuffer, PinnedBuffer, Plain, bytes_of, is_pinned};
use crate::stages::workers::in_parallel;

/// Every list of the input begins at a multiple of this.
const ALIGN: usize = 256;
/// Bytes that one core copies at a time.
const COPY_BYTES: usize = 1 << 20;

/// Lists and their places.
#[derive(Default)]
pub(crate) struct Packing<'a> {
    /// Bytes of the device buffer before the packed lists.
    pub(crate) front: usize,
    pieces: Vec<(usize, &'a [u8])>,
    /// Blocks in page-locked memory, which need no packing.
    blocks: Vec<(usize, &'a Bytes)>,
    /// The number of blocks whose copy is queued.
    pub(crate) uploaded: usize,
    /// The parts of queries, also in page-locked memory, and their number.
    parts: Option<(usize, (&'a PinnedBuffer<Part>, usize))>,
    /// Length in bytes.
    pub(crate) bytes: usize,
}

impl<'a> Packing<'a> {
    pub(crate) fn push<T: Plain>(&mut self, values: &'a [T]) -> ByteRange {
        self.push_all([values])
    }

    /// Registers contiguous lists as one.
    pub(crate) fn push_all<T: Plain>(
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

    /// Registers a whole block; returns its place.
    pub(crate) fn push_block(&mut self, bytes: &'a Bytes) -> usize {
        if !is_pinned(bytes) {
            return self.push::<u8>(bytes).at;
        }
        self.blocks.push((self.bytes, bytes));
        self.skip(bytes.len()).at
    }

    /// Registers the first `length` of the queries' parts. Called at most once, after all blocks
    /// are registered.
    pub(crate) fn push_parts(&mut self, parts: &'a PinnedBuffer<Part>, length: usize) -> ByteRange {
        self.parts = Some((self.bytes, (parts, length)));
        ByteRange { length, ..self.skip(length * size_of::<Part>()) }
    }

    /// Skips bytes that are not packed.
    fn skip(&mut self, bytes: usize) -> ByteRange {
        let at = self.bytes;
        self.bytes = (at + bytes).next_multiple_of(ALIGN);
        ByteRange { at: self.front + at, length: bytes }
    }

    /// Copies everything on several threads, in ascending pieces.
    pub(crate) fn copy(&self, into: &mut [u8]) {
        let mut work: Vec<(&mut [u8], &[u8])> = Vec::with_capacity(self.pieces.len());
        let (mut rest, mut done) = (into, 0);
        for (at, bytes) in &self.pieces {
            let (_, tail) = rest.split_at_mut(at - done);
            let (mut space, tail) = tail.split_at_mut(bytes.len());
            (rest, done) = (tail, at + bytes.len());
            let mut from = *bytes;
            while from.len() > COPY_BYTES {
                let (head, more) = space.split_at_mut(COPY_BYTES);
                work.push((head, &from[..COPY_BYTES]));
                (space, from) = (more, &from[COPY_BYTES..]);
            }
            work.push((space, from));
        }
        let copy = |(space, from): &mut (&mut [u8], &[u8])| space.copy_from_slice(from);
        if self.bytes <= COPY_BYTES {
            work.iter_mut().for_each(copy);
        } else {
            in_parallel(|| work.par_iter_mut().for_each(copy));
        }
    }

    /// Copies pinned blocks to the device directly, each once.
    pub(crate) fn upload_blocks(
        &mut self,
        stream: &CudaStream,
        device: &DeviceBuffer<u8>,
    ) -> Result<(), EngineError> {
        let place = |(at, block): &(usize, &'a Bytes)| (self.front + at, *block);
        let blocks: Vec<_> = self.blocks[self.uploaded..].iter().map(place).collect();
        device.upload_blocks(stream, &blocks)?;
        self.uploaded = self.blocks.len();
        Ok(())
    }

    /// Copies the queries' parts to the device directly.
    pub(crate) fn upload_parts(
        &self,
        stream: &CudaStream,
        device: &DeviceBuffer<u8>,
    ) -> Result<(), EngineError> {
        match self.parts {
            Some((at, parts)) => device.upload_list(stream, self.front + at, parts),
            None => Ok(()),
        }
    }

    /// Copies what was packed into `packed`.
    pub(crate) fn upload_packed(
        &self,
        stream: &CudaStream,
        device: &DeviceBuffer<u8>,
        packed: &PinnedBuffer<u8>,
    ) -> Result<(), EngineError> {
        let blocks = self.blocks.iter().map(|(at, block)| *at..at + block.len());
        let parts = self.parts.iter().map(|(at, (_, length))| *at..at + length * size_of::<Part>());
        let mut done = 0;
        for skipped in blocks.chain(parts) {
            device.upload(stream, self.front + done, packed.part(done..skipped.start))?;
            done = skipped.end;
        }
        device.upload(stream, self.front + done, packed.part(done..self.bytes))
    }

    /// Bytes of the device buffer up to the end of the packed lists.
    pub(crate) fn device_bytes(&self) -> usize {
        self.front + self.bytes
    }
}
