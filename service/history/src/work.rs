//! Work in the background: merges runs, rewrites runs without erased objects, and writes states.
//!
//! It is done in steps, so that the caller controls its share of disk and cores.

use std::sync::Arc;

use crate::error::HistoryError;
use crate::history_writer::{ErasedLog, HistoryWriter};
use crate::manifest::Manifest;
use crate::merge::Merge;
use crate::query::QueryBudget;
use crate::removal::{ALL_OBJECTS, EVERY_OBJECT};
use crate::run::RunFile;
use crate::state::StateWork;
use crate::version::Version;

/// A run or state that is being written in the background.
#[derive(Debug)]
pub struct Work(Kind);

#[derive(Debug)]
enum Kind {
    Merge(Merge),
    State(StateWork),
}

impl Work {
    /// True if it rewrites runs; false for a state, which is begun only if no run needs a rewrite.
    #[must_use]
    pub fn is_merge(&self) -> bool {
        matches!(self.0, Kind::Merge(_))
    }

    /// Writes about `rows` rows of a run, or one part of a state. Returns true when no step is
    /// left.
    ///
    /// # Errors
    /// [`HistoryError::File`], [`HistoryError::Page`]; the history then remains as it is.
    pub fn step(&mut self, rows: usize) -> Result<bool, HistoryError> {
        match &mut self.0 {
            Kind::Merge(merge) => merge.step(rows),
            Kind::State(state) => state.step(),
        }
    }
}

impl HistoryWriter {
    /// The next work, if any: runs with objects that are being erased first, then merges of
    /// partitions with many runs, then states. [`Self::finish`] completes it. An erasure ends here
    /// when nothing remains to rewrite, and neither a file that was replaced nor the log has the
    /// objects.
    ///
    /// # Errors
    /// [`HistoryError::File`], [`HistoryError::Page`].
    pub fn next_work(&mut self) -> Result<Option<Work>, HistoryError> {
        self.check_running()?;
        self.remove_obsolete();
        if self.is_erasing() {
            self.end_erased_states()?;
            let version = self.history().version();
            if let Some(file) = self.next_erased(&version)? {
                let merge = self.merge(&version, vec![file], true)?;
                return Ok(Some(Work(Kind::Merge(merge))));
            }
            self.end_erasure()?;
        }
        let version = self.history().version();
        // The partition of the clock and those after it still get fixes.
        let open_ms = version.partition_of(version.watermark.clock_ms).start_ms;
        if let Some(merge) = self.next_merge(&version, open_ms)? {
            return Ok(Some(Work(Kind::Merge(merge))));
        }
        let state = self.next_state(&version, open_ms)?;
        Ok(state.map(|state| Work(Kind::State(state))))
    }

    /// Gives up work whose step has failed because a file cannot be read. A state can be given up,
    /// because queries can read the runs instead. Returns false for a merge, which cannot be given
    /// up.
    pub fn give_up(&mut self, work: &Work) -> bool {
        match &work.0 {
            Kind::Merge(_) => false,
            Kind::State(state) => {
                self.give_up_state(state);
                true
            }
        }
    }

    /// Completes work whose steps are done. Returns false and drops the new file if the history has
    /// changed meanwhile or the state is not worthwhile.
    ///
    /// # Errors
    /// [`HistoryError::File`].
    pub fn finish(&mut self, work: Work) -> Result<bool, HistoryError> {
        self.check_running()?;
        match work.0 {
            Kind::Merge(merge) => self.finish_merge(merge),
            Kind::State(state) => self.finish_state(state),
        }
    }

    /// Called when no run has erased objects. Replaces the list of erased objects by
    /// [`EVERY_OBJECT`], or clears it when the log no longer has these objects and all replaced
    /// files are removed. Does nothing while the log may have cycles with these objects that are
    /// not sealed.
    fn end_erasure(&mut self) -> Result<(), HistoryError> {
        if self.erased_log == ErasedLog::Unread {
            return Ok(());
        }
        let has_ended = self.erased_log == ErasedLog::Gone && self.has_erased_files()?;
        // `EVERY_OBJECT`, no object's id, keeps the erasure open, also across restarts, until the
        // log has none of the objects.
        let left = if has_ended { Vec::new() } else { vec![EVERY_OBJECT] };
        if left == self.manifest.erasing {
            return Ok(());
        }
        if left.is_empty() {
            self.erased.clear();
            self.awaited = None;
        }
        let next = Manifest { erasing: left, ..self.manifest.clone() };
        self.commit(next, &[], Vec::new())
    }

    /// The next run with objects that are being erased.
    fn next_erased(&mut self, version: &Version) -> Result<Option<Arc<RunFile>>, HistoryError> {
        for file in version.files() {
            if self.has_erased(version, file)? {
                return Ok(Some(file.clone()));
            }
        }
        Ok(None)
    }

    /// Drops the states with objects that are being erased.
    fn end_erased_states(&mut self) -> Result<(), HistoryError> {
        let (version, mut ended) = (self.history().version(), Vec::new());
        for file in version.states.values() {
            if self.has_erased(&version, file)? {
                ended.push(file.entry.number);
            }
        }
        if ended.is_empty() {
            return Ok(());
        }
        let mut next = self.manifest.clone();
        next.states.retain(|state| !ended.contains(&state.number));
        self.commit(next, &[], Vec::new())
    }

    /// True if a file has objects that are being erased. Files without any are remembered.
    fn has_erased(&mut self, version: &Version, file: &Arc<RunFile>) -> Result<bool, HistoryError> {
        if self.erased.contains(&file.entry.number) {
            return Ok(false);
        }
        let has_some = contains_any(version, file)?;
        if !has_some {
            self.erased.insert(file.entry.number);
        }
        Ok(has_some)
    }
}

/// Whether a run has fixes or removals of objects that are being erased.
fn contains_any(version: &Version, file: &Arc<RunFile>) -> Result<bool, HistoryError> {
    let (mut reader, budget) = (version.reader(file)?, QueryBudget::unlimited());
    for object in version.erasing.iter() {
        if reader.find(*object, &budget)?.is_some() {
            return Ok(true);
        }
    }
    let mut is_found = false;
    reader
        .removals(ALL_OBJECTS, &budget, |removal| is_found |= version.is_erased(removal.object))?;
    Ok(is_found)
}
