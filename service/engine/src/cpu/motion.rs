//! The changes that a cycle made to the objects of a shard, for the continuous queries.
//!
//! A shard lists the changes while it settles its objects; the evaluations read them afterwards.
//! Without continuous queries nothing is listed. A removed record remains in its slot until
//! the next cycle begins.

use std::sync::atomic::AtomicU64;

use shoal_codec::{Attributes, FixRow};

use super::query_table::{Plan, QueryTable};
use super::record::{Record, RoutedRow};
use crate::backend::EngineOptions;
use crate::stage::membership::MembershipStore;
use crate::stage::subscription::CycleTime;
use crate::subscription::EventKind;

/// Event lists of a shard: queries are spread over them by their number.
pub(super) const BUCKETS: usize = 64;

/// One object whose record was written or removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Motion {
    pub(super) object: u64,
    /// Its slot, inside its shard.
    pub(super) slot: u32,
    pub(super) outcome: MotionOutcome,
    /// Whether it existed at the start of the cycle.
    pub(super) existed: bool,
    /// Its position at the start of the cycle; equal to `to` if it did not exist then.
    pub(super) from: (i32, i32),
    /// Its position after the cycle, or its last one if it no longer exists.
    pub(super) to: (i32, i32),
}

/// How a cycle left an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MotionOutcome {
    Written,
    /// It exists, and no row was applied.
    Unchanged,
    Gone(EventKind),
}

/// A row or an end of an object's life, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Index of the object in the shard's list of modified objects.
    pub(super) place: u32,
    pub(super) change: ArrivedChange,
}

/// See [`crate::stage::subscription::ObjectChange`].
#[derive(Clone, Copy, Debug)]
pub(super) enum ArrivedChange {
    Row(RoutedRow),
    End(EventKind),
}

/// One event of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) object: u64,
    pub(super) query: u32,
    /// The kind, 4 bits; 1 bit that is set if the record is in [`ShardEvents::rows`]; its index
    /// there or its slot, 27 bits. Words of one object and query ascend.
    word: u32,
}

const _: () = assert!(size_of::<Event>() == 16, "four events a cache line");
const _: () = assert!(super::shard::SLOT_BITS < 27, "a slot fits an event");
const _: () = assert!(EventKind::ALL.len() <= 16, "a kind fits an event");

impl Event {
    const IN_ROWS: u32 = 1 << 27;

    pub(super) fn of_slot(query: u32, object: u64, kind: EventKind, slot: u32) -> Self {
        Self { object, query, word: (kind as u32) << 28 | slot }
    }

    pub(super) fn of_row(query: u32, object: u64, kind: EventKind, row: usize) -> Self {
        assert!(row < Self::IN_ROWS as usize, "the rows of a cycle's steps fit an event");
        Self { object, query, word: (kind as u32) << 28 | Self::IN_ROWS | row as u32 }
    }

    pub(super) fn kind(&self) -> u8 {
        (self.word >> 28) as u8
    }

    /// `Ok` with the index in [`ShardEvents::rows`], or `Err` with the slot.
    pub(super) fn record(&self) -> Result<usize, usize> {
        let place = (self.word & (Self::IN_ROWS - 1)) as usize;
        if self.word & Self::IN_ROWS != 0 { Ok(place) } else { Err(place) }
    }

    /// Sort key of the events of one query.
    pub(super) fn order(&self) -> (u64, u32) {
        (self.object, self.word & (Self::IN_ROWS - 1))
    }
}

/// Finds the attributes of a row by arrival; `None` when no row of the cycle has any.
pub(super) type AttributesOf<'a> = Option<&'a (dyn Fn(u32) -> Attributes + Sync)>;

/// The cycle as the evaluations of a shard see it.
#[derive(Clone, Copy)]
pub(super) struct EventContext<'a> {
    pub(super) queries: &'a QueryTable,
    pub(super) now: CycleTime<'a>,
    pub(super) attributes: AttributesOf<'a>,
    /// True if some query is changed: its members before the cycle are listed, and the `touched`
    /// fields of records hold the indices of their motions until the stage is done.
    pub(super) has_comparison: bool,
    /// Some query has a role other than [`super::query_table::Role::Active`].
    pub(super) has_roles: bool,
    /// Counts the events of all shards.
    pub(super) listed: &'a AtomicU64,
    pub(super) events_max: u64,
}

impl<'a> EventContext<'a> {
    pub(super) fn new(
        queries: &'a QueryTable,
        plan: &Plan,
        options: &'a EngineOptions,
        clock_ms: i64,
        listed: &'a AtomicU64,
        attributes: AttributesOf<'a>,
    ) -> Self {
        let has_old = || plan.changes.values().any(|change| change.old.is_some());
        Self {
            queries,
            now: CycleTime::new(&options.space, clock_ms),
            attributes,
            has_comparison: plan.has_comparison(),
            has_roles: !plan.removed.is_empty() || has_old(),
            listed,
            events_max: options.events_max,
        }
    }
}

/// The motions and events of a shard in a cycle, and the memberships of its objects.
#[derive(Debug, Default)]
pub(super) struct ShardEvents {
    pub(super) motions: Vec<Motion>,
    /// For each motion the record before the cycle; empty if no query needs whole records.
    pub(super) befores: Vec<FixRow>,
    /// Changes in order of arrival; used if a query evaluates every fix.
    pub(super) arrivals: Vec<Arrival>,
    /// Index of each motion among the modified objects; used if a query evaluates every fix.
    pub(super) places: Vec<u32>,
    /// Events that can be evaluated again, in one list per query number modulo [`BUCKETS`]; then
    /// one list of all other events.
    pub(super) events: Vec<Vec<Event>>,
    /// Records of the events whose record is not stored in a slot.
    pub(super) rows: Vec<FixRow>,
    /// Members of changed queries before the cycle: number of the query, index of the motion.
    pub(super) former: Vec<(u32, u32)>,
    pub(super) members: MembershipStore,
}

impl ShardEvents {
    /// Drops the data of the previous cycle.
    pub(super) fn begin(&mut self) {
        self.motions.clear();
        self.befores.clear();
        self.arrivals.clear();
        self.places.clear();
        self.events.iter_mut().for_each(Vec::clear);
        self.rows.clear();
        self.former.clear();
    }

    /// Lists an event; `is_kept` is true if it cannot be evaluated again.
    #[inline]
    pub(super) fn list(&mut self, event: Event, is_kept: bool) {
        let bucket = event.query as usize % BUCKETS;
        self.events[bucket + if is_kept { BUCKETS } else { 0 }].push(event);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let events: usize = self.events.iter().map(Vec::capacity).sum();
        self.motions.capacity() * size_of::<Motion>()
            + (self.befores.capacity() + self.rows.capacity()) * size_of::<FixRow>()
            + self.arrivals.capacity() * size_of::<Arrival>()
            + self.places.capacity() * size_of::<u32>()
            + events * size_of::<Event>()
            + self.former.capacity() * size_of::<(u32, u32)>()
            + self.members.memory_bytes()
    }
}

/// A row as a record.
pub(super) fn fix_of(row: &RoutedRow, attributes: Attributes) -> FixRow {
    let record = Record {
        object: row.object,
        time_ms: row.time_ms(),
        x: row.x,
        y: row.y,
        state: row.state,
        touched: 0,
    };
    record.row(attributes)
}
