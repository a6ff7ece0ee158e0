//! The structures on the device.
//!
//! Keys, structures and requests lie in the device's memory before the clock starts; the device
//! measures the times.

use shoal_gpu::{DeviceIndex, DeviceKey, DeviceKeys, DevicePlaces, DeviceTree, Gpu};

use super::case::{Requests, Searched, leaf_keys};
use super::contenders::{Contender, ContenderRequests, Contenders};
use super::key_set::MadeKey;
use super::options::{Options, Structure};
use crate::error::BenchmarkError;

/// A device, with the results of one type of key.
pub(super) struct Device<K: DeviceKey> {
    index: DeviceIndex<K>,
    contenders: Contenders<K>,
    pub(super) name: String,
}

/// A structure on the device.
pub(super) enum DeviceStructure<K: DeviceKey> {
    Tree(Box<DeviceTree<K>>),
    Other(Contender<K>),
}

/// Requests on the device, and memory for their answers: for the tree and for the others.
pub(super) struct DeviceRequests<K: DeviceKey> {
    keys: DeviceKeys<K>,
    found: DevicePlaces,
    of_others: ContenderRequests<K>,
}

impl<K: MadeKey + DeviceKey> Device<K> {
    pub(super) fn open() -> Result<Self, BenchmarkError> {
        let missing = |error: shoal_gpu::Unavailable| BenchmarkError::Backend(error.to_string());
        let gpu = Gpu::open(Gpu::FIRST).map_err(missing)?;
        let name = gpu.name().to_owned();
        let index = DeviceIndex::new(&gpu, gpu.budget_bytes())?;
        Ok(Self { index, contenders: Contenders::open()?, name })
    }

    /// Copies keys to the device, lays them out and builds; returns the bytes in use.
    pub(super) fn build(
        &self,
        structure: Structure,
        keys: &[K],
        options: &Options,
    ) -> Result<(DeviceStructure<K>, u64), BenchmarkError> {
        if structure == Structure::Tree {
            let before = self.index.used_bytes();
            let there = self.index.keys(keys)?;
            let tree = self.index.build(&there, None, leaf_keys::<K>(options))?;
            drop(there);
            return Ok((DeviceStructure::Tree(Box::new(tree)), self.index.used_bytes() - before));
        }
        let other = self.contenders.build(structure, keys)?;
        let bytes = other.bytes() as u64;
        Ok((DeviceStructure::Other(other), bytes))
    }

    pub(super) fn requests(&self, keys: &[K]) -> Result<DeviceRequests<K>, BenchmarkError> {
        Ok(DeviceRequests {
            keys: self.index.keys(keys)?,
            found: self.index.places(keys.len())?,
            of_others: self.contenders.requests(keys)?,
        })
    }

    /// Searches all requests; returns the milliseconds.
    pub(super) fn find(
        &self,
        structure: &DeviceStructure<K>,
        threads: u32,
        there: &mut DeviceRequests<K>,
    ) -> Result<f64, BenchmarkError> {
        let DeviceRequests { keys, found, of_others } = there;
        Ok(match structure {
            DeviceStructure::Tree(tree) => self.index.find(tree, keys, threads, found)?,
            DeviceStructure::Other(other) => self.contenders.find(other, of_others)?,
        })
    }

    /// Searches and compares the answers.
    pub(super) fn check(
        &self,
        structure: &DeviceStructure<K>,
        threads: u32,
        there: &mut DeviceRequests<K>,
        requests: &Requests<K>,
        what: &Searched<K>,
    ) -> Result<(), BenchmarkError> {
        // Results of an earlier search must not pass the check.
        self.index.clear(&there.found)?;
        self.contenders.clear(&mut there.of_others)?;
        self.find(structure, threads, there)?;
        let places = match structure {
            DeviceStructure::Tree(_) => self.index.download(&there.found, requests.ranks.len())?,
            DeviceStructure::Other(_) => self.contenders.download(&there.of_others)?,
        };
        requests.check(what, &places)
    }

    /// Rebuilds all inner nodes; returns the milliseconds.
    pub(super) fn build_inner(&self, tree: &mut DeviceTree<K>) -> Result<f64, BenchmarkError> {
        Ok(self.index.build_inner(tree)?)
    }

    /// The tree of the source, searched with or without its border branch.
    pub(super) fn source_tree(
        &self,
        keys: &[K],
        has_border: bool,
    ) -> Result<DeviceStructure<K>, BenchmarkError> {
        Ok(DeviceStructure::Other(self.contenders.source_tree(keys, has_border)?))
    }
}
