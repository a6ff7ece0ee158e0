//! Runs the experiments of the flags, on the CPU and, in a build with CUDA, on the device.
//!
//! Before the searches of a structure are timed, its answers are checked.

use std::time::Instant;

use shoal_history::ObjectTime;

use super::case::{Requests, Searched, leaf_keys};
use super::cpu::{self, CpuStructure};
use super::key_set::{self, MadeKey};
use super::options::{Experiment, KeyType, Options, Place, Structure};
use super::plot;
use super::row::Row;
use super::tree::Tree;
use crate::error::BenchmarkError;
use crate::harness::command::value_name;
use crate::harness::{Output, median_of, table};

#[cfg(feature = "cuda")]
use super::cuda::Device;
#[cfg(feature = "cuda")]
use shoal_gpu::DeviceKey;

/// A key type that every place of this build supports.
#[cfg(feature = "cuda")]
trait Measured: MadeKey + DeviceKey {}
#[cfg(feature = "cuda")]
impl<K: MadeKey + DeviceKey> Measured for K {}
#[cfg(not(feature = "cuda"))]
trait Measured: MadeKey {}
#[cfg(not(feature = "cuda"))]
impl<K: MadeKey> Measured for K {}

/// Searches of the source's second experiment.
#[cfg(feature = "cuda")]
const BORDER_SEARCHES: [u32; 2] = [5_120, 25_600];
/// Minimum number of runs for launches that take microseconds.
#[cfg(feature = "cuda")]
const SHORT_RUNS: u32 = 30;

/// Runs the experiments that the flags name.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let head = format!(
        "index, seed {}, median of {} runs\n# ratio: to the binary search; places: {}",
        options.common.seed,
        options.runs,
        places(options)?,
    );
    let one = |experiment: Experiment, name: &str, out: &mut Output<Row>| {
        table::print_titles::<Row>(name);
        for key_type in &options.key_types {
            let mut context = Context { experiment, options, out };
            match key_type {
                KeyType::Word => context.run::<u64>()?,
                KeyType::Pair => context.run::<ObjectTime>()?,
            }
        }
        Ok(())
    };
    options.common.run(&head, &options.experiment, one, plot::draw)
}

/// The names of the places, for the head.
#[cfg(feature = "cuda")]
fn places(options: &Options) -> Result<String, BenchmarkError> {
    let mut names = Vec::new();
    for place in &options.places {
        names.push(match place {
            Place::Cpu => value_name(place),
            Place::Cuda => Device::<u64>::open()?.name,
        });
    }
    Ok(names.join(", "))
}

/// The names of the places, for the head.
#[cfg(not(feature = "cuda"))]
fn places(options: &Options) -> Result<String, BenchmarkError> {
    if options.places.contains(&Place::Cuda) {
        return Err(BenchmarkError::Backend(shoal_gpu::Unavailable::NotBuilt.to_string()));
    }
    Ok(value_name(&Place::Cpu))
}

/// One experiment, its flags and its output.
struct Context<'a> {
    experiment: Experiment,
    options: &'a Options,
    out: &'a mut Output<Row>,
}

