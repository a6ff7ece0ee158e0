//! The one trait of the engine; its documentation is the contract.
//!
//! Implemented by the model (a map and a scan), the CPU backend and the CUDA backend. The
//! conformance suite (`crate::conformance`) is this text as tests; results are compared exactly.

use crate::cycle::{CycleInput, CycleOutput, Snapshot, Ticket};
use crate::error::EngineError;
use crate::space::Space;

/// What a fleet's engine is told once, when it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOptions {
    /// Where its objects live.
    pub space: Space,
    /// What drives `clock_ms`.
    pub clock: Clock,
    /// Objects whose record is older than this at the cycle's clock are removed:
    /// `clock_ms - time_ms > ttl_ms`. `None` keeps them.
    pub ttl_ms: Option<i64>,
    /// Most objects of the fleet: a row that would bring one more is refused.
    pub objects_max: u64,
    /// Most events of one cycle, at most [`crate::limits::CYCLE_EVENTS_MAX`]; regions beyond are
    /// lagged.
    pub events_max: u64,
    /// A random number that names this run of the engine.
    pub term: u64,
}

impl EngineOptions {
    /// Options with an event clock, no TTL and the largest object limit.
    #[must_use]
    pub fn new(space: Space) -> Self {
        Self {
            space,
            clock: Clock::Event,
            ttl_ms: None,
            objects_max: crate::limits::OBJECTS_MAX,
            events_max: crate::limits::CYCLE_EVENTS_MAX,
            term: 0,
        }
    }
}

/// What drives a fleet's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The largest `CycleInput::system_ms` so far.
    #[default]
    System,
    /// The largest `time_ms` of a row that was not refused so far, late ones included.
    Event,
}

/// Applies cycles of changes to the state of one fleet and answers queries on it.
///
/// # A cycle
///
/// `submit` takes the requests queued since the last cycle and returns at once or after the work,
/// as suits the backend; `wait` returns the output. Cycles take effect in the order of submission
/// and are numbered by `epoch`. At most [`crate::limits::CYCLES_IN_FLIGHT_MAX`] may be waited for.
/// A cycle is all or nothing: when `submit` or `wait` fails, nothing of it is applied, it has no
/// epoch, and the next cycle takes the one that it would have had. Its answers are all or nothing
/// for themselves: where there is no room for them the changes stand, and
/// [`CycleOutput::unanswered`] says why there are none.
///
/// In order, a cycle:
/// 1. **judges rows** one by one ([`crate::stage::dispatch::RowValidator`]). A block that fails while
///    decoding loses all its rows and reports `block_error`.
/// 2. **admits objects**: takes the rows that passed, the removals and the clears in order of
///    arrival and counts the objects that exist, beginning with those at the start of the cycle. A
///    row of an object that does not exist at the row's arrival is refused with
///    [`crate::cycle::Refusal::ObjectLimit`] when the count is [`EngineOptions::objects_max`];
///    otherwise the object exists from then on. Removals and clears lower the count, expiry only
///    that of the next cycle: no cycle ends with more than `objects_max` objects.
///
///    Refused rows count for nothing, whatever refused them.
/// 3. **settles the clock**: see [`Clock`]; it never decreases and starts at 0.
/// 4. **orders per object**: let *start* be its record at the start of the cycle (none when a
///    removal or a
///    clear of this cycle arrived before the row). A row older than *start* is *late*. Of the
///    others that
///    arrived after the object's last removal in the cycle, the greatest (`time_ms`, arrival) wins;
///    every
///    other row is *superseded*. A winner equal to *start* in every field is a *duplicate* and
///    changes nothing.
/// 5. **expires**: every record with `clock_ms - time_ms > ttl_ms` is removed.
/// 6. **answers**: all queries see the state after epoch `epoch - answer_lag()`, ages judged at
///    that epoch's
///    clock. Answers are in ascending order of object; nearest by (rank, object).
///
/// 7. **tells** what happened in the standing regions, at the cycle's own epoch on every backend.
///
/// The output depends on the inputs alone: not on threads, timing or earlier growth.
///
/// # Standing regions
///
/// A [`crate::Subscription`] holds from the cycle that sets it to the one that removes it; an
/// engine that imports has none. The **tick** is the cycle's clock rounded down to whole seconds.
/// A record is *inside* when its position is in the region and the filter lets it pass at the tick,
/// so a change of age alone shows when the clock crosses a whole second.
///
/// Where there is no dwell and no hysteresis, the **members** after a cycle are the objects whose
/// record is inside. Events compare the members before the cycle with those after it:
/// - not before, and after: `Enter`; before and after, and a row was applied to it: `Move`;
/// - before, and not after: `Removed`, `Cleared` or `Expired` when the object is gone, by what
///   ended it last while it existed; else `RegionChanged` when the region was changed in this
///   cycle; else `Left` when its position is outside; else `Filtered`.
///
/// Otherwise each object is *looked at* in every cycle, and is outside, entering, a member, or a
/// member that is leaving:
/// - outside: inside now, it is entering since the cycle's clock. Entering: not inside, it is
///   outside again; after `enter_dwell_ms` since then (at once when that is 0) it is a member:
///   `Enter`;
/// - a member *keeps* its place while it is inside, or, with hysteresis, while the filter lets it
///   pass and its position has a rank of at most `hysteresis_rank_max` from the one where it last
///   was inside. One that keeps it is not leaving any more. One that does not is leaving since the
///   cycle's clock; after `leave_dwell_ms` since then it is outside: the reason is judged now. One
///   that is gone is outside at once;
/// - a member that stays one, leaving or not: `Move` when a row was applied and the clock is at
///   least `move_interval_ms` after its last `Enter`, `Present` or `Move`.
///
/// Events that are not wanted happen all the same and are not told.
///
/// **Every fix.** With [`crate::EvaluationMode::EveryFix`] the rows of an object that are neither refused
/// nor late are steps, ordered by (`time_ms`, arrival) within each of its lives. A removal or
/// clear that arrives while it exists ends a life: what arrived before is judged first, then the
/// leave. A row equal in every field to the record before it is no step. Each step is a look with
/// the row applied, at the cycle's clock and tick; an object without steps in its last life is
/// looked at once; expiry comes last. With [`crate::EvaluationMode::Crossing`], a step between two records
/// of one life is a `Cross` when neither position is in the region, the object is no member before
/// and after it, the segment cuts the region ([`crate::Region::is_cut`]) and the filter lets the
/// later record pass.
///
/// **Changes.** A *new* region (its id does not stand, or was removed by an earlier change of the
/// cycle) has what is inside after the cycle as members, without dwell and without events. A
/// *changed* one (set again; of several the last holds) compares the members before the cycle,
/// under the old region, with the state after it, whatever its judging: members that keep their
/// place under the new region stay (`Move` when a row was applied), the others leave at once, who
/// is inside enters at once; nobody is entering or leaving. Where a member last was inside is known
/// from the old region. In either case `move_interval_ms` counts from this cycle.
///
/// **Snapshots.** Where a change of the cycle, behind the region's last removal, wants one, the
/// region is told each member as `Present`, and nothing else; also that there is none.
///
/// **Order and number.** Regions are ascending, their events by (object, order of judging). A
/// region whose events do not fit into what [`EngineOptions::events_max`] leaves beside those told
/// of lower ids is *lagged*: nothing of it is told. The record of an event is the one after it; of
/// `Expired` the one that expired; of `Removed` and `Cleared` the one at the start of the cycle,
/// and where every fix is judged the last before it.
pub trait Backend: Send {
    /// What this engine was started with.
    fn options(&self) -> &EngineOptions;

