//! The one writer of a history: seals batches, replaces runs, drops old ones, erases objects.
//!
//! Every change is a new manifest. Files are durable before the manifest names them. An error
//! while the manifest is replaced stops the writer, because either manifest may be on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Weak};

use shoal_codec::SpaceTag;
use shoal_position_log::{LogError, Storage};

use crate::batch::{Batch, Filled, Part};
use crate::error::HistoryError;
use crate::gap::{Gap, add_gap};
use crate::history::History;
use crate::limits::{
    COARSER_ROWS_DEFAULT, ERASING_MAX, PAGE_BYTES_DEFAULT, PARTITION_MS_DEFAULT, PARTITION_MS_MAX,
    PARTITION_MS_MIN, RUNS_MAX,
};
use crate::manifest::{Manifest, Watermark, overlap};
use crate::partition::Partition;
use crate::run::{NewRun, PageMemory, RunEntry, RunFile, SharedPlanners};
use crate::run_device::RunDevice;
use crate::sorted_rows::{cells_of, write_sorted};
use crate::version::{Runs, Version};

/// Options of a history.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// Id of the fleet.
    pub fleet_id: u128,
    /// Its space.
    pub space: SpaceTag,
    /// Length of the shortest partitions in milliseconds: one minute to two hours. It is fixed when
    /// the history is created; later values are checked and ignored.
    pub partition_ms: i64,
    /// Shorter partitions are joined if they have at most this many rows together. A batch begins a
    /// longer partition if its density of rows gives the whole partition at most this many.
    pub coarser_rows_max: u64,
    /// Cache of encoded pages.
    pub pages: PageMemory,
    /// Bytes of the disk that runs leave free.
    pub reserve_bytes: u64,
    /// Device that searches runs, if any.
    pub device: Option<Arc<dyn RunDevice>>,
}

impl HistoryOptions {
    /// Default options, without a device.
    #[must_use]
    pub fn new(fleet_id: u128, space: SpaceTag) -> Self {
        Self {
            fleet_id,
            space,
            partition_ms: PARTITION_MS_DEFAULT,
            coarser_rows_max: COARSER_ROWS_DEFAULT,
            pages: PageMemory::new(PAGE_BYTES_DEFAULT),
            reserve_bytes: shoal_position_log::limits::RESERVE_BYTES_DEFAULT,
            device: None,
        }
    }
}

/// Which cycles with objects that are being erased the log still contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErasedLog {
    /// Cycles that the history has not sealed yet.
    Unread,
    /// Only cycles that the history has sealed.
    Read,
    /// Nothing.
    Gone,
}

/// A replaced file, to be removed when its last reader is gone.
#[derive(Debug)]
struct Obsolete {
    number: u64,
    file: Weak<RunFile>,
}

/// Result of a seal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Fixes in new runs.
    pub rows: u64,
    /// New runs.
    pub runs: u64,
    /// Bytes of the new runs.
    pub bytes: u64,
    /// Fixes dropped because retention no longer keeps their partition.
    pub dropped: u64,
    /// Fixes dropped because their objects are being erased.
    pub erased: u64,
}

/// The writer.
#[derive(Debug)]
pub struct HistoryWriter {
    storage: Arc<dyn Storage>,
    folder: String,
    reserve_bytes: u64,
    pub(crate) manifest: Manifest,
    history: History,
    planners: SharedPlanners,
    /// The error that stopped the writer.
    stopped: Option<String>,
    /// Numbers of the runs and states known to contain none of the objects that are being erased.
    pub(crate) erased: BTreeSet<u64>,
    /// Replaced files; readers of older versions may still hold them.
    obsolete: Vec<Obsolete>,
    /// Numbers of the obsolete files that must be gone before the erasure ends; set when all runs
    /// are rewritten.
    pub(crate) awaited: Option<Vec<u64>>,
    /// See [`Self::set_erased_log`].
    pub(crate) erased_log: ErasedLog,
    /// Ranges whose state was put off, each with the clock that the watermark must reach before the
    /// state is tried again.
    pub(crate) next_states: BTreeMap<Partition, i64>,
}

