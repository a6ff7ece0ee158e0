//! A tree on the device: build, search, scans, insertion into leaves with room.
//!
//! The place of a key is the number of its leaf times the places of a leaf, plus its position in
//! the leaf.

use shoal_engine::EngineError;
use shoal_history::{FAN_OUT, TreeShape};

use super::device::{DeviceIndex, DeviceKey, DeviceKeys, DevicePlaces};
use crate::launch::{DeviceBuffer, TreeArrays, TreeSearch};

/// A map from keys to 32-bit values in the device's memory.
#[derive(Debug)]
pub struct DeviceTree<K: DeviceKey> {
    arrays: TreeArrays<K>,
    fill: usize,
    /// Time of building all inner nodes, milliseconds.
    pub inner_ms: f64,
}

/// The entries of ranges, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned<K> {
    /// By range: the index of its first entry in the lists; then the number of all entries.
    pub firsts: Vec<u64>,
    /// Keys of all ranges.
    pub keys: Vec<K>,
    /// Their values.
    pub values: Vec<u32>,
}

impl<K: DeviceKey> DeviceTree<K> {
    /// Levels and nodes.
    #[must_use]
    pub fn shape(&self) -> &TreeShape {
        &self.arrays.shape
    }

    /// The keys by place. If all leaves are full, the place of a key is its rank.
    pub(crate) fn leaves(&self) -> &DeviceBuffer<K> {
        &self.arrays.leaves
    }

    /// Number of keys that the build put into each leaf but the last.
    #[must_use]
    pub fn fill(&self) -> usize {
        self.fill
    }
}

impl<K: DeviceKey> DeviceIndex<K> {
    /// Builds a tree of keys that ascend strictly, with `fill` keys in each leaf but the last.
    /// Without `values`, the value of a key is its rank. If keys do not ascend strictly, searches
    /// give wrong answers.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    ///
    /// # Panics
    /// When `fill` is not between 1 and the places of a leaf, or keys lack values.
    pub fn build(
        &self,
        keys: &DeviceKeys<K>,
        values: Option<&[u32]>,
        fill: usize,
    ) -> Result<DeviceTree<K>, EngineError> {
        let arrays = TreeArrays::new(&self.memory, keys.length.div_ceil(fill))?;
        let values = values.map(|values| self.upload(values)).transpose()?;
        self.timed(|| {
            self.kernels.leaves(
                &self.stream,
                &arrays,
                &keys.buffer,
                keys.length,
                values.as_ref(),
                fill,
            )
        })?;
        let mut tree = DeviceTree { arrays, fill, inner_ms: 0.0 };
        self.build_inner(&mut tree)?;
        Ok(tree)
    }

    /// Builds all inner nodes over leaves of [`DeviceTree::fill`] keys with one launch. Returns the
    /// milliseconds.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails.
    pub fn build_inner(&self, tree: &mut DeviceTree<K>) -> Result<f64, EngineError> {
        let work = || self.kernels.inner(&self.stream, &tree.arrays, tree.fill);
        tree.inner_ms = self.timed(work)?;
        Ok(tree.inner_ms)
    }

    /// All inner keys, node by node, bottom up and left to right.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails.
    pub fn inner_keys(&self, tree: &DeviceTree<K>) -> Result<Vec<K>, EngineError> {
        self.read(&tree.arrays.inner, tree.arrays.shape.nodes() * FAN_OUT)
    }

    /// Finds the place of the first key that is not less than each request, or the place after the
    /// last key if all keys are less. Uses `threads` threads per request: 1, 2, 4, 8, 16 or 32.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails.
    ///
    /// # Panics
    /// On another number of threads, and if there are fewer places than requests.
    pub fn find(
        &self,
        tree: &DeviceTree<K>,
        requests: &DeviceKeys<K>,
        threads: u32,
        found: &mut DevicePlaces,
    ) -> Result<f64, EngineError> {
        self.search(tree, requests, TreeSearch::First(threads), found)
    }

    /// Finds the place of the last key that is not greater than each request, or writes
    /// [`DevicePlaces::NONE`].
    ///
    /// # Errors
    /// [`EngineError`] if the device fails.
    ///
    /// # Panics
    /// If there are fewer places than requests.
    pub fn find_last(
        &self,
        tree: &DeviceTree<K>,
        requests: &DeviceKeys<K>,
        found: &mut DevicePlaces,
    ) -> Result<f64, EngineError> {
        self.search(tree, requests, TreeSearch::Last, found)
    }

    fn search(
        &self,
        tree: &DeviceTree<K>,
        requests: &DeviceKeys<K>,
        search: TreeSearch,
        found: &mut DevicePlaces,
    ) -> Result<f64, EngineError> {
        self.timed(|| {
            self.kernels.find(
                &self.stream,
                &tree.arrays,
                &requests.buffer,
                requests.length,
                search,
                &found.0,
            )
        })
    }

    /// The entries of ranges. A range includes its first bound and excludes its second.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    pub fn scan(
        &mut self,
        tree: &DeviceTree<K>,
        ranges: &[(K, K)],
    ) -> Result<Scanned<K>, EngineError> {
        let bounds: Vec<K> = ranges.iter().flat_map(|(low, high)| [*low, *high]).collect();
        let bounds = self.upload(&bounds)?;
        let counts = DeviceBuffer::new(&self.memory, ranges.len() + 1)?;
        let firsts = DeviceBuffer::<u64>::new(&self.memory, ranges.len() + 1)?;
        let of_ranges = (&bounds, ranges.len());
        self.kernels.scan_count(&self.stream, &tree.arrays, of_ranges, &counts)?;
        self.scratch.sum_before(&self.stream, &counts, &firsts, ranges.len() as u32 + 1)?;
        let places = self.read(&firsts, ranges.len() + 1)?;
        let length = places[ranges.len()] as usize;
        let keys = DeviceBuffer::new(&self.memory, length)?;
        let values = DeviceBuffer::new(&self.memory, length)?;
        let lists = (&keys, &values);
        self.kernels.scan_write(&self.stream, &tree.arrays, of_ranges, &firsts, lists)?;
        let (keys, values) = (self.read(&keys, length)?, self.read(&values, length)?);
        Ok(Scanned { firsts: places, keys, values })
    }

    /// Inserts entries whose keys ascend strictly into leaves with room; a key that exists gets the
    /// new value. If the new keys of a leaf do not all fit, none of them is inserted. Returns the
    /// indexes of the entries that were not inserted; adding them requires a new tree.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    ///
    /// # Panics
    /// If keys do not ascend strictly, or there is not one value per key.
    pub fn insert(
        &self,
        tree: &mut DeviceTree<K>,
        keys: &[K],
        values: &[u32],
    ) -> Result<Vec<usize>, EngineError> {
        assert_eq!(keys.len(), values.len(), "a value a key");
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "keys ascend strictly");
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (requests, values) = (self.keys(keys)?, self.upload(values)?);
        let mut places = self.places(keys.len())?;
        self.find(tree, &requests, 4, &mut places)?;
        let refused = self.upload(&vec![1_u32; keys.len()])?;
        self.kernels.insert(
            &self.stream,
            &tree.arrays,
            &requests.buffer,
            &values,
            keys.len(),
            &places.0,
            &refused,
        )?;
        let refused = self.read(&refused, keys.len())?;
        Ok((0..keys.len()).filter(|number| refused[*number] != 0).collect())
    }
}