    /// 0 when queries see their own cycle's changes, 1 when they see the state before it.
    fn answer_lag(&self) -> u64;

    /// Takes one cycle.
    ///
    /// # Errors
    /// [`EngineError::Limit`] for a cycle or query beyond a limit,
    /// [`EngineError::TooManyInFlight`], [`EngineError::OutOfMemory`] for a cycle whose input or
    /// changes there is no room for: the engine goes on. [`EngineError::Device`] ends it: every
    /// later call says so.
    fn submit(&mut self, input: CycleInput) -> Result<Ticket, EngineError>;

    /// Returns the output of a submitted cycle, once.
    ///
    /// # Errors
    /// [`EngineError::UnknownTicket`]; those of [`Backend::submit`] that show only later.
    fn wait(&mut self, ticket: Ticket) -> Result<CycleOutput, EngineError>;

    /// Copies the state after the last submitted cycle out; outputs in flight stay to be waited
    /// for.
    ///
    /// # Errors
    /// [`EngineError::Device`]; [`EngineError::OutOfMemory`], and the engine goes on.
    fn export(&mut self) -> Result<Snapshot, EngineError>;

    /// Replaces the state of an engine that has run no cycle; the next epoch follows the
    /// snapshot's. The term stays this engine's own. No cycle is run: what is too old stays until
    /// the next one, so that every state that can be exported can be imported under the same
    /// options.
    ///
    /// # Errors
    /// [`EngineError::Snapshot`] when cycles have run, columns are unequal, a batch is too long,
    /// objects are not ascending over all batches or a row would be refused;
    /// [`EngineError::Limit`] for more objects than `objects_max`; [`EngineError::OutOfMemory`],
    /// and the engine is as it was.
    fn import(&mut self, snapshot: Snapshot) -> Result<(), EngineError>;

    /// The earliest clock at which a record may expire, a filter of age let go of a member, or a
    /// dwell end; a cycle at or after it should be run though nobody asks. May be early, never
    /// late. `None` when nothing of that can be.
    fn due_ms(&self) -> Option<i64>;

    /// Objects after the last submitted cycle.
    fn objects(&self) -> u64;

    /// Bytes held by the state (index, records, cells), scratch of the cycles included.
    fn memory_bytes(&self) -> u64;

    /// Submits one cycle and waits for it.
    ///
    /// # Errors
    /// Those of [`Backend::submit`] and [`Backend::wait`].
    fn run(&mut self, input: CycleInput) -> Result<CycleOutput, EngineError> {
        let ticket = self.submit(input)?;
        self.wait(ticket)
    }
}