impl Context<'_> {
    fn run<K: Measured>(&mut self) -> Result<(), BenchmarkError> {
        let options = self.options;
        match self.experiment {
            Experiment::Inner => {
                for length in &options.inner_keys {
                    let keys: Vec<K> = key_set::keys(*length, options.common.seed);
                    self.inner(&keys)?;
                }
                Ok(())
            }
            Experiment::Border => self.border::<K>(),
            Experiment::Find => {
                for length in &options.keys {
                    let keys: Vec<K> = key_set::keys(*length, options.common.seed);
                    self.find(&keys)?;
                }
                Ok(())
            }
        }
    }

    /// A row without requests.
    fn row<K: MadeKey>(&self, structure: &str, place: Place, length: u32, ms: f64) -> Row {
        Row {
            experiment: self.experiment,
            structure: structure.to_owned(),
            place,
            key_type: K::TYPE,
            keys: length,
            requests: None,
            searches: 0,
            threads: 0,
            leaf_keys: leaf_keys::<K>(self.options),
            ms,
            per_s: f64::from(length) / ms * 1e3,
            ratio: None,
            build_ms: None,
            bytes_per_key: None,
            answer_hash: "-".into(),
            runs: self.options.runs,
            seed: self.options.common.seed,
            machine: self.out.machine.clone(),
        }
    }

    /// Builds all inner nodes.
    fn inner<K: Measured>(&mut self, keys: &[K]) -> Result<(), BenchmarkError> {
        let length = keys.len() as u32;
        for place in &self.options.places {
            let ms = match place {
                Place::Cpu => {
                    let mut tree = Tree::build(keys, leaf_keys::<K>(self.options));
                    median_of(self.options.runs, || Ok(cpu::build_inner(&mut tree)))?
                }
                #[cfg(feature = "cuda")]
                Place::Cuda => self.inner_on_device(keys)?,
                #[cfg(not(feature = "cuda"))]
                Place::Cuda => continue,
            };
            self.out.add(self.row::<K>("tree", *place, length, ms));
        }
        Ok(())
    }

    /// Searches every structure.
    fn find<K: Measured>(&mut self, keys: &[K]) -> Result<(), BenchmarkError> {
        let options = self.options;
        let requests =
            |distribution: &_| Requests::new(keys, options.searches, *distribution, options);
        let requests: Vec<Requests<K>> = options.requests.iter().map(requests).collect();
        let is_other = |structure: &&Structure| **structure != Structure::LowerBound;
        let others = options.structures.iter().filter(is_other).copied();
        let structures: Vec<Structure> =
            [Structure::LowerBound].into_iter().chain(others).collect();
        for place in &options.places {
            #[cfg(feature = "cuda")]
            if *place == Place::Cuda {
                self.find_on_device(keys, &requests, &structures)?;
                continue;
            }
            for structure in &structures {
                let is_large = keys.len() > options.btree_keys_max as usize;
                if *structure == Structure::BtreeMap && is_large {
                    continue;
                }
                self.find_on_cpu(*place, *structure, keys, &requests)?;
            }
        }
        Ok(())
    }

    fn find_on_cpu<K: Measured>(
        &mut self,
        place: Place,
        structure: Structure,
        keys: &[K],
        requests: &[Requests<K>],
    ) -> Result<(), BenchmarkError> {
        let start = Instant::now();
        let built = CpuStructure::build(structure, keys, self.options);
        let build_ms = start.elapsed().as_secs_f64() * 1e3;
        let what = Searched::new(structure, keys.len() as u32, self.options);
        for requests in requests {
            let mut found = vec![0; requests.keys.len()];
            built.find(&requests.keys, &mut found);
            requests.check(&what, &found)?;
            let ms = median_of(self.options.runs, || Ok(built.find(&requests.keys, &mut found)))?;
            let row = Row {
                build_ms: Some(build_ms),
                bytes_per_key: built.bytes().map(|bytes| bytes as f64 / keys.len() as f64),
                ..self.row::<K>(&value_name(&structure), place, keys.len() as u32, ms)
            };
            self.report_search(row, requests, 1);
        }
        Ok(())
    }

    /// Completes and reports the row of a search.
    fn report_search<K: MadeKey>(&mut self, row: Row, requests: &Requests<K>, threads: u32) {
        let per_s = requests.keys.len() as f64 / row.ms * 1e3;
        let row = Row {
            requests: Some(requests.distribution),
            searches: requests.keys.len() as u32,
            threads,
            per_s,
            answer_hash: requests.answer_hash.clone(),
            ..row
        };
        let name = value_name(&Structure::LowerBound);
        let is_base = |base: &&Row| {
            base.structure == name
                && (base.place, base.key_type, base.keys) == (row.place, row.key_type, row.keys)
                && base.requests == row.requests
        };
        let base = self.out.rows().iter().rev().find(is_base).map(|base| base.per_s);
        let ratio = base.map(|base| per_s / base);
        self.out.add(Row { ratio, ..row });
    }

    /// The source's second experiment needs a device.
    #[cfg(not(feature = "cuda"))]
    fn border<K: Measured>(&mut self) -> Result<(), BenchmarkError> {
        Ok(())
    }
}

