//! The engine's trait; its documentation is the contract.
//!
//! Implemented by the model (a map and a scan), the CPU backend and the CUDA backend. The
//! conformance suite (`crate::conformance`) tests this text; results are compared exactly.

use shoal_codec::FixColumns;

use crate::cycle::{CycleInput, CycleOutput, ExportHeader, Snapshot, Ticket};
use crate::error::EngineError;
use crate::hash_key::HashKey;
use crate::limits::SNAPSHOT_BATCH_ROWS;
use crate::space::Space;

/// The options of a fleet's engine, fixed when it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOptions {
    /// The space of its objects.
    pub space: Space,
    /// What drives `clock_ms`.
    pub clock: Clock,
    /// Objects whose record is older than this at the cycle's clock are removed:
    /// `clock_ms - time_ms > ttl_ms`. `None` keeps them, unless their own validity ends.
    pub ttl_ms: Option<i64>,
    /// Maximum number of objects of the fleet; a row that would exceed it is refused.
    pub objects_max: u64,
    /// Maximum number of events of one cycle, at most [`crate::limits::CYCLE_EVENTS_MAX`]. Regions
    /// whose events exceed it are lagged.
    pub events_max: u64,
    /// A random number that names this run of the engine.
    pub term: u64,
    /// The secret key of the engine's hash tables: drawn when the engine starts, never sent, logged
    /// or kept. No output depends on it.
    pub hash_key: HashKey,
}

impl EngineOptions {
    /// Options with an event clock, no TTL, the largest object limit and [`HashKey::FIXED`], which
    /// a server must replace.
    #[must_use]
    pub fn new(space: Space) -> Self {
        Self {
            space,
            clock: Clock::Event,
            ttl_ms: None,
            objects_max: crate::limits::OBJECTS_MAX,
            events_max: crate::limits::CYCLE_EVENTS_MAX,
            term: 0,
            hash_key: HashKey::FIXED,
        }
    }
}

/// Cycles by the method that updated a grid. No answer depends on the method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridUpdates {
    /// Cycles whose moves were applied to the cells that the objects left and entered.
    pub applied: u64,
    /// Cycles that rebuilt all cells from the newest positions, also because their moves could not
    /// be applied.
    pub rebuilt: u64,
}

/// What drives a fleet's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The largest `CycleInput::system_ms` so far.
    #[default]
    System,
    /// The rows. A cycle moves the clock to the largest `time_ms` of its rows that were not refused
    /// (late rows included), but not beyond [`CycleInput::event_clock_max_ms`].
    Event,
}

