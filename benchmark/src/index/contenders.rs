//! Other structures over sorted keys on the device, searched by kernels of the benchmark's own
//! (`benchmark/kernels/`).
//!
//! Keys are copied as 64-bit words: a pair becomes two words, its object and its time.

#![allow(unsafe_code, reason = "the driver's interface is unsafe; it ends here")]

use std::marker::PhantomData;
use std::slice;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DriverError, LaunchConfig,
    PushKernelArg, sys,
};
use cudarc::nvrtc::Ptx;
use shoal_engine::EngineError;
use shoal_gpu::{DevicePlaces, Gpu};

use super::key_set::MadeKey;
use super::layout::{self, OffsetTable, SourceLayout};
use super::options::{KeyType, Structure};

/// Keys per node and threads per request in the source's experiment; equal to the kernel's
/// `SOURCE_KEYS`.
const SOURCE_KEYS: u32 = 64;
const BLOCK_THREADS: u32 = 256;

/// The fatbin compiled from a kernel file.
macro_rules! fatbin {
    ($file:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".fatbin"))
    };
}

/// The kernels of one type of key, and the stream on which they run.
#[derive(Debug)]
pub(super) struct Contenders<K> {
    module: Arc<CudaModule>,
    stream: Arc<CudaStream>,
    keys: PhantomData<K>,
}

/// A structure, with the kernel that searches it.
#[derive(Debug)]
pub(super) struct Contender<K> {
    kernel: CudaFunction,
    words: CudaSlice<u64>,
    shape: Shape,
    keys: PhantomData<K>,
}

/// Kernel arguments other than keys and requests; `length` is the number of keys.
#[derive(Debug)]
enum Shape {
    /// Threads of a request.
    Keys {
        length: u32,
        threads: u32,
    },
    Offsets {
        length: u32,
        offsets: CudaSlice<u32>,
        buckets: u32,
        least: u64,
        shift: u32,
    },
    Hash {
        ranks: CudaSlice<u32>,
        mask: u64,
    },
    Source {
        firsts: CudaSlice<u32>,
        levels: u32,
    },
}

/// Requests on the device, and memory for the places that answer them.
#[derive(Debug)]
pub(super) struct ContenderRequests<K> {
    words: CudaSlice<u64>,
    count: u32,
    found: CudaSlice<u32>,
    keys: PhantomData<K>,
}

/// A failed call of the driver as an error.
fn fault(error: DriverError) -> EngineError {
    EngineError::Device(error.to_string())
}

impl<K> Contender<K> {
    /// Bytes in the device's memory.
    pub(super) fn bytes(&self) -> usize {
        let beside = match &self.shape {
            Shape::Keys { .. } => 0,
            Shape::Offsets { offsets, .. } => offsets.num_bytes(),
            Shape::Hash { ranks, .. } => ranks.num_bytes(),
            Shape::Source { firsts, .. } => firsts.num_bytes(),
        };
        self.words.num_bytes() + beside
    }
}

impl<K: MadeKey> Contenders<K> {
    /// Words of a key.
    const WORDS: usize = {
        let words = match K::TYPE {
            KeyType::Word => 1,
            KeyType::Pair => 2,
        };
        assert!(size_of::<K>() == words * size_of::<u64>(), "a key is its words");
        words
    };

    /// Loads the kernels for the first device.
    pub(super) fn open() -> Result<Self, EngineError> {
        let context = CudaContext::new(Gpu::FIRST).map_err(fault)?;
        let image: &[u8] = match K::TYPE {
            KeyType::Word => fatbin!("contenders_words"),
            KeyType::Pair => fatbin!("contenders_pairs"),
        };
        let module = context.load_module(Ptx::from_binary(image.to_vec())).map_err(fault)?;
        Ok(Self { module, stream: context.default_stream(), keys: PhantomData })
    }

    /// Lays keys out on the device. `Tree` and `BtreeMap` have no kernel here and use sorted keys.
    pub(super) fn build(
        &self,
        structure: Structure,
        keys: &[K],
    ) -> Result<Contender<K>, EngineError> {
        let length = keys.len() as u32;
        let one_each = Shape::Keys { length, threads: 1 };
        match structure {
            Structure::Eytzinger => {
                self.contender("contender_eytzinger", &layout::eytzinger(keys), one_each)
            }
            Structure::KAry => {
                let shape = Shape::Keys { length, threads: 4 };
                self.contender("contender_k_ary", &layout::k_ary(keys), shape)
            }
            Structure::Offsets => {
                let OffsetTable { offsets, least, shift } = OffsetTable::new(keys);
                let buckets = offsets.len() as u32 - 1;
                let offsets = self.upload(&offsets)?;
                let shape = Shape::Offsets { length, offsets, buckets, least, shift };
                self.contender("contender_offsets", keys, shape)
            }
            Structure::Hash => self.hash(keys),
            Structure::LowerBound | Structure::Tree | Structure::BtreeMap => {
                self.contender("contender_lower_bound", keys, one_each)
            }
        }
    }

    /// The tree of the source's experiment, searched with or without its border branch.
    pub(super) fn source_tree(
        &self,
        keys: &[K],
        has_border: bool,
    ) -> Result<Contender<K>, EngineError> {
        let SourceLayout { nodes, firsts } = SourceLayout::new(keys, SOURCE_KEYS as usize);
        let levels = firsts.len() as u32;
        let kernel = if has_border { "source_find_border" } else { "source_find_padded" };
        self.contender(kernel, &nodes, Shape::Source { firsts: self.upload(&firsts)?, levels })
    }

