//! Adds the faults of real streams to a workload: late and duplicate fixes, bad rows and removals.
//!
//! Each fault has a share and is counted. A hash of seed, object and time decides whether a fix has
//! a fault, so faults do not depend on shards or batches. The number of delayed fixes is bounded,
//! and a good fix is never altered.

mod bad_row;

use std::collections::{HashMap, VecDeque};

use bad_row::bad_row;

use crate::limits::{MIX_ABSENT_MAX, MIX_BATCH_ROWS, MIX_DELAY_MS_MAX, MIX_HELD_MAX};
use crate::params::within;
use crate::random::{Domain, key, lane, unit_of};
use crate::{Fix, Workload, WorkloadError};

/// Shares of fixes and delays in event time; the default does not change the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MixShares {
    /// Fixes that arrive `late_delay_ms` after their time; late for the engine if their object has
    /// reported since.
    pub late: f64,
    /// Delay of late fixes, 0 to [`MIX_DELAY_MS_MAX`].
    pub late_delay_ms: i64,
    /// Fixes that arrive a second time, unchanged.
    pub duplicate: f64,
    /// Delay of the second arrival, 0 (directly after the first) to [`MIX_DELAY_MS_MAX`].
    pub duplicate_delay_ms: i64,
    /// Fixes followed by a bad copy that a server must refuse. The copy has a NaN or infinite
    /// position or one outside the space, a time before 2000 or in the far future, or the reserved
    /// object.
    pub bad: f64,
    /// Fixes after which their object is removed and silent for `absence_ms`.
    pub removal: f64,
    /// Silence of a removed object, 0 to [`MIX_DELAY_MS_MAX`]; its next fix creates it again.
    pub absence_ms: i64,
}

/// One row to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// Report this fix.
    Fix(Fix),
    /// Remove this object.
    Remove(u64),
}

/// Counts of the events of a mix so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MixCounts {
    /// Good fixes, including late fixes and duplicates.
    pub fixes: u64,
    /// Delayed fixes.
    pub late: u64,
    /// Scheduled second arrivals.
    pub duplicates: u64,
    /// Bad rows.
    pub bad: u64,
    /// Removals.
    pub removals: u64,
    /// Fixes left out because their object was removed and silent.
    pub silenced: u64,
}

/// A workload with faults: an iterator of [`Event`]s, endless if the workload is.
pub struct Mix {
    workload: Box<dyn Workload>,
    shares: MixShares,
    seed: u64,
    source: Vec<Fix>,
    source_next: usize,
    late: DelayLine,
    duplicates: DelayLine,
    /// Removed objects and the ends of their silence.
    absent: HashMap<u64, i64>,
    ready: VecDeque<Event>,
    counts: MixCounts,
}

/// Fixes with the same delay, oldest first.
#[derive(Debug)]
struct DelayLine {
    delay_ms: i64,
    held: VecDeque<Fix>,
}

impl Mix {
    /// Wraps a workload.
    ///
    /// # Errors
    ///
    /// A share outside 0 to 1, or a delay outside its range.
    pub fn new(
        workload: Box<dyn Workload>,
        shares: MixShares,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        shares.check()?;
        Ok(Self {
            workload,
            shares,
            seed,
            source: Vec::with_capacity(MIX_BATCH_ROWS),
            source_next: 0,
            late: DelayLine { delay_ms: shares.late_delay_ms, held: VecDeque::new() },
            duplicates: DelayLine { delay_ms: shares.duplicate_delay_ms, held: VecDeque::new() },
            absent: HashMap::new(),
            ready: VecDeque::new(),
            counts: MixCounts::default(),
        })
    }

    /// The wrapped workload, for its windows and space.
    pub fn workload(&mut self) -> &mut dyn Workload {
        self.workload.as_mut()
    }

    /// The counts so far, including events that are scheduled but not yet returned.
    #[must_use]
    pub fn counts(&self) -> MixCounts {
        self.counts
    }

