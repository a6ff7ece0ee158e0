//! The input and output of one cycle.
//!
//! A cycle's requests are ordered: arrival is (request, row). Counts and refusals are returned per
//! request in that order, on every backend.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_codec::{Block, BlockError, FixColumns, FixRow};

use crate::backend::EngineOptions;
use crate::error::EngineError;
use crate::events::EventSet;
pub use crate::layout::Refusal;
use crate::limits::{self, SNAPSHOT_BATCH_ROWS};
use crate::query::{AnswerSet, Query, QueryKind};
use crate::stage::dispatch::RowValidator;
use crate::subscription::{RegionId, SubscriptionChange};

/// Everything that one cycle applies and answers.
#[derive(Clone, Debug, Default)]
pub struct CycleInput {
    /// The system clock in Unix milliseconds; a fleet with an event clock uses it for
    /// [`Request::Rewind`] alone.
    pub system_ms: i64,
    /// Latest acceptable event time, Unix milliseconds; later rows are refused.
    pub time_max_ms: i64,
    /// Latest time to which the rows may move an event clock, Unix milliseconds; `None` is no
    /// bound. Repeating a cycle with its resulting clock as the bound gives the same output.
    pub event_clock_max_ms: Option<i64>,
    /// Changes in order of arrival; at most [`crate::limits::CYCLE_REQUESTS_MAX`], with at most
    /// [`crate::limits::CYCLE_FIXES_MAX`] rows and removals together. Shared, so that a log and the
    /// engine can hold the same list.
    pub requests: Arc<Vec<Request>>,
    /// Queries; at most [`crate::limits::CYCLE_QUERIES_MAX`].
    pub queries: Vec<Query>,
    /// Work limit of the queries, equivalent to positions tested against a rectangle; `None` is no
    /// limit. A backend may leave queries unanswered beyond it, see [`CycleOutput::unfinished`].
    pub query_work_max: Option<u64>,
    /// End indices of the groups of queries, ascending. Each group has an equal share of
    /// `query_work_max`; unused work goes to unfinished queries. Empty: one group.
    pub query_groups: Vec<u32>,
    /// Changes of the continuous queries, in order; at most
    /// [`crate::limits::SUBSCRIPTION_CHANGES_MAX`].
    pub subscriptions: Vec<SubscriptionChange>,
}

impl CycleInput {
    /// True if a request of the cycle is a [`Request::Rewind`].
    #[must_use]
    pub fn rewinds(&self) -> bool {
        self.requests.iter().any(|request| matches!(request, Request::Rewind))
    }

    /// The clock at the start of the cycle; `clock_ms` is the clock after the previous cycle.
    #[must_use]
    pub fn clock_before_ms(&self, clock_ms: i64) -> i64 {
        if self.rewinds() { clock_ms.min(self.system_ms) } else { clock_ms }
    }

    /// Checks every limit of a cycle and its queries; a backend does so before it applies anything.
    ///
    /// # Errors
    /// [`EngineError::Limit`] names the first limit that is exceeded.
    pub fn check(&self) -> Result<(), EngineError> {
        self.check_requests()?;
        self.queries.iter().try_for_each(Query::check)
    }

    /// As [`CycleInput::check`], without the limits of each query.
    ///
    /// # Errors
    /// As [`CycleInput::check`].
    pub fn check_requests(&self) -> Result<(), EngineError> {
        within("requests of a cycle", self.requests.len(), limits::CYCLE_REQUESTS_MAX)?;
        within("queries of a cycle", self.queries.len(), limits::CYCLE_QUERIES_MAX)?;
        let rows = self.requests.iter().map(Request::rows).sum();
        within("rows and removals of a cycle", rows, limits::CYCLE_FIXES_MAX)?;
        for request in self.requests.iter() {
            if let Request::Remove(objects) = request {
                within("objects of a removal", objects.len(), limits::GET_OBJECTS_MAX)?;
            }
        }
        let changes = self.subscriptions.len();
        within("subscription changes of a cycle", changes, limits::SUBSCRIPTION_CHANGES_MAX)?;
        self.subscriptions.iter().try_for_each(|change| match change {
            SubscriptionChange::Set { subscription, .. } => subscription.check(),
            SubscriptionChange::Snapshot(_) | SubscriptionChange::Remove(_) => Ok(()),
        })
    }

