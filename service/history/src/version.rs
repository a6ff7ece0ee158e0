//! A version: an immutable view of the runs, which a reader may hold for any time.
//!
//! The files of a version are not removed before its last reader drops it. New runs and merges do
//! not change it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use shoal_codec::SpaceTag;

use crate::batch::{Before, Filled};
use crate::error::HistoryError;
use crate::gap::Gap;
use crate::limits::{COARSER, COARSER_LEVELS};
use crate::manifest::Watermark;
use crate::partition::Partition;
use crate::removal::{EVERY_OBJECT, Mark, Removal};
use crate::run::{PageCache, RunFile, RunReader};
use crate::run_device::RunDevice;

/// The runs of a partition, generations ascending.
pub(crate) type Runs = Arc<[Arc<RunFile>]>;

/// An immutable view of the history, for queries.
#[derive(Clone, Debug)]
pub struct Version {
    pub(crate) fleet_id: u128,
    pub(crate) space: SpaceTag,
    pub(crate) partition_ms: i64,
    /// See [`crate::HistoryOptions`].
    pub(crate) coarser_rows_max: u64,
    pub(crate) floor_ms: i64,
    pub(crate) watermark: Watermark,
    /// The runs of each partition, keyed by the first time of the partition.
    pub(crate) partitions: BTreeMap<i64, Runs>,
    /// The state of each range that has one; see `state.rs`.
    pub(crate) states: BTreeMap<Partition, Arc<RunFile>>,
    /// Objects that are being erased, ascending; no answer contains them. When only the log or
    /// replaced files still have them, `EVERY_OBJECT` stands in their place.
    pub(crate) erasing: Arc<[u64]>,
    /// Ascending.
    pub(crate) gaps: Arc<[Gap]>,
    pub(crate) cache: Arc<PageCache>,
    /// Searches runs, if there is one.
    pub(crate) device: Option<Arc<dyn RunDevice>>,
}

impl Version {
    /// The last cycle that is part of this version. Every answer states it.
    #[must_use]
    pub fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// The space of positions.
    #[must_use]
    pub fn space(&self) -> SpaceTag {
        self.space
    }

    /// Time before which no partition is kept, Unix milliseconds; `None` while all are kept.
    #[must_use]
    pub fn kept_from_ms(&self) -> Option<i64> {
        (self.floor_ms != i64::MIN).then_some(self.floor_ms)
    }

    /// Cycles that are missing, ascending.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Length of the shortest partitions in milliseconds.
    #[must_use]
    pub fn partition_ms(&self) -> i64 {
        self.partition_ms
    }

