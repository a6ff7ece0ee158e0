//! The structures on the device.
//!
//! Keys, structures and requests lie in the device's memory before the clock starts; times are the
//! device's.

use shoal_gpu::SourceTree;
use shoal_gpu::{Contender, DeviceIndex, DeviceKey, DeviceKeys, DevicePlaces, DeviceTree, Gpu};

use super::case::{Requests, Searched, leaf_keys};
use super::key_set::MadeKey;
use super::layout::{self, OffsetTable, SourceLayout};
use super::options::{Options, Structure};
use crate::error::BenchmarkError;

/// A device, with the results of one type of key.
pub(super) struct Device<K: DeviceKey> {
    index: DeviceIndex<K>,
    pub(super) name: String,
}

/// A structure on the device.
pub(super) enum DeviceStructure<K: DeviceKey> {
    Tree(DeviceTree<K>),
    Other(Contender<K>),
}

/// Requests on the device, and memory for their answers.
pub(super) struct DeviceRequests<K: DeviceKey> {
    keys: DeviceKeys<K>,
    found: DevicePlaces,
}

impl<K: MadeKey + DeviceKey> Device<K> {
    pub(super) fn open() -> Result<Self, BenchmarkError> {
        let missing = |error: shoal_gpu::Unavailable| BenchmarkError::Backend(error.to_string());
        let gpu = Gpu::open(Gpu::FIRST).map_err(missing)?;
        let name = gpu.name().to_owned();
        Ok(Self { index: DeviceIndex::new(&gpu, gpu.budget_bytes())?, name })
    }

    /// Copies keys to the device, lays them out and builds; returns the bytes in use.
    pub(super) fn build(
        &self,
        structure: Structure,
        keys: &[K],
        options: &Options,
    ) -> Result<(DeviceStructure<K>, u64), BenchmarkError> {
        let index = &self.index;
        let before = index.used_bytes();
        let other = match structure {
            Structure::Tree => {
                let there = index.keys(keys)?;
                let tree = index.build(&there, None, leaf_keys::<K>(options))?;
                drop(there);
                return Ok((DeviceStructure::Tree(tree), index.used_bytes() - before));
            }
            Structure::Eytzinger => index.eytzinger(&layout::eytzinger(keys))?,
            Structure::KAry => index.k_ary(&layout::k_ary(keys), keys.len())?,
            Structure::Offsets => {
                let OffsetTable { offsets, least, shift } = OffsetTable::new(keys);
                index.offset_table(keys, &offsets, least, shift)?
            }
            Structure::Hash => index.hash(keys)?,
            Structure::LowerBound | Structure::BtreeMap => index.lower_bound(keys)?,
        };
        Ok((DeviceStructure::Other(other), index.used_bytes() - before))
    }

    pub(super) fn requests(&self, keys: &[K]) -> Result<DeviceRequests<K>, BenchmarkError> {
        Ok(DeviceRequests { keys: self.index.keys(keys)?, found: self.index.places(keys.len())? })
    }

    /// Searches all requests; returns the milliseconds.
    pub(super) fn find(
        &self,
        structure: &DeviceStructure<K>,
        threads: u32,
        DeviceRequests { keys, found }: &mut DeviceRequests<K>,
    ) -> Result<f64, BenchmarkError> {
        Ok(match structure {
            DeviceStructure::Tree(tree) => self.index.find(tree, keys, threads, found)?,
            DeviceStructure::Other(other) => self.index.find_in(other, keys, found)?,
        })
    }

    /// Searches and compares the answers.
    pub(super) fn check(
        &self,
        structure: &DeviceStructure<K>,
        threads: u32,
        there: &mut DeviceRequests<K>,
        (requests, what): (&Requests<K>, &Searched<K>),
    ) -> Result<(), BenchmarkError> {
        // What an earlier search left must not pass.
        self.index.clear(&there.found)?;
        self.find(structure, threads, there)?;
        requests.check(what, &self.index.download(&there.found, requests.ranks.len())?)
    }

    /// Builds all inner nodes again; milliseconds.
    pub(super) fn build_inner(&self, tree: &mut DeviceTree<K>) -> Result<f64, BenchmarkError> {
        Ok(self.index.build_inner(tree)?)
    }

    /// The tree of the source.
    pub(super) fn source_tree(&self, keys: &[K]) -> Result<SourceTree<K>, BenchmarkError> {
        let SourceLayout { nodes, firsts } = SourceLayout::new(keys, SourceTree::<K>::KEYS);
        Ok(self.index.source_tree(&nodes, &firsts)?)
    }

    /// Searches the source's tree; returns the milliseconds.
    pub(super) fn find_in_source(
        &self,
        tree: &SourceTree<K>,
        has_border: bool,
        DeviceRequests { keys, found }: &mut DeviceRequests<K>,
    ) -> Result<f64, BenchmarkError> {
        Ok(self.index.find_in_source(tree, has_border, keys, found)?)
    }

    /// The places that the last search found.
    pub(super) fn found(
        &self,
        there: &DeviceRequests<K>,
        length: usize,
    ) -> Result<Vec<u32>, BenchmarkError> {
        Ok(self.index.download(&there.found, length)?)
    }
}
