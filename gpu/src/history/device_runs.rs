//! The runs that histories search on the device. A run is loaded after repeated queries; the least
//! recently used runs are evicted first.
//!
//! One query at a time uses the device; others do not wait but run on the CPU. A run that does not
//! fit or that the device refuses is not loaded again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::EngineError;
use shoal_engine::layout::RunZone;
use shoal_history::ObjectTime;
use shoal_history::{HistoryError, RunDevice, RunPages, Zone};

use super::{DeviceHistory, DeviceRun, RunSource};
use crate::device::Gpu;

/// Thresholds above which the GPU answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadThresholds {
    /// Least number of rows of a run that is loaded.
    pub rows_min: u64,
    /// Number of queries of a run, including the present one, from which on the run is loaded.
    pub questions_min: u64,
    /// See [`RunDevice::tiles_min`].
    pub tiles_min: usize,
    /// See [`RunDevice::objects_min`].
    pub objects_min: usize,
}

impl Default for OffloadThresholds {
    /// Guesses, which no recorded measurement backs. They assume that a call costs as much as
    /// reading some tiles on a core, that a core reads `rows_min` rows in a few milliseconds, and
    /// that loading a run takes as long as scanning it.
    fn default() -> Self {
        Self { rows_min: 1 << 17, questions_min: 2, tiles_min: 64, objects_min: 64 }
    }
}

/// See the file's head.
pub struct DeviceRuns {
    state: Mutex<State>,
    worth: OffloadThresholds,
    report: Box<dyn Fn(&str) + Send + Sync>,
}

struct State {
    device: DeviceHistory,
    runs: BTreeMap<u64, Held>,
    /// Counts uses.
    clock: u64,
}

/// A run that was queried.
struct Held {
    place: Place,
    /// Value of `clock` at the last use.
    used: u64,
    lifetime: Weak<()>,
}

/// Where a run is.
enum Place {
    /// Only in its file; the value is the number of queries so far.
    Asked(u64),
    Resident(Box<DeviceRun>),
    /// Only in its file; loading is not tried again.
    Refused,
}

/// Why a run is not on the device.
enum Refused {
    Device(EngineError),
    File(HistoryError),
}

impl DeviceRuns {
    /// Keeps runs in at most `budget_bytes` of the device's memory; `report` is called on failures.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails or lacks memory.
    pub fn new(
        gpu: &Gpu,
        budget_bytes: u64,
        worth: OffloadThresholds,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, EngineError> {
        let device = DeviceHistory::new(gpu, budget_bytes)?;
        let state = Mutex::new(State { device, runs: BTreeMap::new(), clock: 0 });
        Ok(Self { state, worth, report: Box::new(report) })
    }

    /// Number of runs in the device's memory.
    #[must_use]
    pub fn resident(&self) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.runs.values().filter(|held| held.is_resident()).count()
    }

    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Queries a run on the device if it is resident or can be loaded.
    fn ask<T>(
        &self,
        pages: &RunPages<'_>,
        mut question: impl FnMut(&mut DeviceHistory, &DeviceRun) -> Result<T, EngineError>,
    ) -> Option<T> {
        if pages.rows() < self.worth.rows_min {
            return None;
        }
        let mut state = self.lock()?;
        let run = state.take(pages, self.worth.questions_min, &self.report)?;
        let answer = loop {
            match question(&mut state.device, &run) {
                // The answer lacks memory: evicts a run and tries again.
                Err(EngineError::OutOfMemory { .. }) if state.evict() => {}
                answer => break answer,
            }
        };
        let (place, answer) = match answer {
            Ok(answer) => (Place::Resident(run), Some(answer)),
            Err(EngineError::OutOfMemory { .. }) => (Place::Resident(run), None),
            Err(error) => {
                (self.report)(&error.to_string());
                (Place::Refused, None)
            }
        };
        state.hold(pages, place);
        answer
    }
}

impl Held {
    fn is_resident(&self) -> bool {
        matches!(self.place, Place::Resident(_))
    }
}

