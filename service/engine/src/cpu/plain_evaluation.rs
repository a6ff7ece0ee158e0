//! Evaluates the plain queries: which regions a written record enters, moves in or leaves.
//!
//! The record before the cycle and the one after it decide; there is no other state. Three rounds
//! of cache misses (cells, lists, queries) are overlapped over a group of objects. For a position
//! that remains in its cell, only regions that contain the cell in part are tested.

use shoal_codec::FixRow;

use super::motion::{EventContext, Motion, MotionOutcome};
use super::prefetch;
use super::query_table::{LOUD, NUMBER, Position, QUIET, Role};
use super::shard::Shard;
use crate::stage::region_index::CellRegions;
use crate::subscription::EventKind;

/// Number of objects whose cache misses are overlapped.
const GROUP: usize = 16;

/// Queries of one cell that are prefetched.
const PREFETCHED: usize = 16;

/// The result of an evaluation for one query and one motion.
#[derive(Clone, Copy, Debug)]
pub(super) enum Finding {
    /// An event that is wanted.
    Event(EventKind),
    /// The query is changed, and the object was a member before the cycle.
    FormerMember,
}

/// The inputs of the evaluation of a shard's motions.
#[derive(Clone, Copy)]
pub(super) struct PlainEvaluation<'a> {
    pub(super) context: EventContext<'a>,
    pub(super) shard: &'a Shard,
    pub(super) motions: &'a [Motion],
    /// For each motion the record before the cycle; empty if no query needs them.
    pub(super) befores: &'a [FixRow],
}

/// One motion while it is evaluated.
struct Moving<'a> {
    place: usize,
    motion: &'a Motion,
    from: Position,
    to: Position,
}