impl HistoryWriter {
    /// Opens the history in a folder, or begins one there. Removes files that no manifest names.
    ///
    /// # Errors
    /// [`HistoryError::File`] for damage, a missing run or another fleet; [`HistoryError::Input`]
    /// for options out of range.
    pub fn open(
        storage: Arc<dyn Storage>,
        folder: &str,
        options: &HistoryOptions,
    ) -> Result<Self, HistoryError> {
        let HistoryOptions { fleet_id, space, partition_ms, reserve_bytes, .. } = *options;
        if !(PARTITION_MS_MIN..=PARTITION_MS_MAX).contains(&partition_ms) {
            return Err(HistoryError::Input(format!(
                "a partition of {partition_ms} ms, it must have {PARTITION_MS_MIN} to \
                 {PARTITION_MS_MAX}"
            )));
        }
        space.check()?;
        let display = storage.display(folder);
        storage.create_dir(folder).map_err(LogError::storage("create", &display))?;
        let manifest = match Manifest::load(&*storage, folder)? {
            Some(manifest) if (manifest.fleet_id, manifest.space) == (fleet_id, space) => manifest,
            Some(manifest) => {
                let reason = format!(
                    "it is the history of fleet {:032x} in space {}, not of {fleet_id:032x} in \
                     {space}",
                    manifest.fleet_id, manifest.space
                );
                return Err(LogError::damaged(display, 0, reason).into());
            }
            None => Manifest {
                fleet_id,
                space,
                partition_ms,
                next_number: 1,
                next_generation: 1,
                next_removal: 1,
                floor_ms: i64::MIN,
                reached_ms: i64::MIN,
                watermark: Watermark::default(),
                runs: Vec::new(),
                erasing: Vec::new(),
                gaps: Vec::new(),
                states: Vec::new(),
            },
        };
        remove_unlisted_files(&*storage, folder, &manifest)?;
        let cache = Arc::new(options.pages.open());
        let mut partitions: BTreeMap<i64, Vec<Arc<RunFile>>> = BTreeMap::new();
        for run in &manifest.runs {
            let file = Arc::new(RunFile::new(storage.clone(), folder, run.clone()));
            partitions.entry(run.partition.start_ms).or_default().push(file);
        }
        let state_file = |state: &RunEntry| {
            let file = RunFile::new(storage.clone(), folder, state.clone());
            (state.partition, Arc::new(file))
        };
        let version = Version {
            fleet_id,
            space,
            partition_ms: manifest.partition_ms,
            coarser_rows_max: options.coarser_rows_max,
            states: manifest.states.iter().map(state_file).collect(),
            floor_ms: manifest.floor_ms,
            watermark: manifest.watermark,
            partitions: partitions.into_iter().map(|(at, runs)| (at, runs.into())).collect(),
            erasing: manifest.erasing.clone().into(),
            gaps: manifest.gaps.clone().into(),
            cache,
            device: options.device.clone(),
        };
        Ok(Self {
            storage,
            folder: folder.to_owned(),
            reserve_bytes,
            manifest,
            history: History::new(Arc::new(version)),
            planners: SharedPlanners::new(),
            stopped: None,
            erased: BTreeSet::new(),
            obsolete: Vec::new(),
            awaited: None,
            erased_log: ErasedLog::Gone,
            next_states: BTreeMap::new(),
        })
    }

    /// The history, from which readers take versions.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The last cycle that is sealed; the next seal continues after its position.
    #[must_use]
    pub fn watermark(&self) -> Watermark {
        self.manifest.watermark
    }

    /// Records cycles that will be missing from the history; the next manifest makes the gap
    /// durable.
    pub fn add_gap(&mut self, gap: Gap) {
        add_gap(&mut self.manifest.gaps, gap);
    }