impl State {
    /// Takes the run, which the caller gives back; loads it first if it was queried often enough.
    fn take(
        &mut self,
        pages: &RunPages<'_>,
        questions_min: u64,
        report: &dyn Fn(&str),
    ) -> Option<Box<DeviceRun>> {
        self.clock += 1;
        self.runs.retain(|_, held| held.lifetime.strong_count() > 0);
        let asked = match self.runs.remove(&pages.id()).map(|held| held.place) {
            Some(Place::Resident(run)) => return Some(run),
            Some(Place::Refused) => {
                self.hold(pages, Place::Refused);
                return None;
            }
            Some(Place::Asked(asked)) => asked + 1,
            None => 1,
        };
        if asked < questions_min {
            self.hold(pages, Place::Asked(asked));
            return None;
        }
        match self.load(pages) {
            Ok(run) => return Some(Box::new(run)),
            Err(Refused::Device(EngineError::OutOfMemory { .. })) => {}
            Err(Refused::Device(error)) => report(&error.to_string()),
            Err(Refused::File(error)) => report(&error.to_string()),
        }
        self.hold(pages, Place::Refused);
        None
    }

    fn load(&mut self, pages: &RunPages<'_>) -> Result<DeviceRun, Refused> {
        let blocks = pages.blocks().map_err(Refused::File)?;
        let objects = pages.objects().map_err(Refused::File)?;
        let start_ms = pages.start_ms();
        let zones: Vec<_> =
            pages.zones().iter().map(|zone| zone_on_device(zone, start_ms)).collect();
        let source = RunSource { start_ms, blocks: &blocks, zones: &zones, objects: &objects };
        loop {
            match self.device.load(source) {
                Err(EngineError::OutOfMemory { .. }) if self.evict() => {}
                loaded => return loaded.map_err(Refused::Device),
            }
        }
    }

    /// Frees the least recently used run; returns false if there is none.
    fn evict(&mut self) -> bool {
        let resident = self.runs.iter().filter(|(_, held)| held.is_resident());
        let oldest = resident.min_by_key(|(_, held)| held.used).map(|(id, _)| *id);
        oldest.and_then(|id| self.runs.remove(&id)).is_some()
    }

    fn hold(&mut self, pages: &RunPages<'_>, place: Place) {
        let held = Held { place, used: self.clock, lifetime: pages.lifetime() };
        self.runs.insert(pages.id(), held);
    }
}

/// Converts a zone; the times of the result count from the start of the partition.
fn zone_on_device(zone: &Zone, start_ms: i64) -> RunZone {
    let offset = |time_ms: i64| time_ms.saturating_sub(start_ms).clamp(0, u32::MAX.into()) as u32;
    RunZone {
        time_min: offset(zone.time_ms.0),
        time_max: offset(zone.time_ms.1),
        x_min: zone.x.0,
        x_max: zone.x.1,
        y_min: zone.y.0,
        y_max: zone.y.1,
    }
}

impl RunDevice for DeviceRuns {
    fn tiles_min(&self) -> usize {
        self.worth.tiles_min
    }

    fn objects_min(&self) -> usize {
        self.worth.objects_min
    }

    fn tiles(&self, run: &RunPages<'_>, zone: &Zone) -> Option<Vec<u32>> {
        if zone.time_ms.1 < run.start_ms() {
            return Some(Vec::new());
        }
        let zone = zone_on_device(zone, run.start_ms());
        let found = self.ask(run, |device, run| device.select(run, zone))?;
        Some(found.into_iter().map(|(tile, _)| tile).collect())
    }

    fn newest(
        &self,
        run: &RunPages<'_>,
        time_ms: i64,
        from: u64,
        most: usize,
    ) -> Option<FixColumns> {
        self.ask(run, |device, run| device.newest(run, time_ms, from, most))
    }

    fn states(
        &self,
        run: &RunPages<'_>,
        objects: &[u64],
        time_ms: i64,
    ) -> Option<Vec<Option<FixRow>>> {
        let request = |object: &u64| ObjectTime { object: *object, time: time_ms };
        let requests: Vec<_> = objects.iter().map(request).collect();
        self.ask(run, |device, run| device.find(run, &requests))
    }
}

impl fmt::Debug for DeviceRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRuns").finish_non_exhaustive()
    }
}