/// Applies cycles of changes to the state of one fleet and answers queries on it.
///
/// # A cycle
///
/// `submit` takes the requests queued since the last cycle; a backend may return at once or after
/// the work. `wait` returns the output. Cycles take effect in the order of submission and are
/// numbered by `epoch`. At most [`crate::limits::CYCLES_IN_FLIGHT_MAX`] may be waited for. A cycle
/// is all or nothing: if `submit` or `wait` fails, no change is applied, and the next cycle takes
/// its epoch. If only the answers do not fit memory, the cycle has no answers, its changes remain
/// applied, and [`CycleOutput::unanswered`] has the error.
///
/// A cycle proceeds in this order:
/// 1. **Validate rows**, one by one ([`crate::stage::dispatch::RowValidator`]). A block that fails
///    to decode loses all its rows and reports `block_error`.
/// 2. **Admit objects.** Take the valid rows, the removals and the clears in order of arrival and
///    count the existing objects, beginning with those at the start of the cycle. A row whose
///    object does not exist at the row's arrival is refused with
///    [`crate::Refusal::ObjectLimit`] if the count equals [`EngineOptions::objects_max`]; otherwise
///    the object exists from then on. Removals and clears lower the count at once, expiry only from
///    the next cycle on. No cycle ends with more than `objects_max` objects.
///
///    Refused rows have no effect, whatever the reason.
/// 3. **Settle the clock**; see [`Clock`]. It starts at 0, and only
///    [`crate::Request::Rewind`] decreases it. A row that was not
///    refused and is later than an event clock after this step is *ahead*. It is counted,
///    and settled like any other row. It expires only when the clock is after its deadline.
/// 4. **Settle each object.** Let *start* be its record at the start of the cycle; there is none
///    when a removal or a clear of this cycle arrived before the row. A row older than *start* is
///    *late*. Of the other rows that arrived after the object's last removal in the cycle, the
///    greatest (`time_ms`, arrival) wins; every other row is *superseded*. A winner that equals
///    *start* in every field is a *duplicate* and changes nothing. Any other winner becomes the
///    record; it is *applied*, or *expired* if step 5 removes it at once.
/// 5. **Expire**: remove every record whose age, `clock_ms - time_ms`, exceeds `ttl_ms` or its own
///    validity `valid_ms`. Without the one or the other, that one does not count.
/// 6. **Answer**: all queries see the state after epoch `epoch - answer_lag()`; ages are measured
///    at that epoch's clock. Answers ascend by object; nearest by (rank, object). The total of an
///    answer counts every match, whatever its [`crate::RowLimit`].
/// 7. **Report events** of the continuous queries, at the cycle's own epoch on every backend.
///
/// The output depends on the inputs alone: not on threads, timing, earlier growth or the hash key.
///
/// # Continuous queries
///
/// A [`crate::Subscription`] is in force from the cycle that sets it to the one that removes it; an
/// engine that imports has none. The **tick** is the cycle's clock rounded down to whole seconds. A
/// record is *inside* when its position is in the region and the filter passes it at the tick, so a
/// change of age alone takes effect when the clock crosses a whole second.
///
/// Without dwell and hysteresis, the **members** after a cycle are the objects whose record is
/// inside. Events compare the members before the cycle with those after it:
/// - a member only after: `Enter`; before and after, and a row was applied: `Move`;
/// - a member only before: if the object no longer exists, `Removed`, `Cleared` or `Expired` by
///   what last ended its life; else `RegionChanged` if the region was changed in this cycle; else
///   `Left` if its position is outside; else `Filtered`.
///
/// With dwell or hysteresis each object is *evaluated* in every cycle. It is outside, entering, a
/// member, or a leaving member:
/// - an outside object that is inside now is entering since the cycle's clock. An entering object
///   that is not inside is outside again; after `enter_dwell_ms` of entering (at once when that is
///   0) it is a member: `Enter`;
/// - a member *holds* its membership while it is inside, or, with hysteresis, while the filter
///   passes it and its position has a rank of at most `hysteresis_rank_max` from where it last was
///   inside. A member that holds its membership is no longer leaving. One that does not is leaving
///   since the cycle's clock; after `leave_dwell_ms` of leaving it is outside, for the reason that
///   applies now. A member that is gone is outside at once;
/// - a member that remains one, leaving or not: `Move` when a row was applied and the clock is at
///   least `move_interval_ms` after its last `Enter`, `Present` or `Move`.
///
/// Events of kinds that are not wanted change the state but are not reported.
///
/// **Every fix.** With [`crate::EvaluationMode::EveryFix`] the rows of an object that are neither
/// refused nor late are steps, ordered by (`time_ms`, arrival) within each of its lives. A removal
/// or clear that arrives while the object exists ends a life. The rows that arrived before it are
/// evaluated first, then the end of the life. A row that equals the record before it in every field
/// is no step. Each step is an evaluation with the row applied, at the cycle's clock and tick; an
/// object without steps in its last life is evaluated once; expiry is last. With
/// [`crate::EvaluationMode::Crossing`], a step between two records of one life is a `Cross` when
/// neither position is in the region, the object is no member before and after it, the segment cuts
/// the region ([`crate::Region::is_cut`]) and the filter passes the later record.
///
/// **Changes.** A *new* region (its id is unknown, or an earlier change of the cycle removed it)
/// has the objects inside after the cycle as members, without dwell and without events. A
/// *changed* one (set again; the last of several sets decides) compares the members before the
/// cycle, under the old region, with the state after it, in every evaluation mode: members that
/// hold their membership under the new region remain (`Move` when a row was applied), the others
/// leave at once, and other objects that are inside enter at once; none is entering or leaving.
/// Hysteresis uses the position at which a member last was inside the old region. For new and for
/// changed regions `move_interval_ms` counts from this cycle.
/// [`crate::Request::Rewind`] sets every region again whose subscription
/// [depends on the clock](crate::Subscription::depends_on_clock), before the changes of the cycle.
///
/// **Snapshots.** If a change of the cycle, after the region's last removal, requests a snapshot,
/// the region's only events are one `Present` for each member; an empty snapshot is reported too.
///
/// **Order and number.** Regions are ascending, their events ordered by (object, order of
/// evaluation). A region is *lagged*, and none of its events is reported, if the events of this
/// region and of the regions with lower ids exceed [`EngineOptions::events_max`]. An event has the
/// record after it; `Expired` has the record that expired; `Removed` and `Cleared` have the record
/// at the start of the cycle, or the last one before the event if every fix is evaluated.
pub trait Backend: Send {
    /// The options that this engine was started with.
    fn options(&self) -> &EngineOptions;