    /// Writes the batch, which contains everything up to `watermark`, as runs and makes all of them
    /// visible with one durable manifest. Sorts the batch; the caller clears it after success.
    ///
    /// # Errors
    /// [`HistoryError::File`]. After [`LogError::Space`] the call may be repeated with this batch.
    pub fn seal(
        &mut self,
        batch: &mut Batch,
        watermark: Watermark,
    ) -> Result<Sealed, HistoryError> {
        self.check_running()?;
        let version = self.history.version();
        let before = version.before(self.manifest.next_removal);
        let mut next = self.manifest.clone();
        next.next_removal =
            batch.arrange(before, |objects, from_ms| version.last_removals(objects, from_ms))?;
        let partition_ms = self.manifest.partition_ms;
        let parts = batch.parts(partition_ms, |filled| {
            next.reached_ms = match next.reached_ms {
                // First batch: no runs exist, so none can be dropped.
                i64::MIN => first_reached(filled, watermark.clock_ms),
                reached_ms => reached_by(filled, reached_ms, partition_ms),
            };
            // Fixes may be ahead of the clock.
            let open_ms = watermark.clock_ms.max(next.reached_ms);
            version.choose_partitions(filled, version.partition_of(open_ms).start_ms);
        });
        next.watermark = watermark;
        next.floor_ms = self.floor_for(parts.iter().map(|part| part.partition));
        next.next_generation += 1;
        let mut sealed = Sealed::default();
        let mut added = Vec::new();
        for Part { partition, rows, removals, returns } in parts {
            if partition.start_ms < next.floor_ms {
                sealed.dropped += rows.len() as u64;
            } else {
                let before = sealed.rows;
                let number = next.take_number();
                let run = self.new_run(number, partition, self.manifest.next_generation);
                let cells = cells_of(&version, partition, &rows)?;
                let entry = write_sorted(run, &version, &rows, &cells, &removals, &returns)?;
                if let Some(entry) = entry {
                    sealed.rows += entry.rows;
                    sealed.bytes += entry.bytes;
                    sealed.runs += 1;
                    added.push(entry);
                }
                sealed.erased += rows.len() as u64 - (sealed.rows - before);
            }
        }
        self.end_states(&mut next, &added);
        self.commit(next, &[], added)?;
        Ok(sealed)
    }

    /// The event time from which retention counts ages; `None` before the first fix. It begins at
    /// the time of the newest fix of the first batch, at most at the clock of the watermark. Each
    /// later fix advances it to its own time, by at most the length of the shortest partition, so
    /// that one clock or fix far in the future does not drop the history.
    #[must_use]
    pub fn reached_ms(&self) -> Option<i64> {
        (self.manifest.reached_ms != i64::MIN).then_some(self.manifest.reached_ms)
    }

    /// Drops the partitions that end at or before `from_ms`, then the oldest ones while all files
    /// exceed `bytes_max` bytes. Keeps the newest partition, and those that contain or follow the
    /// clock of the watermark. Fixes that arrive later for dropped times are dropped as well.
    /// Returns the number of dropped runs.
    ///
    /// # Errors
    /// [`HistoryError::File`].
    pub fn retain(
        &mut self,
        from_ms: Option<i64>,
        bytes_max: Option<u64>,
    ) -> Result<u64, HistoryError> {
        self.check_running()?;
        let version = self.history.version();
        let Some((newest_ms, _)) = version.partitions.last_key_value() else { return Ok(0) };
        let open_ms = version.partition_of(version.watermark.clock_ms).start_ms;
        let last_ms = open_ms.min(*newest_ms);
        let mut floor_ms = self.manifest.floor_ms;
        if let Some(from_ms) = from_ms {
            floor_ms = floor_ms.max(version.partition_of(from_ms).start_ms.min(last_ms));
        }
        let mut bytes = version.bytes();
        let mut states = version.states.values().map(|file| &file.entry).peekable();
        for runs in version.partitions.values() {
            // A state goes with its first partition.
            while let Some(state) = states.next_if(|state| state.partition.start_ms < floor_ms) {
                bytes -= state.bytes;
            }
            let partition = runs[0].entry.partition;
            let is_within = bytes_max.is_none_or(|bytes_max| bytes <= bytes_max);
            if partition.start_ms >= floor_ms && (is_within || partition.end_ms() > last_ms) {
                break;
            }
            bytes -= runs.iter().map(|file| file.entry.bytes).sum::<u64>();
            floor_ms = floor_ms.max(partition.end_ms());
        }
        if floor_ms == self.manifest.floor_ms {
            return Ok(0);
        }
        let before = self.manifest.runs.len();
        let next = Manifest { floor_ms, ..self.manifest.clone() };
        self.commit(next, &[], Vec::new())?;
        Ok((before - self.manifest.runs.len()) as u64)
    }

    /// Begins to erase objects. From now on no answer contains them; fixes of them that are sealed
    /// before all runs are rewritten are dropped. [`Self::next_work`] returns the rewrites.
    ///
    /// # Errors
    /// [`HistoryError::Erasing`] if too many objects are being erased; [`HistoryError::File`].
    pub fn begin_erase(&mut self, objects: &[u64]) -> Result<(), HistoryError> {
        self.check_running()?;
        let mut next = self.manifest.clone();
        next.erasing.extend(objects);
        next.erasing.sort_unstable();
        next.erasing.dedup();
        if next.erasing.len() > ERASING_MAX {
            return Err(HistoryError::Erasing { limit: ERASING_MAX as u64 });
        }
        self.erased.clear();
        self.awaited = None;
        self.commit(next, &[], Vec::new())
    }