    /// Checks that a fleet with this number of continuous queries may take the cycle's changes.
    ///
    /// # Errors
    /// [`EngineError::Limit`] when there would be more than [`limits::REGIONS_MAX`] after it.
    pub fn check_regions(
        &self,
        count: usize,
        is_known: impl Fn(RegionId) -> bool,
    ) -> Result<(), EngineError> {
        if count + self.subscriptions.len() <= limits::REGIONS_MAX {
            return Ok(());
        }
        // The last change of each region decides; a snapshot changes nothing.
        let mut last = BTreeMap::new();
        for change in &self.subscriptions {
            match change {
                SubscriptionChange::Set { region, .. } => last.insert(*region, true),
                SubscriptionChange::Remove(region) => last.insert(*region, false),
                SubscriptionChange::Snapshot(_) => None,
            };
        }
        let gained = last.iter().filter(|(region, is_set)| **is_set && !is_known(**region)).count();
        let lost = last.iter().filter(|(region, is_set)| !**is_set && is_known(**region)).count();
        within("continuous queries", count + gained - lost, limits::REGIONS_MAX)
    }
}

impl Query {
    /// Checks the limits of a query.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    #[inline]
    pub fn check(&self) -> Result<(), EngineError> {
        match &self.kind {
            QueryKind::Get(objects) => {
                within("objects of a get", objects.len(), limits::GET_OBJECTS_MAX)
            }
            QueryKind::Nearest { k, .. } => {
                within("neighbours of a query", *k as usize, limits::NEAREST_MAX)
            }
            QueryKind::Range(_) => Ok(()),
        }
    }
}

fn within(what: &'static str, value: usize, limit: usize) -> Result<(), EngineError> {
    let (value, limit) = (value as u64, limit as u64);
    if value <= limit { Ok(()) } else { Err(EngineError::Limit { what, value, limit }) }
}

/// One change; applied whole in one epoch.
#[derive(Clone, Debug)]
pub enum Request {
    /// Rows in quanta, as columns of equal length. The caller leaves out rows that cannot be
    /// converted to quanta, and numbers these refused rows itself.
    Fixes(FixColumns),
    /// An encoded block whose checksums and space were checked on receipt; the backend decodes it.
    Block(Block),
    /// Removes these objects, at most [`crate::limits::GET_OBJECTS_MAX`]. Ids that do not exist at
    /// their arrival, repeated ones included, count as missing.
    Remove(Vec<u64>),
    /// Removes every object; does not reset the epoch or the clock.
    Clear,
    /// Sets the clock back to [`CycleInput::system_ms`] if it is ahead of that, before all other
    /// steps of the cycle. Sets continuous queries that depend on the clock again.
    Rewind,
}

impl Request {
    /// Rows or removals of this request: its share of the arrival counter.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Fixes(columns) => columns.len(),
            Self::Block(block) => block.rows(),
            Self::Remove(objects) => objects.len(),
            Self::Clear | Self::Rewind => 0,
        }
    }
}

/// The outcome of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOutcome {
    /// Rows that became their object's record.
    pub applied: u64,
    /// Winning rows not applied because they exceed the TTL at the clock after the cycle.
    pub expired: u64,
    /// Winning rows that equal the record at the start of the cycle: no change.
    pub duplicate: u64,
    /// Rows replaced within this cycle by a newer fix or by a removal that arrived later.
    pub superseded: u64,
    /// Rows older than the record at the start of the cycle.
    pub late: u64,
    /// Refused rows, ascending by row; all others are in exactly one of the counts above.
    pub refused: Vec<(u32, Refusal)>,
    /// Rows not refused that are later than the event clock after the cycle; also counted above. 0
    /// with a system clock.
    pub ahead: u64,
    /// Removals: objects that existed at the removal's arrival. `Clear`: objects at its arrival.
    pub removed: u64,
    /// Removals: ids that did not exist.
    pub missing: u64,
    /// The error of a block that failed to decode. None of its rows was applied, and all other
    /// fields are 0 or empty.
    pub block_error: Option<BlockError>,
}

/// A submitted cycle, to be waited for once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The result of one cycle.
#[derive(Clone, Debug, Default)]
pub struct CycleOutput {
    /// This cycle's number. The first cycle has 1, or after an import the snapshot's epoch plus 1.
    pub epoch: u64,
    /// The clock after this cycle; decreases by [`Request::Rewind`] alone.
    pub clock_ms: i64,
    /// One per request, in order.
    pub requests: Vec<RequestOutcome>,
    /// The epoch on which the answers hold: `epoch - answer_lag`.
    pub answer_epoch: u64,
    /// The clock at `answer_epoch`.
    pub answer_clock_ms: i64,
    /// One per query, in order; empty if `unanswered` is set.
    pub answers: AnswerSet,
    /// The error if the queries have no answers although the changes are applied, because the
    /// answers, or the tables that the queries need, do not fit the engine's memory.
    pub unanswered: Option<EngineError>,
    /// Indices of the queries left unanswered because [`CycleInput::query_work_max`] was used up,
    /// ascending. Their entries in `answers` are empty.
    pub unfinished: Vec<u32>,
    /// The work of each query, unfinished ones included, in units of
    /// [`CycleInput::query_work_max`]; empty without a work limit.
    pub query_work: Vec<u64>,
    /// The queries as submitted, returned so that the caller can reuse or free their memory outside
    /// the cycle.
    pub queries: Vec<Query>,
    /// The events of the continuous queries, at `epoch` on every backend.
    pub events: EventSet,
    /// Objects removed by age in this cycle.
    pub expired: u64,
    /// Objects after this cycle.
    pub objects: u64,
}