#[cfg(feature = "cuda")]
impl Context<'_> {
    fn inner_on_device<K: Measured>(&self, keys: &[K]) -> Result<f64, BenchmarkError> {
        let device = Device::<K>::open()?;
        let (built, _) = device.build(Structure::Tree, keys, self.options)?;
        match built {
            super::cuda::DeviceStructure::Tree(mut tree) => {
                let runs = self.options.runs.max(SHORT_RUNS);
                median_of(runs, || device.build_inner(&mut tree))
            }
            super::cuda::DeviceStructure::Other(_) => unreachable!("a tree was asked for"),
        }
    }

    fn find_on_device<K: Measured>(
        &mut self,
        keys: &[K],
        requests: &[Requests<K>],
        structures: &[Structure],
    ) -> Result<(), BenchmarkError> {
        let device = Device::<K>::open()?;
        let there = |requests: &Requests<K>| device.requests(&requests.keys);
        let mut there = requests.iter().map(there).collect::<Result<Vec<_>, _>>()?;
        let length = keys.len() as u32;
        for structure in structures.iter().filter(|one| **one != Structure::BtreeMap) {
            let start = Instant::now();
            let (built, bytes) = device.build(*structure, keys, self.options)?;
            let build_ms = start.elapsed().as_secs_f64() * 1e3;
            let what = Searched::new(*structure, length, self.options);
            let threads = match structure {
                Structure::Tree => &self.options.threads[..],
                Structure::KAry => &[4],
                _ => &[1],
            };
            for (requests, there) in requests.iter().zip(&mut there) {
                for threads in threads {
                    device.check(&built, *threads, there, requests, &what)?;
                    let run = || device.find(&built, *threads, there);
                    let ms = median_of(self.options.runs, run)?;
                    let row = Row {
                        build_ms: Some(build_ms),
                        bytes_per_key: Some(bytes as f64 / f64::from(length)),
                        ..self.row::<K>(&value_name(structure), Place::Cuda, length, ms)
                    };
                    self.report_search(row, requests, *threads);
                }
            }
        }
        Ok(())
    }

    /// Small batches of searches in the source's tree, with and without its border branch, and in
    /// Shoal's tree.
    fn border<K: Measured>(&mut self) -> Result<(), BenchmarkError> {
        let options = self.options;
        if !options.places.contains(&Place::Cuda) {
            return Ok(());
        }
        let length = options.inner_keys.iter().copied().max().unwrap_or(1);
        let keys: Vec<K> = key_set::keys(length, options.common.seed);
        let device = Device::<K>::open()?;
        let source = |has_border| device.source_tree(&keys, has_border);
        let sources = [("border", source(true)?), ("padded", source(false)?)];
        let (tree, _) = device.build(Structure::Tree, &keys, options)?;
        let runs = options.runs.max(SHORT_RUNS);
        for searches in BORDER_SEARCHES {
            let uniform = super::options::Distribution::Uniform;
            let requests = Requests::new(&keys, searches, uniform, options);
            let mut there = device.requests(&requests.keys)?;
            for (name, source) in &sources {
                // The source's tree returns ranks, as `LowerBound` does.
                let what = Searched::new(Structure::LowerBound, length, options);
                device.check(source, 1, &mut there, &requests, &what)?;
                let run = || device.find(source, 1, &mut there);
                let row = self.row::<K>(name, Place::Cuda, length, median_of(runs, run)?);
                self.report_search(row, &requests, 64);
            }
            for threads in &options.threads {
                let what = Searched::new(Structure::Tree, length, options);
                device.check(&tree, *threads, &mut there, &requests, &what)?;
                let run = || device.find(&tree, *threads, &mut there);
                let row = self.row::<K>("tree", Place::Cuda, length, median_of(runs, run)?);
                self.report_search(row, &requests, *threads);
            }
        }
        Ok(())
    }
}
