//! What a cycle did to the objects of a shard, as far as standing regions ask for it.
//!
//! Written while the shard settles its objects, read by the judgements behind it; empty while no
//! region stands. A record that goes is still in its slot until the next cycle begins.

use std::sync::atomic::AtomicU64;

use shoal_codec::FixRow;

use super::members::Members;
use super::record::{Attributes, Record, RoutedRow};
use super::standing::{Plan, Standing};
use crate::backend::EngineOptions;
use crate::stage::subscription::CycleTime;
use crate::subscription::EventKind;

/// Event lists of a shard: regions are spread over them by their number.
pub(super) const BUCKETS: usize = 64;

/// One object whose record was written, or that is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Motion {
    pub(super) object: u64,
    /// Inside its shard.
    pub(super) slot: u32,
    pub(super) fate: MotionFate,
    /// Where it was at the start of the cycle; nothing when it was not.
    pub(super) had: bool,
    pub(super) from: (i32, i32),
    /// Where it is; of an object that is gone, where it last was.
    pub(super) to: (i32, i32),
}

/// How a cycle left an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MotionFate {
    Written,
    /// Known, and no row was applied.
    Still,
    Gone(EventKind),
}

/// A row or an end of an object's life, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Happening {
    /// Place of the object among those that the cycle touched.
    pub(super) place: u32,
    pub(super) what: What,
}

/// See [`crate::stage::subscription::ObjectChange`].
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Row(RoutedRow),
    End(EventKind),
}

/// One event of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) object: u64,
    pub(super) region: u32,
    /// Kind, 4 bits; whether the record is one of [`Told::rows`], 1 bit; its place there or its
    /// slot, 27 bits, ascending for one object and region.
    word: u32,
}

const _: () = assert!(size_of::<Event>() == 16, "four events a cache line");
const _: () = assert!(super::shard::SLOT_BITS < 27, "a slot fits an event");

impl Event {
    const IN_ROWS: u32 = 1 << 27;

    pub(super) fn of_slot(region: u32, object: u64, kind: EventKind, slot: u32) -> Self {
        Self { object, region, word: (kind as u32) << 28 | slot }
    }

    pub(super) fn of_row(region: u32, object: u64, kind: EventKind, row: usize) -> Self {
        assert!(row < Self::IN_ROWS as usize, "the rows of a cycle's steps fit an event");
        Self { object, region, word: (kind as u32) << 28 | Self::IN_ROWS | row as u32 }
    }

    pub(super) fn kind(&self) -> u8 {
        (self.word >> 28) as u8
    }

    /// The place in [`Told::rows`], or the slot.
    pub(super) fn record(&self) -> Result<usize, usize> {
        let place = (self.word & (Self::IN_ROWS - 1)) as usize;
        if self.word & Self::IN_ROWS != 0 { Ok(place) } else { Err(place) }
    }

    /// Orders the events of one region.
    pub(super) fn order(&self) -> (u64, u32) {
        (self.object, self.word & (Self::IN_ROWS - 1))
    }
}

/// The cycle as the judgements of a shard see it.
#[derive(Clone, Copy)]
pub(super) struct Telling<'a> {
    pub(super) standing: &'a Standing,
    pub(super) now: CycleTime<'a>,
    /// Records keep the places of their motions until the stage is done.
    pub(super) keeps_marks: bool,
    /// Some region has a role of its own.
    pub(super) has_roles: bool,
    /// Who counts the events of all shards, and the most that are listed.
    pub(super) listed: &'a AtomicU64,
    pub(super) events_max: u64,
}

impl<'a> Telling<'a> {
    pub(super) fn new(
        standing: &'a Standing,
        plan: &Plan,
        options: &'a EngineOptions,
        clock_ms: i64,
        listed: &'a AtomicU64,
    ) -> Self {
        Self {
            standing,
            now: CycleTime::new(&options.space, clock_ms),
            keeps_marks: plan.has_comparison(),
            has_roles: plan.has_roles(),
            listed,
            events_max: options.events_max,
        }
    }
}

/// What a shard has to tell of a cycle, and the stands that it keeps.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) motions: Vec<Motion>,
    /// Beside the motions, where whole records are needed.
    pub(super) befores: Vec<FixRow>,
    /// Where rows are judged one by one.
    pub(super) happenings: Vec<Happening>,
    /// Where rows are judged one by one: for each motion its place among the touched objects.
    pub(super) places: Vec<u32>,
    /// By region number modulo [`BUCKETS`]; behind those the events that cannot be found again.
    pub(super) events: Vec<Vec<Event>>,
    /// Records of events that are not those of a slot.
    pub(super) rows: Vec<FixRow>,
    /// Regions that are changed, by number, and motions of their members before the cycle.
    pub(super) former: Vec<(u32, u32)>,
    pub(super) members: Members,
}

impl Told {
    /// Forgets the cycle before.
    pub(super) fn begin(&mut self) {
        self.motions.clear();
        self.befores.clear();
        self.happenings.clear();
        self.places.clear();
        self.events.iter_mut().for_each(Vec::clear);
        self.rows.clear();
        self.former.clear();
    }

    /// Lists an event; `is_kept` when it cannot be found again.
    #[inline]
    pub(super) fn list(&mut self, event: Event, is_kept: bool) {
        let bucket = event.region as usize % BUCKETS;
        self.events[bucket + if is_kept { BUCKETS } else { 0 }].push(event);
    }

    /// Gives back what is not needed while no region stands.
    pub(super) fn shrink(&mut self) {
        *self = Self::default();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let events: usize = self.events.iter().map(Vec::capacity).sum();
        self.motions.capacity() * size_of::<Motion>()
            + (self.befores.capacity() + self.rows.capacity()) * size_of::<FixRow>()
            + self.happenings.capacity() * size_of::<Happening>()
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
        time_ms: row.time_ms,
        x: row.x,
        y: row.y,
        state: row.state,
        touched: 0,
    };
    record.row(attributes)
}