    /// Copies requests to the device.
    pub(super) fn requests(&self, keys: &[K]) -> Result<ContenderRequests<K>, EngineError> {
        Ok(ContenderRequests {
            words: self.words(keys)?,
            count: keys.len() as u32,
            found: self.stream.alloc_zeros(keys.len().max(1)).map_err(fault)?,
            keys: PhantomData,
        })
    }

    /// Sets all places to 0, so that a search that writes none is noticed.
    pub(super) fn clear(&self, requests: &mut ContenderRequests<K>) -> Result<(), EngineError> {
        self.stream.memset_zeros(&mut requests.found).map_err(fault)
    }

    /// Copies the places from the device.
    pub(super) fn download(
        &self,
        requests: &ContenderRequests<K>,
    ) -> Result<Vec<u32>, EngineError> {
        self.stream.clone_dtoh(&requests.found).map_err(fault)
    }

    /// Searches all requests; returns the milliseconds.
    pub(super) fn find(
        &self,
        contender: &Contender<K>,
        requests: &mut ContenderRequests<K>,
    ) -> Result<f64, EngineError> {
        let ContenderRequests { words, count, found, .. } = requests;
        let mut launch = self.stream.launch_builder(&contender.kernel);
        launch.record_kernel_launch(sys::CUevent_flags::CU_EVENT_DEFAULT).arg(&contender.words);
        let threads = match &contender.shape {
            Shape::Keys { length, threads } => {
                launch.arg(length);
                *threads
            }
            Shape::Offsets { length, offsets, buckets, least, shift } => {
                launch.arg(length).arg(offsets).arg(buckets).arg(least).arg(shift);
                1
            }
            Shape::Hash { ranks, mask } => {
                launch.arg(ranks).arg(mask);
                1
            }
            Shape::Source { firsts, levels } => {
                launch.arg(firsts).arg(levels);
                SOURCE_KEYS
            }
        };
        launch.arg(&*words);
        let config = match &contender.shape {
            // One thread block per request.
            Shape::Source { .. } => LaunchConfig {
                grid_dim: (*count, 1, 1),
                block_dim: (threads, 1, 1),
                shared_mem_bytes: 0,
            },
            _ => {
                launch.arg(&*count);
                threads_of(u64::from(*count) * u64::from(threads))
            }
        };
        launch.arg(found);
        // SAFETY: the arguments are those that the kernel declares, every list has the length that
        // the structure's layout and `count` give, and the stream's lists outlive the wait below.
        let events = unsafe { launch.launch(config) }.map_err(fault)?;
        let (start, end) = events.expect("the launch records events");
        start.elapsed_ms(&end).map(f64::from).map_err(fault)
    }

    /// A hash table, at most half full. Answers are ranks.
    fn hash(&self, keys: &[K]) -> Result<Contender<K>, EngineError> {
        let slots = (2 * keys.len()).max(2).next_power_of_two();
        let (length, mask) = (keys.len() as u32, slots as u64 - 1);
        let mut ranks = self.upload(&vec![DevicePlaces::NONE; slots])?;
        let words = slots * Self::WORDS;
        let mut table: CudaSlice<u64> = self.stream.alloc_zeros(words).map_err(fault)?;
        let (fill, keys) = (self.kernel("contender_hash_fill")?, self.words(keys)?);
        let mut launch = self.stream.launch_builder(&fill);
        launch.arg(&keys).arg(&length).arg(&mut table).arg(&mut ranks).arg(&mask);
        // SAFETY: as in `find`; a free slot ends every search, and the keys live until the stream
        // has been waited for.
        unsafe { launch.launch(threads_of(length.into())) }.map_err(fault)?;
        self.stream.synchronize().map_err(fault)?;
        let kernel = self.kernel("contender_hash")?;
        Ok(Contender {
            kernel,
            words: table,
            shape: Shape::Hash { ranks, mask },
            keys: PhantomData,
        })
    }

    fn contender(
        &self,
        kernel: &str,
        keys: &[K],
        shape: Shape,
    ) -> Result<Contender<K>, EngineError> {
        let (kernel, words) = (self.kernel(kernel)?, self.words(keys)?);
        Ok(Contender { kernel, words, shape, keys: PhantomData })
    }

    fn kernel(&self, name: &str) -> Result<CudaFunction, EngineError> {
        self.module.load_function(name).map_err(fault)
    }

    /// Keys as words on the device.
    fn words(&self, keys: &[K]) -> Result<CudaSlice<u64>, EngineError> {
        // SAFETY: `WORDS` asserts that a key is one number of 64 bits or two, without padding.
        let words =
            unsafe { slice::from_raw_parts(keys.as_ptr().cast(), keys.len() * Self::WORDS) };
        self.stream.clone_htod(words).map_err(fault)
    }

    fn upload(&self, values: &[u32]) -> Result<CudaSlice<u32>, EngineError> {
        self.stream.clone_htod(values).map_err(fault)
    }
}

/// The configuration of a launch of at least `threads` threads.
fn threads_of(threads: u64) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (threads.div_ceil(BLOCK_THREADS.into()) as u32, 1, 1),
        block_dim: (BLOCK_THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}
