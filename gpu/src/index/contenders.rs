//! Other structures over sorted keys, for `shoal-bench index`; no server uses them.
//!
//! The benchmark lays the keys out; here they are copied to the device and searched. A server that
//! embeds the kernels of a tree has none of these: nothing else refers to them.

use shoal_engine::EngineError;

use super::device::{DeviceIndex, DeviceKey, DeviceKeys, DevicePlaces};
use crate::launch::{ContenderKernels, DeviceBuffer, fault};

/// A structure, with its kernels.
#[derive(Debug)]
pub struct Contender<K: DeviceKey> {
    kernels: ContenderKernels,
    structure: Structure<K>,
}

/// What is searched; a length is the number of keys.
#[derive(Debug)]
enum Structure<K: DeviceKey> {
    LowerBound(DeviceKeys<K>),
    Eytzinger(DeviceBuffer<K>, usize),
    KAry(DeviceBuffer<K>, usize),
    Offsets {
        keys: DeviceKeys<K>,
        offsets: DeviceBuffer<u32>,
        buckets: u32,
        least: u64,
        shift: u32,
    },
    Hash {
        slots: DeviceBuffer<K>,
        ranks: DeviceBuffer<u32>,
    },
}

/// The tree of the source's experiment: 64 keys a node, a block of threads a request.
#[derive(Debug)]
pub struct SourceTree<K: DeviceKey> {
    kernels: ContenderKernels,
    nodes: DeviceBuffer<K>,
    firsts: DeviceBuffer<u32>,
    levels: u32,
}

impl<K: DeviceKey> SourceTree<K> {
    /// Keys of a node, behind one padding key.
    pub const KEYS: usize = ContenderKernels::SOURCE_KEYS as usize;
}

impl<K: DeviceKey> DeviceIndex<K> {
    fn contender(&self, structure: Structure<K>) -> Result<Contender<K>, EngineError> {
        let kernels = ContenderKernels::load::<K>(&self.gpu.context).map_err(fault)?;
        Ok(Contender { kernels, structure })
    }

    /// Binary search in sorted keys. Answers are ranks.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory, here and below.
    pub fn lower_bound(&self, keys: &[K]) -> Result<Contender<K>, EngineError> {
        self.contender(Structure::LowerBound(self.keys(keys)?))
    }

    /// The Eytzinger layout: place 0 and a place for each of `length` keys. Answers are places, 0
    /// where all keys are below.
    ///
    /// # Errors
    /// As [`DeviceIndex::lower_bound`].
    pub fn eytzinger(&self, places: &[K]) -> Result<Contender<K>, EngineError> {
        let length = places.len().saturating_sub(1);
        self.contender(Structure::Eytzinger(self.upload(places)?, length))
    }

    /// The k-ary layout of `length` keys, filled up to whole nodes by the greatest key. Answers are
    /// places, `length` where all keys are below.
    ///
    /// # Errors
    /// As [`DeviceIndex::lower_bound`].
    pub fn k_ary(&self, places: &[K], length: usize) -> Result<Contender<K>, EngineError> {
        self.contender(Structure::KAry(self.upload(places)?, length))
    }

    /// Sorted keys behind a table of the first rank of each bucket, and the end. A bucket is a
    /// key's word, or its object, less `least`, shifted right. Answers are ranks.
    ///
    /// # Errors
    /// As [`DeviceIndex::lower_bound`].
    pub fn offset_table(
        &self,
        keys: &[K],
        offsets: &[u32],
        least: u64,
        shift: u32,
    ) -> Result<Contender<K>, EngineError> {
        let buckets = offsets.len().saturating_sub(1) as u32;
        let (keys, offsets) = (self.keys(keys)?, self.upload(offsets)?);
        self.contender(Structure::Offsets { keys, offsets, buckets, least, shift })
    }

    /// A hash table, at most half full. Answers are ranks, [`DevicePlaces::NONE`] for other keys.
    ///
    /// # Errors
    /// As [`DeviceIndex::lower_bound`].
    pub fn hash(&self, keys: &[K]) -> Result<Contender<K>, EngineError> {
        let slots = (2 * keys.len()).max(2).next_power_of_two();
        let ranks = DeviceBuffer::new(&self.memory, slots)?;
        ranks.fill(&self.stream, u8::MAX, slots)?;
        let slots = DeviceBuffer::new(&self.memory, slots)?;
        let keys = self.keys(keys)?;
        let made = self.contender(Structure::Hash { slots, ranks })?;
        if let Structure::Hash { slots, ranks } = &made.structure {
            let of_keys = (&keys.buffer, keys.length);
            self.timed(|| made.kernels.hash_fill(&self.stream, of_keys, (slots, ranks)))?;
        }
        Ok(made)
    }

    /// Searches another structure. Returns the milliseconds.
    ///
    /// # Errors
    /// As [`DeviceIndex::lower_bound`].
    pub fn find_in(
        &self,
        contender: &Contender<K>,
        requests: &DeviceKeys<K>,
        found: &mut DevicePlaces,
    ) -> Result<f64, EngineError> {
        let (kernels, stream) = (&contender.kernels, &self.stream);
        let requests = (&requests.buffer, requests.length, &found.0);
        self.timed(|| match &contender.structure {
            Structure::LowerBound(keys) => {
                kernels.lower_bound(stream, (&keys.buffer, keys.length), requests)
            }
            Structure::Eytzinger(places, length) => {
                kernels.eytzinger(stream, (places, *length), requests)
            }
            Structure::KAry(places, length) => kernels.k_ary(stream, (places, *length), requests),
            Structure::Offsets { keys, offsets, buckets, least, shift } => {
                let table = (offsets, *buckets, *least, *shift);
                kernels.offsets(stream, (&keys.buffer, keys.length), table, requests)
            }
            Structure::Hash { slots, ranks } => kernels.hash(stream, (slots, ranks), requests),
        })
    }

    /// Copies the source's tree: levels from the leaves up, nodes of [`SourceTree::KEYS`] keys
    /// behind a padding key, and the number of each level's first node.
    ///
    /// # Errors
    /// As [`DeviceIndex::lower_bound`].
    pub fn source_tree(&self, nodes: &[K], firsts: &[u32]) -> Result<SourceTree<K>, EngineError> {
        Ok(SourceTree {
            kernels: ContenderKernels::load::<K>(&self.gpu.context).map_err(fault)?,
            nodes: self.upload(nodes)?,
            firsts: self.upload(firsts)?,
            levels: firsts.len() as u32,
        })
    }

    /// Searches the source's tree, with or without its border branch. Answers are ranks.
    ///
    /// # Errors
    /// As [`DeviceIndex::lower_bound`].
    pub fn find_in_source(
        &self,
        tree: &SourceTree<K>,
        has_border: bool,
        requests: &DeviceKeys<K>,
        found: &mut DevicePlaces,
    ) -> Result<f64, EngineError> {
        let nodes = (&tree.nodes, &tree.firsts, tree.levels);
        let requests = (&requests.buffer, requests.length, &found.0);
        self.timed(|| tree.kernels.source(&self.stream, nodes, has_border, requests))
    }
}