    /// 0 when queries see their own cycle's changes, 1 when they see the state before it.
    fn answer_lag(&self) -> u64;

    /// Takes one cycle.
    ///
    /// # Errors
    /// [`EngineError::Limit`] for a cycle or query beyond a limit,
    /// [`EngineError::TooManyInFlight`], [`EngineError::OutOfMemory`] for a cycle whose input or
    /// changes do not fit memory. The engine remains usable after these errors, but not after
    /// [`EngineError::Device`], which every later call returns too.
    fn submit(&mut self, input: CycleInput) -> Result<Ticket, EngineError>;

    /// Returns the output of a submitted cycle, once.
    ///
    /// # Errors
    /// [`EngineError::UnknownTicket`]; errors of [`Backend::submit`] that the backend detects only
    /// while it runs the cycle.
    fn wait(&mut self, ticket: Ticket) -> Result<CycleOutput, EngineError>;

    /// Begins an export of the state after the last submitted cycle. [`Backend::export_next`]
    /// returns its rows. Cycles may run meanwhile; they do not change the exported rows.
    /// An export that has not ended is dropped. Outputs in flight remain to be waited for.
    ///
    /// # Errors
    /// [`EngineError::Device`]; [`EngineError::OutOfMemory`], after which no export is open and the
    /// engine remains usable.
    fn begin_export(&mut self) -> Result<ExportHeader, EngineError>;

    /// Returns the next rows of the export: at least 1 and at most `max(rows_max, 1)`. Over the
    /// whole export each object occurs once, in no order. Returns `None` if all rows were returned
    /// or no export is open.
    ///
    /// # Errors
    /// [`EngineError::Device`].
    fn export_next(&mut self, rows_max: usize) -> Result<Option<FixColumns>, EngineError>;

    /// Drops an unfinished export and frees its memory.
    fn end_export(&mut self);

    /// Copies the state after the last submitted cycle at once, ascending by object; outputs in
    /// flight remain to be waited for. Drops an export that has not ended.
    ///
    /// # Errors
    /// Those of [`Backend::begin_export`] and [`Backend::export_next`].
    fn export(&mut self) -> Result<Snapshot, EngineError> {
        let ExportHeader { term, epoch, clock_ms, objects } = self.begin_export()?;
        let mut rows = Vec::with_capacity(objects as usize);
        while let Some(columns) = self.export_next(SNAPSHOT_BATCH_ROWS)? {
            rows.extend((0..columns.len()).map(|row| columns.row(row)));
        }
        rows.sort_unstable_by_key(|row| row.object);
        Ok(Snapshot::new(term, epoch, clock_ms, rows.into_iter()))
    }

    /// Replaces the state of an engine that has run no cycle; the next epoch follows the
    /// snapshot's. The engine keeps its own term. No cycle is run: records that have expired
    /// remain until the next one, so that every exported state can be imported under the same
    /// options. Rows may have any order. An export that has not ended is dropped.
    ///
    /// # Errors
    /// [`EngineError::Snapshot`] when cycles have run, columns are unequal, a batch is too long,
    /// an object repeats or a row would be refused;
    /// [`EngineError::Limit`] for more objects than `objects_max`; [`EngineError::OutOfMemory`],
    /// after which the engine is unchanged.
    fn import(&mut self, snapshot: Snapshot) -> Result<(), EngineError>;

    /// The earliest clock at which a record may expire, a filter of age may end a membership, or a
    /// dwell may end. A cycle should run once the clock reaches it, even without requests. It may
    /// be earlier than the exact time, never later; `None` if none of these can happen.
    fn due_ms(&self) -> Option<i64>;

    /// Objects after the last submitted cycle.
    fn objects(&self) -> u64;

    /// Bytes held by the state (index, records, cells) and the scratch memory of cycles.
    fn memory_bytes(&self) -> u64;

    /// How the cycles so far updated the grid. An import counts nothing.
    fn grid_updates(&self) -> GridUpdates;

    /// Submits one cycle and waits for it.
    ///
    /// # Errors
    /// Those of [`Backend::submit`] and [`Backend::wait`].
    fn run(&mut self, input: CycleInput) -> Result<CycleOutput, EngineError> {
        let ticket = self.submit(input)?;
        self.wait(ticket)
    }
}