    /// Number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.partitions.values().map(|runs| runs.len()).sum()
    }

    /// Number of rows in all runs. Rows of equal identity in several runs count several times.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.files().map(|file| file.entry.rows).sum()
    }

    /// Removals and clears of all runs.
    #[must_use]
    pub fn removals(&self) -> u64 {
        self.files().map(|file| file.entry.removals).sum()
    }

    /// The greatest number of rows of a partition that meets a range of times, both ends included.
    /// A [`crate::Replay`] of the range holds at most this many rows.
    #[must_use]
    pub fn rows_of_fullest(&self, (from_ms, to_ms): (i64, i64)) -> usize {
        let partitions = self.partitions_in(from_ms, to_ms);
        let rows = partitions.map(|runs| runs.iter().map(|file| file.entry.rows).sum::<u64>());
        rows.max().unwrap_or(0) as usize
    }

    /// Bytes of all runs and states.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files().chain(self.states.values()).map(|file| file.entry.bytes).sum()
    }

    /// Number of states. Queries of a past moment read a state instead of the runs of its range.
    #[must_use]
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// First and last time of its fixes.
    #[must_use]
    pub fn times_ms(&self) -> Option<(i64, i64)> {
        let zones = || self.files().filter(|file| file.entry.rows > 0).map(|file| file.entry.zone);
        let first = zones().map(|zone| zone.time_ms.0).min();
        first.zip(zones().map(|zone| zone.time_ms.1).max())
    }

    /// Whether a device searches runs. It searches each run as a whole, for all parts of a scan.
    #[must_use]
    pub fn has_device(&self) -> bool {
        self.device.is_some()
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<RunFile>> {
        self.partitions.values().flat_map(|runs| runs.iter())
    }

    /// The partition that contains a time: the one with runs, or else the shortest.
    pub(crate) fn partition_of(&self, time_ms: i64) -> Partition {
        let before = self.partitions.range(..=time_ms).next_back();
        let found = before.map(|(_, runs)| runs[0].entry.partition);
        let found = found.filter(|partition| partition.contains(time_ms));
        found.unwrap_or_else(|| Partition::of(time_ms, self.partition_ms))
    }

    /// The longer ranges, longest first, that contain a time.
    pub(crate) fn longer(&self, time_ms: i64) -> impl Iterator<Item = Partition> + use<> {
        let partition_ms = self.partition_ms;
        let levels = (1..=COARSER_LEVELS).rev();
        levels.map(move |level| Partition::of(time_ms, partition_ms * COARSER.pow(level)))
    }

    /// The ranges of a level that end at or before `open_ms`, begin at or after the floor, and have
    /// several partitions with runs; ascending, with the runs of each partition.
    pub(crate) fn closed_ranges(
        &self,
        level: u32,
        open_ms: i64,
    ) -> impl Iterator<Item = (Partition, Vec<&Runs>)> {
        let length_ms = self.partition_ms * COARSER.pow(level);
        let mut rest = self.partitions.range(self.floor_ms.min(open_ms)..open_ms).peekable();
        let ranges = std::iter::from_fn(move || {
            let (start_ms, runs) = rest.next()?;
            let range = Partition::of(*start_ms, length_ms);
            let mut parts = vec![runs];
            while let Some((_, runs)) = rest.next_if(|(start_ms, _)| range.contains(**start_ms)) {
                parts.push(runs);
            }
            Some((range, parts))
        });
        ranges.filter(move |(range, parts)| {
            let is_kept = self.floor_ms <= range.start_ms && range.end_ms() <= open_ms;
            parts.len() > 1 && is_kept
        })
    }

    /// Chooses the partitions of a batch: an existing one if it has runs; otherwise the longest
    /// that is free of runs, ends at or before `open_ms`, and would have at most `coarser_rows_max`
    /// rows if the whole partition had the density of the batch; otherwise the shortest.
    pub(crate) fn choose_partitions(&self, filled: &mut [Filled], open_ms: i64) {
        let (mut at, mut end_ms) = (0, i64::MIN);
        while at < filled.len() {
            let rest = &mut filled[at..];
            let start_ms = rest[0].partition.start_ms;
            let found = self.partition_of(start_ms);
            let of_whole = |whole: Partition| {
                rest.iter().take_while(move |it| whole.contains(it.partition.start_ms))
            };
            let is_sparse = |whole: &Partition| {
                let rows: usize = of_whole(*whole).map(|it| it.rows).sum();
                let shortest = (whole.length_ms / self.partition_ms) as u64;
                let parts = of_whole(*whole).count() as u64;
                rows as u64 * shortest <= self.coarser_rows_max * parts
            };
            let is_free = |whole: &Partition| {
                // It must not overlap the partition that was just chosen.
                end_ms <= whole.start_ms
                    && whole.end_ms() <= open_ms
                    && self.floor_ms <= whole.start_ms
                    && self.partitions_in(whole.start_ms, whole.end_ms() - 1).next().is_none()
            };
            let chosen = if self.partitions.contains_key(&found.start_ms) {
                found
            } else {
                let mut longer = self.longer(start_ms);
                longer.find(|whole| is_free(whole) && is_sparse(whole)).unwrap_or(found)
            };
            let count = of_whole(chosen).count();
            rest[..count].iter_mut().for_each(|it| it.partition = chosen);
            (at, end_ms) = (at + count, chosen.end_ms());
        }
    }

    /// The partitions that meet a range of times, both ends included, ascending.
    pub(crate) fn partitions_in(
        &self,
        from_ms: i64,
        to_ms: i64,
    ) -> impl DoubleEndedIterator<Item = &Runs> {
        let first_ms = self.partition_of(from_ms).start_ms;
        let range = (from_ms <= to_ms).then_some(first_ms..=to_ms);
        range.into_iter().flat_map(|range| self.partitions.range(range)).map(|(_, runs)| runs)
    }

    /// The last partition that begins in `from_ms..end_ms`.
    pub(crate) fn last_partition(&self, from_ms: i64, end_ms: i64) -> Option<&Runs> {
        let mut range = (from_ms < end_ms).then(|| self.partitions.range(from_ms..end_ms))?;
        range.next_back().map(|(_, runs)| runs)
    }

    /// The summary of the runs that [`crate::Batch::arrange`] needs.
    pub(crate) fn before(&self, next_removal: u64) -> Before {
        let newest_ms = self.files().map(|file| file.entry.zone.time_ms.1).max();
        let reach_ms = self.files().map(|file| file.entry.reach_ms).max();
        let [newest_ms, reach_ms] = [newest_ms, reach_ms].map(|time| time.unwrap_or(i64::MIN));
        Before { newest_ms, reach_ms, next_removal }
    }

    /// The last removal of each of some ascending objects, and the last clear, in the runs whose
    /// greatest reach is at least `from_ms`.
    pub(crate) fn last_removals(
        &self,
        objects: &[u64],
        from_ms: i64,
    ) -> Result<HashMap<u64, Mark>, HistoryError> {
        let mut last: HashMap<u64, Mark> = HashMap::new();
        let sought = [objects, &[EVERY_OBJECT]].concat();
        for file in self.files().filter(|file| file.entry.reach_ms >= from_ms) {
            self.reader(file)?.removals_of(&sought, |Removal { object, mark, .. }| {
                if sought.binary_search(&object).is_ok() {
                    let known = last.entry(object).or_insert(mark);
                    *known = mark.max(*known);
                }
            })?;
        }
        Ok(last)
    }

    pub(crate) fn reader(&self, file: &Arc<RunFile>) -> Result<RunReader, HistoryError> {
        RunReader::open(file, &self.cache, self.fleet_id)
    }

    /// Length of the list of erased objects; above 0 while an erasure has not ended.
    #[must_use]
    pub fn erasing(&self) -> usize {
        self.erasing.len()
    }

    /// True if the object is being erased; false for [`EVERY_OBJECT`].
    pub(crate) fn is_erased(&self, object: u64) -> bool {
        !self.erasing.is_empty()
            && object != EVERY_OBJECT
            && self.erasing.binary_search(&object).is_ok()
    }
}