    /// Sets what the caller's log still contains of the objects that are being erased; initially
    /// [`ErasedLog::Gone`]. An erasure ends only when it is `Gone`.
    pub fn set_erased_log(&mut self, log: ErasedLog) {
        self.erased_log = log;
    }

    /// Whether an erasure has not ended.
    #[must_use]
    pub fn is_erasing(&self) -> bool {
        !self.manifest.erasing.is_empty()
    }

    /// Removes obsolete files without readers whose removal failed before. Files that still cannot
    /// be removed are tried again at the next call.
    pub(crate) fn remove_obsolete(&mut self) {
        self.obsolete.retain(|Obsolete { number, file }| {
            let path = RunFile::path_of(&self.folder, *number);
            let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            file.strong_count() > 0
                || self.storage.remove(&path).is_err_and(|error| !is_gone(&error))
        });
    }

    /// True if all files that were obsolete at the first call of this erasure are durably removed.
    /// Files replaced after that never contained the erased objects.
    ///
    /// # Errors
    /// [`HistoryError::File`] if the folder cannot be synced.
    pub(crate) fn has_erased_files(&mut self) -> Result<bool, HistoryError> {
        let all = || self.obsolete.iter().map(|it| it.number).collect();
        let awaited = self.awaited.get_or_insert_with(all);
        let left = || self.obsolete.iter().filter(|it| awaited.contains(&it.number));
        if left().any(|it| it.file.strong_count() > 0) {
            return Ok(false);
        }
        let is_gone = left().next().is_none();
        let display = self.storage.display(&self.folder);
        self.storage.sync_dir(&self.folder).map_err(LogError::storage("sync", &display))?;
        Ok(is_gone)
    }

