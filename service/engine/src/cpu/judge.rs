//! Which plain regions does a written record enter, move in or leave?
//!
//! The record before the cycle and the one after it decide; nothing is remembered. Three rounds of
//! cache misses, cells, lists and regions, are overlapped over a group of objects. Where a position
//! stays in its cell only the regions that do not hold all of it are asked.

use shoal_codec::FixRow;

use super::motion::{Motion, MotionFate};
use super::prefetch;
use super::shard::Shard;
use super::standing::{LOUD, NUMBER, Position, QUIET, Role, Standing};
use crate::stage::region_index::CellRegions;
use crate::stage::subscription::CycleTime;
use crate::subscription::EventKind;

/// Objects whose misses are overlapped.
const GROUP: usize = 16;

/// Regions of one cell that are asked for ahead.
const ASKED_AHEAD: usize = 16;

/// What a judgement finds, for one region and the motion at a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    /// An event that is wanted.
    Event(EventKind),
    /// A member before the cycle, of a region that is changed.
    Former,
}

/// What judging the motions of a shard reads.
#[derive(Clone, Copy)]
pub(super) struct Judgement<'a> {
    pub(super) standing: &'a Standing,
    pub(super) now: CycleTime<'a>,
    pub(super) shard: &'a Shard,
    pub(super) motions: &'a [Motion],
    /// Beside the motions, where some region needs them.
    pub(super) befores: &'a [FixRow],
    /// Some region is changed in the cycle: its members before it are listed.
    pub(super) has_comparison: bool,
    /// Some region has a role of its own in the cycle.
    pub(super) has_roles: bool,
}

/// One motion while it is judged.
struct Judged<'a> {
    place: usize,
    motion: &'a Motion,
    from: Position,
    to: Position,
}

impl Judgement<'_> {
    /// Calls `found` with (region, place of the motion, what), in no order over regions.
    pub(super) fn run(&self, mut found: impl FnMut(u32, usize, Found)) {
        for level in 0..self.standing.plain.levels() {
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
        found: &mut impl FnMut(u32, usize, Found),
    ) {
        let index = &self.standing.plain;
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
            if motion.had {
                cells.0 = index.regions(level, keys.0);
            }
            if motion.fate == MotionFate::Written && !(motion.had && keys.0 == keys.1) {
                cells.1 = index.regions(level, keys.1);
                prefetch::read(cells.1.all(), 0);
            }
            prefetch::read(cells.0.all(), 0);
        }
        for (old, new) in &cells[..motions.len()] {
            for cell in [old, new] {
                for region in &cell.partial()[..cell.partial().len().min(ASKED_AHEAD)] {
                    self.standing.prefetch(region & NUMBER);
                }
            }
        }
        for (at, motion) in motions.iter().enumerate() {
            let ((from, to), (old, new)) = (keys[at], cells[at]);
            let mut judged = Judged {
                place: first + at,
                motion,
                from: Position::new(motion.from.0, motion.from.1),
                to: Position::new(motion.to.0, motion.to.1),
            };
            match motion.fate {
                MotionFate::Still => {}
                MotionFate::Written if motion.had && from == to => {
                    self.stayed(&mut judged, old, found);
                }
                _ => self.changed(&mut judged, old, new, found),
            }
        }
    }

    /// Judges a motion inside one cell.
    fn stayed(
        &self,
        judged: &mut Judged<'_>,
        cell: CellRegions<'_>,
        found: &mut impl FnMut(u32, usize, Found),
    ) {
        for (at, region) in cell.partial().iter().enumerate() {
            if let Some(later) = cell.partial().get(at + ASKED_AHEAD) {
                self.standing.prefetch(later & NUMBER);
            }
            let number = region & NUMBER;
            let was = self.standing.contains(number, &mut judged.from);
            let is = self.standing.contains(number, &mut judged.to);
            // Who stays in a quiet region is nothing to tell.
            if was != is || (was && (region & QUIET == 0 || self.has_comparison)) {
                self.turn(judged, number, was, is, found);
            }
        }
        for region in cell.whole() {
            let number = region & NUMBER;
            if region & LOUD != 0 && !self.has_roles {
                found(number, judged.place, Found::Event(EventKind::Move));
            } else if region & QUIET == 0 || self.has_comparison {
                self.turn(judged, number, true, true, found);
            }
        }
    }

    /// Judges a motion from one cell to another, into a cell or out of one.
    fn changed(
        &self,
        judged: &mut Judged<'_>,
        old: CellRegions<'_>,
        new: CellRegions<'_>,
        found: &mut impl FnMut(u32, usize, Found),
    ) {
        let is_there = judged.motion.fate == MotionFate::Written;
        let olds = old.partial().iter().map(|region| (region & NUMBER, false));
        for (region, is_whole) in olds.chain(old.whole().iter().map(|of| (of & NUMBER, true))) {
            if is_whole || self.standing.contains(region, &mut judged.from) {
                let is = is_there && self.standing.contains(region, &mut judged.to);
                self.turn(judged, region, true, is, found);
            }
        }
        let had = judged.motion.had;
        let news = new.partial().iter().map(|region| (region & NUMBER, false));
        for (region, is_whole) in news.chain(new.whole().iter().map(|of| (of & NUMBER, true))) {
            if (is_whole || self.standing.contains(region, &mut judged.to))
                && !(had && self.standing.contains(region, &mut judged.from))
            {
                self.turn(judged, region, false, true, found);
            }
        }
    }

    /// Tells what happened in a region, by whether the positions before and after lie in it.
    #[inline]
    fn turn(
        &self,
        judged: &Judged<'_>,
        region: u32,
        was_inside: bool,
        is_inside: bool,
        found: &mut impl FnMut(u32, usize, Found),
    ) {
        let subject = self.standing.subject(region);
        let (mut was, mut is) = (was_inside, is_inside);
        if subject.has_filter {
            let filter = &self.standing.entry(region).subscription;
            let tick_ms = self.now.tick_ms;
            was = was && filter.passes(&self.befores[judged.place], tick_ms);
            is = is && filter.passes(&self.shard.row_of(judged.motion), tick_ms);
        }
        if subject.role != Role::Told {
            if subject.role == Role::Former && was {
                found(region, judged.place, Found::Former);
            }
            return;
        }
        let kind = match (was, is, judged.motion.fate) {
            (true, true, _) => EventKind::Move,
            (false, true, _) => EventKind::Enter,
            (true, false, MotionFate::Gone(reason)) => reason,
            (true, false, _) if is_inside => EventKind::Filtered,
            (true, false, _) => EventKind::Left,
            (false, false, _) => return,
        };
        if subject.wanted.contains(kind) {
            found(region, judged.place, Found::Event(kind));
        }
    }
}
