//! Launches of other structures over sorted keys, for `shoal-bench index`; no server uses them.
//!
//! One safe function a kernel; see the kernels for the layouts.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError};
use shoal_engine::EngineError;
use shoal_index::Key;

use super::index::{are_pairs, image, kernel_set};
use super::memory::DeviceBuffer;
use super::module::{Run, arguments, launch, launch_run};
use super::plain::Plain;
use crate::tuning::Width;

kernel_set! {
    /// The kernels of other structures of one type of key.
    ContenderKernels: contender_lower_bound, contender_eytzinger, contender_k_ary,
        contender_offsets, contender_hash_fill, contender_hash, source_find_border,
        source_find_padded,
}

/// Requests, their number, and the answers.
pub(crate) type Requests<'a, K> = (&'a DeviceBuffer<K>, usize, &'a DeviceBuffer<u32>);

/// Addresses and number of requests.
fn of_requests<K: Plain>((requests, count, found): Requests<'_, K>) -> (u64, u32, u64) {
    assert!(requests.len().min(found.len()) >= count, "an answer a request");
    (requests.address(), count as u32, found.address())
}

impl ContenderKernels {
    /// Keys of a node of the source's experiment, and threads of a request.
    pub(crate) const SOURCE_KEYS: u32 = 64;

    /// Loads the kernels for a type of key.
    pub(crate) fn load<K: Key>(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let image: &[u8] = match are_pairs::<K>() {
            true => image!("index/contenders_pairs"),
            false => image!("index/contenders_words"),
        };
        Self::from_image(context, image, Width::FULL)
    }

    /// Binary search in sorted keys.
    pub(crate) fn lower_bound<K: Key + Plain>(
        &self,
        stream: &CudaStream,
        (keys, length): (&DeviceBuffer<K>, usize),
        requests: Requests<'_, K>,
    ) -> Result<(), EngineError> {
        assert!(keys.len() >= length, "all keys");
        let (keys, length, (requests, count, found)) =
            (keys.address(), length as u32, of_requests(requests));
        let arguments = arguments![keys, length, requests, count, found];
        launch(&self.contender_lower_bound, stream, count.into(), arguments)
    }

    /// Search in the Eytzinger layout, whose place 0 has no key.
    pub(crate) fn eytzinger<K: Key + Plain>(
        &self,
        stream: &CudaStream,
        (places, length): (&DeviceBuffer<K>, usize),
        requests: Requests<'_, K>,
    ) -> Result<(), EngineError> {
        assert!(places.len() > length, "a place for every key and one more");
        let (places, length, (requests, count, found)) =
            (places.address(), length as u32, of_requests(requests));
        let arguments = arguments![places, length, requests, count, found];
        launch(&self.contender_eytzinger, stream, count.into(), arguments)
    }

    /// Search in the k-ary layout, filled up to whole nodes.
    pub(crate) fn k_ary<K: Key + Plain>(
        &self,
        stream: &CudaStream,
        (places, length): (&DeviceBuffer<K>, usize),
        requests: Requests<'_, K>,
    ) -> Result<(), EngineError> {
        assert!(places.len() >= length.next_multiple_of(K::LEAF_KEYS), "whole nodes");
        let (places, length, (requests, count, found)) =
            (places.address(), length as u32, of_requests(requests));
        let arguments = arguments![places, length, requests, count, found];
        launch(&self.contender_k_ary, stream, u64::from(count) * 4, arguments)
    }

    /// Search in the bucket that an offset table gives.
    pub(crate) fn offsets<K: Key + Plain>(
        &self,
        stream: &CudaStream,
        (keys, length): (&DeviceBuffer<K>, usize),
        (offsets, buckets, least, shift): (&DeviceBuffer<u32>, u32, u64, u32),
        requests: Requests<'_, K>,
    ) -> Result<(), EngineError> {
        assert!(keys.len() >= length && offsets.len() > buckets as usize, "an offset a bucket");
        let (keys, length, offsets) = (keys.address(), length as u32, offsets.address());
        let (requests, count, found) = of_requests(requests);
        let arguments =
            arguments![keys, length, offsets, buckets, least, shift, requests, count, found];
        launch(&self.contender_offsets, stream, count.into(), arguments)
    }

    /// Fills a hash table; every rank is `INDEX_NO_PLACE` beforehand.
    pub(crate) fn hash_fill<K: Key + Plain>(
        &self,
        stream: &CudaStream,
        (keys, length): (&DeviceBuffer<K>, usize),
        (slots, ranks): (&DeviceBuffer<K>, &DeviceBuffer<u32>),
    ) -> Result<(), EngineError> {
        assert!(slots.len() == ranks.len() && slots.len().is_power_of_two(), "a rank a slot");
        assert!(keys.len() >= length && length < slots.len(), "a free slot ends every search");
        let (mask, slots, ranks) = (slots.len() as u64 - 1, slots.address(), ranks.address());
        let (keys, threads, length) = (keys.address(), length as u64, length as u32);
        let arguments = arguments![keys, length, slots, ranks, mask];
        launch(&self.contender_hash_fill, stream, threads, arguments)
    }

    /// Search in a hash table with a free slot.
    pub(crate) fn hash<K: Key + Plain>(
        &self,
        stream: &CudaStream,
        (slots, ranks): (&DeviceBuffer<K>, &DeviceBuffer<u32>),
        requests: Requests<'_, K>,
    ) -> Result<(), EngineError> {
        assert!(slots.len() == ranks.len() && slots.len().is_power_of_two(), "a rank a slot");
        let (mask, slots, ranks) = (slots.len() as u64 - 1, slots.address(), ranks.address());
        let (requests, count, found) = of_requests(requests);
        let arguments = arguments![slots, ranks, mask, requests, count, found];
        launch(&self.contender_hash, stream, count.into(), arguments)
    }

    /// The source's search, a block a request, with or without a border branch.
    pub(crate) fn source<K: Key + Plain>(
        &self,
        stream: &CudaStream,
        (nodes, firsts, levels): (&DeviceBuffer<K>, &DeviceBuffer<u32>, u32),
        has_border: bool,
        requests: Requests<'_, K>,
    ) -> Result<(), EngineError> {
        assert!(firsts.len() >= levels as usize, "a first node a level");
        let (nodes, firsts) = (nodes.address(), firsts.address());
        let (requests, blocks, found) = of_requests(requests);
        let kernel = if has_border { &self.source_find_border } else { &self.source_find_padded };
        let run = Run { blocks, threads: Some(Self::SOURCE_KEYS), cluster: 1, follows: false };
        launch_run(kernel, stream, run, 0, arguments![nodes, firsts, levels, requests, found])
    }
}
