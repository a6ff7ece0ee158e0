//! States: the newest fix of each object in a longer range of partitions.
//!
//! A query of a past moment reads a state instead of the partitions of its range. A state is a file
//! in the format of a run whose partition is the whole range. It ignores removals, which the query
//! reads from the runs, so a state becomes invalid only when fixes are sealed into its range. A
//! range with returns has no state, because a removal may have ended the newest fix while an older
//! fix still counts.

use std::sync::Arc;

use shoal_codec::FixColumns;

use crate::error::HistoryError;
use crate::history_writer::HistoryWriter;
use crate::limits::{COARSER_LEVELS, STATE_FIXES_MIN, STATE_PART_ROWS, STATE_ROWS_MAX, STATES_MAX};
use crate::manifest::Manifest;
use crate::partition::Partition;
use crate::query::{AsOf, Everywhere, QueryBudget};
use crate::run::{CellRow, RunEntry, RunFile, RunWriter};
use crate::version::Version;

/// A state that is being written.
#[derive(Debug)]
pub(crate) struct StateWork {
    version: Arc<Version>,
    range: Partition,
    /// Numbers of the files from which it is computed.
    inputs: Vec<u64>,
    newest: AsOf<Everywhere>,
    writer: Box<RunWriter>,
    rows: u64,
    /// Maximum number of rows; a larger state is not worth its space.
    rows_max: u64,
}

impl StateWork {
    /// Writes the next part. Returns true when all parts are written or the state exceeds
    /// `rows_max`.
    pub(crate) fn step(&mut self) -> Result<bool, HistoryError> {
        let mut part = FixColumns::new();
        let has_more = self.newest.next(&mut part)?;
        self.rows += part.len() as u64;
        if self.rows > self.rows_max {
            return Ok(true);
        }
        for row in 0..part.len() {
            // All rows get cell 0, so the rows of a state are ordered by object.
            self.writer.push(CellRow { cell: 0, row: part.row(row) })?;
        }
        Ok(!has_more)
    }
}

impl Version {
    /// The longest state within `from_ms..end_ms` whose range contains `partition` and is longer.
    pub(crate) fn state_with(
        &self,
        partition: Partition,
        from_ms: i64,
        end_ms: i64,
    ) -> Option<&Arc<RunFile>> {
        self.longer(partition.start_ms)
            .take_while(|range| range.length_ms > partition.length_ms)
            .filter(|range| from_ms <= range.start_ms && range.end_ms() <= end_ms)
            .find_map(|range| self.states.get(&range))
    }

    /// The files from which the state of a range is computed: shorter states within it, and the
    /// runs of partitions without one.
    fn files_of_newest(&self, range: Partition) -> Vec<&Arc<RunFile>> {
        let (mut files, mut end_ms) = (Vec::new(), range.end_ms());
        while let Some(runs) = self.last_partition(range.start_ms, end_ms) {
            let partition = runs[0].entry.partition;
            let shorter = self
                .longer(partition.start_ms)
                .filter(|it| it.length_ms < range.length_ms && it.length_ms > partition.length_ms)
                .find_map(|it| self.states.get(&it));
            match shorter {
                Some(state) => files.push(state),
                None => files.extend(runs.iter().filter(|file| file.entry.rows > 0)),
            }
            end_ms = shorter.map_or(partition, |state| state.entry.partition).start_ms;
        }
        files
    }
}