    pub(crate) fn check_running(&self) -> Result<(), HistoryError> {
        match &self.stopped {
            Some(reason) => Err(HistoryError::Stopped { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// The lowest floor for which the existing runs and one run for each partition of `added` are
    /// at most [`RUNS_MAX`] in total.
    fn floor_for(&self, added: impl Iterator<Item = Partition>) -> i64 {
        let mut runs: Vec<Partition> = self.manifest.runs.iter().map(|run| run.partition).collect();
        runs.extend(added);
        let Some(excess) = runs.len().checked_sub(RUNS_MAX + 1) else {
            return self.manifest.floor_ms;
        };
        runs.sort_unstable();
        self.manifest.floor_ms.max(runs[excess].end_ms())
    }

    /// Describes a new run; `number` comes from [`Manifest::take_number`].
    pub(crate) fn new_run(&self, number: u64, partition: Partition, generation: u64) -> NewRun {
        NewRun {
            storage: self.storage.clone(),
            folder: self.folder.clone(),
            reserve_bytes: self.reserve_bytes,
            fleet_id: self.manifest.fleet_id,
            planners: self.planners.clone(),
            space: self.manifest.space,
            number,
            generation,
            partition,
        }
    }

    fn run_file(&self, run: &RunEntry) -> Arc<RunFile> {
        Arc::new(RunFile::new(self.storage.clone(), &self.folder, run.clone()))
    }

    /// Returns the handle of the state's file in `version`, or a new handle if it has none.
    fn state_file(&self, version: &Version, state: &RunEntry) -> Arc<RunFile> {
        let known = version.states.get(&state.partition);
        let known = known.filter(|file| file.entry.number == state.number);
        known.cloned().unwrap_or_else(|| self.run_file(state))
    }

    /// Describes a run that is written in the background. It has its own planners, because it is
    /// large enough to repay the cost of new plans. Its number is not reused if the run is given
    /// up.
    pub(crate) fn new_background_run(&mut self, partition: Partition, generation: u64) -> NewRun {
        let number = self.manifest.take_number();
        NewRun { planners: SharedPlanners::new(), ..self.new_run(number, partition, generation) }
    }

    /// Stores `next`, with the runs `removed` replaced by `added`, as the manifest, and publishes
    /// the new version. An error stops the writer.
    pub(crate) fn commit(
        &mut self,
        mut next: Manifest,
        removed: &[u64],
        added: Vec<RunEntry>,
    ) -> Result<(), HistoryError> {
        let floor_ms = next.floor_ms;
        let is_kept =
            |run: &RunEntry| run.partition.start_ms >= floor_ms && !removed.contains(&run.number);
        let new_files: Vec<Arc<RunFile>> = added.iter().map(|run| self.run_file(run)).collect();
        next.states.retain(|state| state.partition.start_ms >= floor_ms);
        next.states.sort_unstable_by_key(|state| state.partition);
        self.next_states.retain(|range, _| range.start_ms >= floor_ms);
        next.runs.extend(added);
        next.runs.retain(is_kept);
        next.runs.sort_unstable_by_key(|run| (run.partition.start_ms, run.generation, run.number));
        assert!(!overlap(&next.runs), "partitions share no time");
        if let Err(error) = next.store(&*self.storage, &self.folder) {
            self.stopped = Some(error.to_string());
            return Err(error.into());
        }
        let version = self.history.version();
        let mut partitions = version.partitions.clone();
        let mut changed: BTreeSet<i64> =
            new_files.iter().map(|it| it.entry.partition.start_ms).collect();
        let states: BTreeMap<Partition, Arc<RunFile>> = next
            .states
            .iter()
            .map(|state| (state.partition, self.state_file(&version, state)))
            .collect();
        let mut gone: Vec<&Arc<RunFile>> =
            version.files().filter(|file| !is_kept(&file.entry)).collect();
        changed.extend(gone.iter().map(|file| file.entry.partition.start_ms));
        let is_kept_state = |file: &Arc<RunFile>| {
            states.get(&file.entry.partition).is_some_and(|state| Arc::ptr_eq(state, file))
        };
        gone.extend(version.states.values().filter(|file| !is_kept_state(file)));
        for file in gone {
            file.set_obsolete();
            let (number, file) = (file.entry.number, Arc::downgrade(file));
            self.obsolete.push(Obsolete { number, file });
        }
        for at in changed {
            let runs = partitions.remove(&at).unwrap_or_default();
            let new = new_files.iter().filter(|file| file.entry.partition.start_ms == at);
            let mut runs: Vec<_> = runs.iter().chain(new).cloned().collect();
            runs.retain(|file| is_kept(&file.entry));
            runs.sort_unstable_by_key(|file| (file.entry.generation, file.entry.number));
            if !runs.is_empty() {
                partitions.insert(at, Runs::from(runs));
            }
        }
        let (erasing, gaps) = (next.erasing.clone().into(), next.gaps.clone().into());
        let (floor_ms, watermark) = (next.floor_ms, next.watermark);
        let version = Version {
            floor_ms,
            watermark,
            partitions,
            states,
            erasing,
            gaps,
            ..(*version).clone()
        };
        self.history.replace(version);
        self.manifest = next;
        Ok(())
    }
}

/// Initial `reached_ms`: the newest time of the first fixes, at most `clock_ms`.
fn first_reached(filled: &[Filled], clock_ms: i64) -> i64 {
    let newest_ms = filled.iter().filter_map(|filled| filled.newest_ms).max();
    newest_ms.map_or(i64::MIN, |newest_ms| newest_ms.min(clock_ms))
}

/// Advances `reached_ms` by the fixes of ascending partitions.
fn reached_by(filled: &[Filled], mut reached_ms: i64, partition_ms: i64) -> i64 {
    for Filled { rows, newest_ms, .. } in filled {
        let Some(newest_ms) = *newest_ms else { continue };
        let step_ms = partition_ms.saturating_mul(*rows as i64);
        reached_ms = reached_ms.max(newest_ms.min(reached_ms.saturating_add(step_ms)));
    }
    reached_ms
}

/// Removes run files that the manifest does not name. Fails if a file that it names is missing.
fn remove_unlisted_files(
    storage: &dyn Storage,
    folder: &str,
    manifest: &Manifest,
) -> Result<(), HistoryError> {
    let names = storage.list(folder).map_err(LogError::storage("list", storage.display(folder)))?;
    let path = |name: &str| format!("{folder}/{name}");
    let mut named: BTreeSet<String> =
        manifest.files().map(|run| RunFile::path_of(folder, run.number)).collect();
    for name in names.iter().filter(|name| RunFile::is_name(name)) {
        if !named.remove(&path(name)) {
            let failed = LogError::storage("remove", storage.display(&path(name)));
            storage.remove(&path(name)).map_err(failed)?;
        }
    }
    match named.first() {
        None => Ok(()),
        Some(missing) => {
            let reason = "the manifest of the history names it, but it does not exist";
            Err(LogError::damaged(storage.display(missing), 0, reason).into())
        }
    }
}