impl PlainEvaluation<'_> {
    /// Calls `found` with (query, index of the motion, finding), in no order of queries.
    pub(super) fn run(&self, mut found: impl FnMut(u32, usize, Finding)) {
        for level in 0..self.context.queries.plain.levels() {
            for first in (0..self.motions.len()).step_by(GROUP) {
                let end = self.motions.len().min(first + GROUP);
                self.group(level, first, &self.motions[first..end], &mut found);
            }
        }
    }

    fn group(
        &self,
        level: usize,
        first: usize,
        motions: &[Motion],
        found: &mut impl FnMut(u32, usize, Finding),
    ) {
        let index = &self.context.queries.plain;
        let mut keys = [(0_u64, 0_u64); GROUP];
        let mut cells = [(CellRegions::default(), CellRegions::default()); GROUP];
        for (motion, keys) in motions.iter().zip(&mut keys) {
            *keys = (
                index.cell(level, motion.from.0, motion.from.1),
                index.cell(level, motion.to.0, motion.to.1),
            );
            prefetch::read(std::slice::from_ref(index.first_look(level, keys.0)), 0);
            if keys.0 != keys.1 {
                prefetch::read(std::slice::from_ref(index.first_look(level, keys.1)), 0);
            }
        }
        for ((motion, keys), cells) in motions.iter().zip(&keys).zip(&mut cells) {
            if motion.existed {
                cells.0 = index.regions(level, keys.0);
            }
            if motion.outcome == MotionOutcome::Written && !(motion.existed && keys.0 == keys.1) {
                cells.1 = index.regions(level, keys.1);
                prefetch::read(cells.1.all(), 0);
            }
            prefetch::read(cells.0.all(), 0);
        }
        for (old, new) in &cells[..motions.len()] {
            for cell in [old, new] {
                for region in &cell.partial()[..cell.partial().len().min(PREFETCHED)] {
                    self.context.queries.prefetch(region & NUMBER);
                }
            }
        }
        for (at, motion) in motions.iter().enumerate() {
            let ((from, to), (old, new)) = (keys[at], cells[at]);
            let mut moving = Moving {
                place: first + at,
                motion,
                from: Position::new(motion.from.0, motion.from.1),
                to: Position::new(motion.to.0, motion.to.1),
            };
            match motion.outcome {
                MotionOutcome::Unchanged => {}
                MotionOutcome::Written if motion.existed && from == to => {
                    self.within_cell(&mut moving, old, found);
                }
                _ => self.across_cells(&mut moving, old, new, found),
            }
        }
    }

    /// Evaluates a motion inside one cell.
    fn within_cell(
        &self,
        moving: &mut Moving<'_>,
        cell: CellRegions<'_>,
        found: &mut impl FnMut(u32, usize, Finding),
    ) {
        for (at, region) in cell.partial().iter().enumerate() {
            if let Some(later) = cell.partial().get(at + PREFETCHED) {
                self.context.queries.prefetch(later & NUMBER);
            }
            let number = region & NUMBER;
            let was = self.context.queries.contains(number, &mut moving.from);
            let is = self.context.queries.contains(number, &mut moving.to);
            // A move inside a quiet region is no event.
            if was != is || (was && (region & QUIET == 0 || self.context.has_comparison)) {
                self.report(moving, number, was, is, found);
            }
        }
        for region in cell.whole() {
            let number = region & NUMBER;
            if region & LOUD != 0 && !self.context.has_roles {
                found(number, moving.place, Finding::Event(EventKind::Move));
            } else if region & QUIET == 0 || self.context.has_comparison {
                self.report(moving, number, true, true, found);
            }
        }
    }

    /// Evaluates a motion from one cell to another, or of an object that appeared or disappeared.
    fn across_cells(
        &self,
        moving: &mut Moving<'_>,
        old: CellRegions<'_>,
        new: CellRegions<'_>,
        found: &mut impl FnMut(u32, usize, Finding),
    ) {
        let is_there = moving.motion.outcome == MotionOutcome::Written;
        let olds = old.partial().iter().map(|region| (region & NUMBER, false));
        for (region, is_whole) in olds.chain(old.whole().iter().map(|of| (of & NUMBER, true))) {
            if is_whole || self.context.queries.contains(region, &mut moving.from) {
                let is = is_there && self.context.queries.contains(region, &mut moving.to);
                self.report(moving, region, true, is, found);
            }
        }
        let existed = moving.motion.existed;
        let news = new.partial().iter().map(|region| (region & NUMBER, false));
        for (region, is_whole) in news.chain(new.whole().iter().map(|of| (of & NUMBER, true))) {
            if (is_whole || self.context.queries.contains(region, &mut moving.to))
                && !(existed && self.context.queries.contains(region, &mut moving.from))
            {
                self.report(moving, region, false, true, found);
            }
        }
    }

    /// Reports the finding for one query. The flags are true if the positions before and after the
    /// cycle lie in its region.
    #[inline]
    fn report(
        &self,
        moving: &Moving<'_>,
        region: u32,
        was_inside: bool,
        is_inside: bool,
        found: &mut impl FnMut(u32, usize, Finding),
    ) {
        let head = self.context.queries.head(region);
        let (mut was, mut is) = (was_inside, is_inside);
        if head.has_filter {
            let filter = &self.context.queries.get(region).subscription;
            let tick_ms = self.context.now.tick_ms;
            was = was && filter.passes(&self.befores[moving.place], tick_ms);
            is = is && filter.passes(&self.shard.row_of(moving.motion), tick_ms);
        }
        if head.role != Role::Active {
            if head.role == Role::Changed && was {
                found(region, moving.place, Finding::FormerMember);
            }
            return;
        }
        let kind = match (was, is, moving.motion.outcome) {
            (true, true, _) => EventKind::Move,
            (false, true, _) => EventKind::Enter,
            (true, false, MotionOutcome::Gone(reason)) => reason,
            (true, false, _) if is_inside => EventKind::Filtered,
            (true, false, _) => EventKind::Left,
            (false, false, _) => return,
        };
        if head.wanted.contains(kind) {
            found(region, moving.place, Finding::Event(kind));
        }
    }
}
