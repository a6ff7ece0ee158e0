//! Runs the contenders of one case in turn, so that a change of the disk's speed affects all of
//! them.

use std::time::{Duration, Instant};

use super::row::Contender;
use crate::error::BenchmarkError;
use crate::harness::CycleTimes;

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) seconds: f64,
    /// Hash of what was written, read or restored.
    pub(super) hash: String,
    /// Bytes of blocks or of a file, if the case does not determine them.
    pub(super) bytes: Option<u64>,
    /// Parts of the run by name, in seconds unless the name says otherwise.
    pub(super) parts: Vec<(&'static str, f64)>,
}

impl Run {
    pub(super) fn new(seconds: f64, hash: String) -> Self {
        Self { seconds, hash, bytes: None, parts: Vec::new() }
    }
}

/// Times of the groups of all runs.
pub(super) struct GroupTimes {
    /// Times of syncs.
    pub(super) sync: CycleTimes,
    /// Times of writes, each with its sync if there is one.
    pub(super) group: CycleTimes,
}

impl GroupTimes {
    pub(super) fn new() -> Result<Self, BenchmarkError> {
        Ok(Self { sync: CycleTimes::new()?, group: CycleTimes::new()? })
    }

    /// Times a write and the optional sync after it; returns their total.
    pub(super) fn time<T, E>(
        &mut self,
        target: &mut T,
        write: impl FnOnce(&mut T) -> Result<(), E>,
        sync: Option<impl FnOnce(&mut T) -> Result<(), E>>,
    ) -> Result<Duration, E> {
        let start = Instant::now();
        write(target)?;
        let written = start.elapsed();
        if let Some(sync) = sync {
            sync(target)?;
            self.sync.add(start.elapsed() - written);
        }
        let took = start.elapsed();
        self.group.add(took);
        Ok(took)
    }
}

/// Runs a contender once and records the times of its groups.
type RunOnce<'a> = Box<dyn FnMut(&mut GroupTimes) -> Result<Run, BenchmarkError> + 'a>;

/// A contender and how to run it.
pub(super) struct Trial<'a> {
    contender: Contender,
    run: RunOnce<'a>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        contender: Contender,
        run: impl FnMut(&mut GroupTimes) -> Result<Run, BenchmarkError> + 'a,
    ) -> Self {
        Self { contender, run: Box::new(run) }
    }
}

/// All runs of a contender.
pub(super) struct Measured {
    pub(super) contender: Contender,
    /// The run with the median time.
    pub(super) median: Run,
    pub(super) seconds_min: f64,
    pub(super) seconds_max: f64,
    pub(super) times: GroupTimes,
}

/// Runs every contender `runs` times, by turns.
///
/// # Errors
/// Errors of a contender; [`BenchmarkError::Disagreement`] if two runs of one contender differ.
pub(super) fn by_turns(runs: u32, mut trials: Vec<Trial>) -> Result<Vec<Measured>, BenchmarkError> {
    let mut all: Vec<(Vec<Run>, GroupTimes)> = trials
        .iter()
        .map(|_| Ok((Vec::new(), GroupTimes::new()?)))
        .collect::<Result<_, BenchmarkError>>()?;
    for _ in 0..runs {
        for (trial, (done, times)) in trials.iter_mut().zip(&mut all) {
            done.push((trial.run)(times)?);
        }
    }
    let measured = trials.iter().zip(all).map(|(trial, (mut done, times))| {
        if let Some(other) = done.iter().find(|run| run.hash != done[0].hash) {
            return Err(BenchmarkError::Disagreement {
                case: "two runs of one case".into(),
                backend: trial.contender.name().into(),
                answers: other.hash.clone(),
                other: trial.contender.name().into(),
                others: done[0].hash.clone(),
            });
        }
        done.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
        Ok(Measured {
            contender: trial.contender,
            seconds_min: done[0].seconds,
            seconds_max: done[done.len() - 1].seconds,
            median: done.swap_remove(done.len() / 2),
            times,
        })
    });
    measured.collect()
}
