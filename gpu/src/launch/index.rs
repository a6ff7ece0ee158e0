//! Launches of the tree over sorted keys: build, search, scans, insertion.
//!
//! Each kernel exists for words and for pairs, compiled from one source.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError};
use shoal_engine::EngineError;
use shoal_engine::layout::{INDEX_FAN_OUT, INDEX_LEAF_BYTES, INDEX_LEVELS};
use shoal_history::{FAN_OUT, LEAF_BYTES, LEVELS_MAX, TreeKey, TreeShape};

use super::argument_layout::{KeyTreeArgument, Pointer};
use super::memory::{DeviceBuffer, Memory};
use super::module::{Kernel, WARP, arguments, launch};
use super::plain::Plain;
use crate::tuning::Width;

const _: () = assert!(LEAF_BYTES == INDEX_LEAF_BYTES as usize);
const _: () = assert!(FAN_OUT == INDEX_FAN_OUT as usize && LEVELS_MAX == INDEX_LEVELS as usize);

/// Kernels of one module, loaded together.
macro_rules! kernel_set {
    ($(#[$doc:meta])* $set:ident: $($name:ident),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $set {
            $($name: $crate::launch::module::Kernel,)+
        }

        impl $set {
            fn from_image(
                context: &Arc<CudaContext>,
                image: &[u8],
                width: $crate::tuning::Width,
            ) -> Result<Self, DriverError> {
                let module = context.load_module(cudarc::nvrtc::Ptx::from_binary(image.to_vec()))?;
                Ok(Self {
                    $($name: $crate::launch::module::Kernel::new(
                        module.load_function(stringify!($name))?,
                        width,
                    )?,)+
                })
            }
        }
    };
}
pub(super) use kernel_set;

/// The fatbin that the build made from a file.
macro_rules! image {
    ($file:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".fatbin"))
    };
}
pub(super) use image;

/// Whether keys are pairs of object and time; else they are words.
pub(super) fn are_pairs<K>() -> bool {
    size_of::<K>() == size_of::<shoal_history::ObjectTime>()
}

kernel_set! {
    /// The kernels of trees of one type of key.
    TreeKernels: index_leaves, index_inner, index_find_1, index_find_2, index_find_4, index_find_8,
        index_find_16, index_find_32, index_find_last, index_scan_count, index_scan_write,
        index_insert,
}

/// Threads per request if the caller of a search does not choose their number.
const SEARCH_THREADS: u64 = 4;

/// The arrays of a tree on the device. The tree never grows in place, so each array is one
/// allocation.
#[derive(Debug)]
pub(crate) struct TreeArrays<K> {
    pub(crate) shape: TreeShape,
    pub(crate) inner: DeviceBuffer<K>,
    pub(crate) leaves: DeviceBuffer<K>,
    pub(crate) values: DeviceBuffer<u32>,
    pub(crate) lengths: DeviceBuffer<u32>,
}

impl<K: TreeKey + Plain> TreeArrays<K> {
    /// Allocates arrays for `leaves` leaves.
    pub(crate) fn new(memory: &Memory, leaves: usize) -> Result<Self, EngineError> {
        let shape = TreeShape::new::<K>(leaves);
        let places = shape.leaves() * K::LEAF_KEYS;
        Ok(Self {
            inner: DeviceBuffer::new(memory, shape.nodes() * FAN_OUT)?,
            leaves: DeviceBuffer::new(memory, places)?,
            values: DeviceBuffer::new(memory, places)?,
            lengths: DeviceBuffer::new(memory, shape.leaves())?,
            shape,
        })
    }

    fn argument(&self) -> KeyTreeArgument {
        let shape = &self.shape;
        let places = shape.leaves() * K::LEAF_KEYS;
        assert!(self.inner.len() >= shape.nodes() * FAN_OUT, "a place for every inner key");
        assert!(self.leaves.len().min(self.values.len()) >= places, "a key and a value a place");
        assert!(self.lengths.len() >= shape.leaves(), "a length a leaf");
        let mut firsts = [0; INDEX_LEVELS as usize];
        for (level, first) in firsts.iter_mut().enumerate().take(shape.levels()) {
            *first = shape.first_of(level) as u32;
        }
        KeyTreeArgument {
            inner: Pointer::new(self.inner.address()),
            leaves: Pointer::new(self.leaves.address()),
            values: self.values.pointer(),
            lengths: self.lengths.pointer(),
            firsts,
            levels: shape.levels() as u32,
            leaf_count: shape.leaves() as u32,
        }
    }
}

/// The place that a search finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeSearch {
    /// The place of the first key not below the request, found by this number of threads per
    /// request.
    First(u32),
    /// The place of the last key not above the request.
    Last,
}

impl TreeKernels {
    /// Loads the kernels for a type of key.
    pub(crate) fn load<K: TreeKey>(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let image: &[u8] =
            if are_pairs::<K>() { image!("index/pairs") } else { image!("index/words") };
        Self::from_image(context, image, Width::FULL)
    }