/// Identifies the state that an export returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportHeader {
    /// The term of the engine.
    pub term: u64,
    /// The epoch after which the state is taken.
    pub epoch: u64,
    /// The clock at that epoch.
    pub clock_ms: i64,
    /// Rows of the whole export.
    pub objects: u64,
}

/// The whole state, for backups, tests and moving between backends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The term of the engine that exported it.
    pub term: u64,
    /// The epoch after which the state was taken.
    pub epoch: u64,
    /// The clock at that epoch.
    pub clock_ms: i64,
    /// Rows, each object once; a batch has at most [`crate::limits::SNAPSHOT_BATCH_ROWS`].
    pub batches: Vec<FixColumns>,
}

impl Snapshot {
    /// The state after `epoch` of an engine with this term: all its rows, ascending by object.
    #[must_use]
    pub fn new(
        term: u64,
        epoch: u64,
        clock_ms: i64,
        mut rows: impl ExactSizeIterator<Item = FixRow>,
    ) -> Self {
        let mut batches = Vec::with_capacity(rows.len().div_ceil(SNAPSHOT_BATCH_ROWS));
        while rows.len() > 0 {
            let mut columns = FixColumns::with_capacity(rows.len().min(SNAPSHOT_BATCH_ROWS));
            rows.by_ref().take(SNAPSHOT_BATCH_ROWS).for_each(|row| columns.push_row(row));
            batches.push(columns);
        }
        Self { term, epoch, clock_ms, batches }
    }

    /// Rows of all batches.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.len() as u64).sum()
    }

    /// Checks that an engine with these options, which has run `epoch` cycles, may take this
    /// snapshot.
    ///
    /// # Errors
    /// As [`crate::Backend::import`].
    pub fn check(&self, options: &EngineOptions, epoch: u64) -> Result<(), EngineError> {
        self.check_size(options, epoch)?;
        let validator = RowValidator::new(&options.space, i64::MAX);
        (0..self.batches.len()).try_for_each(|number| self.check_batch(number, &validator))?;
        let objects = self.batches.iter().flat_map(|batch| &batch.object);
        if objects.clone().is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        let mut objects: Vec<u64> = objects.copied().collect();
        objects.sort_unstable();
        let repeated = objects.windows(2).find(|pair| pair[0] == pair[1]);
        repeated.map_or(Ok(()), |pair| Err(Self::repeated(pair[0])))
    }

    /// As [`Snapshot::check`], without the rows.
    ///
    /// # Errors
    /// As [`Snapshot::check`].
    pub fn check_size(&self, options: &EngineOptions, epoch: u64) -> Result<(), EngineError> {
        if epoch != 0 {
            let why = format!("the engine has run {epoch} cycles, it must have run none");
            return Err(EngineError::Snapshot(why));
        }
        let (value, limit) = (self.rows(), options.objects_max);
        if value <= limit {
            return Ok(());
        }
        Err(EngineError::Limit { what: "objects of a snapshot", value, limit })
    }

    /// As [`Snapshot::check`], for the rows of one batch; does not detect repeated objects.
    ///
    /// # Errors
    /// As [`Snapshot::check`].
    ///
    /// # Panics
    /// If there is no batch of this number.
    pub fn check_batch(&self, number: usize, validator: &RowValidator) -> Result<(), EngineError> {
        let refused = |why: String| Err(EngineError::Snapshot(why));
        let batch = &self.batches[number];
        batch.check().or_else(|error| refused(format!("batch {number}: {error}")))?;
        if batch.len() > SNAPSHOT_BATCH_ROWS {
            return refused(format!("batch {number} has {} rows", batch.len()));
        }
        for row in (0..batch.len()).map(|row| batch.row(row)) {
            if let Some(reason) = validator.validate_row(&row) {
                return refused(format!("object {}: {reason:?}", row.object));
            }
        }
        Ok(())
    }

    /// The error of a snapshot in which an object repeats.
    #[must_use]
    pub fn repeated(object: u64) -> EngineError {
        EngineError::Snapshot(format!("object {object} repeats"))
    }
}