    /// The next clean fix.
    fn clean(&mut self) -> Option<Fix> {
        if self.source_next == self.source.len() {
            self.source.clear();
            self.source_next = 0;
            self.workload.fill(MIX_BATCH_ROWS, &mut self.source);
        }
        let fix = *self.source.get(self.source_next)?;
        self.source_next += 1;
        Some(fix)
    }

    /// Releases the delayed fixes that are due, or all of them.
    fn release(&mut self, now_ms: Option<i64>) {
        for line in [&mut self.late, &mut self.duplicates] {
            while let Some(fix) = line.due(now_ms) {
                self.ready.push_back(Event::Fix(fix));
                self.counts.fixes += 1;
            }
        }
    }

    /// Turns one clean fix into events.
    fn accept(&mut self, fix: Fix) {
        if let Some(until_ms) = self.absent.get(&fix.object).copied() {
            if fix.time_ms < until_ms {
                self.counts.silenced += 1;
                return;
            }
            self.absent.remove(&fix.object);
        }
        let dice = key(self.seed ^ fix.time_ms as u64, Domain::Mix, fix.object);
        let falls = |number: u64, share: f64| share > 0.0 && unit_of(lane(dice, number)) < share;
        if falls(0, self.shares.late) {
            self.counts.late += 1;
            self.late.held.push_back(fix);
        } else {
            self.counts.fixes += 1;
            self.ready.push_back(Event::Fix(fix));
        }
        if falls(1, self.shares.duplicate) {
            self.counts.duplicates += 1;
            self.duplicates.held.push_back(fix);
        }
        if falls(2, self.shares.bad) {
            self.counts.bad += 1;
            let bad = bad_row(&fix, self.workload.space(), lane(dice, 3));
            self.ready.push_back(Event::Fix(bad));
        }
        if falls(4, self.shares.removal) && self.absent.len() < MIX_ABSENT_MAX {
            self.counts.removals += 1;
            self.ready.push_back(Event::Remove(fix.object));
            let until_ms = fix.time_ms.saturating_add(self.shares.absence_ms);
            self.absent.insert(fix.object, until_ms);
        }
    }
}

impl Iterator for Mix {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if let Some(fix) = self.clean() {
                self.release(Some(fix.time_ms));
                self.accept(fix);
            } else if self.late.held.is_empty() && self.duplicates.held.is_empty() {
                return None;
            } else {
                self.release(None);
            }
        }
    }
}

impl DelayLine {
    /// Takes the oldest fix if it is due, if the line is full, or if `now_ms` is `None`.
    fn due(&mut self, now_ms: Option<i64>) -> Option<Fix> {
        let fix = self.held.front()?;
        let due_ms = fix.time_ms.saturating_add(self.delay_ms);
        let is_due = now_ms.is_none_or(|now_ms| due_ms <= now_ms) || self.held.len() > MIX_HELD_MAX;
        if is_due { self.held.pop_front() } else { None }
    }
}

impl MixShares {
    /// Refuses shares outside 0 to 1 and delays outside their range.
    fn check(&self) -> Result<(), WorkloadError> {
        for (parameter, share) in [
            ("late", self.late),
            ("duplicate", self.duplicate),
            ("bad", self.bad),
            ("removal", self.removal),
        ] {
            if !(0.0..=1.0).contains(&share) {
                let (value, range) = (share.to_string(), "a share, 0 to 1".to_owned());
                return Err(WorkloadError::Parameter { parameter, value, range });
            }
        }
        within("late_delay_ms", self.late_delay_ms, 0, MIX_DELAY_MS_MAX)?;
        within("duplicate_delay_ms", self.duplicate_delay_ms, 0, MIX_DELAY_MS_MAX)?;
        within("absence_ms", self.absence_ms, 0, MIX_DELAY_MS_MAX)
    }
}
