//! A small log on a simulated disk, for tests that damage it.

use std::sync::Arc;

use shoal_position_log::{
    CycleSource, Group, LogError, LogOptions, LogReader, ReadMode, Recovered, SimulatedDisk,
    Storage, create_log,
};
use shoal_testkit::Random;

use crate::sample::{LOG, OwnedCycle, cycle, open, options, reader};

pub(crate) struct Built {
    pub(crate) disk: SimulatedDisk,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) cycles: Vec<OwnedCycle>,
}

/// The result of reading a log.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Cycles that were read; each equals the one that was written.
    pub(crate) cycles: usize,
    pub(crate) end: Result<Recovered, LogError>,
}

impl Built {
    /// `frames` frames of up to two cycles each, every one synced.
    pub(crate) fn new(seed: u64, frames: u64, bytes_max: usize, is_closed: bool) -> Self {
        Self::with(seed, frames, bytes_max, is_closed, options(16 << 10))
    }

    pub(crate) fn with(
        seed: u64,
        frames: u64,
        bytes_max: usize,
        is_closed: bool,
        options: LogOptions,
    ) -> Self {
        let disk = SimulatedDisk::new(seed);
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        create_log(&*storage, LOG).unwrap();
        let (mut chance, mut group, mut cycles) = (Random::new(seed), Group::new(), Vec::new());
        let mut log = open(&storage, options, 1).unwrap();
        for _ in 0..frames {
            for _ in 0..=chance.below(2) {
                let cycle = cycle(&mut chance, cycles.len() as u64 + 1, bytes_max);
                cycle.append_to(&mut group);
                cycles.push(cycle);
            }
            log.write(&mut group).unwrap();
            log.sync().unwrap();
        }
        if is_closed {
            log.close().unwrap();
        }
        Self { disk, storage, cycles }
    }

    /// The paths of the segments.
    pub(crate) fn segments(&self) -> Vec<String> {
        let names = self.storage.list(LOG).unwrap();
        let names = names.into_iter().filter(|name| name.ends_with(".segment"));
        names.map(|name| format!("{LOG}/{name}")).collect()
    }

    /// Reads the log and checks that each cycle equals the one that was written.
    pub(crate) fn read(&self, mode: ReadMode) -> Outcome {
        let mut cycles = 0;
        let mut read = || -> Result<LogReader, LogError> {
            let mut reader = reader(&self.storage, 0, mode)?;
            while let Some(cycle) = reader.next_cycle()? {
                assert!(self.cycles[cycles].is(&cycle), "cycle {cycles} is altered");
                cycles += 1;
            }
            Ok(reader)
        };
        let reader = read();
        Outcome { cycles, end: reader.and_then(LogReader::finish) }
    }

    /// The message of a reader that must fail.
    pub(crate) fn error(&self) -> String {
        self.read(ReadMode::Recover).end.expect_err("the damage is found").to_string()
    }
}