impl HistoryWriter {
    /// Begins the next state that may at least halve the objects that a query reads in its range;
    /// `None` if there is none.
    pub(crate) fn next_state(
        &mut self,
        version: &Arc<Version>,
        open_ms: i64,
    ) -> Result<Option<StateWork>, HistoryError> {
        if version.states.len() >= STATES_MAX {
            return Ok(None);
        }
        let clock_ms = version.watermark.clock_ms;
        // Shorter ranges first: longer states are computed from their states.
        for level in 1..=COARSER_LEVELS {
            for (range, parts) in version.closed_ranges(level, open_ms) {
                let is_due =
                    self.next_states.get(&range).is_none_or(|from_ms| *from_ms <= clock_ms);
                let mut runs = parts.iter().flat_map(|runs| runs.iter());
                if !is_due
                    || version.states.contains_key(&range)
                    || runs.any(|file| file.entry.returns > 0)
                {
                    continue;
                }
                let inputs = version.files_of_newest(range);
                let objects = || inputs.iter().map(|file| file.entry.objects);
                let (read, least) = (objects().sum::<u64>(), objects().max().unwrap_or(0));
                // A state has at least as many rows as its largest input. It must at least halve
                // the objects to be read.
                if read >= 2 * least.max(1) {
                    let fixes = parts.iter().flat_map(|runs| runs.iter()).map(|it| it.entry.rows);
                    let rows_max = (read / 2).min(fixes.sum::<u64>() / STATE_FIXES_MIN);
                    let rows_max = rows_max.min(STATE_ROWS_MAX);
                    let inputs = inputs.iter().map(|file| file.entry.number).collect();
                    return self.state_of(version, range, inputs, rows_max).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn state_of(
        &mut self,
        version: &Arc<Version>,
        range: Partition,
        inputs: Vec<u64>,
        rows_max: u64,
    ) -> Result<StateWork, HistoryError> {
        let run = self.new_background_run(range, 0);
        // The device is not used, because its memory is for the runs that queries read.
        let read = Arc::new(Version { device: None, ..(**version).clone() });
        let budget = QueryBudget::new(u64::MAX, STATE_PART_ROWS, Arc::default());
        Ok(StateWork {
            version: version.clone(),
            range,
            inputs,
            newest: AsOf::newest_in(read, range, budget),
            writer: Box::new(RunWriter::create(run)?),
            rows: 0,
            rows_max,
        })
    }

    /// Adds a state whose steps are done. Returns false and drops the file if the range has changed
    /// meanwhile, or the state is empty or too large.
    pub(crate) fn finish_state(&mut self, work: StateWork) -> Result<bool, HistoryError> {
        let StateWork { version, range, inputs, writer, rows, rows_max, .. } = work;
        let now = self.history().version();
        let is_input = |file: &&Arc<RunFile>| inputs.contains(&file.entry.number);
        let files = now.files_of_newest(range);
        let is_unchanged = files.len() == inputs.len() && files.iter().all(is_input);
        let is_kept = now.floor_ms <= range.start_ms;
        if !is_unchanged || !is_kept || version.erasing != now.erasing {
            self.put_off_state(range);
            return Ok(false);
        }
        if rows == 0 || rows > rows_max {
            self.next_states.insert(range, i64::MAX);
            return Ok(false);
        }
        let state = writer.finish(&[], &[])?;
        if self.is_erasing() {
            self.erased.insert(state.number);
        }
        let mut next = self.manifest.clone();
        next.states.push(state);
        self.commit(next, &[], Vec::new())?;
        Ok(true)
    }

    /// Drops the states of ranges to which `added` brings fixes.
    pub(crate) fn end_states(&mut self, next: &mut Manifest, added: &[RunEntry]) {
        let is_ended = |range: &Partition| {
            let mut runs = added.iter().filter(|run| run.rows > 0);
            runs.any(|run| range.shares_times(&run.partition))
        };
        // A range whose state was not worthwhile is tried again after this change.
        let later_ms = self.later_ms();
        for (_, from_ms) in self.next_states.iter_mut().filter(|(range, _)| is_ended(range)) {
            *from_ms = later_ms.min(*from_ms);
        }
        for state in next.states.extract_if(.., |state| is_ended(&state.partition)) {
            self.put_off_state(state.partition);
        }
    }

    /// Gives up a state whose inputs cannot be read. Its range gets no state before it changes or
    /// the history is opened again.
    pub(crate) fn give_up_state(&mut self, work: &StateWork) {
        self.next_states.insert(work.range, i64::MAX);
    }

    fn put_off_state(&mut self, range: Partition) {
        self.next_states.insert(range, self.later_ms());
    }

    /// The clock that the watermark must reach before a range that changes now may get a state. The
    /// delay, `partition_ms`, is there because the range may change again soon.
    fn later_ms(&self) -> i64 {
        self.manifest.watermark.clock_ms.saturating_add(self.manifest.partition_ms)
    }
}