    /// Fills the leaves with sorted keys, `fill` in each, and writes their values: those given, or
    /// else their ranks.
    pub(crate) fn leaves<K: TreeKey + Plain>(
        &self,
        stream: &CudaStream,
        tree: &TreeArrays<K>,
        keys: &DeviceBuffer<K>,
        length: usize,
        values: Option<&DeviceBuffer<u32>>,
        fill: usize,
    ) -> Result<(), EngineError> {
        assert!((1..=K::LEAF_KEYS).contains(&fill), "{fill} keys a leaf");
        assert!(
            keys.len() >= length && length <= tree.shape.leaves() * fill,
            "leaves for all keys"
        );
        assert!(values.is_none_or(|values| values.len() >= length), "a value a key");
        let (argument, keys) = (tree.argument(), keys.address());
        let values = values.map_or(0, DeviceBuffer::address);
        let (length, fill) = (length as u32, fill as u32);
        let threads = (tree.shape.leaves() * K::LEAF_KEYS) as u64;
        let arguments = arguments![argument, keys, values, length, fill];
        launch(&self.index_leaves, stream, threads, arguments)
    }

    /// Builds all keys of all inner nodes over leaves of `fill` keys.
    pub(crate) fn inner<K: TreeKey + Plain>(
        &self,
        stream: &CudaStream,
        tree: &TreeArrays<K>,
        fill: usize,
    ) -> Result<(), EngineError> {
        assert!((1..=K::LEAF_KEYS).contains(&fill), "{fill} keys a leaf");
        let (argument, nodes, fill) = (tree.argument(), tree.shape.nodes() as u32, fill as u32);
        let threads = u64::from(nodes) * FAN_OUT as u64;
        launch(&self.index_inner, stream, threads, arguments![argument, nodes, fill])
    }

    /// Searches `length` keys.
    pub(crate) fn find<K: TreeKey + Plain>(
        &self,
        stream: &CudaStream,
        tree: &TreeArrays<K>,
        requests: &DeviceBuffer<K>,
        length: usize,
        search: TreeSearch,
        found: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(requests.len().min(found.len()) >= length, "a place a request");
        let (kernel, threads, together): (&Kernel, u64, usize) = match search {
            TreeSearch::Last => (&self.index_find_last, SEARCH_THREADS, 1),
            TreeSearch::First(1) => (&self.index_find_1, 1, 1),
            TreeSearch::First(2) => (&self.index_find_2, 2, 2),
            TreeSearch::First(4) => (&self.index_find_4, 4, 2),
            TreeSearch::First(8) => (&self.index_find_8, 8, 2),
            TreeSearch::First(16) => (&self.index_find_16, 16, 2),
            TreeSearch::First(32) => (&self.index_find_32, 32, 2),
            TreeSearch::First(threads) => panic!("{threads} is not a power of two up to 32"),
        };
        let (argument, requests, found) = (tree.argument(), requests.address(), found.address());
        let (threads, length) = (length.div_ceil(together) as u64 * threads, length as u32);
        launch(kernel, stream, threads, arguments![argument, requests, length, found])
    }

    /// Counts the keys of each range, from its first bound to below its second.
    pub(crate) fn scan_count<K: TreeKey + Plain>(
        &self,
        stream: &CudaStream,
        tree: &TreeArrays<K>,
        (bounds, ranges): (&DeviceBuffer<K>, usize),
        counts: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(bounds.len() >= 2 * ranges && counts.len() >= ranges, "two bounds, a count");
        let (argument, bounds, counts) = (tree.argument(), bounds.address(), counts.address());
        let (threads, ranges) = (ranges as u64 * WARP, ranges as u32);
        let arguments = arguments![argument, bounds, ranges, counts];
        launch(&self.index_scan_count, stream, threads, arguments)
    }

    /// Writes the entries of each range to the lists, from the range's place on. The lists have
    /// capacity for the entries that [`TreeKernels::scan_count`] counted.
    pub(crate) fn scan_write<K: TreeKey + Plain>(
        &self,
        stream: &CudaStream,
        tree: &TreeArrays<K>,
        (bounds, ranges): (&DeviceBuffer<K>, usize),
        places: &DeviceBuffer<u64>,
        (keys, values): (&DeviceBuffer<K>, &DeviceBuffer<u32>),
    ) -> Result<(), EngineError> {
        assert!(bounds.len() >= 2 * ranges && places.len() >= ranges, "two bounds, a place");
        assert!(values.len() >= keys.len().min(values.len()), "a value a key");
        let (argument, bounds, places) = (tree.argument(), bounds.address(), places.address());
        let (keys, values) = (keys.address(), values.address());
        let (threads, ranges) = (ranges as u64 * WARP, ranges as u32);
        let arguments = arguments![argument, bounds, ranges, places, keys, values];
        launch(&self.index_scan_write, stream, threads, arguments)
    }

    /// Inserts `length` sorted entries of different keys into leaves with room. `places` has the
    /// place of each key; `refused` is 1 for each entry, and becomes 0 for those inserted.
    pub(crate) fn insert<K: TreeKey + Plain>(
        &self,
        stream: &CudaStream,
        tree: &TreeArrays<K>,
        keys: &DeviceBuffer<K>,
        values: &DeviceBuffer<u32>,
        length: usize,
        places: &DeviceBuffer<u32>,
        refused: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let shortest = keys.len().min(values.len()).min(places.len()).min(refused.len());
        assert!(shortest >= length, "a value, a place and a flag a key");
        let (argument, keys, values) = (tree.argument(), keys.address(), values.address());
        let (places, refused) = (places.address(), refused.address());
        let (threads, length) = (length as u64, length as u32);
        let arguments = arguments![argument, keys, values, length, places, refused];
        launch(&self.index_insert, stream, threads, arguments)
    }
}
